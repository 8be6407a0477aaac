package flow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

func retries(n int32) *v1alpha1.Delivery { return &v1alpha1.Delivery{Retry: &n} }

func TestDesiredBroker(t *testing.T) {
	t.Parallel()
	kind := gvk("eventing.knative.dev", "v1", "Broker")
	f := anEventFlow(false)
	want := fromYAML(t, `{apiVersion: eventing.knative.dev/v1, kind: Broker, metadata: {namespace: shop, name: default}}`)
	if diff := cmp.Diff(want.Object, flow.DesiredBroker(f, kind).Object); diff != "" {
		t.Error(diff)
	}
	f.Spec.Sink.Broker = &v1alpha1.BrokerSink{Name: "b", Class: "Kafka", Config: &v1alpha1.Reference{APIVersion: "v1", Kind: "ConfigMap",
		Name: "c"}}
	want = fromYAML(t, `
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {namespace: shop, name: b, annotations: {eventing.knative.dev/broker.class: Kafka}}
spec: {config: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: c}}`)
	if diff := cmp.Diff(want.Object, flow.DesiredBroker(f, kind).Object); diff != "" {
		t.Error(diff)
	}
	f.Spec.Sink.Broker.Config.Namespace = "knative-eventing"
	config := flow.DesiredBroker(f, kind).Object["spec"].(map[string]any)["config"].(map[string]any)
	if config["namespace"] != "knative-eventing" {
		t.Errorf("config is %v", config)
	}
}

func TestDesiredPolicyOpensThePort(t *testing.T) {
	t.Parallel()
	f := anEventFlow(true)
	f.Spec.Sink.Broker = &v1alpha1.BrokerSink{Name: "b"}
	got := flow.DesiredPolicy(f, gvk("security.istio.io", "v1beta1", "PeerAuthentication"))
	want := fromYAML(t, `
apiVersion: security.istio.io/v1beta1
kind: PeerAuthentication
metadata: {namespace: shop, name: b-broker}
spec: {selector: {matchLabels: {eventing.knative.dev/broker: b}}, portLevelMtls: {"9090": {mode: PERMISSIVE}}}`)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
	have := flow.Decode(got)
	if !flow.PolicyOpens(f, have) || flow.PolicyPatch(f, have) != nil {
		t.Error("the wanted policy does not open the port")
	}
}

func TestPolicyOpens(t *testing.T) {
	t.Parallel()
	const ours = `selector: {matchLabels: {eventing.knative.dev/broker: default}}`
	for spec, want := range map[string]bool{
		ours + `, portLevelMtls: {"9090": {mode: PERMISSIVE}}`:                       true,
		ours + `, portLevelMtls: {"9090": {mode: DISABLE}}`:                          true,
		ours + `, portLevelMtls: {"9090": {mode: STRICT}}, mtls: {mode: PERMISSIVE}`: false,
		ours + `, portLevelMtls: {"9090": {mode: UNSET}}, mtls: {mode: PERMISSIVE}`:  true,
		ours + `, portLevelMtls: {"9091": {mode: PERMISSIVE}}`:                       false,
		ours + `, mtls: {mode: PERMISSIVE}`:                                          true,
		ours + `, mtls: {mode: STRICT}`:                                              false,
		ours:                                                                         false,
		``:                                                                           false,
		`mtls: {mode: PERMISSIVE}`:                                                   true,
		`mtls: {mode: STRICT}, portLevelMtls: {"9090": {mode: PERMISSIVE}}`:          false,
		`portLevelMtls: {"9090": {mode: PERMISSIVE}}`:                                false,
		`selector: {matchLabels: {eventing.knative.dev/broker: x}}, mtls: {mode: DISABLE}`:             false,
		`selector: {matchLabels: {a: b}}, mtls: {mode: DISABLE}`:                                       false,
		`selector: {matchLabels: {a: b, eventing.knative.dev/broker: default}}, mtls: {mode: DISABLE}`: false,
		`selector: 7, portLevelMtls: 7`:                                                                false,
	} {
		o := object(t, "apiVersion: security.istio.io/v1, kind: PeerAuthentication", "shop/default-broker", "spec: {"+spec+"}")
		f := anEventFlow(true)
		if got := flow.PolicyOpens(f, o); got != want {
			t.Errorf("{%s}: %t, want %t", spec, got, want)
		}
		patch := flow.PolicyPatch(f, o)
		if (patch == nil) != want {
			t.Errorf("{%s}: patch %v", spec, patch)
		}
		if patch == nil {
			continue
		}
		if healed := apply(map[string]any{"spec": o.Spec}, patch); !flow.PolicyOpens(f, &flow.Object{Spec: healed["spec"].(map[string]any)}) {
			t.Errorf("{%s}: the patch makes %v", spec, healed)
		}
	}
	if flow.PolicyOpens(anEventFlow(true), nil) {
		t.Error("an absent policy opens the port")
	}
}

