package flow_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReadinessFollowsTheFirstRuleThatApplies(t *testing.T) {
	t.Parallel()
	const deleted = `deletionTimestamp: "2026-01-02T03:04:05Z"`
	tests := []struct {
		name, object string
		want         metav1.ConditionStatus
		stale        bool
	}{
		{"nothing", `{kind: X}`, "Unknown", false},
		{"ready", `{status: {conditions: [{type: Ready, status: "True"}]}}`, "True", false},
		{"not ready", `{status: {conditions: [{type: Ready, status: "False"}]}}`, "False", false},
		{"unknown", `{status: {conditions: [{type: Ready, status: "Unknown"}]}}`, "Unknown", false},
		{"malformed status", `{status: {conditions: [{type: Ready, status: true}]}}`, "Unknown", false},
		{"lower case status", `{status: {conditions: [{type: Ready, status: "true"}]}}`, "Unknown", false},
		{"absent status", `{status: {conditions: [{type: Ready}]}}`, "Unknown", false},
		{"False before True", `{status: {conditions: [{type: Ready, status: "False"}, {type: Ready, status: "True"}]}}`, "False", false},
		{"True before False", `{status: {conditions: [{type: Ready, status: "True"}, {type: Ready, status: "False"}]}}`, "False", false},
		{"True and malformed", `{status: {conditions: [{type: Ready, status: "True"}, {type: Ready, status: 1}]}}`, "Unknown", false},
		{"False and malformed", `{status: {conditions: [{type: Ready}, {type: Ready, status: "False"}]}}`, "False", false},
		{"other conditions", `{status: {conditions: [{type: Stalled, status: "True"}, {type: ready, status: "True"}]}}`, "Unknown", false},
		{"conditions that are not a list", `{status: {conditions: {type: Ready, status: "True"}}}`, "Unknown", false},
		{"deleted while ready", `{metadata: {` + deleted + `}, status: {conditions: [{type: Ready, status: "True"}]}}`, "False", false},
		{"deleted and behind", `{metadata: {` + deleted + `, generation: 2}, status: {observedGeneration: 1}}`, "False", false},
		{"behind", `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}}`,
			"Unknown", true},
		{"behind and not ready", `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "False"}]}}`,
			"Unknown", true},
		{"condition behind", `{metadata: {generation: 2},
			status: {observedGeneration: 2, conditions: [{type: Ready, status: "True", observedGeneration: 1}]}}`, "Unknown", true},
		{"one of two conditions behind", `{metadata: {generation: 2}, status: {conditions: [
			{type: Ready, status: "True"}, {type: Ready, status: "True", observedGeneration: 1}]}}`, "Unknown", true},
		{"other condition behind", `{metadata: {generation: 2}, status: {conditions: [
			{type: Ready, status: "True"}, {type: Other, status: "True", observedGeneration: 1}]}}`, "True", false},
		{"ahead", `{metadata: {generation: 2}, status: {observedGeneration: 3, conditions: [{type: Ready, status: "True"}]}}`, "True", false},
		{"malformed generation", `{metadata: {generation: 2}, status: {observedGeneration: "1", conditions: [{type: Ready, status: "True"}]}}`,
			"True", false},
		{"broken generation", `{metadata: {generation: 2}, status: {observedGeneration: 1.5, conditions: [{type: Ready, status: "True"}]}}`,
			"True", false},
		{"behind of a known kind", `{apiVersion: v1, kind: Service, metadata: {generation: 2}, status: {observedGeneration: 1}}`,
			"Unknown", true},
		{"condition of a known kind", `{apiVersion: v1, kind: Service, status: {conditions: [{type: Ready, status: "False"}]}}`, "False", false},
		{"known kind", `{apiVersion: v1, kind: Service}`, "True", false},
		{"known kind of another group", `{apiVersion: serving.knative.dev/v1, kind: Service}`, "Unknown", false},
	}
	for _, test := range tests {
		got := decode(t, test.object).Ready
		if got.Status != test.want || got.Stale != test.stale {
			t.Errorf("%s: %+v, want %s, stale %t", test.name, got, test.want, test.stale)
		}
	}
}

func TestOnlyAnObservationOfTheGenerationIsCurrent(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]bool{
		`{metadata: {generation: 2}, status: {observedGeneration: 2}}`:                                                     true,
		`{metadata: {generation: 2}, status: {conditions: [{type: Ready, observedGeneration: 2}]}}`:                        true,
		`{metadata: {generation: 2}, status: {}}`:                                                                          false,
		`{metadata: {generation: 2}, status: {observedGeneration: 3}}`:                                                     false,
		`{metadata: {generation: 2}, status: {observedGeneration: 1}}`:                                                     false,
		`{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Ready, observedGeneration: 1}]}}`: false,
	} {
		if got := decode(t, object).Ready.Current; got != want {
			t.Errorf("%s: current %t, want %t", object, got, want)
		}
	}
}

