package osb

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/flow"
)

// Layout selects how the services of Applications become those of a catalog.
type Layout string

// The layouts. Those of the broker that made service instances before must stay: service instances keep their ids.
const (
	PerService     Layout = "per-service"     // a service with one plan for each
	PerApplication Layout = "per-application" // a service for each Application, with a plan for each of its services
)

// Application is an Application of a cluster, as far as catalogs need it.
type Application struct {
	Name        string
	ID          string // spec.compassMetadata.applicationId; "": layout PerApplication leaves it out
	Description string
	Services    []ApplicationService
}

// ApplicationService is a service of an Application.
type ApplicationService struct {
	ID, Name, DisplayName, Description string
	Events                             bool // it sends events; catalogs have only such services
}

// Mapping maps services of an Application into a namespace.
type Mapping struct {
	Application Application
	Services    []string // ids; nil: all
}

// mostApplicationName is the size in bytes that a Channel's label permits to the name of an Application.
const mostApplicationName = 63

// mostApplicationPlans bounds the catalog of a namespace, which is kept with its JSON.
const mostApplicationPlans = 5000

// ApplicationCatalog returns the catalog of a namespace's mappings. The ids and names of services and the ids of plans are unique in it
// and in the catalog beside it; nil: there is none.
func ApplicationCatalog(layout Layout, mappings []Mapping, beside *Catalog) (*Catalog, error) {
	u := usedIDs{services: map[string]string{}, names: map[string]string{}, plans: map[string]string{}}
	if beside != nil {
		for _, s := range beside.Services {
			if err := u.add(s, "the catalog's file"); err != nil {
				return nil, err
			}
		}
	}
	var all []*Service
	plans, parameters := 0, deliverySchema() // one for all: to compile it takes time
	sorted := slices.SortedFunc(slices.Values(mappings), func(a, b Mapping) int { return cmp.Compare(a.Application.Name, b.Application.Name) })
	for _, m := range sorted {
		for _, s := range m.services(layout) {
			if err := u.add(s, "Application "+m.Application.Name); err != nil {
				return nil, err
			}
			for _, p := range s.Plans {
				p.Create = parameters
			}
			if plans += len(s.Plans); plans > mostApplicationPlans {
				return nil, fmt.Errorf("the Applications have more than %d services for events", mostApplicationPlans)
			}
			all = append(all, s)
		}
	}
	return newCatalog(all, nil)
}

// usedIDs has the owner of each id and name.
type usedIDs struct{ services, names, plans map[string]string }

// add refuses a service with an id or a name that is in use.
func (u usedIDs) add(s *Service, owner string) error {
	claim := func(used map[string]string, called, text string) error {
		if first, ok := used[text]; ok {
			return fmt.Errorf("%s %q is in %s and in %s", called, text, first, owner)
		}
		used[text] = owner
		return nil
	}
	if err := claim(u.services, "the service id", s.ID); err != nil {
		return err
	}
	if err := claim(u.names, "the service name", s.Name); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, p := range s.Plans {
		if err := claim(u.plans, "the plan id", p.ID); err != nil {
			return err
		}
		if names[p.Name] {
			return fmt.Errorf("the plan name %q is twice in %s", p.Name, owner)
		}
		names[p.Name] = true
	}
	return nil
}

// services returns the services of a mapping, in the order of their ids.
func (m Mapping) services(layout Layout) (all []*Service) {
	if len(m.Application.Name) > mostApplicationName {
		return nil
	}
	mapped := slices.SortedFunc(slices.Values(m.Application.Services), func(a, b ApplicationService) int { return cmp.Compare(a.ID, b.ID) })
	mapped = slices.DeleteFunc(mapped, func(s ApplicationService) bool {
		return s.ID == "" || !s.Events || m.Services != nil && !slices.Contains(m.Services, s.ID)
	})
	if layout == PerService {
		for _, one := range mapped {
			s := &Service{ID: one.ID, Name: cmp.Or(one.Name, one.ID), Description: one.text(), Metadata: displayed(one.DisplayName)}
			s.Plans = []*Plan{m.Application.plan(one, one.ID+"-plan", "default")}
			all = append(all, s)
		}
		return all
	}
	if m.Application.ID == "" || len(mapped) == 0 {
		return nil
	}
	s := &Service{ID: m.Application.ID, Name: m.Application.Name, Description: cmp.Or(m.Application.Description, m.Application.Name)}
	for _, one := range mapped {
		s.Plans = append(s.Plans, m.Application.plan(one, one.ID, cmp.Or(one.Name, one.ID)))
	}
	return []*Service{s}
}

// plan returns the plan of a service without its schema: a flow whose source is the Application.
func (a Application) plan(s ApplicationService, id, name string) *Plan {
	spec, _ := canonical(map[string]any{"source": map[string]any{"application": a.Name}}) // texts have a form
	return &Plan{ID: id, Name: name, Description: s.text(), Metadata: displayed(s.DisplayName), Free: true,
		Work: Work{Polling: DefaultPolling, Flow: &Flow{Spec: spec, Delivery: true,
			Activation: a.Activation(s)}}}
}

// Activation returns the EventActivation of a service's flows.
func (a Application) Activation(s ApplicationService) *flow.Activation {
	return &flow.Activation{Service: s.ID, Application: a.Name, DisplayName: s.DisplayName}
}

// Find returns the service that a service and a plan of a catalog offer, by their ids and whatever the layout of the catalog.
func (a Application) Find(service, plan string) (found ApplicationService, ok bool) {
	at := slices.IndexFunc(a.Services, func(s ApplicationService) bool {
		return s.ID != "" && (s.ID == service || a.ID == service && s.ID == plan)
	})
	if at < 0 {
		return found, false
	}
	return a.Services[at], true
}

// text returns a description, which a catalog must have.
func (s ApplicationService) text() string {
	return cmp.Or(s.Description, s.DisplayName, s.Name, s.ID)
}

// displayed returns the metadata that platforms show instead of a name.
func displayed(name string) Canonical {
	if name == "" {
		return ""
	}
	metadata, _ := canonical(map[string]any{"displayName": name}) // texts have a form
	return metadata
}
