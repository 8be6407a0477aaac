package flow_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

func TestStatusNamesTheObjects(t *testing.T) {
	t.Parallel()
	s := connected(t, ready)
	s.Source.Object = object(t, httpSource, "kyma/commerce", ready)
	s.Sink.Address = &flow.Address{URL: "http://u:s3cret@host/shop?key=s3cret#f"}
	got := flow.Status(flow.Found{Source: s.Source, Sink: s.Sink, Subscription: s.Object, Managed: true})
	want := v1alpha1.EventFlowStatus{
		SinkURI: "http://host/shop#f",
		Source: &v1alpha1.ObjectStatus{APIVersion: "sources.kyma-project.io/v1alpha1", Kind: "HTTPSource", Namespace: "kyma", Name: "commerce",
			UID: "u-commerce"},
		Channel:      &v1alpha1.ObjectStatus{Namespace: "kyma", Name: "c"},
		Broker:       &v1alpha1.BrokerStatus{Namespace: "shop", Name: "default", UID: "u-default", Managed: true},
		Subscription: &v1alpha1.ObjectStatus{Namespace: "kyma", Name: "ef", UID: "u-ef"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatusOfAFlowWithoutObjectsNamesItsSource(t *testing.T) {
	t.Parallel()
	source := flow.JudgeSource(flow.SourceSeen{Spec: v1alpha1.Source{Application: "commerce"},
		Mapping: flow.Seen{Absence: flow.NotInstalled}, Object: flow.Seen{Absence: flow.NotInstalled}})
	if diff := cmp.Diff(v1alpha1.EventFlowStatus{Source: &v1alpha1.ObjectStatus{Name: "commerce"}},
		flow.Status(flow.Found{Source: source})); diff != "" {
		t.Error(diff)
	}
	service := flow.SinkPart{Object: object(t, serviceKind, "shop/s", "spec: {}")}
	if got := flow.Status(flow.Found{Sink: service}); got.Broker != nil || got.Source != nil {
		t.Errorf("%+v", got)
	}
}

func TestSinkURIHasNoQuery(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"http://host": "http://host", "http://host/p?s3cret": "http://host/p", "http://host/?": "http://host/",
		"http://host/%zz?s3cret": "http://host/%zz", "https://u@host:8/p": "https://host:8/p",
	} {
		if got := flow.Status(flow.Found{Sink: flow.SinkPart{Address: &flow.Address{URL: uri}}}).SinkURI; got != want {
			t.Errorf("%s is shown as %s, want %s", uri, got, want)
		}
	}
}

func TestStatusesThatDifferInTimesAreTheSame(t *testing.T) {
	t.Parallel()
	with := func(change func(*v1alpha1.EventFlowStatus)) v1alpha1.EventFlowStatus {
		s := v1alpha1.EventFlowStatus{ObservedGeneration: 1, SinkURI: "http://a", Source: &v1alpha1.ObjectStatus{Name: "a"},
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: metav1.NewTime(start)}}}
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.EventFlowStatus)
		same   bool
	}{
		"nothing": {func(*v1alpha1.EventFlowStatus) {}, true},
		"time": {func(s *v1alpha1.EventFlowStatus) {
			s.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(time.Hour))
		}, true},
		"message":    {func(s *v1alpha1.EventFlowStatus) { s.Conditions[0].Message = "m" }, false},
		"status":     {func(s *v1alpha1.EventFlowStatus) { s.Conditions[0].Status = "False" }, false},
		"generation": {func(s *v1alpha1.EventFlowStatus) { s.ObservedGeneration = 2 }, false},
		"source":     {func(s *v1alpha1.EventFlowStatus) { s.Source = nil }, false},
		"sink":       {func(s *v1alpha1.EventFlowStatus) { s.SinkURI = "" }, false},
		"condition":  {func(s *v1alpha1.EventFlowStatus) { s.Conditions = nil }, false},
	} {
		was := with(func(*v1alpha1.EventFlowStatus) {})
		if got := flow.SameStatus(was, with(test.change)); got != test.same {
			t.Errorf("%s: %t, want %t", name, got, test.same)
		}
		if !was.Conditions[0].LastTransitionTime.Time.Equal(start) {
			t.Errorf("%s: the comparison has changed its argument", name)
		}
	}
	if !flow.SameStatus(v1alpha1.EventFlowStatus{}, v1alpha1.EventFlowStatus{Conditions: []metav1.Condition{}}) {
		t.Error("no conditions differ from none")
	}
}

