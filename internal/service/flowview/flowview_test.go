package flowview

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// kinds returns those that flows need.
func kinds() []kubetest.Kind {
	return []kubetest.Kind{{GroupVersionResource: v1alpha1.Resource(), Kind: v1alpha1.Kind}, {GroupVersionResource: brokers, Kind: "Broker"},
		{GroupVersionResource: subscriptions, Kind: "Subscription"}}
}

// withPlatforms returns those, and the kinds of service instances.
func withPlatforms() []kubetest.Kind {
	all := kinds()
	for _, p := range platforms() {
		all = append(all, kubetest.Kind{GroupVersionResource: p.resource, Kind: "ServiceInstance"})
	}
	return all
}

// create makes an object of YAML, and returns it as stored.
func create(t *testing.T, api *kubetest.API, resource schema.GroupVersionResource, text string) *unstructured.Unstructured {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	made, err := api.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), &object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const orders = `
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: orders, namespace: shop}
spec: {source: {application: commerce}}
status:
  sinkUri: http://broker.example/shop/default
  source: {apiVersion: sources.kyma-project.io/v1alpha1, kind: HTTPSource, namespace: kyma-integration, name: commerce}
  channel: {namespace: kyma-integration, name: commerce}
  broker: {namespace: shop, name: default, uid: %q}
  subscription: {namespace: kyma-integration, name: ef-1, uid: other}
  conditions:
  - {type: SinkReady, status: "False", reason: BrokerNotReady, message: Broker shop/default is not ready, lastTransitionTime: "2026-01-02T03:04:05Z"}
  - {type: Ready, observedGeneration: 1, status: "False", reason: BrokerNotReady, message: Broker shop/default is not ready, lastTransitionTime: "2026-01-02T03:04:05Z"}
`

const broker = `
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata:
  name: default
  namespace: shop
  labels: {app.kubernetes.io/managed-by: waybill}
  annotations:
    flow.waybill.dev/made-for: u2
    claim.flow.waybill.dev/u2: WhenUnused shop/returns
    claim.flow.waybill.dev/u3: nonsense
`

