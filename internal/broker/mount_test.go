package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/osb"
)

var (
	applications = schema.GroupVersionResource{Group: "applicationconnector.kyma-project.io", Version: "v1alpha1", Resource: "applications"}
	mappings     = schema.GroupVersionResource{Group: "applicationconnector.kyma-project.io", Version: "v1alpha1", Resource: "applicationmappings"}
)

// service returns a service of an Application with entries of some types.
func service(id string, types ...string) map[string]any {
	var entries []any
	for _, one := range types {
		entries = append(entries, map[string]any{"type": one})
	}
	return map[string]any{"id": id, "name": "name-" + id, "displayName": "Name " + id, "description": "events of " + id, "entries": entries}
}

// object returns one of the Application Connector.
func object(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion("applicationconnector.kyma-project.io/v1alpha1")
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func addApplication(api *kubetest.API, name string, services ...any) {
	api.Add(applications, object("Application", "", name,
		map[string]any{"services": services, "compassMetadata": map[string]any{"applicationId": name + "-id"}}))
}

// addMapping maps services of an Application; nil: all.
func addMapping(api *kubetest.API, namespace, name string, ids []string) {
	spec := map[string]any{}
	if ids != nil {
		list := []any{}
		for _, id := range ids {
			list = append(list, map[string]any{"id": id})
		}
		spec["services"] = list
	}
	api.Add(mappings, object("ApplicationMapping", namespace, name, spec))
}

// connected is catalogs of Applications that are followed in a bubble.
type connected struct {
	*broker.ApplicationCatalogs
	api    *kubetest.API
	layout atomic.Value
	mu     sync.Mutex
	log    strings.Builder
}

func (c *connected) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *connected) lines() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.log.Reset()
	return c.log.String()
}

func connect(t *testing.T) *connected {
	t.Helper()
	c := &connected{api: kubetest.New(t, kubetest.Kind{GroupVersionResource: applications, Kind: "Application", Cluster: true},
		kubetest.Kind{GroupVersionResource: mappings, Kind: "ApplicationMapping"})}
	c.layout.Store(osb.PerService)
	var err error
	c.ApplicationCatalogs, err = broker.NewApplicationCatalogs(broker.ApplicationConfig{Cluster: c.api, Log: slog.New(slog.NewTextHandler(c, nil)),
		Layout: func() osb.Layout { return c.layout.Load().(osb.Layout) }, File: func() *osb.Catalog { return nil }})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		c.api.Close()
		<-ended
	})
	return c
}

// plans returns the ids of the plans in the catalog of a namespace, or the error.
func (c *connected) plans(namespace string) string {
	<-time.After(time.Minute)
	synctest.Wait()
	catalog, err := c.Catalog(namespace)
	if err != nil {
		return err.Error()
	}
	var ids []string
	for _, s := range catalog.Services {
		for _, p := range s.Plans {
			ids = append(ids, s.ID+"/"+p.ID)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func TestCatalogsFollowTheApplicationsOfANamespace(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		c := connect(t)
		wants := func(namespace, want string) {
			t.Helper()
			if got := c.plans(namespace); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s has %q, want %q", namespace, got, want)
			}
		}
		wants("shop", "")
		addApplication(c.api, "commerce", service("s1", "Events"), service("s2", "API", "Events"), service("s3", "API"))
		addMapping(c.api, "shop", "commerce", nil)
		addMapping(c.api, "eu", "commerce", []string{"s2", "s3", "none"})
		addMapping(c.api, "us", "commerce", []string{})
		addMapping(c.api, "us", "absent", nil)
		wants("shop", "s1/s1-plan s2/s2-plan")
		wants("eu", "s2/s2-plan")
		wants("us", "")
		c.layout.Store(osb.PerApplication)
		wants("eu", "commerce-id/s2")
		c.layout.Store(osb.Layout(""))
		wants("eu", "")
		c.layout.Store(osb.PerService)
		check(t, c.api.Resource(mappings).Namespace("shop").Delete(t.Context(), "commerce", metav1.DeleteOptions{}))
		wants("shop", "")
		if lines := c.lines(); lines != "" {
			t.Errorf("the log has %s", lines)
		}
	})
}

