package flow_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

// The states of objects in tables.
const (
	ready    = `status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}`
	notReady = `status: {observedGeneration: 1, conditions: [{type: Ready, status: "False", reason: Broken, message: "see http://x/?key=s3cret"}]}`
	unsure   = `status: {observedGeneration: 1, conditions: [{type: Ready, status: "Unknown"}]}`
	stale    = `status: {observedGeneration: 0, conditions: [{type: Ready, status: "True"}]}`
)

// object returns an object of the generation 1; one with the state "deleting" is being deleted.
func object(t *testing.T, kind, name, state string) *flow.Object {
	t.Helper()
	deletion := ""
	if state == "deleting" {
		deletion, state = `, deletionTimestamp: "2026-01-02T03:04:05Z"`, ready
	}
	namespace, name, _ := strings.Cut(name, "/")
	return decode(t, "{"+kind+", metadata: {generation: 1, uid: u-"+name+", namespace: "+namespace+", name: "+name+deletion+"}, "+state+"}")
}

const (
	channelKind = `apiVersion: messaging.knative.dev/v1, kind: Channel`
	httpSource  = `apiVersion: sources.kyma-project.io/v1alpha1, kind: HTTPSource`
	pingSource  = `apiVersion: sources.knative.dev/v1, kind: PingSource`
)

// seen returns an object as a pass finds it; an absent one has a name too.
func seen(t *testing.T, kind, name, state string) flow.Seen {
	t.Helper()
	found := flow.Seen{Object: object(t, kind, name, state)}
	found.Ref = found.Object.Ref()
	switch state {
	case "":
		found.Object, found.Absence = nil, flow.NotFound
	case "uninstalled":
		found.Object, found.Absence = nil, flow.NotInstalled
	case "refused":
		found.Object, found.Absence, found.Why = nil, flow.NotAllowed, "no grant for it"
	}
	return found
}

// verdict is an expected part.
type verdict struct {
	status metav1.ConditionStatus
	reason string
	text   string // contained in the message
}

func (v verdict) check(t *testing.T, name string, got flow.Part) {
	t.Helper()
	if got.Status != v.status || got.Reason != v.reason || !strings.Contains(got.Message, v.text) || strings.Contains(got.Message, "s3cret") {
		t.Errorf("%s: %s %s %q, want %s %s with %q", name, got.Status, got.Reason, got.Message, v.status, v.reason, v.text)
	}
	if (got.Message == "") != (got.Status == metav1.ConditionTrue) {
		t.Errorf("%s: %s has the message %q", name, got.Status, got.Message)
	}
}

// applicationTest is a state of the objects of an application: "" is absent, "uninstalled" has no kind.
type applicationTest struct {
	name, mapping, source string
	channels              []string
	want                  verdict
	channel               string // the name of the Channel that is used
	withdrawn             bool
}

