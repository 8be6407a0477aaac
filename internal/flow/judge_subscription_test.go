package flow_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

const subscriptionKind = `apiVersion: messaging.knative.dev/v1, kind: Subscription`

// connected returns the state in which a flow from a channel in kyma to a Broker in shop has a Subscription in a state.
func connected(t *testing.T, state string) flow.SubscriptionSeen {
	t.Helper()
	channel, broker := object(t, channelKind, "kyma/c", ready), object(t, brokerKind, "shop/default", addressed)
	s := flow.SubscriptionSeen{
		Installed: true,
		Source:    flow.SourcePart{Part: flow.Part{Message: "why the source waits"}, Channel: channel, Object: channel},
		Sink: flow.SinkPart{Part: flow.Part{Message: "why the sink waits"}, Ref: broker.Ref(), Object: broker,
			Address: &broker.Addresses[0]},
	}
	if state != "" {
		s.Object = object(t, subscriptionKind, "kyma/ef", state)
	}
	return s
}

func TestSubscription(t *testing.T) {
	t.Parallel()
	other := flow.Ref{Namespace: "shop", Name: "returns"}
	other.Kind = "EventFlow"
	absent := flow.SinkPart{Part: flow.Part{Message: "not found"}}
	letters := func(uri string, sink flow.SinkPart) func(*flow.SubscriptionSeen) {
		return func(s *flow.SubscriptionSeen) { s.DeadLetter = flow.DeadLetter(v1alpha1.Destination{URI: uri}, sink) }
	}
	tests := []struct {
		name, state string
		change      func(*flow.SubscriptionSeen)
		want        verdict
	}{
		{"ready", ready, nil, verdict{"True", "SubscriptionReady", ""}},
		{"absent", "", nil, verdict{"Unknown", "SubscriptionProvisioning", "being created"}},
		{"unknown", unsure, nil, verdict{"Unknown", "SubscriptionProvisioning", ""}},
		{"stale", stale, nil, verdict{"Unknown", "SubscriptionStale", ""}},
		{"not ready", notReady, nil, verdict{"False", "SubscriptionNotReady", "Subscription kyma/ef: Broken: see http://x/"}},
		{"being deleted", "deleting", nil, verdict{"False", "SubscriptionDeleting", ""}},
		{"no channel", "", func(s *flow.SubscriptionSeen) { s.Source.Channel = nil },
			verdict{"Unknown", "WaitingForChannel", "why the source waits"}},
		{"channel gone", ready, func(s *flow.SubscriptionSeen) { s.Source.Channel = nil }, verdict{"Unknown", "WaitingForChannel", ""}},
		{"source withdrawn", ready, func(s *flow.SubscriptionSeen) { s.Source.Withdrawn = true }, verdict{"Unknown", "WaitingForChannel", ""}},
		{"sink withdrawn", ready, func(s *flow.SubscriptionSeen) { s.Sink.Withdrawn = true },
			verdict{"Unknown", "WaitingForSink", "why the sink waits"}},
		{"neither channel nor sink", "", func(s *flow.SubscriptionSeen) { s.Source.Channel, s.Sink.Address = nil, nil },
			verdict{"Unknown", "WaitingForChannel", ""}},
		{"sink without address", "", func(s *flow.SubscriptionSeen) { s.Sink.Address = nil }, verdict{"Unknown", "WaitingForSink", ""}},
		{"sink lost its address", ready, func(s *flow.SubscriptionSeen) { s.Sink.Address = nil }, verdict{"True", "SubscriptionReady", ""}},
		{"sink lost its address, not ready", notReady, func(s *flow.SubscriptionSeen) { s.Sink.Address = nil },
			verdict{"False", "SubscriptionNotReady", ""}},
		{"no kind", "", func(s *flow.SubscriptionSeen) { s.Installed = false }, verdict{"False", "SubscriptionKindNotInstalled", ""}},
		{"no kind and no channel", "", func(s *flow.SubscriptionSeen) { s.Installed, s.Source.Channel = false, nil },
			verdict{"False", "SubscriptionKindNotInstalled", ""}},
		{"rejected", "", func(s *flow.SubscriptionSeen) { s.Rejected = "no, see http://x?s3cret" },
			verdict{"False", "SubscriptionRejected", "no, see http://x"}},
		{"patch rejected", ready, func(s *flow.SubscriptionSeen) { s.Rejected = "no" }, verdict{"False", "SubscriptionRejected", "no"}},
		{"foreign name", "", func(s *flow.SubscriptionSeen) { s.Conflict = object(t, subscriptionKind, "kyma/ef-1", ready) },
			verdict{"False", "SubscriptionConflict", "Subscription kyma/ef-1"}},
		{"delivery of another flow", ready, func(s *flow.SubscriptionSeen) { s.DecidedBy = &other },
			verdict{"False", "DeliveryConflict", "EventFlow shop/returns"}},
		{"delivery of another flow, being deleted", "deleting", func(s *flow.SubscriptionSeen) { s.DecidedBy = &other },
			verdict{"False", "SubscriptionDeleting", ""}},
		{"dead-letter sink refused", ready, func(s *flow.SubscriptionSeen) {
			s.DeadLetter = flow.DeadLetter(v1alpha1.Destination{}, flow.SinkPart{Part: flow.Part{Message: "no grant"}, Withdrawn: true})
		}, verdict{"False", "ReferenceNotAllowed", "deadLetterSink: no grant"}},
		{"dead-letter sink of this machine", ready, letters("http://[::1]/?s3cret", flow.SinkPart{}),
			verdict{"False", "InvalidURI", "deadLetterSink.uri: host ::1"}},
		{"good dead-letter sink", ready, letters("http://host", flow.SinkPart{}), verdict{"True", "SubscriptionReady", ""}},
		{"dead-letter sink without address, new", "", letters("", absent), verdict{"Unknown", "WaitingForSink", "deadLetterSink: not found"}},
		{"dead-letter sink without address", ready, letters("", absent), verdict{"Unknown", "WaitingForSink", "deadLetterSink: not found"}},
		{"dead-letter sink without address, not ready", notReady, letters("", absent), verdict{"False", "SubscriptionNotReady", ""}},
		{"dead-letter sink with address", ready, letters("", flow.SinkPart{Address: &flow.Address{}}), verdict{"True", "SubscriptionReady", ""}},
	}
	for _, test := range tests {
		s := connected(t, test.state)
		if test.change != nil {
			test.change(&s)
		}
		test.want.check(t, test.name, flow.JudgeSubscription(s))
	}
}