func TestABrokenCatalogOfANamespaceLeavesTheFormerOne(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		c := connect(t)
		addApplication(c.api, "commerce", service("s1", "Events"))
		addMapping(c.api, "shop", "commerce", nil)
		addMapping(c.api, "eu", "commerce", nil)
		if got := c.plans("shop"); got != "s1/s1-plan" {
			t.Fatal(got)
		}
		addApplication(c.api, "other", service("s1", "Events"))
		addMapping(c.api, "shop", "other", nil)
		addMapping(c.api, "us", "other", nil)
		addMapping(c.api, "us", "commerce", nil)
		if got := c.plans("shop"); got != "s1/s1-plan" {
			t.Errorf("shop has %q", got)
		}
		if got := c.plans("us"); !strings.Contains(got, `the service id "s1" is in Application commerce and in Application other`) {
			t.Errorf("us has %q", got)
		}
		addMapping(c.api, "eu", "commerce", []string{"s1"})
		_ = c.plans("eu")
		if lines := c.lines(); strings.Count(lines, "\n") != 2 || strings.Count(lines, "make no catalog") != 2 {
			t.Errorf("the log has %s", lines)
		}
	})
}

// fixedCatalogs are catalogs of namespaces that stay.
type fixedCatalogs map[string]*osb.Catalog

func (f fixedCatalogs) Catalog(namespace string) (*osb.Catalog, error) {
	if catalog, ok := f[namespace]; ok {
		return catalog, nil
	}
	return nil, osb.NewError(503, "Unavailable", "the Applications are not known yet")
}

// in returns the request at the address of a namespace.
func (r request) in(namespace string) request { r.path = "/ns/" + namespace + r.path; return r }