func applicationTests() []applicationTest {
	one := []string{ready}
	return []applicationTest{
		{"all ready", ready, ready, one, verdict{"True", "SourceReady", ""}, "c0", false},
		{"without Kyma's kinds", "uninstalled", "uninstalled", one, verdict{"True", "SourceReady", ""}, "c0", false},
		{"nothing exists", "uninstalled", "uninstalled", nil, verdict{"False", "ChannelNotFound", "application-name=commerce"}, "", false},
		{"not mapped", "", ready, one, verdict{"False", "ApplicationNotMapped", "ApplicationMapping ns/commerce not found"}, "", true},
		{"not mapped and nothing else", "", "", nil, verdict{"False", "ApplicationNotMapped", ""}, "", true},
		{"unreadable mapping", "refused", ready, one, verdict{"False", "ReferenceNotAllowed", "no grant"}, "", true},
		{"mapping being deleted", "deleting", ready, one, verdict{"True", "SourceReady", ""}, "c0", false},
		{"no HTTPSource", ready, "", one, verdict{"False", "SourceNotFound", "HTTPSource ns/commerce not found"}, "c0", false},
		{"unreadable HTTPSource", ready, "refused", one, verdict{"False", "ReferenceNotAllowed", ""}, "c0", false},
		{"neither", ready, "", nil, verdict{"False", "SourceNotFound", ""}, "", false},
		{"no Channel", ready, ready, nil, verdict{"False", "ChannelNotFound", ""}, "", false},
		{"no Channel of a source that is not ready", ready, notReady, nil, verdict{"False", "ChannelNotFound", ""}, "", false},
		{"two Channels", ready, ready, []string{ready, ready}, verdict{"False", "ChannelAmbiguous", "ns/c0, ns/c1"}, "", false},
		{"one of two is being deleted", ready, ready, []string{"deleting", ready}, verdict{"True", "SourceReady", ""}, "c1", false},
		{"both are being deleted", ready, ready, []string{"deleting", "deleting"},
			verdict{"False", "SourceDeleting", "Channel ns/c0"}, "c0", false},
		{"Channel being deleted", ready, ready, []string{"deleting"}, verdict{"False", "SourceDeleting", "Channel ns/c0"}, "c0", false},
		{"Channel not ready", ready, ready, []string{notReady},
			verdict{"False", "SourceNotReady", "Channel ns/c0: Broken: see http://x/"}, "c0", false},
		{"Channel unknown", ready, ready, []string{unsure}, verdict{"Unknown", "SourceReadinessUnknown", "Channel ns/c0"}, "c0", false},
		{"Channel stale", ready, ready, []string{stale}, verdict{"Unknown", "SourceStale", "Channel ns/c0"}, "c0", false},
		{"HTTPSource being deleted", ready, "deleting", one, verdict{"False", "SourceDeleting", "HTTPSource ns/commerce"}, "c0", false},
		{"HTTPSource not ready", ready, notReady, one, verdict{"False", "SourceNotReady", "HTTPSource ns/commerce: Broken"}, "c0", false},
		{"HTTPSource unknown", ready, unsure, one, verdict{"Unknown", "SourceReadinessUnknown", "HTTPSource"}, "c0", false},
		{"HTTPSource stale", ready, stale, one, verdict{"Unknown", "SourceStale", "HTTPSource"}, "c0", false},
		{"Channel is worse", ready, unsure, []string{notReady}, verdict{"False", "SourceNotReady", "Channel"}, "c0", false},
		{"HTTPSource is worse", ready, notReady, []string{stale}, verdict{"False", "SourceNotReady", "HTTPSource"}, "c0", false},
		{"both are bad", ready, notReady, []string{notReady}, verdict{"False", "SourceNotReady", "HTTPSource"}, "c0", false},
	}
}

func TestSourceOfAnApplication(t *testing.T) {
	t.Parallel()
	for _, test := range applicationTests() {
		state := flow.SourceSeen{
			Spec:    v1alpha1.Source{Application: "commerce"},
			Mapping: seen(t, "kind: ApplicationMapping", "ns/commerce", test.mapping),
			Object:  seen(t, httpSource, "ns/commerce", test.source),
		}
		for i := len(test.channels) - 1; i >= 0; i-- { // the order must not count
			state.Channels = append(state.Channels, object(t, channelKind, "ns/c"+string(rune('0'+i)), test.channels[i]))
		}
		got := flow.JudgeSource(state)
		test.want.check(t, test.name, got.Part)
		channel := ""
		if got.Channel != nil {
			channel = got.Channel.Name
		}
		if channel != test.channel || got.Withdrawn != test.withdrawn || got.Direct || got.Type != v1alpha1.ConditionSource {
			t.Errorf("%s: channel %q, withdrawn %t, direct %t", test.name, channel, got.Withdrawn, got.Direct)
		}
		if test.withdrawn && got.Object != nil {
			t.Errorf("%s: a refused author learns of %s", test.name, got.Object.Ref())
		}
	}
}

func TestSourceOfAnApplicationNeedsTheKindChannel(t *testing.T) {
	t.Parallel()
	for absence, reason := range map[flow.Absence]string{
		flow.NotInstalled: "SourceKindNotInstalled", flow.NotAllowed: "ReferenceNotAllowed", flow.NotFound: "ChannelNotFound",
	} {
		got := flow.JudgeSource(flow.SourceSeen{
			Spec: v1alpha1.Source{Application: "commerce"}, Channel: flow.Seen{Absence: absence},
			Mapping: flow.Seen{Absence: flow.NotInstalled}, Object: flow.Seen{Absence: flow.NotInstalled},
		})
		verdict{"False", reason, "Channel"}.check(t, reason, got.Part)
	}
}

func TestManyAmbiguousChannelsAreNotAllNamed(t *testing.T) {
	t.Parallel()
	state := flow.SourceSeen{Spec: v1alpha1.Source{Application: "a"},
		Mapping: flow.Seen{Absence: flow.NotInstalled}, Object: flow.Seen{Absence: flow.NotInstalled}}
	state.Channels = slices.Repeat([]*flow.Object{object(t, channelKind, "ns/c", ready)}, 5000)
	if got := flow.JudgeSource(state); len(got.Message) > 1024 || !strings.HasSuffix(got.Message, "…") {
		t.Errorf("the message is %q", got.Message)
	}
}

