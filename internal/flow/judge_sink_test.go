package flow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

const (
	brokerKind  = `apiVersion: eventing.knative.dev/v1, kind: Broker`
	knativeKind = `apiVersion: serving.knative.dev/v1, kind: Service`
	serviceKind = `apiVersion: v1, kind: Service`

	addressed = `status: {observedGeneration: 1, address: {url: http://host/shop}, conditions: [{type: Ready, status: "True"}]}`
	hostless  = `status: {observedGeneration: 1, address: {url: /path}, conditions: [{type: Ready, status: "True"}]}`
	unseen    = `status: {address: {url: http://host/shop}, conditions: [{type: Ready, status: "True"}]}`
)

// sinkTest is a state of a sink.
type sinkTest struct {
	name, state string
	claim       flow.ClaimState
	want        verdict
	address     string
}

func (test sinkTest) run(t *testing.T, kind string, spec v1alpha1.Sink) flow.SinkPart {
	t.Helper()
	got := flow.JudgeSink(flow.SinkSeen{Spec: spec, Object: seen(t, kind, "shop/default", test.state), Claim: test.claim, Error: "refusal"})
	test.want.check(t, test.name, got.Part)
	address := ""
	if got.Address != nil {
		address = got.Address.URL
	}
	if address != test.address || got.Type != v1alpha1.ConditionSink {
		t.Errorf("%s: address %q, want %q", test.name, address, test.address)
	}
	return got
}

func TestSinkThatIsABroker(t *testing.T) {
	t.Parallel()
	const host = "http://host/shop"
	spec := v1alpha1.Sink{Broker: &v1alpha1.BrokerSink{Name: "default", Provisioning: v1alpha1.Managed}}
	for _, test := range []sinkTest{
		{"ready", addressed, 0, verdict{"True", "SinkReady", ""}, host},
		{"absent", "", 0, verdict{"Unknown", "BrokerProvisioning", "being created"}, ""},
		{"no kind", "uninstalled", 0, verdict{"False", "BrokerKindNotInstalled", "eventing.knative.dev"}, ""},
		{"unreadable", "refused", 0, verdict{"False", "ReferenceNotAllowed", ""}, ""},
		{"not ready", notReady, 0, verdict{"False", "BrokerNotReady", "Broker shop/default: Broken"}, ""},
		{"unknown", unsure, 0, verdict{"Unknown", "BrokerProvisioning", ""}, ""},
		{"stale", stale, 0, verdict{"Unknown", "BrokerProvisioning", "earlier generation"}, ""},
		{"ready without an observed generation", unseen, 0, verdict{"Unknown", "BrokerProvisioning", ""}, host},
		{"ready without an address", ready, 0, verdict{"Unknown", "BrokerProvisioning", "no address"}, ""},
		{"without a host", hostless, 0, verdict{"False", "SinkNotAddressable", "no host"}, ""},
		{"being deleted", "deleting", 0, verdict{"False", "BrokerTerminating", ""}, ""},
		{"claim finds it terminating", addressed, flow.Terminating, verdict{"False", "BrokerTerminating", ""}, host},
		{"namespace terminates", "", flow.NamespaceTerminating, verdict{"False", "NamespaceTerminating", "refusal"}, ""},
		{"creation refused", "", flow.Rejected, verdict{"False", "ClaimRejected", "refusal"}, ""},
		{"claim refused", addressed, flow.Rejected, verdict{"False", "ClaimRejected", ""}, host},
		{"deletion before refusal", "deleting", flow.Rejected, verdict{"False", "BrokerTerminating", ""}, ""},
	} {
		test.run(t, brokerKind, spec)
	}
}

func TestSinkThatIsAnExistingBroker(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.Sink{Broker: &v1alpha1.BrokerSink{Name: "default", Provisioning: v1alpha1.Existing}}
	for _, test := range []sinkTest{
		{"ready", addressed, 0, verdict{"True", "SinkReady", ""}, "http://host/shop"},
		{"absent", "", 0, verdict{"False", "BrokerNotFound", "Broker shop/default not found"}, ""},
		{"unknown", unsure, 0, verdict{"Unknown", "SinkReadinessUnknown", ""}, ""},
		{"stale", stale, 0, verdict{"Unknown", "SinkReadinessUnknown", ""}, ""},
		{"not observed", unseen, 0, verdict{"Unknown", "SinkReadinessUnknown", ""}, "http://host/shop"},
		{"ready without an address", ready, 0, verdict{"Unknown", "SinkReadinessUnknown", ""}, ""},
		{"not ready", notReady, 0, verdict{"False", "BrokerNotReady", ""}, ""},
		{"being deleted", "deleting", 0, verdict{"False", "BrokerTerminating", ""}, ""},
	} {
		test.run(t, brokerKind, spec)
	}
}

