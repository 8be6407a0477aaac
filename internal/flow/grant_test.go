package flow_test

import (
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

func TestGrants(t *testing.T) {
	t.Parallel()
	const from = `from: [{group: flow.waybill.dev, kind: EventFlow, namespace: shop}]`
	const to = `to: [{group: messaging.knative.dev, kind: Channel}]`
	to2 := flow.Ref{GroupVersionKind: gvk("messaging.knative.dev", "v1", "Channel"), Namespace: "kyma", Name: "c"}
	service := flow.Ref{GroupVersionKind: gvk("", "v1", "Service"), Namespace: "kyma", Name: "s"}
	for _, test := range []struct {
		name, namespace, spec string
		to                    flow.Ref
		want                  bool
	}{
		{"kind", "kyma", from + ", " + to, to2, true},
		{"name", "kyma", from + `, to: [{group: messaging.knative.dev, kind: Channel, name: c}]`, to2, true},
		{"empty name", "kyma", from + `, to: [{group: messaging.knative.dev, kind: Channel, name: ""}]`, to2, true},
		{"null name", "kyma", from + `, to: [{group: messaging.knative.dev, kind: Channel, name: null}]`, to2, true},
		{"core group", "kyma", from + `, to: [{group: "", kind: Service}]`, service, true},
		{"absent group", "kyma", from + `, to: [{kind: Service}]`, service, true},
		{"second entries", "kyma", `from: [{group: a}, {group: flow.waybill.dev, kind: EventFlow, namespace: shop}],
			to: [{group: messaging.knative.dev, kind: Channel, name: d}, {group: messaging.knative.dev, kind: Channel, name: c}]`, to2, true},
		{"other name", "kyma", from + `, to: [{group: messaging.knative.dev, kind: Channel, name: d}]`, to2, false},
		{"malformed name", "kyma", from + `, to: [{group: messaging.knative.dev, kind: Channel, name: 7}]`, to2, false},
		{"malformed group", "kyma", from + `, to: [{group: 7, kind: Service}]`, service, false},
		{"other kind", "kyma", from + ", " + to, service, false},
		{"other group", "kyma", from + `, to: [{group: "", kind: Channel}]`, to2, false},
		{"star is not a pattern", "kyma", from + `, to: [{group: "*", kind: "*"}]`, to2, false},
		{"nothing granted", "kyma", from, to2, false},
		{"no origin granted", "kyma", to, to2, false},
		{"other origin", "kyma", `from: [{group: flow.waybill.dev, kind: EventFlow, namespace: other}], ` + to, to2, false},
		{"origin without namespace", "kyma", `from: [{group: flow.waybill.dev, kind: EventFlow}], ` + to, to2, false},
		{"other kind of origin", "kyma", `from: [{group: flow.waybill.dev, kind: HTTPRoute, namespace: shop}], ` + to, to2, false},
		{"other group of origin", "kyma", `from: [{group: gateway.networking.k8s.io, kind: EventFlow, namespace: shop}], ` + to, to2, false},
		{"namespace of the flow", "shop", from + ", " + to, to2, false},
		{"malformed", "kyma", `from: 7, to: {a: b}`, to2, false},
		{"cluster-wide object", "", from + ", " + to, flow.Ref{GroupVersionKind: to2.GroupVersionKind, Name: "c"}, false},
	} {
		for _, version := range []string{"v1", "v1beta1", "v1alpha2"} {
			grant := object(t, "apiVersion: gateway.networking.k8s.io/"+version+", kind: ReferenceGrant", test.namespace+"/g", "spec: {"+test.spec+"}")
			if got := flow.Granted([]*flow.Object{nil, grant}, "shop", test.to); got != test.want {
				t.Errorf("%s, %s: %t, want %t", test.name, version, got, test.want)
			}
			grant.DeletionTimestamp = &grant.CreationTimestamp
			if flow.Granted([]*flow.Object{grant}, "shop", test.to) {
				t.Errorf("%s: a grant that is being deleted counts", test.name)
			}
		}
	}
	if flow.Granted(nil, "shop", to2) {
		t.Error("no grant allows")
	}
}

func TestFromAndToOfDifferentGrantsDoNotCombine(t *testing.T) {
	t.Parallel()
	const kind = "apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant"
	grants := []*flow.Object{
		object(t, kind, "kyma/a", "spec: {from: [{group: flow.waybill.dev, kind: EventFlow, namespace: shop}], to: [{kind: Secret}]}"),
		object(t, kind, "kyma/b", "spec: {from: [{group: flow.waybill.dev, kind: EventFlow, namespace: other}], to: [{kind: Service}]}"),
	}
	if flow.Granted(grants, "shop", flow.Ref{GroupVersionKind: gvk("", "v1", "Service"), Namespace: "kyma", Name: "s"}) {
		t.Error("two grants allow together")
	}
}

func TestAFlowNamesNamespaces(t *testing.T) {
	t.Parallel()
	ref := func(namespace string) *v1alpha1.Reference { return &v1alpha1.Reference{Namespace: namespace} }
	letters := &v1alpha1.Delivery{DeadLetterSink: &v1alpha1.Destination{Ref: ref("d")}}
	for _, test := range []struct {
		spec v1alpha1.EventFlowSpec
		want []string
	}{
		{v1alpha1.EventFlowSpec{}, []string{"shop"}},
		{v1alpha1.EventFlowSpec{Source: v1alpha1.Source{Application: "commerce"}}, []string{"shop", "kyma"}},
		{v1alpha1.EventFlowSpec{Source: v1alpha1.Source{Ref: ref("")}}, []string{"shop"}},
		{v1alpha1.EventFlowSpec{Source: v1alpha1.Source{Ref: ref("a"), ChannelRef: &v1alpha1.ChannelReference{Namespace: "b"}},
			Sink: v1alpha1.Sink{Ref: &v1alpha1.SinkReference{Reference: *ref("c")}}, Delivery: letters}, []string{"shop", "b", "a", "c", "d"}},
		{v1alpha1.EventFlowSpec{Delivery: &v1alpha1.Delivery{DeadLetterSink: &v1alpha1.Destination{URI: "http://x"}}}, []string{"shop"}},
	} {
		f := &v1alpha1.EventFlow{Spec: test.spec}
		f.Namespace = "shop"
		if got := flow.Namespaces(f, []string{"kyma"}); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.spec, got, test.want)
		}
	}
}