func TestAFlowIsShownWithThoseThatShareItsParts(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, kinds()...)
	cluster := &kube.Cluster{Interface: api}
	made := create(t, api, brokers, broker)
	flow := create(t, api, v1alpha1.Resource(), fmt.Sprintf(orders, made.GetUID()))
	own := fmt.Sprintf(`{"metadata":{"annotations":{"claim.flow.waybill.dev/%s":"Retain shop/orders"}}}`, flow.GetUID())
	if _, err := api.Resource(brokers).Namespace("shop").Patch(t.Context(), "default", "application/merge-patch+json", []byte(own), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, api, subscriptions, `{apiVersion: messaging.knative.dev/v1, kind: Subscription, metadata: {name: ef-1, namespace: kyma-integration}}`)

	got, err := Get(t.Context(), cluster, "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	const message = "Broker shop/default is not ready"
	combined := Combined{"Failed", "BrokerNotReady", message}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Flow{Namespace: "shop", Name: "orders", CreatedAt: got.CreatedAt, Source: "commerce", SinkURI: "http://broker.example/shop/default",
		Ready: "False", Reason: "BrokerNotReady", Message: message,
		Combined:   combined,
		Conditions: []Condition{{"Ready", "False", "BrokerNotReady", message, since}, {"SinkReady", "False", "BrokerNotReady", message, since}},
		Parts: []Part{
			{Role: "source", Kind: "HTTPSource", Namespace: "kyma-integration", Name: "commerce"},
			{Role: "channel", Kind: "Channel", Namespace: "kyma-integration", Name: "commerce"},
			{Role: "subscription", Kind: "Subscription", Namespace: "kyma-integration", Name: "ef-1", State: "replaced"},
			{Role: "broker", Kind: "Broker", Namespace: "shop", Name: "default", Managed: true,
				Claims: []Claim{{UID: "u3"}, {"shop/orders", string(flow.GetUID()), "Retain"}, {"shop/returns", "u2", "WhenUnused"}}},
		},
		Neighbours: []string{"shop/returns"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.CreatedAt.IsZero() {
		t.Error("it has no time of creation")
	}
}

// TestAConditionOfAnEarlierGenerationDoesNotCount in a list or alone.
func TestAConditionOfAnEarlierGenerationDoesNotCount(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, kinds()...)
	cluster := &kube.Cluster{Interface: api}
	create(t, api, v1alpha1.Resource(), fmt.Sprintf(provisioned, "a"))
	change := []byte(`{"spec":{"meshPolicy":"PermissiveMetrics"}}`)
	_, err := api.Resource(v1alpha1.Resource()).Namespace("shop").Patch(t.Context(), "event-flow-a", "application/merge-patch+json", change, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := List(t.Context(), cluster, "")
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	one, err := Get(t.Context(), cluster, "shop", "event-flow-a")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Flow{all[0], one} {
		want := Condition{Type: "Ready", Status: "Unknown", Reason: "Pending", Message: "the role flow has not handled it yet"}
		if diff := cmp.Diff(want, f.AsCondition()); diff != "" || f.Combined.Status != "Provisioning" {
			t.Errorf("%s together, alone %s", f.Combined.Status, diff)
		}
	}
}

func TestPartsThatCannotBeReadAreStates(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, kinds()...)
	create(t, api, v1alpha1.Resource(), fmt.Sprintf(orders, "u"))
	api.Before(func(r kubetest.Request) error {
		if r.Resource == "subscriptions" {
			return apierrors.NewForbidden(subscriptions.GroupResource(), r.Name, errors.New("no right"))
		}
		return nil
	})
	got, err := Get(t.Context(), &kube.Cluster{Interface: api}, "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	if state := got.Parts[2].State; !strings.HasPrefix(state, "may not be read: ") {
		t.Errorf("the Subscription is %q", state)
	}
	if state := got.Parts[3].State; state != "gone" {
		t.Errorf("the Broker is %q", state)
	}
}

func TestFlowsAreListedInTheirOrder(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, kinds()...)
	cluster := &kube.Cluster{Interface: api}
	for _, at := range []string{"shop/b", "a/z", "shop/a"} {
		namespace, name, _ := strings.Cut(at, "/")
		create(t, api, v1alpha1.Resource(), fmt.Sprintf(`{apiVersion: flow.waybill.dev/v1alpha1, kind: EventFlow, metadata: {name: %s, namespace: %s},
			spec: {source: {ref: {apiVersion: v1, kind: Thing, name: t, namespace: other}}, suspend: true}}`, name, namespace))
	}
	create(t, api, v1alpha1.Resource(), `{apiVersion: flow.waybill.dev/v1alpha1, kind: EventFlow, metadata: {name: odd, namespace: shop}, spec: {suspend: 7}}`)
	all, err := List(t.Context(), cluster, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range all {
		names = append(names, f.Namespace+"/"+f.Name)
	}
	if diff := cmp.Diff([]string{"a/z", "shop/a", "shop/b", "shop/odd"}, names); diff != "" {
		t.Fatal(diff)
	}
	if f := all[0]; f.Source != "Thing other/t" || f.Ready != "Unknown" || !f.Suspended || f.Parts != nil || f.Conditions != nil {
		t.Errorf("listed as %+v", f)
	}
	if !strings.Contains(all[3].Message, "does not have the form of an EventFlow") {
		t.Errorf("a malformed flow is listed as %+v", all[3])
	}
	some, err := List(t.Context(), cluster, "a")
	if err != nil || len(some) != 1 {
		t.Errorf("of one namespace: got %v, %v", some, err)
	}
}

func TestErrorsOfTheClusterHaveCodes(t *testing.T) {
	t.Parallel()
	flows := v1alpha1.Resource().GroupResource()
	for name, c := range map[string]struct {
		err  error
		code fault.Code
		text string
	}{
		"not installed": {apierrors.NewGenericServerResponse(404, "get", flows, "orders", "404 page not found", 0, true), fault.NotFound,
			"does not have the kind EventFlow"},
		"forbidden":    {apierrors.NewForbidden(flows, "orders", nil), fault.Refused, "forbidden"},
		"unknown user": {apierrors.NewUnauthorized("who"), fault.Refused, "who"},
		"down":         {errors.New("connection refused"), fault.Unavailable, "connection refused"},
	} {
		api := kubetest.New(t, kinds()...)
		api.Before(func(kubetest.Request) error { return c.err })
		cluster := &kube.Cluster{Interface: api}
		if _, err := List(t.Context(), cluster, ""); !fault.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: list: %v", name, err)
		}
		if _, err := Get(t.Context(), cluster, "shop", "orders"); !fault.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: get: %v", name, err)
		}
	}
}