// refTest is a state of the objects that source.ref and channelRef name.
type refTest struct {
	name, object  string
	channel       string // "": no channelRef
	subscribable  bool
	sink          bool
	want          verdict
	used          string // the name of the Channel that is used
	direct, taken bool   // taken: access is withdrawn
}

func TestSourceOfAReference(t *testing.T) {
	t.Parallel()
	yes := verdict{"True", "SourceReady", ""}
	tests := []refTest{
		{name: "Channel", object: ready, subscribable: true, want: yes, used: "o"},
		{name: "Channel not ready", object: notReady, subscribable: true, want: verdict{"False", "SourceNotReady", "Broken"}, used: "o"},
		{name: "Channel being deleted", object: "deleting", subscribable: true, want: verdict{"False", "SourceDeleting", ""}, used: "o"},
		{name: "Channel with a spec.sink", object: ready, subscribable: true, sink: true, want: yes, used: "o"},
		{name: "absent", object: "none", want: verdict{"False", "SourceNotFound", "PingSource ns/o not found"}},
		{name: "no kind", object: "uninstalled", want: verdict{"False", "SourceKindNotInstalled", "sources.knative.dev"}},
		{name: "refused", object: "refused", want: verdict{"False", "ReferenceNotAllowed", "no grant"}, taken: true},
		{name: "refused with a channel", object: "refused", channel: ready, want: verdict{"False", "ReferenceNotAllowed", ""}, taken: true},
		{name: "channel refused", object: ready, channel: "refused", want: verdict{"False", "ReferenceNotAllowed", ""}, taken: true},
		{name: "channel refused, object absent", object: "none", channel: "refused",
			want: verdict{"False", "ReferenceNotAllowed", ""}, taken: true},
		{name: "direct", object: ready, sink: true, want: yes, direct: true},
		{name: "direct and unknown", object: unsure, sink: true, want: verdict{"Unknown", "SourceReadinessUnknown", ""}, direct: true},
		{name: "neither", object: ready, want: verdict{"False", "ChannelRequired", "source.channelRef"}},
		{name: "neither and not ready", object: notReady, want: verdict{"False", "ChannelRequired", ""}},
		{name: "with channel", object: ready, channel: ready, want: yes, used: "c"},
		{name: "with channel and sink", object: ready, channel: ready, sink: true, want: yes, used: "c"},
		{name: "channel absent", object: ready, channel: "none", want: verdict{"False", "ChannelNotFound", "Channel ns/c not found"}},
		{name: "channel without kind", object: ready, channel: "uninstalled", want: verdict{"False", "SourceKindNotInstalled", "Channel"}},
		{name: "channel not ready", object: ready, channel: notReady, want: verdict{"False", "SourceNotReady", "Channel ns/c"}, used: "c"},
		{name: "channel being deleted", object: ready, channel: "deleting", want: verdict{"False", "SourceDeleting", "Channel"}, used: "c"},
		{name: "object stale", object: stale, channel: unsure, want: verdict{"Unknown", "SourceStale", "PingSource"}, used: "c"},
		{name: "object absent, channel used", object: "none", channel: ready, want: verdict{"False", "SourceNotFound", ""}, used: "c"},
		{name: "kind absent, channel used", object: "uninstalled", channel: ready,
			want: verdict{"False", "SourceKindNotInstalled", ""}, used: "c"},
	}
	for _, test := range tests {
		got := flow.JudgeSource(test.seen(t))
		test.want.check(t, test.name, got.Part)
		used := ""
		if got.Channel != nil {
			used = got.Channel.Name
		}
		if used != test.used || got.Direct != test.direct || got.Withdrawn != test.taken || got.Ref.Name != "o" {
			t.Errorf("%s: channel %q, direct %t, withdrawn %t, ref %s", test.name, used, got.Direct, got.Withdrawn, got.Ref)
		}
	}
}

func (test refTest) seen(t *testing.T) flow.SourceSeen {
	t.Helper()
	state := func(text string) string { return strings.TrimPrefix(text, "none") }
	s := flow.SourceSeen{
		Spec:         v1alpha1.Source{Ref: &v1alpha1.Reference{Name: "o"}},
		Object:       seen(t, pingSource, "ns/o", state(test.object)),
		Subscribable: test.subscribable,
	}
	if test.sink && s.Object.Object != nil {
		s.Object.Object.Spec = map[string]any{"sink": map[string]any{}}
	}
	if test.channel != "" {
		s.Spec.ChannelRef = &v1alpha1.ChannelReference{Name: "c"}
		s.Channel = seen(t, channelKind, "ns/c", state(test.channel))
	}
	if test.subscribable {
		s.Channel = s.Object
	}
	return s
}