// apply applies a merge patch as RFC 7396 describes it.
func apply(target, patch map[string]any) map[string]any {
	result := map[string]any{}
	for name, value := range target {
		result[name] = value
	}
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(result, name)
		case map[string]any:
			old, _ := result[name].(map[string]any)
			result[name] = apply(old, value)
		default:
			result[name] = value
		}
	}
	return result
}

// wanted returns the Subscription to a Broker that a flow with a delivery wants, from a channel in a namespace.
func wanted(t *testing.T, f *v1alpha1.EventFlow, namespace string) flow.Connection {
	t.Helper()
	s := connected(t, "")
	channel := object(t, channelKind, namespace+"/c", ready)
	return flow.DesiredSubscription(f, flow.Wanted{Kind: gvk("messaging.knative.dev", "v1", "Subscription"), Channel: channel, Sink: s.Sink})
}

func TestDesiredSubscriptionAcrossNamespaces(t *testing.T) {
	t.Parallel()
	f := anEventFlow(false)
	f.Spec.Delivery = &v1alpha1.Delivery{Retry: retries(3).Retry, BackoffPolicy: "linear", BackoffDelay: "PT1S", Timeout: "PT2S",
		DeadLetterSink: &v1alpha1.Destination{URI: "http://dead"}}
	got := wanted(t, f, "kyma")
	want := fromYAML(t, `
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata:
  namespace: kyma
  name: ef-LINK
  labels: {flow.waybill.dev/link: LINK}
  annotations: {flow.waybill.dev/delivery: "backoffDelay,backoffPolicy,deadLetterSink,retry,timeout"}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}
  subscriber: {uri: http://host/shop}
  delivery: {backoffPolicy: linear, backoffDelay: PT1S, timeout: PT2S, deadLetterSink: {uri: http://dead}}`)
	want.SetName("ef-" + got.Link)
	want.SetLabels(map[string]string{v1alpha1.LinkLabel: got.Link})
	want.Object["spec"].(map[string]any)["delivery"].(map[string]any)["retry"] = int64(3)
	if diff := cmp.Diff(want.Object, got.Object.Object); diff != "" {
		t.Error(diff)
	}
	if got.Name != want.GetName() || len(got.Link) != 16 {
		t.Errorf("name %s, link %s", got.Name, got.Link)
	}
}

func TestDesiredSubscriptionInOneNamespaceNamesTheSink(t *testing.T) {
	t.Parallel()
	spec := wanted(t, anEventFlow(false), "shop").Object.Object["spec"]
	want := fromYAML(t, `
channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}
subscriber: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, namespace: shop, name: default}}`)
	if diff := cmp.Diff(any(want.Object), spec); diff != "" {
		t.Error(diff)
	}
}