// direct returns the state of a flow whose source has a sink of its own.
func direct(t *testing.T, sink string) flow.SubscriptionSeen {
	t.Helper()
	s := connected(t, "")
	s.Installed = false
	s.Source = flow.SourcePart{Direct: true, Object: object(t, pingSource, "shop/ping", "spec: {sink: "+sink+"}, status: {sinkUri: http://elsewhere/}")}
	return s
}

func TestDirectSourceMatchesTheSink(t *testing.T) {
	t.Parallel()
	yes, no := verdict{"True", "DirectSource", ""}, verdict{"False", "SinkMismatch", "PingSource shop/ping sends to "}
	for sink, want := range map[string]verdict{
		`{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default}}`:                   yes,
		`{ref: {apiVersion: eventing.knative.dev/v1beta1, kind: Broker, name: default}}`:              yes,
		`{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, namespace: shop, name: default}}`:  yes,
		`{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, namespace: other, name: default}}`: no,
		`{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: second}}`:                    no,
		`{ref: {apiVersion: eventing.knative.dev/v1, kind: Trigger, name: default}}`:                  no,
		`{ref: {apiVersion: other.dev/v1, kind: Broker, name: default}}`:                              no,
		`{ref: {apiVersion: v1, kind: Broker, name: default}}`:                                        no,
		`{ref: {apiVersion: a/b/c, kind: Broker, name: default}}`:                                     no,
		`{ref: {kind: Broker, group: eventing.knative.dev, name: default}}`:                           yes,
		`{ref: 7}`: no, `{}`: no, `7`: no, `{uri: http://host/shop}`: no,
	} {
		want.check(t, sink, flow.JudgeSubscription(direct(t, sink)))
	}
}

