package flow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	types = []string{"SourceReady", "SinkReady", "SubscriptionReady", "PolicyReady"}
)

// anEventFlow returns a flow of the generation 7; optionally with the mesh policy.
func anEventFlow(mesh bool) *v1alpha1.EventFlow {
	f := &v1alpha1.EventFlow{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "u", Generation: 7}}
	if mesh {
		f.Spec.MeshPolicy = v1alpha1.PermissiveMetrics
	}
	return f
}

func conditionOf(all []metav1.Condition, kind string) string {
	for _, c := range all {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason + " " + c.Message
		}
	}
	return ""
}

// choice is a state of one part in the table of all pairs.
type choice struct {
	status  metav1.ConditionStatus // "": absent
	reason  string
	stalled bool
}

func choices() []choice {
	return []choice{{"True", "Fine", false}, {"Unknown", "Waits", false}, {"False", "Broken", false}, {"False", "InvalidURI", true},
		{"", "", false}}
}

// TestReadyOfEveryPairOfParts has the rules of Ready written as the text about it is, with loops over the parts.
func TestReadyOfEveryPairOfParts(t *testing.T) {
	t.Parallel()
	for a := range types {
		for b := range types {
			if a == b {
				continue
			}
			for _, first := range choices() {
				for _, second := range choices() {
					for _, mesh := range []bool{false, true} {
						states := []choice{choices()[0], choices()[0], choices()[0], choices()[0]}
						states[a], states[b] = first, second
						checkReady(t, states, mesh)
					}
				}
			}
		}
	}
}

func checkReady(t *testing.T, states []choice, mesh bool) {
	t.Helper()
	var parts []flow.Part
	for i, s := range states {
		if s.status != "" {
			parts = append(parts, flow.Part{Type: types[i], Status: s.status, Reason: s.reason, Message: types[i] + s.reason})
		}
	}
	slices.Reverse(parts) // their order must not count
	got := flow.Conditions(anEventFlow(mesh), parts, start)
	considered := states
	if !mesh {
		considered = states[:3]
	}
	ready, stalled := "True Ready ", ""
	for i := len(considered) - 1; i >= 0; i-- {
		if s := considered[i]; s.status == "" {
			ready = "Unknown Pending " + types[i] + " is not known yet"
		} else if s.status == "Unknown" {
			ready = "Unknown " + s.reason + " " + types[i] + s.reason
		}
	}
	for i := len(considered) - 1; i >= 0; i-- {
		if s := considered[i]; s.status == "False" {
			ready = "False " + s.reason + " " + types[i] + s.reason
			if s.stalled {
				stalled = "True " + s.reason + " " + types[i] + s.reason
			}
		}
	}
	reconciling := ""
	if stalled == "" && !strings.HasPrefix(ready, "True") {
		reconciling = "True " + ready[strings.Index(ready, " ")+1:]
	}
	for kind, want := range map[string]string{"Ready": ready, "Stalled": stalled, "Reconciling": reconciling} {
		if has := conditionOf(got, kind); has != want {
			t.Errorf("parts %v, mesh %t: %s is %q, want %q", states, mesh, kind, has, want)
		}
	}
	for i, s := range states {
		if want := s.status != "" && i < len(considered); (conditionOf(got, types[i]) != "") != want {
			t.Errorf("parts %v, mesh %t: %s is %q", states, mesh, types[i], conditionOf(got, types[i]))
		}
	}
}

func fine(reasons ...string) (parts []flow.Part) {
	for i := range types {
		part := flow.Part{Type: types[i], Status: "True", Reason: "Fine"}
		if i < len(reasons) && reasons[i] != "" {
			part.Status, part.Reason, part.Message = "False", reasons[i], "text"
		}
		parts = append(parts, part)
	}
	return parts
}