func TestDesiredSubscriptionWaitsForAddresses(t *testing.T) {
	t.Parallel()
	s := connected(t, "")
	kind := gvk("messaging.knative.dev", "v1", "Subscription")
	f := anEventFlow(false)
	f.Spec.Delivery = &v1alpha1.Delivery{DeadLetterSink: &v1alpha1.Destination{Ref: &v1alpha1.Reference{APIVersion: "v1", Kind: "Service", Name: "s"}}}
	for name, test := range map[string]struct {
		sink flow.SinkPart
		dead *flow.Address
		want bool
	}{
		"no sink":        {flow.SinkPart{}, &flow.Address{URL: "http://dead"}, false},
		"no dead letter": {s.Sink, nil, false},
		"both":           {s.Sink, &flow.Address{URL: "http://dead", CACerts: "pem", Audience: "aud"}, true},
	} {
		got := flow.DesiredSubscription(f, flow.Wanted{Kind: kind, Channel: s.Source.Channel, Sink: test.sink, DeadLetter: test.dead})
		if (got.Object != nil) != test.want || got.Name != "ef-"+got.Link {
			t.Errorf("%s: %+v", name, got)
		}
		if test.want {
			delivery := got.Object.Object["spec"].(map[string]any)["delivery"]
			want := map[string]any{"deadLetterSink": map[string]any{"uri": "http://dead", "CACerts": "pem", "audience": "aud"}}
			if diff := cmp.Diff(any(want), delivery); diff != "" {
				t.Error(diff)
			}
		}
	}
	f.Namespace = "kyma" // the channel is there too: the dead-letter sink is a reference
	got := flow.DesiredSubscription(f, flow.Wanted{Kind: kind, Channel: s.Source.Channel, Sink: s.Sink})
	if got.Object == nil {
		t.Error("a dead-letter sink of the same namespace needs no address")
	}
}

func TestSubscriber(t *testing.T) {
	t.Parallel()
	service := flow.Ref{GroupVersionKind: gvk("", "v1", "Service"), Namespace: "shop", Name: "s"}
	ref := `ref: {apiVersion: v1, kind: Service, namespace: shop, name: s}`
	address := &flow.Address{Name: "tls", URL: "https://a/p?q", CACerts: "pem", Audience: "aud"}
	for _, test := range []struct {
		namespace string
		target    flow.Target
		address   *flow.Address
		want      string
	}{
		{"shop", flow.Target{Ref: service}, address, "{" + ref + "}"},
		{"shop", flow.Target{Ref: service}, nil, "{" + ref + "}"},
		{"shop", flow.Target{Ref: service, Path: "/p?q"}, address, `{` + ref + `, uri: "/p?q"}`},
		{"shop", flow.Target{Ref: service, Path: "p"}, address, `{` + ref + `, uri: /p}`},
		{"shop", flow.Target{Ref: service, Path: "//169.254.169.254/p"}, address, `{` + ref + `, uri: /169.254.169.254/p}`},
		{"shop", flow.Target{Ref: service, Address: "tls"}, address, `{uri: "https://a/p?q", CACerts: pem, audience: aud}`},
		{"kyma", flow.Target{Ref: service}, address, `{uri: "https://a/p?q", CACerts: pem, audience: aud}`},
		{"kyma", flow.Target{Ref: service}, &flow.Address{URL: "http://a"}, `{uri: http://a}`},
		{"kyma", flow.Target{Ref: service}, nil, ``},
		{"kyma", flow.Target{URI: "http://a?b"}, nil, `{uri: "http://a?b"}`},
	} {
		want := fromYAML(t, test.want).Object
		if diff := cmp.Diff(want, flow.Subscriber(test.namespace, test.target, test.address)); diff != "" {
			t.Errorf("%+v: %s", test, diff)
		}
	}
}

// mark is the record of the fields that flows have set.
func subscriptionWith(t *testing.T, spec, record string) *flow.Object {
	t.Helper()
	o := object(t, subscriptionKind, "kyma/ef", "spec: {"+spec+"}")
	o.ObjectMeta = metav1.ObjectMeta{UID: "u", Annotations: map[string]string{v1alpha1.DeliveryAnnotation: record}}
	return o
}

