package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
	rows "github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/web"
)

// shopObjects are three flows that share a Broker: one runs, one was refused by the broker of its service instance, and one waits.
const shopObjects = `
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: orders, namespace: shop, annotations: {flow.waybill.dev/id: a/b}}
spec: {source: {application: commerce}}
status:
  observedGeneration: 1
  sinkUri: http://broker-ingress.knative-eventing.svc.cluster.local/shop/default
  source: {apiVersion: sources.kyma-project.io/v1alpha1, kind: HTTPSource, namespace: kyma-integration, name: commerce}
  channel: {namespace: kyma-integration, name: commerce}
  broker: {namespace: shop, name: default}
  subscription: {namespace: kyma-integration, name: ef-1}
  conditions:
  - {type: Ready, status: "True", reason: Ready, observedGeneration: 1, message: the events reach the sink, lastTransitionTime: "2026-01-02T03:04:05Z"}
  - {type: SinkReady, status: "True", reason: SinkReady, lastTransitionTime: "2026-01-02T03:04:05Z"}
---
apiVersion: servicecatalog.k8s.io/v1beta1
kind: ServiceInstance
metadata: {name: commerce, namespace: shop}
spec: {externalID: a/b}
status: {conditions: [{type: Failed, status: "True", reason: Refused, message: "the broker refused <b>it</b>"}]}
---
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: returns, namespace: shop}
spec: {source: {application: commerce}}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 1, message: the events reach the sink, lastTransitionTime: "2026-01-02T03:04:05Z"}]
---
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: waits, namespace: store}
spec: {source: {ref: {apiVersion: v1, kind: Thing, name: t}}, suspend: true}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata:
  name: default
  namespace: shop
  labels: {app.kubernetes.io/managed-by: waybill}
  annotations: {flow.waybill.dev/made-for: u1, claim.flow.waybill.dev/u1: WhenUnused shop/orders, claim.flow.waybill.dev/u2: Retain shop/returns}
`

// shopKinds returns the kinds of those objects by their names.
func shopKinds() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{v1alpha1.Kind: v1alpha1.Resource(),
		"Broker":          {Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"},
		"Subscription":    {Group: "messaging.knative.dev", Version: "v1", Resource: "subscriptions"},
		"ServiceInstance": {Group: "servicecatalog.k8s.io", Version: "v1beta1", Resource: "serviceinstances"}}
}

// shopSite starts a site that shows those flows, and a service broker.
func shopSite(t *testing.T) (*site, *kubetest.API) {
	t.Helper()
	var kinds []kubetest.Kind
	for kind, resource := range shopKinds() {
		kinds = append(kinds, kubetest.Kind{GroupVersionResource: resource, Kind: kind})
	}
	api := kubetest.New(t, kinds...)
	for text := range strings.SplitSeq(shopObjects, "---\n") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		at := api.Resource(shopKinds()[object.GetKind()]).Namespace(object.GetNamespace())
		if _, err := at.Create(t.Context(), &object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w, cache := servertest.Start(t), flowview.NewCache(&kube.Cluster{Interface: api})
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{Flows: func() (*flowview.Cache, error) { return cache, nil },
		Offers: service.Offers{Broker: func() bool { return true }}})
	return listen(t, w, web.New(w.Service)), api
}

