package broker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/osb"
)

// limited has the user of the tests be limited to a namespace.
func (w *world) limited(namespaces ...string) {
	w.users.Store(&map[string]broker.User{user: {Passwords: [][32]byte{digest(password)}, Namespaces: namespaces}})
}

// TestOthersNamespacesAreNotExplored: the answers are the same whatever the Applications of the namespace are.
func TestOthersNamespacesAreNotExplored(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		catalog, err := osb.ApplicationCatalog(osb.PerService, []osb.Mapping{{Application: osb.Application{Name: "commerce",
			Services: []osb.ApplicationService{{ID: "s1"}}}}}, nil)
		check(t, err)
		w.applications = fixedCatalogs{"full": catalog, "empty": mustCatalog(t)} // "broken" has faults
		w.limited("shop")
		w.serveBroker()
		ids := "service_id=s1&plan_id=s1-plan"
		for _, r := range []request{
			{method: http.MethodGet, path: "/v2/catalog"},
			provision("demo").with("service_id", "s1").with("plan_id", "s1-plan").with("parameters", nil),
			provision("demo").with("service_id", "s1").with("plan_id", "s1-plan").with("parameters", fields{"bad": 1}),
			update("demo", 1).with("service_id", "s1"),
			deprovision("demo").asking(accept + "&" + ids),
			bind("demo", "b").with("service_id", "s1").with("plan_id", "s1-plan"),
		} {
			normal := func(namespace string) string {
				a := w.send(r.in(namespace))
				if a.status >= 500 {
					t.Errorf("%s", a)
				}
				return strings.ReplaceAll(a.String(), namespace, "X")
			}
			want := normal("empty")
			for _, namespace := range []string{"full", "broken"} {
				if got := normal(namespace); got != want {
					t.Errorf("%s: %s, and of an empty namespace %s", namespace, got, want)
				}
			}
		}
	})
}

// TestAddressesWithoutANamespace: no name of a namespace leaves its part of a path at the API server.
func TestAddressesWithoutANamespace(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.applications = fixedCatalogs{}
		w.serveBroker()
		w.api.Before(func(r kubetest.Request) error {
			t.Errorf("the cluster is asked for %q", r.Namespace)
			return nil
		})
		before := w.stored()
		for _, namespace := range []string{"a%2Fb", "%2E%2E", "%2E%2E%2F%2E%2E%2Fsecrets%3F", "Shop", "-", "%00", "%20", "%FF", strings.Repeat("x", 64)} {
			w.send(request{method: http.MethodGet, path: "/v2/catalog"}.in(namespace)).want(400, "InvalidRequest")
			w.send(provisionFlow("demo", "plain").with("context", nil).in(namespace)).want(400, "InvalidRequest")
			w.send(deprovisionFlow("demo").in(namespace)).want(410, "Gone")
		}
		w.unchanged(before)
	})
}

// removedUser is a body during which the user is removed from the configuration.
type removedUser struct {
	io.Reader
	w *world
}

func (r removedUser) Read(p []byte) (int, error) {
	r.w.users.Store(&map[string]broker.User{})
	return r.Reader.Read(p)
}

func TestAUserThatIsRemovedDuringARequestKeepsItsLimits(t *testing.T) {
	t.Parallel()
	w := serve(t, openSQLite)
	w.withFlows()
	w.limited("shop")
	p := provisionFlow("demo", "plain").with("context", fields{"namespace": "eu"})
	r := httptest.NewRequestWithContext(t.Context(), p.method, p.path+"?"+p.query, removedUser{strings.NewReader(p.text()), w})
	r.Header.Set(versionHeader, "2.17")
	r.SetBasicAuth(user, password)
	got := httptest.NewRecorder()
	w.broker.Load().ServeHTTP(got, r)
	if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), "not allowed") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// hanging is a cluster that never answers.
type hanging struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
}

func (h hanging) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return h
}

func (h hanging) Namespace(string) dynamic.ResourceInterface { return h }

func (h hanging) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestAClusterThatHangsHoldsFewRequests: each request ends, and most at once, so that the broker has connections for others.
func TestAClusterThatHangsHoldsFewRequests(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		flows, begun := broker.NewFlows(hanging{}), time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		took := map[time.Duration]int{}
		for range 200 {
			all.Go(func() {
				_, err := flows.Leftover(t.Context(), "demo", osb.Scope{})
				if refused, ok := errors.AsType[*osb.Error](err); !ok || refused.Status != http.StatusServiceUnavailable {
					t.Errorf("%v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[time.Since(begun)]++
			})
		}
		synctest.Wait()
		all.Wait()
		if took[2*time.Second] != 180 || took[15*time.Second] != 20 {
			t.Errorf("requests ended after %v", took)
		}
	})
}
