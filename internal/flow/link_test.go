package flow_test

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

// refs draws references whose fields are alike, so that they could be confused.
func refs() *rapid.Generator[flow.Ref] {
	word := rapid.SampledFrom([]string{"", "a", "b", "ab", "a,1:b", "1:a", "uri", "ref"})
	return rapid.Custom(func(t *rapid.T) flow.Ref {
		return flow.Ref{
			GroupVersionKind: schema.GroupVersionKind{Group: word.Draw(t, "group"), Kind: word.Draw(t, "kind")},
			Namespace:        word.Draw(t, "namespace"), Name: word.Draw(t, "name"),
		}
	})
}

func targets() *rapid.Generator[flow.Target] {
	word := rapid.SampledFrom([]string{"", "a", "ab", "/a", "b"})
	return rapid.Custom(func(t *rapid.T) flow.Target {
		if rapid.Bool().Draw(t, "uri") {
			return flow.Target{URI: rapid.SampledFrom([]string{"a", "ref", "http://a", "http://a/"}).Draw(t, "address")}
		}
		return flow.Target{Ref: refs().Draw(t, "ref"), Address: word.Draw(t, "address"), Path: word.Draw(t, "path")}
	})
}

func TestDifferentSubscribersNeverShareALink(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile("^[0-9a-f]{16}$")
	rapid.Check(t, func(t *rapid.T) {
		type end struct {
			channel flow.Ref
			sink    flow.Target
		}
		a := end{refs().Draw(t, "channel"), targets().Draw(t, "sink")}
		b := end{refs().Draw(t, "channel"), targets().Draw(t, "sink")}
		if rapid.Bool().Draw(t, "same channel") {
			b.channel = a.channel
		}
		first, second := flow.Link(a.channel, a.sink), flow.Link(b.channel, b.sink)
		if !form.MatchString(first) || (first == second) != (a == b) {
			t.Fatalf("links %s and %s of %+v and %+v", first, second, a, b)
		}
	})
}

func TestLinkDependsOnEachFieldButTheVersion(t *testing.T) {
	t.Parallel()
	ref := func(group, kind, namespace, name string) flow.Ref {
		return flow.Ref{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, Namespace: namespace, Name: name}
	}
	channel, sink := ref("g", "k", "ns", "n"), flow.Target{Ref: ref("h", "l", "ns", "m")}
	base := flow.Link(channel, sink)
	if base != "314369fbccf5496d" {
		t.Errorf("the link was 314369fbccf5496d and is %s: existing Subscriptions would not be found", base)
	}
	other := channel
	other.Version = "v1beta1"
	if flow.Link(other, sink) != base {
		t.Error("the version counts")
	}
	links := map[string]bool{base: true}
	for _, c := range []flow.Ref{ref("x", "k", "ns", "n"), ref("g", "x", "ns", "n"), ref("g", "k", "x", "n"), ref("g", "k", "ns", "x")} {
		links[flow.Link(c, sink)] = true
	}
	for _, s := range []flow.Target{
		{Ref: ref("x", "l", "ns", "m")}, {Ref: ref("h", "x", "ns", "m")}, {Ref: ref("h", "l", "x", "m")}, {Ref: ref("h", "l", "ns", "x")},
		{Ref: sink.Ref, Address: "a"}, {Ref: sink.Ref, Path: "a"}, {URI: "http://a"}, {URI: "http://a?b"},
	} {
		links[flow.Link(channel, s)] = true
	}
	if len(links) != 13 {
		t.Errorf("%d different links, want 13", len(links))
	}
	if got := flow.SubscriptionName(base); got != "ef-"+base {
		t.Error(got)
	}
}

func TestTargetOfASink(t *testing.T) {
	t.Parallel()
	for want, sink := range map[string]v1alpha1.Sink{
		"eventing.knative.dev Broker shop/default": {},
		"eventing.knative.dev Broker shop/other":   {Broker: &v1alpha1.BrokerSink{Name: "other"}},
		" Service shop/s":                          {Ref: &v1alpha1.SinkReference{Reference: v1alpha1.Reference{APIVersion: "v1", Kind: "Service", Name: "s"}}},
		"g.dev X far/s": {Ref: &v1alpha1.SinkReference{
			Reference: v1alpha1.Reference{APIVersion: "g.dev/v2", Kind: "X", Namespace: "far", Name: "s"}}},
		"a/b/c X shop/s": {Ref: &v1alpha1.SinkReference{Reference: v1alpha1.Reference{APIVersion: "a/b/c", Kind: "X", Name: "s"}}},
	} {
		got := flow.TargetOf(sink, "shop")
		if text := got.Ref.Group + " " + got.Ref.String(); text != want || got.URI != "" {
			t.Errorf("%+v is %q, want %q", sink, text, want)
		}
	}
	if got := flow.TargetOf(v1alpha1.Sink{URI: "http://a"}, "shop"); got != (flow.Target{URI: "http://a"}) {
		t.Errorf("%+v", got)
	}
	for namespace, want := range map[string]string{"": "Channel kyma/c", "far": "Channel far/c"} {
		got := flow.ChannelOf(v1alpha1.ChannelReference{Name: "c", Namespace: namespace}, "kyma")
		if got.String() != want || got.Group != "messaging.knative.dev" || got.Version != "v1" {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}