func TestReasonsThatNeedAPersonStallTheFlow(t *testing.T) {
	t.Parallel()
	stalling := map[string]bool{
		"ChannelAmbiguous": true, "ChannelRequired": true, "InvalidURI": true, "ClaimRejected": true, "SubscriptionConflict": true,
		"SubscriptionRejected": true, "DeliveryConflict": true, "PolicyRejected": true, "PolicyConflict": true, "SinkIsSource": true,
	}
	for _, reason := range []string{
		"SourceNotFound", "SourceKindNotInstalled", "SourceDeleting", "SourceNotReady", "ChannelNotFound", "ChannelAmbiguous",
		"ChannelRequired", "ApplicationNotMapped", "ReferenceNotAllowed", "BrokerTerminating", "BrokerNotReady", "BrokerNotFound",
		"BrokerKindNotInstalled", "SinkNotFound", "SinkKindNotInstalled", "SinkDeleting", "SinkNotReady", "SinkNotAddressable", "InvalidURI",
		"NamespaceTerminating", "ClaimRejected", "SubscriptionNotReady", "SubscriptionDeleting", "SubscriptionConflict",
		"SubscriptionRejected", "DeliveryConflict", "SinkMismatch", "SubscriptionKindNotInstalled", "SinkIsSource", "PolicyRejected", "PolicyConflict",
	} {
		for place := range types {
			reasons := make([]string, len(types))
			reasons[place] = reason
			got := flow.Conditions(anEventFlow(true), fine(reasons...), start)
			stalled, reconciling := "", "True "+reason+" text"
			if stalling[reason] {
				stalled, reconciling = reconciling, ""
			}
			if conditionOf(got, "Stalled") != stalled || conditionOf(got, "Reconciling") != reconciling {
				t.Errorf("%s: Stalled %q, Reconciling %q", reason, conditionOf(got, "Stalled"), conditionOf(got, "Reconciling"))
			}
		}
	}
}

func TestFlowWithoutAMeshIsReady(t *testing.T) {
	t.Parallel()
	got := flow.Conditions(anEventFlow(true), fine("", "", "", "PolicyKindNotInstalled"), start)
	if conditionOf(got, "Ready") != "True Ready " || conditionOf(got, "PolicyReady") != "False PolicyKindNotInstalled text" ||
		conditionOf(got, "Reconciling") != "" || conditionOf(got, "Stalled") != "" {
		t.Error(got)
	}
}

func TestLastPartNotReadyCanStallWhileAnotherDecides(t *testing.T) {
	t.Parallel()
	got := flow.Conditions(anEventFlow(false), fine("SourceNotReady", "", "DeliveryConflict"), start)
	if conditionOf(got, "Ready") != "False SourceNotReady text" || conditionOf(got, "Stalled") != "True DeliveryConflict text" {
		t.Error(got)
	}
}

func TestConditionsHaveAnOrderAndTheGeneration(t *testing.T) {
	t.Parallel()
	f := anEventFlow(true)
	foreign := metav1.Condition{Type: "Other", Status: "True", Reason: "Theirs"}
	f.Status.Conditions = []metav1.Condition{foreign}
	var order []string
	for _, c := range flow.Conditions(f, fine("InvalidURI"), start) {
		order = append(order, c.Type)
		if c.Type != "Other" && (c.ObservedGeneration != 7 || !c.LastTransitionTime.Time.Equal(start)) {
			t.Errorf("%+v", c)
		}
	}
	want := []string{"Ready", "SourceReady", "SinkReady", "SubscriptionReady", "PolicyReady", "Stalled", "Other"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
}

func TestTransitionTimesChangeOnlyWithTheStatus(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f, now, since := anEventFlow(true), start, map[string]time.Time{}
		before := map[string]metav1.ConditionStatus{}
		for range rapid.IntRange(1, 8).Draw(t, "passes") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			f.Generation++
			f.Spec.Suspend = rapid.Bool().Draw(t, "suspend")
			var parts []flow.Part
			for _, kind := range types {
				c := rapid.SampledFrom(choices()).Draw(t, kind)
				if c.status != "" {
					parts = append(parts, flow.Part{Type: kind, Status: c.status, Reason: c.reason})
				}
			}
			f.Status.Conditions = flow.Conditions(f, parts, now)
			after := map[string]metav1.ConditionStatus{}
			for _, c := range f.Status.Conditions {
				after[c.Type] = c.Status
				if before[c.Type] != c.Status {
					since[c.Type] = now.Truncate(time.Second)
				}
				if !c.LastTransitionTime.Time.Equal(since[c.Type]) {
					t.Fatalf("%s turned %s at %s, want %s", c.Type, c.Status, c.LastTransitionTime, since[c.Type])
				}
			}
			before = after
		}
	})
}

