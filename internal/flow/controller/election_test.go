package controller_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	restclient "k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/obs"
)

// candidate is an instance that works while it leads.
type candidate struct {
	*instance
	*record
	t        *testing.T
	registry *prometheus.Registry

	noLease, noAPI atomic.Bool // its requests for the Lease, or all others, fail
}

// electorate is a world with Leases.
type electorate struct {
	*world
	server *kubetest.Server
}

func newElectorate(t *testing.T) *electorate {
	t.Helper()
	w := newWorld(t)
	w.api.Install(kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		Kind: "Lease"})
	w.open()
	return &electorate{w, kubetest.NewServer(t, w.api)}
}

// join starts an instance of a name.
func (e *electorate) join(name string) *candidate {
	e.t.Helper()
	c := &candidate{t: e.t, registry: prometheus.NewRegistry(), record: &record{Interface: e.api, uids: map[string]string{}}}
	c.before = func(kubetest.Request) error {
		if c.noAPI.Load() {
			return errAway
		}
		return nil
	}
	e.metrics = obs.NewFlow(c.registry)
	c.instance = e.start(func(config *controller.Config) {
		config.Elect, config.Identity, config.Cluster.Interface = true, name, c.record
		leases := &restclient.Config{Host: "http://test.example", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if c.noLease.Load() {
				return nil, errAway
			}
			answer := httptest.NewRecorder()
			e.server.ServeHTTP(answer, r)
			return answer.Result(), nil
		})}
		leases.ContentType = "application/json" // the server does not serve Protobuf
		configure(config.Cluster, leases)
	})
	<-time.After(5 * time.Second)
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// configure has a cluster return the configuration of its client, which the election of a leader needs.
func configure(c *kube.Cluster, config *restclient.Config) {
	field := reflect.ValueOf(c).Elem().FieldByName("config")
	reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(config))
}

// leads expects that the instance has written and shows the flows if it leads, and neither if it does not, since the last call.
func (c *candidate) leads(want bool) {
	c.t.Helper()
	writes := c.taken(strings.NewReplacer())
	if got := writes != ""; got != want {
		c.t.Errorf("it leads: %t, want %t; it has written:\n%s", got, want, writes)
	}
	if got := len(readings(c.t, c.registry, "waybill_flow_flows")) > 0; got != want {
		c.t.Errorf("it shows the flows: %t, want %t", got, want)
	}
}

// change changes the cluster: one flow comes, one goes, and a person patches the Subscriptions.
func (e *electorate) change(comes, goes string) {
	e.t.Helper()
	e.apply(flows, comes)
	e.delete(flows, goes)
	for _, o := range e.list(subscriptions) {
		e.patch(subscriptions, o.GetNamespace()+"/"+o.GetName(), drift[subscriptions])
	}
}

// settled expects that a flow is ready and all else is gone.
func (e *electorate) settled(name string) {
	e.t.Helper()
	e.want(name, "Ready True Ready")
	links := e.list(subscriptions)
	if len(e.list(flows)) != 1 || len(links) != 1 || strings.Contains(string(must(links[0].MarshalJSON())), "elsewhere") {
		e.t.Errorf("%d flows; the Subscriptions are %v", len(e.list(flows)), links)
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// TestOneInstanceLeads at a time. When it stops, the other one follows within seconds, and handles all changes since.
func TestOneInstanceLeads(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newElectorate(t)
		first, second := e.join("first"), e.join("second")
		e.apply(flows, orders)
		e.want("shop/orders", "Ready True Ready")
		first.leads(true)
		second.leads(false)
		e.api.Repeat()
		<-time.After(time.Minute)
		second.leads(false)

		first.stop()
		e.patch(flows, "shop/orders", `{metadata: {finalizers: null}}`) // its claims become stale
		e.change(returns, "shop/orders")
		<-time.After(4 * time.Second)
		e.settled("shop/returns")
		second.leads(true)

		third := e.join("third") // waits, too
		e.patch(flows, "shop/returns", `{metadata: {finalizers: null}}`)
		e.change(orders, "shop/returns")
		<-time.After(10 * time.Second)
		e.settled("shop/orders")
		second.leads(true)
		third.leads(false)
	})
}

// TestALeaderThatIsCutOffLeadsNoMore: from the Lease alone, from the rest of the API server, or from both. The other instance follows once
// the Lease has expired, and the first one writes nothing until it leads again. Without its Lease it does not write either.
func TestALeaderThatIsCutOffLeadsNoMore(t *testing.T) {
	t.Parallel()
	for name, alsoAPI := range map[string]bool{"from the Lease": false, "from everything": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				e := newElectorate(t)
				first, second := e.join("first"), e.join("second")
				e.apply(flows, orders)
				e.want("shop/orders", "Ready True Ready")
				first.leads(true)

				first.noLease.Store(true)
				first.noAPI.Store(alsoAPI)
				<-time.After(12 * time.Second) // it has given up to renew its Lease, which has not expired
				if got := readings(t, first.registry, "waybill_flow_flows"); !maps.Equal(got, map[string]int{}) {
					t.Errorf("the first instance shows the flows %v", got)
				}
				e.change(returns, "shop/orders")
				first.leads(false)
				<-time.After(20 * time.Second)
				e.settled("shop/returns")
				second.leads(true)

				first.noLease.Store(false)
				first.noAPI.Store(false)
				e.change(orders, "shop/returns")
				<-time.After(6 * time.Minute)
				e.settled("shop/orders")
				first.leads(false)
				second.leads(true)

				second.stop()
				e.change(returns, "shop/orders")
				<-time.After(10 * time.Second)
				e.settled("shop/returns")
				first.leads(true)
			})
		})
	}
}

// TestAnInstanceFollowsOneThatHasVanished, once the Lease has expired.
func TestAnInstanceFollowsOneThatHasVanished(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newElectorate(t)
		first := e.join("first")
		e.apply(flows, orders)
		e.want("shop/orders", "Ready True Ready")
		second := e.join("second")
		first.noLease.Store(true)
		first.noAPI.Store(true)
		first.stop()
		e.change(returns, "shop/orders")
		<-time.After(5 * time.Second)
		second.leads(false)
		<-time.After(20 * time.Second)
		e.settled("shop/returns")
		second.leads(true)
	})
}
