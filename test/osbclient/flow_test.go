package osbclient_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// flowCatalog is the part of the catalog whose service instances are flows.
const flowCatalog = `
  - id: events
    name: events
    description: Events of the shop
    bindable: true
    plans: [{id: plain, name: plain, description: Events, flow: {source: {application: commerce}, waitForReady: true}}]
`

// object is one of Kubernetes.
type object = map[string]any

// cluster is the part of an API server of Kubernetes that service instances need: the EventFlows of a namespace, which are ready at once.
type cluster struct {
	mu      sync.Mutex
	flows   map[string]object
	version int
}

// newCluster returns the address of a cluster that ends with the test.
func newCluster(t *testing.T) (c *cluster, address string) {
	t.Helper()
	c = &cluster{flows: map[string]object{}}
	const flows = "/apis/flow.waybill.dev/v1alpha1/namespaces/shop/eventflows"
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(*http.Request, object) (int, any){
		"GET " + flows: c.list, "POST " + flows: c.create,
		"GET " + flows + "/{name}": c.get, "PATCH " + flows + "/{name}": c.change, "DELETE " + flows + "/{name}": c.remove,
		"/": func(*http.Request, object) (int, any) { return missing() },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var body object
			_ = json.NewDecoder(r.Body).Decode(&body) // most have none
			c.mu.Lock()
			defer c.mu.Unlock()
			status, answer := serve(r, body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(answer) // the client may be gone
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return c, server.URL
}

func missing() (int, any) {
	return http.StatusNotFound, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
}

// store keeps a flow, which is ready.
func (c *cluster) store(flow object) object {
	c.version++
	metadata := flow["metadata"].(object)
	metadata["namespace"], metadata["uid"] = "shop", metadata["name"]
	metadata["generation"], metadata["resourceVersion"] = c.version, fmt.Sprint(c.version)
	flow["status"] = object{"sinkUri": "http://broker.example", "conditions": []any{object{"type": "Ready", "status": "True", "reason": "Ready",
		"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": c.version}}}
	c.flows[metadata["name"].(string)] = flow
	return flow
}

func (c *cluster) list(r *http.Request, _ object) (int, any) {
	items := []object{}
	name, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	for _, flow := range c.flows {
		if labels, _ := flow["metadata"].(object)["labels"].(object); labels[name] == value {
			items = append(items, flow)
		}
	}
	return http.StatusOK, object{"kind": "EventFlowList", "apiVersion": "flow.waybill.dev/v1alpha1", "metadata": object{}, "items": items}
}

func (c *cluster) create(_ *http.Request, flow object) (int, any) {
	return http.StatusCreated, c.store(flow)
}

func (c *cluster) get(r *http.Request, _ object) (int, any) {
	if flow := c.flows[r.PathValue("name")]; flow != nil {
		return http.StatusOK, flow
	}
	return missing()
}

func (c *cluster) change(r *http.Request, patch object) (int, any) {
	flow := c.flows[r.PathValue("name")]
	if flow == nil {
		return missing()
	}
	return http.StatusOK, c.store(merged(flow, patch))
}

func (c *cluster) remove(r *http.Request, _ object) (int, any) {
	delete(c.flows, r.PathValue("name"))
	return http.StatusOK, object{"kind": "Status", "apiVersion": "v1", "status": "Success"}
}

// merged returns an object with a merge patch (RFC 7396).
func merged(into, patch object) object {
	into = maps.Clone(into)
	if into == nil {
		into = object{}
	}
	for name, value := range patch {
		inner, is := value.(object)
		switch before, _ := into[name].(object); {
		case value == nil:
			delete(into, name)
		case is:
			into[name] = merged(before, inner)
		default:
			into[name] = value
		}
	}
	return into
}

// retries returns the spec.delivery.retry of the only flow, and its name.
func (c *cluster) retries(t *testing.T) (name string, retry any) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Collect(maps.Keys(c.flows))
	if len(names) != 1 {
		t.Fatalf("the flows are %v", names)
	}
	delivery, _ := c.flows[names[0]]["spec"].(object)["delivery"].(object)
	return names[0], delivery["retry"]
}

// TestTheLifeOfAFlow takes a service instance that is a flow through its life.
func TestTheLifeOfAFlow(t *testing.T) {
	t.Parallel()
	c, address := newCluster(t)
	p := startWith(t, "0", address)
	as := platform{p.client(t, "shop", "secret"), t}
	asked := provision("demo")
	asked.ServiceID, asked.PlanID, asked.Parameters = "events", "plain", nil
	made, err := as.ProvisionInstance(asked)
	check(t, err)
	as.succeeds("demo", made.Async, made.OperationKey, "the flow shop/event-flow-demo is Ready")
	again, err := as.ProvisionInstance(asked)
	if check(t, err); again.Async {
		t.Errorf("the same provision is done again: %+v", again)
	}
	moved := update("demo", 0)
	moved.ServiceID, moved.Parameters = "events", map[string]any{"delivery": map[string]any{"retry": 7}}
	changed, err := as.UpdateInstance(moved)
	check(t, err)
	as.succeeds("demo", changed.Async, changed.OperationKey, "the flow shop/event-flow-demo is Ready")
	if name, retry := c.retries(t); name != "event-flow-demo" || retry != 7.0 {
		t.Errorf("%s has %v retries", name, retry)
	}
	wanted := bind("demo", "b")
	wanted.ServiceID, wanted.PlanID = "events", "plain"
	bound, err := as.Bind(wanted)
	if check(t, err); bound.Credentials["sinkUri"] != "http://broker.example" || bound.Credentials["source"] != "commerce" {
		t.Errorf("the binding is %+v", bound)
	}
	gone := deprovision("demo")
	gone.ServiceID, gone.PlanID = "events", "plain"
	deleted, err := as.DeprovisionInstance(gone)
	check(t, err)
	as.gone("demo", deleted)
	if left, err := as.DeprovisionInstance(gone); err != nil || left.Async {
		t.Errorf("it is deleted again: %+v, %v", left, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.flows) > 0 {
		t.Errorf("the flows %v are left", c.flows)
	}
}