// provisionFlow stores a service instance, whose flow an action of a handler makes.
func provisionFlow(t *testing.T, s *site, id, handler string) (operated action.ID) {
	t.Helper()
	err := s.Ledger.Operate(t.Context(), ledger.ServiceKey{Instance: id}, func(state ledger.ServiceState) (ledger.ServiceChange, error) {
		operated = action.RandomID(state.Now)
		row := rows.Instance{ID: id, User: "platform", Operation: operated, Verb: rows.Provision,
			Asked: json.RawMessage(`{"serviceId":"commerce","planId":"<i>events</i>","space":"s","namespace":"shop","parameters":"{\"password\":\"pw\"}"}`)}
		if handler == "eventflow" {
			row.Asked = json.RawMessage(strings.TrimSuffix(string(row.Asked), "}") + `,"work":{"flow":{"namespace":"shop"}}}`)
		}
		return ledger.ServiceChange{Row: &row, Start: &ledger.ServiceOperation{Verb: rows.Provision,
			Action: action.Action{ID: operated, Handler: handler, Policy: slowly(2)}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return operated
}

// slowly returns a policy whose first retry comes after the test.
func slowly(retries int) action.Policy {
	return action.Policy{Retries: retries, Schedule: []action.Duration{action.Duration(time.Hour)}}
}

// repairFlow stores an operation as an audit begins it.
func repairFlow(t *testing.T, s *site, id string) (begun action.ID) {
	t.Helper()
	err := s.Ledger.Operate(t.Context(), ledger.ServiceKey{Instance: id}, func(state ledger.ServiceState) (ledger.ServiceChange, error) {
		begun = action.RandomID(state.Now.Add(time.Second)) // after the provision
		return ledger.ServiceChange{Start: &ledger.ServiceOperation{Verb: rows.Repair,
			Action: action.Action{ID: begun, Handler: "eventflow", Policy: slowly(action.Unbounded)}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return begun
}

func hasNot(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(page, text) {
			t.Errorf("the page has %q", text)
		}
	}
}

// TestFlowsPageHasTheTextThatDecidedBesideTheStatus: and the status of each object alone.
func TestFlowsPageHasTheTextThatDecidedBesideTheStatus(t *testing.T) {
	t.Parallel()
	s, _ := shopSite(t)
	all := s.page(t, "/flows", "")
	has(t, all, `<a href="/flows/shop/orders">shop/orders</a>`, `t-failed">Failed</span>`, "Refused: the broker refused &lt;b&gt;it&lt;/b&gt;",
		"Ready True", `t-finished">Running</span>`, "Suspended: the flow is suspended", `<a href="/flows" aria-current="true">`, "Thing t",
		`<a href="/service-instances">`)
	hasNot(t, all, "<b>it", "the events reach the sink")
	has(t, s.page(t, "/flows?namespace=store", ""), "store/waits", `value="store"`)
	hasNot(t, s.page(t, "/flows?namespace=store", ""), "shop/orders")
	failed := s.page(t, "/flows?status=Failed", "")
	has(t, failed, "shop/orders", `<option value="Failed" selected>`)
	hasNot(t, failed, "shop/returns", "store/waits")
	has(t, s.page(t, "/flows?status=Running&namespace=none", ""), "No flow matches.")
	hasNot(t, s.page(t, "/flows?after=shop/orders", ""), "/flows/shop/orders\"")
}

func TestFlowPageHasPartsClaimsNeighboursAndTheOperation(t *testing.T) {
	t.Parallel()
	s, api := shopSite(t)
	id := provisionFlow(t, s, "a/b", "eventflow")
	shown := s.page(t, "/flows/shop/orders", "")
	has(t, shown, `t-failed">Failed</span> <span class="dim">Refused</span> <span class="reason">the broker refused &lt;b&gt;it&lt;/b&gt;</span>`,
		`t-finished">Ready True</span>`, "the events reach the sink", `href="/service-instances/a%2Fb"`, "servicecatalog.k8s.io/v1beta1 shop/commerce",
		`<a href="/actions/`+id.String()+`">provision</a> <span class="state t-waiting">pending</span>`, "condition-SinkReady", "made for flows",
		`<a href="/flows/shop/returns">shop/returns</a> <span class="dim">Retain</span>`, `id="neighbours"`, "HTTPSource kyma-integration/commerce",
		`t-backoff part">gone</span>`, "data-live")
	hasNot(t, shown[strings.Index(shown, `id="neighbours"`):], "shop/orders")
	has(t, s.page(t, "/flows/shop/none", ""), "EventFlow shop/none not found")
	quiet := s.page(t, "/flows/store/waits", "")
	has(t, quiet, "the controller writes nothing for this flow", "No part is known yet", "The controller has not seen this flow yet.", "not known yet")
	hasNot(t, quiet, `id="operation"`, `id="alone"`, `id="neighbours"`)
	api.Before(func(kubetest.Request) error { return errors.New("connection <refused>") })
	has(t, s.page(t, "/flows/shop/returns", ""), "connection &lt;refused&gt;")
}

// TestFlowPageWithoutTheLog has all but the operation.
func TestFlowPageWithoutTheLog(t *testing.T) {
	t.Parallel()
	s, api := shopSite(t)
	cache, w := flowview.NewCache(&kube.Cluster{Interface: api}), *s.World
	t.Run("log", func(t *testing.T) {
		closed := servertest.Start(t)
		w.Service = service.New(closed.Ledger, closed.Blobs, service.Options{Flows: func() (*flowview.Cache, error) { return cache, nil }})
	})
	shown := listen(t, &w, web.New(w.Service)).page(t, "/flows/shop/orders", "")
	has(t, shown, `id="operation"><span class="reason">`, "HTTPSource kyma-integration/commerce", `id="neighbours"`)
}

// TestFlowsPageWithoutAClusterNamesTheConfiguration: the navigation has no entry then.
func TestFlowsPageWithoutAClusterNamesTheConfiguration(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, path := range []string{"/flows", "/flows/shop/orders"} {
		shown := s.page(t, path, "")
		has(t, shown, "server.yaml does not have the section flow", "flow: {kubeconfig: FILE")
		hasNot(t, shown, `<a href="/flows"`, `<a href="/service-instances"`)
	}
	has(t, s.page(t, "/service-instances", ""), "No service instances.")
	provisionFlow(t, s, "a/b", "make-folder")
	has(t, s.page(t, "/service-instances", ""), `<a href="/service-instances/a%2Fb">a/b</a>`)
	shown := s.page(t, "/service-instances/a%2Fb", "")
	has(t, shown, "being provisioned")
	hasNot(t, shown, `id="h-flow"`)
}

func TestServiceInstancePages(t *testing.T) {
	t.Parallel()
	s, api := shopSite(t)
	id := provisionFlow(t, s, "a/b", "eventflow")
	provisionFlow(t, s, "lonely", "eventflow")
	provisionFlow(t, s, "folder", "make-folder")
	repair := repairFlow(t, s, "lonely")
	has(t, s.page(t, "/service-instances", ""), `<a href="/service-instances/a%2Fb">a/b</a>`, `<a href="/service-instances/lonely">`,
		`t-running">being provisioned</span>`, "&lt;i&gt;events&lt;/i&gt;", `<a href="/actions/`+id.String()+`">provision</a>`)
	hasNot(t, s.page(t, "/service-instances?after=b", ""), "a%2Fb")
	shown := s.page(t, "/service-instances/a%2Fb", "")
	has(t, shown, "<h1>a/b</h1>", `t-running">being provisioned</span>`, "/actions/"+id.String(), `<a href="/flows/shop/orders">shop/orders</a>`,
		`t-failed">Failed</span> <span class="dim">Refused</span> <span class="reason">the broker refused`, "Log in to see the parameters", "data-live")
	hasNot(t, shown, "password")
	has(t, s.page(t, "/service-instances/a%2Fb", "a-token-of-the-home"), "&#34;password&#34;: &#34;pw&#34;")
	has(t, s.page(t, "/service-instances/lonely", ""), `t-ended">NotFound</span>`, "none in the cluster", "the cluster has no object for it")
	has(t, s.page(t, "/service-instances/lonely", ""), "<dt>Audit</dt>", `<a href="/actions/`+repair.String()+`">repair</a>`)
	hasNot(t, s.page(t, "/service-instances/folder", ""), `id="h-flow"`, "<dt>Audit</dt>")
	has(t, s.page(t, "/service-instances/unknown", ""), "service instance &#34;unknown&#34; not found")

	api.Before(func(kubetest.Request) error { return errors.New("connection <refused>") })
	cache := flowview.NewCache(&kube.Cluster{Interface: api})
	w := *s.World
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{Flows: func() (*flowview.Cache, error) { return cache, nil }})
	away := listen(t, &w, web.New(w.Service))
	has(t, away.page(t, "/service-instances/a%2Fb", ""), "being provisioned", `id="unread"`, "connection &lt;refused&gt;")
}

// refusing is a handler whose cluster refuses all requests.
type refusing struct{}

// Do fails.
func (refusing) Do(context.Context, conductor.Attempt) action.Outcome {
	return action.Outcome{Kind: action.Retry, Error: "the cluster <refused>"}
}

// TestPagesHaveTheErrorsOfOperations: of the platform's and of an audit's, whose number of attempts has no bound.
func TestPagesHaveTheErrorsOfOperations(t *testing.T) {
	t.Parallel()
	s, _ := shopSite(t)
	provisionFlow(t, s, "a/b", "eventflow")
	provisionFlow(t, s, "lonely", "make-folder")
	repairFlow(t, s, "lonely")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := conductor.New(s.Ledger.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "flows"},
		Handlers: map[string]conductor.Handler{"eventflow": refusing{}}})
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	const refused = `<span class="reason">the cluster &lt;refused&gt;</span>`
	for path, attempts := range map[string]string{"/flows/shop/orders": "1 of 3 attempts spent, by eventflow",
		"/service-instances/a%2Fb": "1 of 3 attempts spent, by eventflow", "/service-instances/lonely": "1 attempt spent, by eventflow"} {
		shown := s.page(t, path, "")
		for deadline := time.After(time.Minute); !strings.Contains(shown, refused); shown = s.page(t, path, "") {
			select {
			case <-every.C:
			case <-deadline:
				t.Fatalf("%s has no error: %s", path, shown)
			}
		}
		if has(t, shown, attempts); strings.Count(shown, refused) != 1 {
			t.Errorf("%s has the error %d times", path, strings.Count(shown, refused))
		}
	}
}

// TestRowsOfFlowsDiffer also where namespace and name have the same letters: a live page needs ids that differ.
func TestRowsOfFlowsDiffer(t *testing.T) {
	t.Parallel()
	s, api := shopSite(t)
	for namespace, name := range map[string]string{"team-a": "orders", "team": "a-orders"} {
		flow := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
			"metadata": map[string]any{"namespace": namespace, "name": name}}}
		if _, err := api.Resource(v1alpha1.Resource()).Namespace(namespace).Create(t.Context(), flow, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has(t, s.page(t, "/flows", ""), `<tr id="flow-team-a/orders">`, `<tr id="flow-team/a-orders">`)
}

// TestPagesOfFlowsFollowTheCluster: a live page gets the status of a flow as it changes.
func TestPagesOfFlowsFollowTheCluster(t *testing.T) {
	t.Parallel()
	s, api := shopSite(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Listener.Addr().String()+"/flows/store/waits", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got := make(chan string)
	go func() {
		defer close(got)
		buffer := make([]byte, 64<<10)
		for {
			n, err := response.Body.Read(buffer)
			if err != nil {
				return
			}
			select {
			case got <- string(buffer[:n]):
			case <-t.Context().Done():
				return
			}
		}
	}()
	until := func(text string) {
		t.Helper()
		for part, deadline := "", time.After(time.Minute); !strings.Contains(part, text); {
			select {
			case more, ok := <-got:
				if !ok {
					t.Fatalf("the stream ended without %q", text)
				}
				part += more
			case <-deadline:
				t.Fatalf("the stream does not have %q", text)
			}
		}
	}
	until("the flow is suspended")
	patch := `{"spec":{"suspend":false},"metadata":{"finalizers":["a.example/b"]}}`
	_, err = api.Resource(v1alpha1.Resource()).Namespace("store").Patch(t.Context(), "waits", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(`t-running">Provisioning</span>`)
}