func TestSubscriptionPatch(t *testing.T) {
	t.Parallel()
	const (
		channel = `channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}`
		right   = channel + `, subscriber: {uri: http://host/shop}`
	)
	dead := &v1alpha1.Delivery{DeadLetterSink: &v1alpha1.Destination{URI: "http://dead"}}
	tests := []struct {
		name     string
		delivery *v1alpha1.Delivery
		have     string // the spec
		record   string
		want     string // the patch's spec; "": none
		conflict bool
	}{
		{"same", nil, right, "", "", false},
		{"same with delivery", retries(3), right + `, delivery: {retry: 3}`, "retry", "", false},
		{"other version of the channel", nil, `channel: {apiVersion: messaging.knative.dev/v1beta1, kind: Channel, name: c},
			subscriber: {uri: http://host/shop}`, "", "", false},
		{"other channel", nil, `channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: d}`, "", "", true},
		{"other kind of channel", nil, `channel: {apiVersion: messaging.knative.dev/v1, kind: InMemoryChannel, name: c}`, "", "", true},
		{"other group of channel", nil, `channel: {apiVersion: other/v1, kind: Channel, name: c}`, "", "", true},
		{"no channel", nil, ``, "", "", true},
		{"malformed", nil, channel + `, subscriber: 7, delivery: 7`, "", `subscriber: {uri: http://host/shop}`, false},
		{"no subscriber", nil, channel, "", `subscriber: {uri: http://host/shop}`, false},
		{"other address", nil, channel + `, subscriber: {uri: http://old}`, "", `subscriber: {uri: http://host/shop}`, false},
		{"address that lost its audience", nil, channel + `, subscriber: {uri: http://host/shop, audience: a, CACerts: b}`, "",
			`subscriber: {audience: null, CACerts: null}`, false},
		{"from reference to address", nil, channel + `, subscriber: {ref: {apiVersion: v1, kind: Service, name: s}}`, "",
			`subscriber: {ref: null, uri: http://host/shop}`, false},
		{"field of a webhook in the subscriber", nil, channel + `, subscriber: {uri: http://host/shop, extra: 1}`, "", "", false},
		{"reply of another", nil, right + `, reply: {uri: http://reply}`, "", "", false},
		{"added delivery", retries(3), right, "", `delivery: {retry: 3}`, false},
		{"changed delivery", retries(3), right + `, delivery: {retry: 5, timeout: PT1S}`, "retry", `delivery: {retry: 3}`, false},
		{"removed field", nil, right + `, delivery: {retry: 5}`, "retry", `delivery: {retry: null}`, false},
		{"one removed of two", retries(5), right + `, delivery: {retry: 5, timeout: PT1S}`, "retry,timeout", `delivery: {timeout: null}`, false},
		{"removed, and gone already", nil, right, "retry", "", false},
		{"default of a webhook", nil, right + `, delivery: {retry: 5, backoffPolicy: linear}`, "", "", false},
		{"default of a webhook beside a field", retries(5), right + `, delivery: {retry: 5, backoffPolicy: linear}`, "retry", "", false},
		{"record of a field that flows do not set", nil, right + `, delivery: {format: json}`, "format", "", false},
		{"dead-letter sink", dead, right, "", `delivery: {deadLetterSink: {uri: http://dead}}`, false},
		{"same dead-letter sink", dead, right + `, delivery: {deadLetterSink: {uri: http://dead}}`, "deadLetterSink", "", false},
		{"other dead-letter sink", dead, right + `, delivery: {deadLetterSink: {ref: {kind: Service, name: s}, audience: a}}`, "deadLetterSink",
			`delivery: {deadLetterSink: {uri: http://dead, ref: null, audience: null}}`, false},
		{"removed dead-letter sink", nil, right + `, delivery: {deadLetterSink: {uri: http://dead}}`, "deadLetterSink",
			`delivery: {deadLetterSink: null}`, false},
	}
	for _, test := range tests {
		f := anEventFlow(false)
		f.Spec.Delivery = test.delivery
		want := wanted(t, f, "kyma")
		have := subscriptionWith(t, test.have, test.record)
		patch, conflict := flow.SubscriptionPatch(have, want)
		if conflict != test.conflict || (patch == nil) != (test.want == "") {
			t.Errorf("%s: patch %v, conflict %t", test.name, patch, conflict)
			continue
		}
		if patch == nil {
			continue
		}
		if diff := cmp.Diff(any(fromYAML(t, "{"+test.want+"}").Object), patch["spec"], numbers()); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if got := flow.ChangesDelivery(patch); got != strings.HasPrefix(test.want, "delivery:") {
			t.Errorf("%s: changes the delivery: %t", test.name, got)
		}
		checkHealed(t, test.name, have, want, patch)
	}
}

