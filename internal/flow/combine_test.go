package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

// The states of service instances in tables.
const (
	catalogKind = `apiVersion: servicecatalog.k8s.io/v1beta1, kind: ServiceInstance`
	btpKind     = `apiVersion: services.cloud.sap.com/v1, kind: ServiceInstance`
	isReady     = `{type: Ready, status: "True", reason: ProvisionedSuccessfully, message: instance text, lastTransitionTime: "2026-01-02T03:04:05Z"}`
	deletion    = `metadata: {deletionTimestamp: "2026-01-02T03:04:05Z"}, `
)

// notTrue returns a condition that is not True.
func notTrue(kind, reason string) string {
	return `{type: ` + kind + `, status: "False", reason: ` + reason + `, message: instance text}`
}

// instance returns a service instance with conditions and other fields of its status.
func instance(t *testing.T, kind, conditions, fields string) *unstructured.Unstructured {
	t.Helper()
	meta, fields, deleted := strings.Cut(fields, deletion)
	if deleted {
		meta = deletion
	} else {
		meta, fields = "", meta
	}
	return fromYAML(t, "{"+kind+", "+meta+"status: {"+fields+"conditions: ["+conditions+"]}}")
}

// aFlow returns a flow in a state: "" is absent; otherwise words among suspended, deleting, stale, fresh, True, False, Unknown.
func aFlow(state string) *v1alpha1.EventFlow {
	if state == "" {
		return nil
	}
	f := anEventFlow(false)
	seen := f.Generation
	for word := range strings.SplitSeq(state, " ") {
		switch word {
		case "suspended":
			f.Spec.Suspend = true
		case "deleting":
			f.DeletionTimestamp = &metav1.Time{Time: start}
		case "stale":
			seen--
		case "fresh":
			seen = 0
		case "unjudged":
		default:
			f.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionStatus(word), Reason: "FlowReason",
				Message: "flow text", ObservedGeneration: seen}}
		}
	}
	return f
}

// combineTest is a row of the table, or an overlap of rows.
type combineTest struct {
	name       string
	kind       string // "": no service instance
	conditions string
	fields     string
	flow       string
	expected   bool
	age        time.Duration
	want       string // status, reason and text
}

func (test combineTest) run(t *testing.T) {
	t.Helper()
	var i *unstructured.Unstructured
	if test.kind != "" {
		i = instance(t, test.kind, test.conditions, test.fields)
	}
	c := flow.Combine(i, aFlow(test.flow), test.expected, start.Add(test.age))
	if got := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)); got != test.want {
		t.Errorf("%s: %q, want %q", test.name, got, test.want)
	}
}

