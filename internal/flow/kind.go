package flow

import (
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// verdict is the state of an object without a condition Ready.
type verdict struct {
	status metav1.ConditionStatus
	why    string
}

var current = verdict{status: metav1.ConditionTrue}

func inProgress(why string) verdict { return verdict{metav1.ConditionUnknown, why} }

func broken(why string) verdict { return verdict{metav1.ConditionFalse, why} }

// kinds has the rules of kstatus, the convention of sigs.k8s.io/cli-utils, for the kinds of Kubernetes.
var kinds = map[schema.GroupKind]func(tree) verdict{
	{Group: "", Kind: "ConfigMap"}:                 alwaysCurrent,
	{Group: "", Kind: "Secret"}:                    alwaysCurrent,
	{Group: "batch", Kind: "CronJob"}:              alwaysCurrent,
	{Group: "policy", Kind: "PodDisruptionBudget"}: alwaysCurrent,
	{Group: "", Kind: "Service"}:                   judgeService,
	{Group: "", Kind: "Pod"}:                       judgePod,
	{Group: "", Kind: "PersistentVolumeClaim"}:     judgeVolumeClaim,
	{Group: "apps", Kind: "Deployment"}:            judgeDeployment,
	{Group: "apps", Kind: "ReplicaSet"}:            judgeReplicaSet,
	{Group: "apps", Kind: "StatefulSet"}:           judgeStatefulSet,
	{Group: "apps", Kind: "DaemonSet"}:             judgeDaemonSet,
	{Group: "batch", Kind: "Job"}:                  judgeJob,
}

func alwaysCurrent(tree) verdict { return current }

func judgeService(all tree) verdict {
	spec := all.node("spec")
	if spec.text("type") == "LoadBalancer" && spec.text("clusterIP") == "" {
		return inProgress("it has no cluster IP")
	}
	return current
}

// judgePod needs no clock, so a pod that was not scheduled for a while has not failed.
func judgePod(all tree) verdict {
	status := all.node("status")
	switch phase := status.text("phase"); phase {
	case "Succeeded":
		return current
	case "Failed":
		return broken("its phase is Failed")
	case "Running":
		for _, container := range status.nodes("containerStatuses") {
			if container.node("state").node("waiting").text("reason") == "CrashLoopBackOff" {
				return broken("a container crashes")
			}
		}
		return inProgress("it has no condition Ready")
	default:
		return inProgress("its phase is " + phase)
	}
}

func judgeVolumeClaim(all tree) verdict {
	if phase := all.node("status").text("phase"); phase != "Bound" {
		return inProgress("its phase is " + phase)
	}
	return current
}

// atLeast is a comparison that holds once a rollout is complete.
type atLeast struct {
	have, want int64
	why        string
}

// complete returns the first comparison that does not hold, or Current.
func complete(comparisons ...atLeast) verdict {
	for _, c := range comparisons {
		if c.have < c.want {
			return inProgress(c.why)
		}
	}
	return current
}

func judgeDeployment(all tree) verdict {
	spec, status := all.node("spec"), all.node("status")
	// Without a deadline the controller keeps no condition Progressing.
	progressing := spec.count("progressDeadlineSeconds", math.MaxInt32) == math.MaxInt32
	available := false
	for _, c := range status.nodes("conditions") {
		yes := c.text("status") == "True"
		switch {
		case c.text("type") == "Progressing" && c.text("reason") == "ProgressDeadlineExceeded":
			return broken("its progress deadline is exceeded")
		case c.text("type") == "Progressing":
			progressing = progressing || yes && c.text("reason") == "NewReplicaSetAvailable"
		case c.text("type") == "Available":
			available = yes
		}
	}
	want, replicas, updated := spec.count("replicas", 1), status.count("replicas", 0), status.count("updatedReplicas", 0)
	verdict := complete(
		atLeast{replicas, want, "it has fewer replicas than wanted"},
		atLeast{updated, want, "replicas are not updated"},
		atLeast{want, replicas, "replicas are ending"},
		atLeast{status.count("availableReplicas", 0), updated, "replicas are not available"},
		atLeast{status.count("readyReplicas", 0), want, "replicas are not ready"})
	switch {
	case verdict != current:
		return verdict
	case !progressing:
		return inProgress("its replica set is not available")
	case !available:
		return inProgress("it is not available")
	}
	return current
}

func judgeReplicaSet(all tree) verdict {
	status := all.node("status")
	for _, c := range status.nodes("conditions") {
		if c.text("type") == "ReplicaFailure" && c.text("status") == "True" {
			return inProgress(c.text("message"))
		}
	}
	want := all.node("spec").count("replicas", 1)
	return complete(
		atLeast{status.count("fullyLabeledReplicas", 0), want, "replicas lack labels"},
		atLeast{status.count("availableReplicas", 0), want, "replicas are not available"},
		atLeast{status.count("readyReplicas", 0), want, "replicas are not ready"},
		atLeast{want, status.count("replicas", 0), "replicas are ending"})
}

func judgeStatefulSet(all tree) verdict {
	spec, status := all.node("spec"), all.node("status")
	strategy := spec.node("updateStrategy")
	if strategy.text("type") == "OnDelete" {
		return current // its user decides when pods are replaced
	}
	want, replicas := spec.count("replicas", 1), status.count("replicas", 0)
	verdict := complete(
		atLeast{replicas, want, "it has fewer replicas than wanted"},
		atLeast{status.count("readyReplicas", 0), want, "replicas are not ready"},
		atLeast{want, replicas, "replicas are ending"})
	if verdict != current {
		return verdict
	}
	if partition, ok := strategy.node("rollingUpdate").number("partition"); ok {
		return complete(atLeast{status.count("updatedReplicas", 0), want - partition, "replicas are not updated"})
	}
	if status.text("currentRevision") != status.text("updateRevision") {
		return inProgress("replicas are of an earlier revision")
	}
	return complete(atLeast{status.count("currentReplicas", 0), want, "replicas are not current"})
}

func judgeDaemonSet(all tree) verdict {
	status := all.node("status")
	want, scheduled := status.number("desiredNumberScheduled")
	if _, seen := status.number("observedGeneration"); !seen || !scheduled {
		return inProgress("its controller has not seen it")
	}
	return complete(
		atLeast{status.count("currentNumberScheduled", 0), want, "pods are not scheduled"},
		atLeast{status.count("updatedNumberScheduled", 0), want, "pods are not updated"},
		atLeast{status.count("numberAvailable", 0), want, "pods are not available"},
		atLeast{status.count("numberReady", 0), want, "pods are not ready"})
}

func judgeJob(all tree) verdict {
	status := all.node("status")
	for _, c := range status.nodes("conditions") {
		if c.text("status") != "True" {
			continue
		}
		switch c.text("type") {
		case "Complete":
			return current
		case "Failed":
			return broken(c.text("message"))
		}
	}
	if status.text("startTime") == "" {
		return inProgress("it has not started")
	}
	return current
}