func TestSuspendedFlowKeepsItsParts(t *testing.T) {
	t.Parallel()
	f := anEventFlow(false)
	f.Status.Conditions = flow.Conditions(f, fine("InvalidURI"), start)
	parts := slices.Clone(f.Status.Conditions[1:4])
	f.Spec.Suspend, f.Generation = true, 8
	got := flow.Conditions(f, nil, start.Add(time.Hour))
	want := append([]metav1.Condition{{Type: "Ready", Status: "Unknown", Reason: "Suspended", ObservedGeneration: 8,
		LastTransitionTime: metav1.NewTime(start.Add(time.Hour))}}, parts...)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.Condition{}, "Message")); diff != "" {
		t.Error(diff)
	}
	if got[0].Message == "" {
		t.Error("Suspended has no message")
	}
}

func TestDeletingFlowReportsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	blocked := &flow.Blocked{Object: flow.Ref{Namespace: "kyma", Name: "ef-1"}, Since: start, Why: "channel broken: http://x?key=s3cret"}
	blocked.Object.Kind = "Subscription"
	for _, test := range []struct {
		age     time.Duration
		blocked *flow.Blocked
		want    string
	}{
		{0, nil, "False Deleting what was made for the flow is being removed"},
		{time.Hour, nil, "False Deleting what was made for the flow is being removed"},
		{time.Minute, blocked, "False Deleting waits for the end of Subscription kyma/ef-1, which is being deleted since " +
			"2026-01-02T03:04:05Z: channel broken: http://x"},
		{5*time.Minute - 1, blocked, "False Deleting "},
		{5 * time.Minute, blocked, "False DeletionBlocked waits for the end of Subscription kyma/ef-1, which is being deleted since " +
			"2026-01-02T03:04:05Z: channel broken: http://x"},
		{time.Hour, &flow.Blocked{Object: blocked.Object}, "False DeletionBlocked waits for the end of Subscription kyma/ef-1"},
	} {
		f := anEventFlow(false)
		f.Status.Conditions = flow.Conditions(f, fine("InvalidURI"), start)
		parts := slices.Clone(f.Status.Conditions[1:4])
		f.DeletionTimestamp = &metav1.Time{Time: start}
		got := flow.Deleting(f, test.blocked, start.Add(test.age))
		if has := conditionOf(got, "Ready"); !strings.HasPrefix(has, test.want) || strings.Contains(has, "s3cret") {
			t.Errorf("after %s: %q, want %q", test.age, has, test.want)
		}
		if conditionOf(got, "Stalled") != "" || !strings.HasPrefix(conditionOf(got, "Reconciling"), "True Delet") {
			t.Errorf("after %s: %+v", test.age, got)
		}
		if diff := cmp.Diff(parts, got[1:4]); diff != "" {
			t.Errorf("the parts change: %s", diff)
		}
	}
}

func TestABlockedDeletionNamesItsCause(t *testing.T) {
	t.Parallel()
	const gone = `metadata: {namespace: kyma, name: ef-1, deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: [knative.dev/a, b]}`
	for _, test := range []struct {
		state string
		err   error
		want  string
	}{
		{notReady, nil, "knative.dev/a, b: Broken: see"},
		{ready, nil, "knative.dev/a, b"},
		{ready, errors.New("webhook denied the request"), "webhook denied the request"},
	} {
		o := decode(t, "{"+subscriptionKind+", "+gone+", "+test.state+"}")
		got := flow.BlockedBy(o, test.err)
		if got.Object != o.Ref() || !strings.HasPrefix(got.Why, test.want) || got.Since.IsZero() != (test.err != nil) {
			t.Errorf("%s, %v: %+v, want %q", test.state, test.err, got, test.want)
		}
	}
}
