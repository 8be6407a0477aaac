package broker_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// withFlows puts the catalog with flows in force.
func (w *world) withFlows() {
	w.t.Helper()
	check(w.t, os.WriteFile(w.file, []byte(flowCatalog), 0o600))
	var err error
	w.catalog, err = broker.OpenCatalog(w.file, w.offer)
	check(w.t, err)
	w.serveBroker()
}

// provisionFlow returns the request for a flow in namespace shop.
func provisionFlow(id, plan string) request {
	r := provision(id).with("service_id", "events").with("plan_id", plan).with("parameters", nil)
	return r.with("context", fields{"platform": "kubernetes", "namespace": "shop"})
}

const flowIDs = "service_id=events&plan_id=plain"

func deprovisionFlow(id string) request { return deprovision(id).asking(accept + "&" + flowIDs) }

// order ends the next attempt for a service instance, and returns the order that it had.
func (w *world) order(id, name string) (o flow.Order) {
	w.t.Helper()
	a := w.begin(id)
	if a.Action.Handler != "eventflow" || a.Action.Name != name {
		w.t.Errorf("%q is done by %q, want %q by eventflow", a.Action.Name, a.Action.Handler, name)
	}
	check(w.t, json.Unmarshal(a.Action.Parameters, &o))
	a.end <- done("done")
	w.await(a.Action.ID, ended)
	return o
}

// addFlow stores the flow of a service instance as the handler and the controller do.
func (w *world) addFlow(namespace, id, log string, status map[string]any) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"source": map[string]any{"application": "commerce"}},
		"status": status}}
	object.SetAPIVersion(v1alpha1.APIVersion)
	object.SetKind(v1alpha1.Kind)
	object.SetNamespace(namespace)
	object.SetName(flow.InstanceFlow(id))
	object.SetLabels(map[string]string{flow.LabelInstance: flow.InstanceHash(id)})
	object.SetAnnotations(map[string]string{flow.AnnotationID: id, flow.AnnotationLog: log})
	w.api.Add(v1alpha1.Resource(), object)
}

func TestOrdersOfFlows(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.send(provisionFlow("demo", "plain").with("parameters", fields{"delivery": fields{"retry": 2}})).operation()
		commerce := json.RawMessage(`{"delivery":{"retry":2},"source":{"application":"commerce"}}`)
		wants := func(got, want flow.Order) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		wants(w.order("demo", "provision demo"), flow.Order{Verb: "provision", Instance: "demo", Namespace: "shop", Spec: commerce, WaitForReady: true})
		u := update("demo", 0).with("service_id", "events").with("parameters", fields{"delivery": fields{"retry": 5}})
		w.send(u).operation()
		commerce = json.RawMessage(`{"delivery":{"retry":5},"source":{"application":"commerce"}}`)
		wants(w.order("demo", "update demo"), flow.Order{Verb: "update", Instance: "demo", Namespace: "shop", Spec: commerce, WaitForReady: true})

		check(t, os.WriteFile(w.file, []byte(catalogFile), 0o600)) // the plan leaves the catalog
		var err error
		w.catalog, err = broker.OpenCatalog(w.file, w.offer)
		check(t, err)
		w.serveBroker()
		w.send(deprovisionFlow("demo")).operation()
		wants(w.order("demo", "deprovision demo"), flow.Order{Verb: "deprovision", Instance: "demo", Namespace: "shop", WaitForReady: true})
		w.send(poll("demo", "")).want(200, "").is(`{"state":"succeeded","description":"done"}`)
	})
}

func TestRefusedFlows(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.withFlows()
		w.users.Store(&map[string]broker.User{user: {Passwords: [][32]byte{digest(password)}, Namespaces: []string{"shop"}},
			otherUser: {Passwords: [][32]byte{digest(otherPassword)}, Namespaces: []string{"central"}}})
		before := w.stored()
		p := provisionFlow("demo", "plain")
		central := p.with("service_id", "fixed").with("plan_id", "central").with("parameters", fields{"application": "a"})
		w.exchanges([]exchange{
			{"no namespace", p.with("context", nil), 400, "InvalidRequest", "needs a namespace", ""},
			{"another namespace", p.with("context", fields{"namespace": "other"}), 400, "InvalidRequest", "not allowed", ""},
			{"the plan's namespace", central, 400, "InvalidRequest", "not allowed", ""},
			{"a bad name", central.other().with("parameters", fields{"application": "A"}), 400, "InvalidRequest", "source.application", ""},
			{"no application", central.other().with("parameters", nil), 400, "InvalidRequest", "source", ""},
			{"another parameter", p.with("parameters", fields{"size": 1}), 400, "InvalidRequest", "size", ""},
			{"a bad delivery", p.with("parameters", fields{"delivery": fields{"timeout": "1s"}}), 400, "InvalidRequest", "ISO 8601", ""},
			{"accepts nothing", p.asking(""), 422, "AsyncRequired", "", ""},
			{"no namespace, accepts nothing", p.with("context", nil).asking(""), 400, "InvalidRequest", "", ""},
		})
		w.unchanged(before)
		w.send(central.other()).operation()
		if o := w.order("demo", "provision demo"); o.Namespace != "central" || string(o.Spec) != `{"source":{"application":"a"}}` {
			w.t.Errorf("the order is %+v", o)
		}
		u := update("demo", 0).other().with("service_id", "fixed").with("parameters", fields{"application": "b"})
		w.send(u).want(422, "NotSupported").describes("source or the sink")
	})
}

func TestBindingsOfFlows(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.withFlows()
		w.send(provisionFlow("demo", "plain")).operation()
		w.order("demo", "provision demo")
		b := request{method: http.MethodPut, path: bindingPath("demo", "b"), body: fields{"service_id": "events", "plan_id": "plain"}}
		before := w.stored()
		w.send(b).want(503, "Unavailable").describes("has no address")
		w.unchanged(before)
		w.addFlow("shop", "demo", "", map[string]any{"sinkUri": "http://broker.example/shop/default"})
		const credentials = `"credentials":{"sinkUri":"http://broker.example/shop/default","source":"commerce"}`
		w.send(b).want(201, "").is(`{` + credentials + `}`)
		w.send(b).want(200, "").is(`{` + credentials + `}`)
		w.send(b.with("parameters", fields{"a": 1})).want(409, "Conflict")
		w.send(getBinding("demo", "b")).want(200, "").is(`{` + credentials + `,"parameters":{}}`)
		w.send(unbind("demo", "b").asking(flowIDs)).want(200, "")
		w.send(b.with("plan_id", "tuned")).want(400, "InvalidRequest")
	})
}

func TestAClusterThatDoesNotAnswerIsNoVerdict(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		w.send(provisionFlow("demo", "plain")).operation()
		w.order("demo", "provision demo")
		w.api.Before(func(kubetest.Request) error { return errors.New("the API server is away") })
		b := request{method: http.MethodPut, path: bindingPath("demo", "b"), body: fields{"service_id": "events", "plan_id": "plain"}}
		if a := w.send(b).want(503, "Unavailable").describes("does not answer"); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
}