// TestNamesThatNoFlowCanHaveAreNotFound, without a request.
func TestNamesThatNoFlowCanHaveAreNotFound(t *testing.T) {
	t.Parallel()
	cluster, _ := serve(t, kinds()...)
	for _, at := range [][2]string{{"shop", "a/b"}, {"shop", "50%"}, {"shop", ""}, {"a/b", "orders"}, {"..", "orders"}, {"shop", "."}} {
		if _, err := Get(t.Context(), cluster, at[0], at[1]); !fault.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", at, err)
		}
	}
	if _, err := List(t.Context(), cluster, "a/b"); !fault.Is(err, fault.Invalid) {
		t.Errorf("list: %v", err)
	}
}

// serve returns a client of an API server.
func serve(t *testing.T, kinds ...kubetest.Kind) (*kube.Cluster, *kubetest.API) {
	t.Helper()
	api := kubetest.New(t, kinds...)
	server := kubetest.ListenServer(api)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(server.Address(), "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	return cluster, api
}

// TestPartsAreReadInTheServedVersion of their kinds. One whose kind is not served has a state.
func TestPartsAreReadInTheServedVersion(t *testing.T) {
	t.Parallel()
	beta := brokers.GroupResource().WithVersion("v1beta1")
	cluster, api := serve(t, kubetest.Kind{GroupVersionResource: v1alpha1.Resource(), Kind: v1alpha1.Kind}, kubetest.Kind{GroupVersionResource: beta, Kind: "Broker"})
	made := create(t, api, beta, strings.ReplaceAll(broker, "dev/v1", "dev/v1beta1"))
	create(t, api, v1alpha1.Resource(), fmt.Sprintf(orders, made.GetUID()))
	got, err := Get(t.Context(), cluster, "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	if b := got.Parts[3]; b.State != "" || !b.Managed || len(b.Claims) != 2 {
		t.Errorf("the Broker: %+v", b)
	}
	if state := got.Parts[2].State; state != "the cluster does not have the kind Subscription of messaging.knative.dev" {
		t.Errorf("the Subscription is %q", state)
	}
}

// TestAnAnswerIsReadOnceInTwoSeconds: also an error, and for readers at the same moment.
func TestAnAnswerIsReadOnceInTwoSeconds(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		reads := 0
		a := newAnswer[int]()
		ask := func() (int, error) {
			return a.get(t.Context(), func(context.Context) (int, error) {
				reads++
				<-time.After(time.Second) // by the clock of the bubble
				return reads, errors.New("away")
			})
		}
		for range 10 {
			go func() { _, _ = ask() }()
		}
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		if n, err := ask(); n != 1 || err == nil || reads != 1 {
			t.Errorf("got %d, %v after %d reads", n, err, reads)
		}
		<-time.After(fresh)
		if n, _ := ask(); n != 2 {
			t.Errorf("got the answer of read %d after two seconds", n)
		}
	})
}

// TestTheReaderThatLeavesEndsNoRead: others wait for the same answer.
func TestTheReaderThatLeavesEndsNoRead(t *testing.T) {
	t.Parallel()
	reader, leave := context.WithCancel(t.Context())
	a := newAnswer[string]()
	read := func(ctx context.Context) (string, error) {
		leave()
		waiter, give := context.WithCancel(t.Context())
		give()
		if _, err := a.get(waiter, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that leaves gets %v", err)
		}
		return "read", ctx.Err()
	}
	if got, err := a.get(reader, read); got != "read" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestACacheKeepsABoundedNumberOfAnswers(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, kinds()...)
	create(t, api, v1alpha1.Resource(), fmt.Sprintf(orders, "u"))
	c := NewCache(&kube.Cluster{Interface: api})
	requests := 0
	api.Before(func(kubetest.Request) error { requests++; return nil })
	for range 3 {
		if f, err := c.Get(t.Context(), "shop", "orders"); err != nil || f.Name != "orders" {
			t.Fatalf("got %+v, %v", f, err)
		}
		if all, err := c.List(t.Context()); err != nil || len(all) != 1 {
			t.Fatalf("got %v, %v", all, err)
		}
	}
	if requests > 12 { // 6 in two seconds, for the flows, a flow and its Broker, Subscription and kinds of platforms
		t.Errorf("%d requests", requests)
	}
	for i := range mostAnswers + 10 {
		c.answerOf([2]string{"shop", fmt.Sprint(i)})
	}
	if len(c.shown) > mostAnswers {
		t.Errorf("%d answers are kept", len(c.shown))
	}
}