func TestCombineServiceCatalog(t *testing.T) {
	t.Parallel()
	const running, byFlow = "Running ProvisionedSuccessfully instance text", " FlowReason flow text"
	const unseen = "Provisioning Pending the role flow has not handled it yet"
	for _, test := range []combineTest{
		{name: "2: deprovision", conditions: notTrue("Ready", "Deprovisioning"), fields: "currentOperation: Deprovision, ",
			want: "Deprovisioning" + " Deprovisioning instance text"},
		{name: "2: deletion", conditions: isReady, fields: deletion, want: "Deprovisioning ProvisionedSuccessfully instance text"},
		{name: "2 over 3", conditions: isReady, fields: deletion + "currentOperation: Update, ", flow: "False",
			want: "Deprovisioning ProvisionedSuccessfully instance text"},
		{name: "2 over 4", fields: deletion, want: "Deprovisioning"},
		{name: "2 over 5", conditions: notTrue("Ready", "DeprovisionCallFailed") + `, {type: Failed, status: "True", reason: F, message: f}`,
			fields: deletion, want: "Deprovisioning DeprovisionCallFailed instance text"},
		{name: "2 over 9", conditions: isReady, fields: deletion, flow: "deleting True", expected: true,
			want: "Deprovisioning ProvisionedSuccessfully instance text"},
		{name: "3: provision", conditions: notTrue("Ready", "Provisioning"), fields: "currentOperation: Provision, ",
			want: "Provisioning" + " Provisioning instance text"},
		{name: "3: update", conditions: isReady, fields: "currentOperation: Update, ", flow: "False", expected: true,
			want: "Provisioning ProvisionedSuccessfully instance text"},
		{name: "3 over 4", fields: "currentOperation: Provision, ", want: "Provisioning"},
		{name: "3 over 5", conditions: notTrue("Ready", "ProvisionCallFailed"), fields: "currentOperation: Provision, ",
			want: "Provisioning ProvisionCallFailed instance text"},
		{name: "3 over 5, mitigation", conditions: notTrue("Ready", "A"), fields: "currentOperation: Provision, orphanMitigationInProgress: true, ",
			want: "Provisioning A instance text"},
		{name: "4", flow: "True", want: "Pending"},
		{name: "4 over 5", fields: "orphanMitigationInProgress: true, ", want: "Pending"},
		{name: "4 over 9", flow: "deleting", expected: true, want: "Pending"},
		{name: "5: Failed", conditions: isReady + `, {type: Failed, status: "True", reason: F, message: f}`, want: "Failed F f"},
		{name: "5: Failed over Ready", conditions: notTrue("Ready", "ErrorX") + `, {type: Failed, status: "True", reason: F, message: f}`,
			want: "Failed F f"},
		{name: "Failed is False", conditions: isReady + ", " + notTrue("Failed", "F"), want: running},
		{name: "5: mitigation", conditions: notTrue("Ready", "A"), fields: "orphanMitigationInProgress: true, ", want: "Failed A instance text"},
		{name: "5: mitigation, as a condition", conditions: isReady + `, {type: OrphanMitigation, status: "True"}`,
			want: "Failed ProvisionedSuccessfully instance text"},
		{name: "5 over 6", conditions: notTrue("Ready", "ProvisionCallFailed"), want: "Failed ProvisionCallFailed instance text"},
		{name: "5: error", conditions: notTrue("Ready", "ErrorWithParameters"), want: "Failed ErrorWithParameters instance text"},
		{name: "5: nonexistent", conditions: notTrue("Ready", "ReferencesNonexistentServiceClass"),
			want: "Failed ReferencesNonexistentServiceClass instance text"},
		{name: "5: deleted", conditions: notTrue("Ready", "ReferencesDeletedServiceClass"), want: "Failed ReferencesDeletedServiceClass instance text"},
		{name: "5: invalid", conditions: notTrue("Ready", "InvalidX"), flow: "True", want: "Failed InvalidX instance text"},
		{name: "5: Ready unknown", conditions: `{type: Ready, status: "Unknown", reason: UpdateFailed}`, want: "Failed UpdateFailed"},
		{name: "such a reason of a ready instance", conditions: `{type: Ready, status: "True", reason: NotFailed}`, want: "Running NotFailed"},
		{name: "case of 5", conditions: notTrue("Ready", "failed"), want: "Pending failed instance text"},
		{name: "6: provision", conditions: notTrue("Ready", "ProvisionRequestInFlight"), want: "Provisioning ProvisionRequestInFlight instance text"},
		{name: "6: update", conditions: notTrue("Ready", "UpdatingInstance"), flow: "True", expected: true,
			want: "Provisioning UpdatingInstance instance text"},
		{name: "6: deprovision", conditions: notTrue("Ready", "DeprovisionBlocked"), want: "Deprovisioning DeprovisionBlocked instance text"},
		{name: "6: neither", conditions: notTrue("Ready", "Waiting"), want: "Pending Waiting instance text"},
		{name: "6: no Ready", conditions: notTrue("Other", "Provision"), want: "Pending"},
		{name: "7", conditions: isReady, want: running},
		{name: "8: young", conditions: isReady, expected: true, age: 2*time.Minute - 1, want: "Provisioning FlowMissing the flow is not there yet"},
		{name: "8: old", conditions: isReady, expected: true, age: 2 * time.Minute,
			want: "Failed FlowMissing the flow of this service instance does not exist"},
		{name: "8: future", conditions: isReady, expected: true, age: -time.Hour, want: "Provisioning FlowMissing the flow is not there yet"},
		{name: "8: no time", conditions: `{type: Ready, status: "True"}`, expected: true,
			want: "Failed FlowMissing the flow of this service instance does not exist"},
		{name: "8: malformed time", conditions: `{type: Ready, status: "True", lastTransitionTime: 7}`, expected: true,
			want: "Failed FlowMissing the flow of this service instance does not exist"},
		{name: "9", conditions: isReady, flow: "deleting False", expected: true, want: "Failed FlowDeleting flow text"},
		{name: "9, not expected", conditions: isReady, flow: "deleting True", want: "Failed FlowDeleting flow text"},
		{name: "9 over 10", conditions: isReady, flow: "deleting suspended Unknown", want: "Failed FlowDeleting flow text"},
		{name: "10: suspended", conditions: isReady, flow: "suspended True", want: "Pending Suspended the flow is suspended"},
		{name: "10: suspended and behind", conditions: isReady, flow: "suspended stale False", want: "Pending Suspended the flow is suspended"},
		{name: "10 over 11: behind", conditions: isReady, flow: "stale False", expected: true, want: unseen},
		{name: "10 over 12: behind", conditions: isReady, flow: "stale True", want: unseen},
		{name: "10: never observed", conditions: isReady, flow: "fresh True", want: unseen},
		{name: "10: unknown", conditions: isReady, flow: "Unknown", want: "Provisioning" + byFlow},
		{name: "10: malformed", conditions: isReady, flow: "Other", want: "Provisioning" + byFlow},
		{name: "10: no Ready", conditions: isReady, flow: "unjudged", want: unseen},
		{name: "11", conditions: isReady, flow: "False", want: "Failed" + byFlow},
		{name: "12", conditions: isReady, flow: "True", expected: true, want: running},
		{name: "12, not expected", conditions: isReady, flow: "True", want: running},
	} {
		test.kind = catalogKind
		test.run(t)
	}
}