func TestDirectSourceMatchesTheAddress(t *testing.T) {
	t.Parallel()
	s := direct(t, "{uri: http://host/shop}")
	s.Source.Object.SinkURI = "http://host/shop"
	verdict{"True", "DirectSource", ""}.check(t, "same address", flow.JudgeSubscription(s))
	s.Source.Object.SinkURI = "http://host/other?key=s3cret"
	verdict{"False", "SinkMismatch", "http://host/other,"}.check(t, "other address", flow.JudgeSubscription(s))
	s.Source.Object.SinkURI, s.Sink.Address = "", nil
	verdict{"False", "SinkMismatch", "no known sink"}.check(t, "neither has an address", flow.JudgeSubscription(s))
	s.Sink = flow.SinkPart{Address: &flow.Address{URL: "http://other"}}
	verdict{"False", "SinkMismatch", ""}.check(t, "URI", flow.JudgeSubscription(s))
	s.Sink.Withdrawn = true
	verdict{"Unknown", "WaitingForSink", ""}.check(t, "sink withdrawn", withMessage(s))
}

func withMessage(s flow.SubscriptionSeen) flow.Part {
	s.Sink.Message = "why"
	return flow.JudgeSubscription(s)
}

// policy returns an EventPolicy that admits senders.
func policy(t *testing.T, name, spec, state string, from ...string) *flow.Object {
	t.Helper()
	p := object(t, "apiVersion: eventing.knative.dev/v1alpha1, kind: EventPolicy, "+spec, name, state)
	p.From = from
	return p
}

func TestSinkThatAuthenticatesItsSendersMustAdmitTheSubscription(t *testing.T) {
	t.Parallel()
	const subject = "system:serviceaccount:kyma:ef-oidc"
	tests := []struct {
		name     string
		admitted bool
		policies []*flow.Object
		change   func(*flow.SubscriptionSeen)
	}{
		{"none", false, nil, nil},
		{"exact", true, []*flow.Object{policy(t, "shop/p", "spec: {}", ready, subject)}, nil},
		{"second of two", true, []*flow.Object{policy(t, "shop/q", "spec: {}", ready), policy(t, "shop/p", "spec: {}", ready, "a", subject)}, nil},
		{"pattern", true, []*flow.Object{policy(t, "shop/p", "spec: {}", ready, "system:serviceaccount:kyma:*")}, nil},
		{"every subject", true, []*flow.Object{policy(t, "shop/p", "spec: {}", ready, "*")}, nil},
		{"other", false, []*flow.Object{policy(t, "shop/p", "spec: {}", ready, subject+"2", "system:serviceaccount:kyma:")}, nil},
		{"star inside", false, []*flow.Object{policy(t, "shop/p", "spec: {}", ready, "system:*:ef-oidc")}, nil},
		{"not ready", false, []*flow.Object{policy(t, "shop/p", "spec: {}", notReady, subject)}, nil},
		{"unknown", false, []*flow.Object{policy(t, "shop/p", "spec: {}", unsure, subject)}, nil},
		{"with filters", false, []*flow.Object{policy(t, "shop/p", "spec: {filters: [{exact: {type: a}}]}", ready, subject)}, nil},
		{"with malformed filters", false, []*flow.Object{policy(t, "shop/p", "spec: {filters: 7}", ready, subject)}, nil},
		{"with empty filters", true, []*flow.Object{policy(t, "shop/p", "spec: {filters: []}", ready, subject)}, nil},
		{"not named by the sink", false, []*flow.Object{policy(t, "shop/r", "spec: {}", ready, subject)}, nil},
		{"of another namespace", false, []*flow.Object{policy(t, "kyma/p", "spec: {}", ready, subject)}, nil},
		{"no service account", false, []*flow.Object{policy(t, "shop/p", "spec: {}", ready, "*")},
			func(s *flow.SubscriptionSeen) { s.Object.ServiceAccount = "" }},
		{"same namespace", true, nil, func(s *flow.SubscriptionSeen) { s.Object.Namespace = "shop" }},
		{"no audience", true, nil, func(s *flow.SubscriptionSeen) { s.Sink.Address.Audience = "" }},
		{"no address", true, nil, func(s *flow.SubscriptionSeen) { s.Sink.Address = nil }},
	}
	for _, test := range tests {
		s := connected(t, ready)
		s.Sink.Address.Audience, s.Sink.Object.Policies = "aud", []string{"p", "q"}
		s.Object.ServiceAccount, s.Policies = "ef-oidc", test.policies
		if test.change != nil {
			test.change(&s)
		}
		want := verdict{"True", "SubscriptionReady", ""}
		if !test.admitted {
			want = verdict{"Unknown", "DeliveryUnverified", "Broker shop/default"}
		}
		got := flow.JudgeSubscription(s)
		want.check(t, test.name, got)
		if !test.admitted && s.Object.ServiceAccount != "" &&
			(!strings.Contains(got.Message, `spec.from: [{sub: "`+subject+`"}]`) || !strings.Contains(got.Message, "allow-all")) {
			t.Errorf("%s: the message lacks the line to add: %s", test.name, got.Message)
		}
	}
}

