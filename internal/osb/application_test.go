package osb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shown lists the services and plans of a catalog.
func shown(c *Catalog) (lines []string) {
	for _, s := range c.Services {
		for _, p := range s.Plans {
			lines = append(lines, fmt.Sprintf("%s %s: %s %s %s %s", s.ID, s.Name, p.ID, p.Name, p.Work.Flow.Spec, p.Work.Flow.Activation.Service))
		}
	}
	return lines
}

var (
	commerce = Application{Name: "commerce", ID: "c-id", Services: []ApplicationService{
		{ID: "s2", Name: "orders", DisplayName: "Orders", Description: "events of orders", Events: true}, {ID: "s1", Name: "returns", Events: true},
		{ID: "s0", Name: "API"}}}
	billing = Application{Name: "billing", Description: "Bills", Services: []ApplicationService{{ID: "b1", Events: true}}}
)

func TestCatalogsOfApplications(t *testing.T) {
	t.Parallel()
	const of = `{"source":{"application":"%s"}}`
	c, b := fmt.Sprintf(of, "commerce"), fmt.Sprintf(of, "billing")
	for _, one := range []struct {
		name     string
		layout   Layout
		mappings []Mapping
		want     []string
	}{
		{"all", PerService, []Mapping{{Application: commerce}, {Application: billing}},
			[]string{"b1 b1: b1-plan default " + b + " b1", "s1 returns: s1-plan default " + c + " s1", "s2 orders: s2-plan default " + c + " s2"}},
		{"one", PerService, []Mapping{{Application: commerce, Services: []string{"s2", "s9"}}}, []string{"s2 orders: s2-plan default " + c + " s2"}},
		{"none", PerService, []Mapping{{Application: commerce, Services: []string{}}}, nil},
		{"by Application, without an id it is left out", PerApplication, []Mapping{{Application: commerce}, {Application: billing}},
			[]string{"c-id commerce: s1 returns " + c + " s1", "c-id commerce: s2 orders " + c + " s2"}},
		{"no plan", PerApplication, []Mapping{{Application: commerce, Services: []string{}}}, nil},
		{"a long name", PerService, []Mapping{{Application: Application{Name: strings.Repeat("a", 64), Services: billing.Services}}}, nil},
	} {
		catalog, err := ApplicationCatalog(one.layout, one.mappings, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one.want, shown(catalog)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", one.name, diff)
		}
		reversed := []Mapping{}
		for _, m := range one.mappings {
			reversed = append([]Mapping{m}, reversed...)
		}
		if again, err := ApplicationCatalog(one.layout, reversed, nil); err != nil || again.ETag() != catalog.ETag() {
			t.Errorf("%s: the order of the mappings matters: %v", one.name, err)
		}
	}
}

func TestIDsAreUniqueAcrossSources(t *testing.T) {
	t.Parallel()
	file := parse(t, small)
	other := func(change func(*Application)) []Mapping {
		a := Application{Name: "other", ID: "o", Services: []ApplicationService{{ID: "x", Name: "x", Events: true}}}
		change(&a)
		return []Mapping{{Application: commerce}, {Application: a}}
	}
	for _, one := range []struct {
		layout Layout
		change func(*Application)
		want   string // "": sound
	}{
		{PerService, func(*Application) {}, ""},
		{PerService, func(a *Application) { a.Services[0].ID = "s1" }, `the service id "s1" is in Application commerce and in Application other`},
		{PerService, func(a *Application) { a.Services[0].Name = "orders" }, `the service name "orders" is in Application commerce and`},
		{PerService, func(a *Application) { a.Services[0].ID = "folder" }, `the service id "folder" is in the catalog's file and in Application other`},
		{PerApplication, func(a *Application) { a.ID = "c-id" }, `the service id "c-id" is in`},
		{PerApplication, func(a *Application) { a.Services[0].ID = "s2" }, `the plan id "s2" is in`},
		{PerApplication, func(a *Application) { a.Services[0].ID = "small" }, `the plan id "small" is in the catalog's file`},
		{PerApplication, func(a *Application) {
			a.Services = append(a.Services, ApplicationService{ID: "y", Name: "x", Events: true})
		}, `the plan name "x" is twice in`},
	} {
		_, err := ApplicationCatalog(one.layout, other(one.change), file)
		if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) {
			t.Errorf("got %v, want %s", err, one.want)
		}
	}
}

func TestPlansOfApplicationsMakeFlows(t *testing.T) {
	t.Parallel()
	c, err := ApplicationCatalog(PerService, []Mapping{{Application: commerce}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := Provision{Scope: Scope{Mount: "shop"}, Attributes: Attributes{ServiceID: "s2", PlanID: "s2-plan", Parameters: `{"delivery":{"retry":4}}`}}
	a, refused := provisioned(t, c, p)
	if refused != nil {
		t.Fatal(refused)
	}
	got := fmt.Sprint(a.Work.Flow.Namespace, " ", a.Work.Flow.Spec, " ", *a.Work.Flow.Activation)
	if want := `shop {"delivery":{"retry":4},"source":{"application":"commerce"}} {s2 commerce Orders}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, refused := ApplicationCatalog(PerService, nil, nil); refused != nil {
		t.Error(refused)
	}
}

func TestServicesAreFoundByTheIDsOfBothLayouts(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{PerService, PerApplication} {
		c, err := ApplicationCatalog(layout, []Mapping{{Application: commerce}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Services {
			for _, p := range s.Plans {
				found, ok := commerce.Find(s.ID, p.ID)
				if diff := cmp.Diff(p.Work.Flow.Activation, commerce.Activation(found)); !ok || diff != "" {
					t.Errorf("%s, service %s, plan %s: %v %s", layout, s.ID, p.ID, ok, diff)
				}
			}
		}
	}
	for _, ids := range [][2]string{{"", ""}, {"c-id", "s9"}, {"o", "s1"}} {
		if found, ok := commerce.Find(ids[0], ids[1]); ok {
			t.Errorf("%v: found %s", ids, found.ID)
		}
	}
}

// TestApplicationsHaveABound: the services of a namespace are kept, and sent in one answer.
func TestApplicationsHaveABound(t *testing.T) {
	t.Parallel()
	services := func(n int) (all []ApplicationService) {
		for i := range n {
			all = append(all, ApplicationService{ID: fmt.Sprintf("s%d", i), Events: true})
		}
		return all
	}
	for n, sound := range map[int]bool{2500: true, 2501: false} {
		for _, layout := range []Layout{PerService, PerApplication} {
			one, two := services(2500), services(n)
			for i := range two {
				two[i].ID = "t" + two[i].ID
			}
			catalog, err := ApplicationCatalog(layout, []Mapping{{Application: Application{Name: "a", ID: "a", Services: one}},
				{Application: Application{Name: "b", ID: "b", Services: two}}}, nil)
			if (err == nil) != sound || sound && catalog.Services[0].Plans[0].Create == nil {
				t.Errorf("%s with %d services: %v", layout, 2500+n, err)
			}
		}
	}
}