func TestCombineWithoutAServiceInstance(t *testing.T) {
	t.Parallel()
	for _, expected := range []bool{false, true} {
		for state, want := range map[string]string{
			"": "NotFound", "deleting False": "Deprovisioning FlowReason flow text", "deleting suspended True": "Deprovisioning FlowReason flow text",
			"suspended": "Pending Suspended the flow is suspended", "stale True": "Provisioning Pending the role flow has not handled it yet",
			"Unknown": "Provisioning FlowReason flow text", "False": "Failed FlowReason flow text", "True": "Running FlowReason flow text",
		} {
			combineTest{name: "flow " + state, flow: state, expected: expected, want: want}.run(t)
		}
	}
	f := aFlow("suspended Unknown")
	f.Status.Conditions[0].Reason = v1alpha1.ReasonSuspended
	if got := flow.Combine(nil, f, false, start); got != (flow.Combined{Status: "Pending", Reason: "Suspended", Message: "flow text"}) {
		t.Errorf("%+v", got)
	}
}

func TestCombineSAPBTP(t *testing.T) {
	t.Parallel()
	const done = `{type: Succeeded, status: "True", reason: Created, message: done}, `
	for _, test := range []combineTest{
		{name: "create", conditions: notTrue("Succeeded", "CreateInProgress"), want: "Provisioning CreateInProgress instance text"},
		{name: "update of a ready one", conditions: isReady + ", " + notTrue("Succeeded", "UpdateInProgress"), flow: "True",
			want: "Provisioning UpdateInProgress instance text"},
		{name: "delete", conditions: isReady + ", " + notTrue("Succeeded", "DeleteInProgress"), want: "Deprovisioning DeleteInProgress instance text"},
		{name: "deletion", conditions: isReady + ", " + notTrue("Succeeded", "DeleteFailed"), fields: deletion,
			want: "Deprovisioning DeleteFailed instance text"},
		{name: "create failed", conditions: notTrue("Succeeded", "CreateFailed"), want: "Failed CreateFailed instance text"},
		{name: "update failed", conditions: isReady + ", " + notTrue("Succeeded", "UpdateFailed"), flow: "True",
			want: "Failed UpdateFailed instance text"},
		{name: "delete failed", conditions: notTrue("Succeeded", "DeleteFailed"), want: "Failed DeleteFailed instance text"},
		{name: "blocked", conditions: notTrue("Succeeded", "Blocked"), want: "Failed Blocked instance text"},
		{name: "failed and Failed", conditions: notTrue("Succeeded", "CreateFailed") + `, {type: Failed, status: "True", reason: F, message: f}`,
			want: "Failed F f"},
		{name: "in progress over Failed", conditions: notTrue("Succeeded", "CreateInProgress") + `, {type: Failed, status: "True", reason: F}`,
			want: "Provisioning CreateInProgress instance text"},
		{name: "succeeded with such a reason", conditions: `{type: Succeeded, status: "True", reason: CreateFailed}, ` + isReady,
			want: "Running ProvisionedSuccessfully instance text"},
		{name: "another reason", conditions: notTrue("Succeeded", "Other") + ", " + isReady, want: "Running ProvisionedSuccessfully instance text"},
		{name: "Ready decides", conditions: done + notTrue("Ready", "NotProvisioned"), want: "Provisioning NotProvisioned instance text"},
		{name: "no Succeeded", conditions: isReady, want: "Running ProvisionedSuccessfully instance text"},
		{name: "no conditions", want: "Pending"},
		{name: "flow decides", conditions: done + isReady, flow: "False", want: "Failed FlowReason flow text"},
		{name: "flow missing", conditions: done + isReady, expected: true, age: time.Hour,
			want: "Failed FlowMissing the flow of this service instance does not exist"},
		{name: "operation of the Service Catalog", conditions: done + isReady, fields: "currentOperation: Deprovision, ",
			want: "Running ProvisionedSuccessfully instance text"},
	} {
		test.kind = btpKind
		test.run(t)
	}
}

func TestCombineTakesAnyServiceInstance(t *testing.T) {
	t.Parallel()
	flows := []string{"", "True", "deleting", "suspended stale"}
	rapid.Check(t, func(t *rapid.T) {
		i := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": rapid.SampledFrom([]any{"servicecatalog.k8s.io/v1beta1", "services.cloud.sap.com/v1", 7}).Draw(t, "version"),
			"kind":       "ServiceInstance", "metadata": anything(2).Draw(t, "metadata"), "status": anything(3).Draw(t, "status"),
		}}
		got := flow.Combine(i, aFlow(rapid.SampledFrom(flows).Draw(t, "flow")), rapid.Bool().Draw(t, "expected"), start)
		if got.Status == "" || got.Status == flow.StatusNotFound {
			t.Fatalf("%+v", got)
		}
	})
}