func TestStatusPatchTurnsOneStatusIntoAnother(t *testing.T) {
	t.Parallel()
	objects := rapid.SampledFrom([]*v1alpha1.ObjectStatus{nil, {Name: "a"}, {Name: "a", UID: "u"}, {Namespace: "n", Name: "b", Kind: "k"}})
	statuses := rapid.Custom(func(t *rapid.T) v1alpha1.EventFlowStatus {
		s := v1alpha1.EventFlowStatus{ObservedGeneration: rapid.Int64Range(0, 2).Draw(t, "generation"),
			SinkURI: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "uri"), Source: objects.Draw(t, "source"),
			Channel: objects.Draw(t, "channel"), Subscription: objects.Draw(t, "subscription")}
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom(types), 0, 2).Draw(t, "conditions") {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, LastTransitionTime: metav1.NewTime(start)})
		}
		return s
	})
	fields := func(t *rapid.T, s any) (all map[string]any) {
		text, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		from, to := statuses.Draw(t, "from"), statuses.Draw(t, "to")
		patch, err := flow.StatusPatch(from, to)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fields(t, to), apply(fields(t, from), fields(t, patch))); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(fields(t, from), fields(t, to)); (diff == "") != (len(patch) == 0) {
			t.Fatalf("patch %v of %s", patch, diff)
		}
	})
}

func TestConditionOf(t *testing.T) {
	t.Parallel()
	s := v1alpha1.EventFlowStatus{Conditions: []metav1.Condition{{Type: "A"}, {Type: "B", Status: "True"}}}
	if flow.ConditionOf(s, "B").Status != "True" || flow.ConditionOf(s, "C") != (metav1.Condition{}) {
		t.Error("another condition is returned")
	}
}

// TestConditionsDependOnWhatExists has the states of one flow as its documentation shows them.
func TestConditionsDependOnWhatExists(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, channel, broker, subscription string
		want                                [4]string // Source, Sink, Subscription, Ready
	}{
		{"nothing exists", "", "", "",
			[4]string{"False ChannelNotFound", "Unknown BrokerProvisioning", "Unknown WaitingForChannel", "False ChannelNotFound"}},
		{"channel is not ready", notReady, addressed, unsure,
			[4]string{"False SourceNotReady", "True SinkReady", "Unknown SubscriptionProvisioning", "False SourceNotReady"}},
		{"broker has no address", ready, unsure, "",
			[4]string{"True SourceReady", "Unknown BrokerProvisioning", "Unknown WaitingForSink", "Unknown BrokerProvisioning"}},
		{"ingress fails", ready, `status: {observedGeneration: 1, address: {url: http://host/shop}, conditions: [{type: Ready, status: "False"}]}`,
			ready, [4]string{"True SourceReady", "False BrokerNotReady", "True SubscriptionReady", "False BrokerNotReady"}},
		{"all is well", ready, addressed, ready, [4]string{"True SourceReady", "True SinkReady", "True SubscriptionReady", "True Ready"}},
	} {
		source := flow.SourceSeen{Spec: v1alpha1.Source{Application: "commerce"},
			Mapping: flow.Seen{Absence: flow.NotInstalled}, Object: flow.Seen{Absence: flow.NotInstalled}}
		if test.channel != "" {
			source.Channels = []*flow.Object{object(t, channelKind, "kyma/c", test.channel)}
		}
		s := flow.SubscriptionSeen{Installed: true, Source: flow.JudgeSource(source), Sink: flow.JudgeSink(flow.SinkSeen{
			Spec: v1alpha1.Sink{Broker: &v1alpha1.BrokerSink{}}, Object: seen(t, brokerKind, "shop/default", test.broker)})}
		if test.subscription != "" {
			s.Object = object(t, subscriptionKind, "kyma/ef", test.subscription)
		}
		got := flow.Conditions(anEventFlow(false), []flow.Part{s.Source.Part, s.Sink.Part, flow.JudgeSubscription(s)}, start)
		status := v1alpha1.EventFlowStatus{Conditions: got}
		for i, kind := range []string{"SourceReady", "SinkReady", "SubscriptionReady", "Ready"} {
			c := flow.ConditionOf(status, kind)
			if has := string(c.Status) + " " + c.Reason; has != test.want[i] {
				t.Errorf("%s: %s is %s, want %s", test.name, kind, has, test.want[i])
			}
		}
	}
}