func TestSinkThatAuthenticatesItsSendersMustAdmitADirectSource(t *testing.T) {
	t.Parallel()
	s := direct(t, `{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, namespace: shop, name: default}}`)
	s.Sink.Address.Audience, s.Sink.Object.Policies = "aud", []string{"p"}
	verdict{"True", "DirectSource", ""}.check(t, "same namespace", flow.JudgeSubscription(s))
	s.Source.Object.Namespace = "kyma"
	verdict{"Unknown", "DeliveryUnverified", "no status.auth"}.check(t, "no service account", flow.JudgeSubscription(s))
	s.Source.Object.ServiceAccount = "ping"
	verdict{"Unknown", "DeliveryUnverified", "serviceaccount:kyma:ping"}.check(t, "not admitted", flow.JudgeSubscription(s))
	s.Policies = []*flow.Object{policy(t, "shop/p", "spec: {}", ready, "system:serviceaccount:kyma:ping")}
	verdict{"True", "DirectSource", ""}.check(t, "admitted", flow.JudgeSubscription(s))
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	some := object(t, "apiVersion: security.istio.io/v1, kind: PeerAuthentication", "shop/default-broker", "spec: {}")
	gone := object(t, "apiVersion: security.istio.io/v1, kind: PeerAuthentication", "shop/default-broker", "deleting")
	for name, test := range map[string]struct {
		seen flow.PolicySeen
		want verdict
	}{
		"no kind":            {flow.PolicySeen{}, verdict{"False", "PolicyKindNotInstalled", "nothing needs opening"}},
		"rejected":           {flow.PolicySeen{Installed: true, Rejected: "why"}, verdict{"False", "PolicyRejected", "why"}},
		"absent":             {flow.PolicySeen{Installed: true}, verdict{"Unknown", "Pending", "being created"}},
		"being deleted":      {flow.PolicySeen{Installed: true, Object: gone, Opens: true}, verdict{"Unknown", "Pending", "deleted"}},
		"managed":            {flow.PolicySeen{Installed: true, Object: some, Managed: true, Opens: true}, verdict{"True", "PolicyApplied", ""}},
		"managed and closed": {flow.PolicySeen{Installed: true, Object: some, Managed: true}, verdict{"Unknown", "Pending", "9090"}},
		"foreign and open":   {flow.PolicySeen{Installed: true, Object: some, Opens: true}, verdict{"True", "PolicyApplied", ""}},
		"foreign and closed": {flow.PolicySeen{Installed: true, Object: some}, verdict{"False", "PolicyConflict", "shop/default-broker"}},
	} {
		test.want.check(t, name, flow.JudgePolicy(test.seen))
	}
}
