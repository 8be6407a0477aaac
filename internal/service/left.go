package service

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// LeftService is a service that the pipeline started on a host where its definition in force no longer has it. An edit does
// nothing on hosts, so it runs until a person ends it.
type LeftService struct {
	Address string `json:"address"` // address of the host
	ServiceView

	host HostView
}

// Place returns the host, as the newest definition that had the service describes it; false if none of those that were
// searched had it.
func (l LeftService) Place() (pipeline.Place, bool) { return l.host.place, l.host.place.Host != nil }

// Ended reports that the service is known not to run.
func (l LeftService) Ended() bool {
	return l.State != nil && (l.State.State == ServiceStopped || l.State.State == ServiceDown)
}

// mostSearched bounds how many definitions are read for the hosts that left.
const mostSearched = 100

// LeftServices returns what the pipeline started where its definition in force no longer has it, in the order of addresses.
// It looks at no host, so that no State is known.
func (s *Service) LeftServices(ctx context.Context, name string) (left []LeftService, err error) {
	started, err := s.ledger.Resources(ctx, journal.ResourceQuery{Pipeline: name})
	if err != nil {
		return nil, fmt.Errorf("list what runs where for %s: %w", name, err)
	}
	err = s.withFold(ctx, name, func(f *fold) error {
		left, err = s.leftServices(ctx, f, started)
		return err
	})
	return left, err
}

func (s *Service) leftServices(ctx context.Context, f *fold, started []journal.Resource) ([]LeftService, error) {
	version, plan := f.engine.Current()
	if plan == nil {
		return nil, nil
	}
	has := resourcesOf(plan.Definition())
	missing := map[pipeline.Resource]pipeline.Place{}
	var left []LeftService
	for _, row := range started {
		r := pipeline.Resource{Address: row.Address, Service: row.Service}
		if has[r] {
			continue
		}
		host := s.leftHost(ctx, f, row)
		if host.Runs == nil { // it was started and never switched: there is nothing to end
			continue
		}
		host.Runs.Label = s.revisionLabel(ctx, f, host.Runs.Revision)
		missing[r] = pipeline.Place{}
		left = append(left, LeftService{Address: row.Address, host: host})
	}
	services, err := s.searchPlaces(ctx, f.pipeline, version, missing)
	for i := range left {
		l := &left[i]
		r := pipeline.Resource{Address: l.Address, Service: l.host.service.Name}
		if service, found := services[r]; found {
			l.host.place, l.host.service = missing[r], service
		}
		l.ServiceView = l.host.serviceView()
		l.State = nil
	}
	return left, err
}

// leftHost returns a host that left with what runs there by the log.
func (s *Service) leftHost(ctx context.Context, f *fold, row journal.Resource) HostView {
	mark := f.marks.hosts[pipeline.Resource{Address: row.Address, Service: row.Service}]
	view := HostView{Target: row.Target, stopped: mark.stopped, changed: mark.changed, service: pipeline.Service{Name: row.Service}}
	number := cmp.Or(row.Finished, mark.deployment)
	if number == 0 {
		return view
	}
	state := s.stateOf(ctx, f, number)
	view.Runs = &Running{Deployment: number, Revision: state.Revision, At: row.At, Status: string(state.Status)}
	return view
}

// searchPlaces fills in where resources were, from the newest definition older than version that had each, and returns the
// services there.
func (s *Service) searchPlaces(ctx context.Context, name string, version int,
	missing map[pipeline.Resource]pipeline.Place) (map[pipeline.Resource]pipeline.Service, error) {
	services := map[pipeline.Resource]pipeline.Service{}
	for v := version - 1; v > max(0, version-1-mostSearched) && len(services) < len(missing); v-- {
		old, err := s.ledger.Version(ctx, name, v)
		if err != nil {
			return services, err
		}
		for at := range old.Definition.EachHost() {
			r := old.Definition.ResourceOf(at.Stage, at.Group, at.Host)
			if _, wanted := missing[r]; !wanted {
				continue
			}
			if _, found := services[r]; !found {
				missing[r], services[r] = at, old.Definition.ServiceOf(at.Stage, at.Group, at.Host)
			}
		}
	}
	return services, nil
}

// lookAtLeft fills in the states of services that were left, as far as their hosts answer.
func (s *Service) lookAtLeft(ctx context.Context, left []LeftService) {
	var hosts []HostView
	for i := range left {
		if _, known := left[i].Place(); known {
			hosts = append(hosts, left[i].host)
		}
	}
	s.inspectServices(ctx, hosts)
	for i := range left {
		if _, known := left[i].Place(); known {
			left[i].ServiceView, hosts = hosts[0].serviceView(), hosts[1:]
		}
	}
}

// resourcesOf returns the resources of a definition's hosts.
func resourcesOf(d *pipeline.Definition) map[pipeline.Resource]bool {
	has := map[pipeline.Resource]bool{}
	for at := range d.EachHost() {
		has[d.ResourceOf(at.Stage, at.Group, at.Host)] = true
	}
	return has
}

// mostLeftNamed bounds the hosts that the words of an edit name.
const mostLeftNamed = 5

// leavesWords reports which services an edit leaves running.
func (f *fold) leavesWords(next *pipeline.Definition) []string {
	_, plan := f.engine.Current()
	if plan == nil {
		return nil
	}
	old, has := plan.Definition(), resourcesOf(next)
	var names []string
	local, left := false, map[pipeline.Resource]bool{}
	for at := range old.EachHost() {
		r := old.ResourceOf(at.Stage, at.Group, at.Host)
		if has[r] || left[r] || f.marks.hosts[r].deployment == 0 {
			continue
		}
		left[r], local = true, local || !at.Host.Remote()
		if len(left) <= mostLeftNamed {
			names = append(names, strings.TrimPrefix(at.Target, f.pipeline+"/"))
		}
	}
	if len(left) == 0 {
		return nil
	}
	text := fmt.Sprintf("the service that runs on %s keeps running until it is ended", strings.Join(names, ", "))
	if more := len(left) - len(names); more > 0 {
		text = fmt.Sprintf("the service that runs on %s and %d more keeps running until it is ended", strings.Join(names, ", "), more)
	}
	if local {
		text += "; waybill pipeline stop " + f.pipeline + " ends it on local:// hosts"
	}
	return []string{text}
}