func TestAddressesOfNamespaces(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		catalog, err := osb.ApplicationCatalog(osb.PerService, []osb.Mapping{{Application: osb.Application{Name: "commerce",
			Services: []osb.ApplicationService{{ID: "s1", Name: "orders", DisplayName: "Orders", Events: true}}}}}, nil)
		check(t, err)
		w.applications = fixedCatalogs{"shop": catalog, "eu": catalog}
		w.users.Store(&map[string]broker.User{user: {Passwords: [][32]byte{digest(password)}, Namespaces: []string{"shop", "late"}}})
		w.serveBroker()
		list := request{method: http.MethodGet, path: "/v2/catalog"}
		w.send(list.in("shop")).want(200, "")
		w.send(list.in("eu")).want(400, "InvalidRequest").describes("not allowed")
		w.send(list.in("late")).want(503, "Unavailable")
		p := provision("demo").with("service_id", "s1").with("plan_id", "s1-plan").with("parameters", nil)
		w.exchanges([]exchange{
			{"another context", p.in("shop").with("context", fields{"namespace": "eu"}), 400, "InvalidRequest", "context.namespace", ""},
			{"a namespace that is not allowed", p.in("eu"), 400, "InvalidRequest", "not allowed", ""},
			{"the catalog of the file", p, 400, "InvalidRequest", "service_id", ""},
			{"a service of the file", provision("demo").in("shop"), 400, "InvalidRequest", "service_id", ""},
		})
		w.send(p.in("shop")).operation()
		w.send(p.in("shop").with("context", fields{"namespace": "shop"})).want(202, "")
		want := flow.Order{Verb: "provision", Instance: "demo", Namespace: "shop", Spec: []byte(`{"source":{"application":"commerce"}}`),
			Activation: &flow.Activation{Service: "s1", Application: "commerce", DisplayName: "Orders"}}
		if diff := cmp.Diff(want, w.order("demo", "provision demo")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.applications = fixedCatalogs{"shop": mustCatalog(t)} // the application leaves the namespace
		w.serveBroker()
		w.send(list.in("shop")).want(200, "").is(`{"services":[]}`)
		w.send(deprovision("demo").asking(accept + "&service_id=s1&plan_id=s1-plan").in("shop")).operation()
		want.Verb, want.Spec = "deprovision", nil
		if diff := cmp.Diff(want, w.order("demo", "deprovision demo")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestServiceInstancesOutliveTheirCatalog: platforms poll and delete service instances also while the catalog of their address is not known.
func TestServiceInstancesOutliveTheirCatalog(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.send(provisionFlow("demo", "plain")).operation()
		w.order("demo", "provision demo")
		w.addFlow("shop", "demo", w.log(), map[string]any{"sinkUri": "http://broker.example/shop/default"})
		b := request{method: http.MethodPut, path: bindingPath("demo", "b"), body: fields{"service_id": "events", "plan_id": "plain"}}
		w.send(b).want(201, "")
		w.applications = fixedCatalogs{}
		check(t, os.WriteFile(w.file, []byte("services: 1"), 0o600))
		w.catalog, _ = broker.OpenCatalog(w.file, w.offer) // at fault
		w.serveBroker()
		for _, at := range []func(request) request{
			func(r request) request { return r },
			func(r request) request { return r.in("shop") },
		} {
			w.send(at(fetchCatalog)).want(503, "Unavailable")
			w.send(at(provisionFlow("other", "plain"))).want(503, "Unavailable")
			w.send(at(update("demo", 2).with("service_id", "events"))).want(503, "Unavailable")
			w.send(at(b)).want(503, "Unavailable")
			w.send(at(get("demo"))).want(200, "")
			w.send(at(poll("demo", ""))).want(200, "")
			w.send(at(getBinding("demo", "b"))).want(200, "")
			w.send(at(unbind("demo", "none").asking(flowIDs))).want(410, "Gone")
			w.send(at(deprovisionFlow("none"))).want(410, "Gone")
		}
		w.send(deprovisionFlow("demo").in("shop")).operation()
		want := flow.Order{Verb: "deprovision", Instance: "demo", Namespace: "shop", WaitForReady: true}
		if diff := cmp.Diff(want, w.order("demo", "deprovision demo")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func mustCatalog(t *testing.T) *osb.Catalog {
	t.Helper()
	catalog, err := osb.ApplicationCatalog(osb.PerService, nil, nil)
	check(t, err)
	return catalog
}

func TestLeftoversAreFoundInTheCluster(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.users.Store(&map[string]broker.User{user: {Passwords: [][32]byte{digest(password)}, Namespaces: []string{"shop", "late"}},
			otherUser: {Passwords: [][32]byte{digest(otherPassword)}}})
		before := w.stored()
		w.send(deprovisionFlow("demo")).want(410, "Gone")
		w.addFlow("eu", "demo", "", nil)
		w.send(deprovisionFlow("demo")).want(410, "Gone")
		w.send(deprovisionFlow("demo").in("shop")).want(410, "Gone")
		w.send(deprovisionFlow("demo").in("eu")).want(410, "Gone")
		w.send(deprovisionFlow("demo").asking(flowIDs)).want(422, "AsyncRequired")
		w.unchanged(before)

		operation := w.send(deprovisionFlow("demo").other()).operation()
		if again := w.send(deprovisionFlow("demo").other()).operation(); again != operation {
			t.Errorf("a repeated delete is another operation")
		}
		want := flow.Order{Verb: "deprovision", Instance: "demo", Namespace: "eu"}
		if diff := cmp.Diff(want, w.order("demo", "deprovision demo")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.send(poll("demo", "").other()).want(200, "").is(`{"state":"succeeded","description":"done"}`)

		w.send(provisionFlow("busy", "plain").with("context", fields{"namespace": "late"})).operation()
		w.order("busy", "provision busy")
		w.addFlow("late", "busy", "", nil)
		w.send(deprovisionFlow("busy").other()).want(410, "Gone") // it belongs to a service instance of another user
		w.api.Before(func(r kubetest.Request) error {
			if r.Verb == "list" {
				return errors.New("the API server is away")
			}
			return nil
		})
		if a := w.send(deprovisionFlow("none")).want(503, "Unavailable"); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
}

// TestChangesInARowMakeOneCatalog: an author of Applications who never stops does not keep the broker busy.
func TestChangesInARowMakeOneCatalog(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		c := connect(t)
		addApplication(c.api, "commerce", service("s0", "Events"))
		addMapping(c.api, "shop", "commerce", nil)
		_ = c.plans("shop")
		seen := map[*osb.Catalog]bool{}
		for range 600 { // a minute
			addApplication(c.api, "commerce", service("s1", "Events"))
			<-time.After(100 * time.Millisecond)
			synctest.Wait()
			catalog, err := c.Catalog("shop")
			check(t, err)
			seen[catalog] = true
		}
		if len(seen) < 10 || len(seen) > 35 {
			t.Errorf("%d catalogs in a minute", len(seen))
		}
	})
}