func TestKindsWithoutAConditionReadyFollowKstatus(t *testing.T) {
	t.Parallel()
	const (
		deployment = `apiVersion: apps/v1, kind: Deployment, `
		replicas   = `apiVersion: apps/v1, kind: ReplicaSet, `
		stateful   = `apiVersion: apps/v1, kind: StatefulSet, `
		daemon     = `apiVersion: apps/v1, kind: DaemonSet, metadata: {generation: 1}, `
		job        = `apiVersion: batch/v1, kind: Job, `
		pod        = `apiVersion: v1, kind: Pod, `
		rolledOut  = `replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2`
		available  = `conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`
	)
	for object, want := range map[string]metav1.ConditionStatus{
		`apiVersion: v1, kind: ConfigMap`:                                                                                "True",
		`apiVersion: v1, kind: Secret`:                                                                                   "True",
		`apiVersion: batch/v1, kind: CronJob`:                                                                            "True",
		`apiVersion: policy/v1, kind: PodDisruptionBudget`:                                                               "True",
		`apiVersion: other/v1, kind: ConfigMap`:                                                                          "Unknown",
		`apiVersion: v1, kind: Service, spec: {type: LoadBalancer}`:                                                      "Unknown",
		`apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 1.2.3.4}`:                                  "True",
		`apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Bound}`:                                            "True",
		`apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Pending}`:                                          "Unknown",
		`apiVersion: v1, kind: PersistentVolumeClaim`:                                                                    "Unknown",
		pod + `status: {phase: Succeeded}`:                                                                               "True",
		pod + `status: {phase: Failed}`:                                                                                  "False",
		pod + `status: {phase: Running}`:                                                                                 "Unknown",
		pod + `status: {phase: Pending}`:                                                                                 "Unknown",
		pod + `status: {phase: Running, containerStatuses: [{state: {waiting: {reason: CrashLoopBackOff}}}]}`:            "False",
		deployment + `spec: {replicas: 2, progressDeadlineSeconds: 600}, status: {` + rolledOut + `, ` + available + `}`: "True",
		deployment + `spec: {replicas: 2, progressDeadlineSeconds: 600}, status: {` + rolledOut + `}`:                    "Unknown",
		deployment + `spec: {replicas: 2}, status: {` + rolledOut + `, conditions: [{type: Available, status: "True"}]}`: "True",
		deployment + `spec: {replicas: 2}, status: {` + rolledOut + `}`:                                                  "Unknown",
		deployment + `spec: {replicas: 3}, status: {` + rolledOut + `, ` + available + `}`:                               "Unknown",
		deployment + `spec: {replicas: 1}, status: {` + rolledOut + `, ` + available + `}`:                               "Unknown",
		deployment + `spec: {replicas: 2}, status: {replicas: 2, updatedReplicas: 1, availableReplicas: 2, readyReplicas: 2, ` +
			available + `}`: "Unknown",
		deployment + `spec: {replicas: 2}, status: {replicas: 2, updatedReplicas: 2, availableReplicas: 1, readyReplicas: 2, ` +
			available + `}`: "Unknown",
		deployment + `status: {` + available + `}`: "Unknown",
		deployment + `spec: {replicas: 2}, status: {` + rolledOut +
			`, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`: "False",
		`apiVersion: other/v1, kind: Deployment, spec: {replicas: 2}, status: {` + rolledOut + `, ` + available + `}`: "Unknown",
		replicas + `spec: {replicas: 2}, status: {fullyLabeledReplicas: 2, ` + rolledOut + `}`:                        "True",
		replicas + `spec: {replicas: 2}, status: {` + rolledOut + `}`:                                                 "Unknown",
		replicas + `spec: {replicas: 2}, status: {fullyLabeledReplicas: 2, ` + rolledOut +
			`, conditions: [{type: ReplicaFailure, status: "True"}]}`: "Unknown",
		stateful + `spec: {updateStrategy: {type: OnDelete}}`:                                                                                "True",
		stateful + `spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 2, currentReplicas: 2, currentRevision: a, updateRevision: a}`: "True",
		stateful + `spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 2, currentReplicas: 2, currentRevision: a, updateRevision: b}`: "Unknown",
		stateful + `spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 1, currentReplicas: 2}`:                                        "Unknown",
		stateful + `spec: {replicas: 2}, status: {replicas: 2, readyReplicas: 2, currentReplicas: 1}`:                                        "Unknown",
		stateful + `spec: {replicas: 1}, status: {replicas: 2, readyReplicas: 2, currentReplicas: 2}`:                                        "Unknown",
		stateful + `spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}},
			status: {replicas: 3, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}`: "True",
		stateful + `spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}},
			status: {replicas: 3, readyReplicas: 3, updatedReplicas: 1}`: "Unknown",
		daemon + `status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1,
			numberAvailable: 1, numberReady: 1}`: "True",
		daemon + `status: {desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1, numberAvailable: 1,
			numberReady: 1}`: "Unknown",
		daemon + `status: {observedGeneration: 1}`: "Unknown",
		daemon + `status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1,
			numberAvailable: 1}`: "Unknown",
		job + `spec: {}`: "Unknown",
		job + `status: {startTime: "2026-01-02T03:04:05Z"}`:                                                "True",
		job + `status: {conditions: [{type: Complete, status: "True"}]}`:                                   "True",
		job + `status: {startTime: "2026-01-02T03:04:05Z", conditions: [{type: Failed, status: "True"}]}`:  "False",
		job + `status: {startTime: "2026-01-02T03:04:05Z", conditions: [{type: Failed, status: "False"}]}`: "True",
	} {
		if got := decode(t, "{"+object+"}").Ready; got.Status != want {
			t.Errorf("{%s}: %+v, want %s", object, got, want)
		}
	}
}