// numbers has whole numbers of different types be the same.
func numbers() cmp.Option {
	return cmp.FilterValues(func(a, b any) bool {
		_, isInt := a.(int64)
		_, isFloat := b.(float64)
		_, isInt2 := b.(int64)
		_, isFloat2 := a.(float64)
		return isInt && isFloat || isInt2 && isFloat2
	}, cmp.Comparer(func(a, b any) bool { return asFloat(a) == asFloat(b) }))
}

func asFloat(value any) float64 {
	if n, ok := value.(int64); ok {
		return float64(n)
	}
	f, _ := value.(float64)
	return f
}

// checkHealed applies a patch: a second one must not be needed, and the record must name the fields that are set.
func checkHealed(t *testing.T, name string, have *flow.Object, want flow.Connection, patch map[string]any) {
	t.Helper()
	spec, _ := patch["spec"].(map[string]any)
	metadata, _ := patch["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if metadata["uid"] != "u" || annotations[v1alpha1.DeliveryAnnotation] != want.Object.GetAnnotations()[v1alpha1.DeliveryAnnotation] {
		t.Errorf("%s: metadata %v", name, metadata)
	}
	healed := &flow.Object{Spec: apply(have.Spec, spec)}
	healed.Annotations = want.Object.GetAnnotations()
	if again, conflict := flow.SubscriptionPatch(healed, want); again != nil || conflict {
		t.Errorf("%s: a second patch is needed: %v", name, again)
	}
}

func TestPatchOfAReferenceIgnoresItsVersion(t *testing.T) {
	t.Parallel()
	want := wanted(t, anEventFlow(false), "shop")
	const channel = `channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: c}`
	for ref, differs := range map[string]bool{
		`{apiVersion: eventing.knative.dev/v1, kind: Broker, namespace: shop, name: default}`:      false,
		`{apiVersion: eventing.knative.dev/v1beta1, kind: Broker, namespace: shop, name: default}`: false,
		`{apiVersion: eventing.knative.dev/v1, kind: Broker, name: default}`:                       false,
		`{apiVersion: eventing.knative.dev/v1, kind: Broker, namespace: other, name: default}`:     true,
		`{apiVersion: eventing.knative.dev/v1, kind: Broker, namespace: shop, name: b}`:            true,
	} {
		have := subscriptionWith(t, channel+", subscriber: {ref: "+ref+"}", "")
		if patch, _ := flow.SubscriptionPatch(have, want); (patch != nil) != differs {
			t.Errorf("%s: %v", ref, patch)
		}
	}
	have := subscriptionWith(t, channel+`, subscriber: {uri: http://a}`, "")
	patch, _ := flow.SubscriptionPatch(have, want)
	if patch == nil {
		t.Fatal("an address is not replaced by a reference")
	}
	checkHealed(t, "reference", have, want, patch)
	if patch, conflict := flow.SubscriptionPatch(have, flow.Connection{}); patch != nil || conflict {
		t.Error("nothing wanted is patched")
	}
}