func TestSinkThatIsAReference(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.Sink{Ref: &v1alpha1.SinkReference{}}
	for _, test := range []sinkTest{
		{"ready", addressed, 0, verdict{"True", "SinkReady", ""}, "http://host/shop"},
		{"ready, not observed", unseen, 0, verdict{"True", "SinkReady", ""}, "http://host/shop"},
		{"absent", "", 0, verdict{"False", "SinkNotFound", "not found"}, ""},
		{"no kind", "uninstalled", 0, verdict{"False", "SinkKindNotInstalled", ""}, ""},
		{"refused", "refused", 0, verdict{"False", "ReferenceNotAllowed", "no grant"}, ""},
		{"being deleted", "deleting", 0, verdict{"False", "SinkDeleting", ""}, ""},
		{"not ready", notReady, 0, verdict{"False", "SinkNotReady", "Broken"}, ""},
		{"unknown", unsure, 0, verdict{"Unknown", "SinkReadinessUnknown", ""}, ""},
		{"stale", stale, 0, verdict{"Unknown", "SinkReadinessUnknown", ""}, ""},
		{"without an address", ready, 0, verdict{"False", "SinkNotAddressable", "no address"}, ""},
		{"without a host", hostless, 0, verdict{"False", "SinkNotAddressable", "no host"}, ""},
		{"claim refused", addressed, flow.Rejected, verdict{"False", "ClaimRejected", ""}, "http://host/shop"},
		{"terminating", addressed, flow.Terminating, verdict{"False", "SinkDeleting", ""}, "http://host/shop"},
	} {
		got := test.run(t, knativeKind, spec)
		if got.Withdrawn != (test.state == "refused") {
			t.Errorf("%s: withdrawn %t", test.name, got.Withdrawn)
		}
	}
	for _, test := range []sinkTest{
		{"Broker, not observed", unseen, 0, verdict{"Unknown", "SinkReadinessUnknown", ""}, "http://host/shop"},
		{"Broker without an address", ready, 0, verdict{"False", "SinkNotAddressable", ""}, ""},
		{"Broker being deleted", "deleting", 0, verdict{"False", "SinkDeleting", ""}, ""},
	} {
		test.run(t, brokerKind, spec)
	}
}

func TestAddressesAreChosenByName(t *testing.T) {
	t.Parallel()
	const both = `status: {address: {url: http://main}, addresses: [{name: a, url: http://a}, {name: b, url: "https://b", CACerts: pem,
		audience: aud}], conditions: [{type: Ready, status: "True"}]}`
	const list = `status: {addresses: [{name: a, url: http://a}, {name: b, url: "https://b"}], conditions: [{type: Ready, status: "True"}]}`
	for _, test := range []struct{ state, name, want string }{
		{both, "", "http://main"}, {both, "a", "http://a"}, {both, "b", "https://b"}, {both, "c", ""},
		{list, "", "http://a"}, {list, "b", "https://b"}, {list, "c", ""},
	} {
		want := verdict{"True", "SinkReady", ""}
		if test.want == "" {
			want = verdict{"False", "SinkNotAddressable", "no address c"}
		}
		sinkTest{name: test.name, state: test.state, want: want, address: test.want}.run(t, knativeKind,
			v1alpha1.Sink{Ref: &v1alpha1.SinkReference{Address: test.name}})
	}
	got := flow.JudgeSink(flow.SinkSeen{Spec: v1alpha1.Sink{Ref: &v1alpha1.SinkReference{Address: "b"}},
		Object: seen(t, knativeKind, "ns/x", both)})
	if diff := cmp.Diff(&flow.Address{Name: "b", URL: "https://b", CACerts: "pem", Audience: "aud"}, got.Address); diff != "" {
		t.Error(diff)
	}
}

func TestServiceOfKubernetesHasTheAddressOfItsName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"": "http://default.shop.svc.cluster.local", "/a?b=c": "http://default.shop.svc.cluster.local/a?b=c",
		"a": "http://default.shop.svc.cluster.local/a", "///a/b": "http://default.shop.svc.cluster.local/a/b",
	} {
		sinkTest{name: path, state: "spec: {}", want: verdict{"True", "SinkReady", ""}, address: want}.run(t, serviceKind,
			v1alpha1.Sink{Ref: &v1alpha1.SinkReference{Path: path}})
	}
	sinkTest{name: "Knative's Service", state: ready, want: verdict{"False", "SinkNotAddressable", ""}}.run(t, knativeKind,
		v1alpha1.Sink{Ref: &v1alpha1.SinkReference{}})
}

func TestSinkThatIsAURI(t *testing.T) {
	t.Parallel()
	got := flow.JudgeSink(flow.SinkSeen{Spec: v1alpha1.Sink{URI: "https://host/p?key=k"}})
	verdict{"True", "SinkReady", ""}.check(t, "valid", got.Part)
	if got.Address == nil || got.Address.URL != "https://host/p?key=k" {
		t.Errorf("the address is %+v", got.Address)
	}
	got = flow.JudgeSink(flow.SinkSeen{Spec: v1alpha1.Sink{URI: "http://localhost/?key=s3cret"}})
	verdict{"False", "InvalidURI", "spec.sink.uri"}.check(t, "localhost", got.Part)
	if got.Address != nil || !got.Withdrawn {
		t.Errorf("the address is %+v; a Subscription that has it is released: %t", got.Address, got.Withdrawn)
	}
}

func TestManagedObjectIsUsedOnceItIsClaimed(t *testing.T) {
	t.Parallel()
	for claimed, want := range map[flow.ClaimState]bool{flow.Claimed: true, flow.Unclaimed: false, flow.Rejected: false, flow.Terminating: false} {
		broker := seen(t, brokerKind, "shop/default", addressed)
		broker.Object.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy}
		broker.Object.Annotations = map[string]string{v1alpha1.MadeForAnnotation: "u"}
		got := flow.JudgeSink(flow.SinkSeen{Spec: v1alpha1.Sink{Broker: &v1alpha1.BrokerSink{}}, Object: broker, Claim: claimed})
		if used := got.Object != nil && got.Address != nil; used != want || (got.Status == "True") != want {
			t.Errorf("claim %d: used %t, %s", claimed, used, got.Reason)
		}
	}
}
