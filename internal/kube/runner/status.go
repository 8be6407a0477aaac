package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/attempt"
)

// Names of the containers of a step's pod.
const (
	containerInit    = "init-repo"
	containerStep    = "step"
	containerResults = "results"
)

// pod has the fields of a pod that the runner reads; the names are those of the Kubernetes API.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`

	Status podStatus `json:"status"`
}

type podStatus struct {
	Phase                 string            `json:"phase"`
	Reason                string            `json:"reason"`
	Message               string            `json:"message"`
	PodIP                 string            `json:"podIP"`
	Conditions            []podCondition    `json:"conditions"`
	InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
	ContainerStatuses     []containerStatus `json:"containerStatuses"`
}

type podCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type containerStatus struct {
	Name  string         `json:"name"`
	Ready bool           `json:"ready"`
	State containerState `json:"state"`
}

// containerState has one field that is not nil, or none.
type containerState struct {
	Waiting    *waiting    `json:"waiting"`
	Running    *running    `json:"running"`
	Terminated *terminated `json:"terminated"`
}

type waiting struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type running struct {
	StartedAt string `json:"startedAt"`
}

type terminated struct {
	StartedAt string `json:"startedAt"`
	ExitCode  int    `json:"exitCode"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

// containers returns the statuses of all containers, those that run first in front. Several goroutines read one pod, so it is a copy.
func (p *pod) containers() []containerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// container returns the state of a container by name; an empty one if it has none.
func (p *pod) container(name string) containerState {
	for _, c := range p.containers() {
		if c.Name == name {
			return c.State
		}
	}
	return containerState{}
}

// began reports whether the step's program may have begun.
func (p *pod) began() bool {
	state := p.container(containerStep)
	return state.Running != nil || state.Terminated != nil
}

// ending reports whether all containers have ended, and kubelet has yet to report that the pod has, and why.
func (p *pod) ending() bool {
	runs := func(c containerStatus) bool { return c.State.Terminated == nil }
	return p.Status.Phase == "Running" && !slices.ContainsFunc(p.Status.ContainerStatuses, runs)
}

// outcome is the reaction to a report of a pod.
type outcome int

// The outcomes, from bearable to final.
const (
	fine   outcome = iota
	wait           // reported; borne for Patience
	failed         // the step fails: another pod would not do better
	lost           // the pod is gone or will be: another may do better, if the program has not begun
)

// verdict is a pod's report, for people, and the reaction to it.
type verdict struct {
	Outcome  outcome
	Text     string        // "" if all is well
	Patience time.Duration // how long a wait is borne; 0: until the step or the build ends
	OfStep   bool          // the fault is the step's own, if it is one: another attempt would come to the same
}

// Times for which a wait is borne.
const (
	defaultPullDeadline = 5 * time.Minute
	configDeadline      = 2 * time.Minute
)

// judge decides the reaction to a pod as it is now. An image that cannot be pulled is waited for at most pull.
func judge(p *pod, pull time.Duration) verdict {
	if v := judgeLoss(p); v.Outcome != fine {
		return v
	}
	if p.ending() {
		return verdict{} // the reason follows
	}
	for _, c := range p.containers() {
		if v := judgeContainer(c, pull); v.Outcome != fine {
			return v
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return verdict{Outcome: wait, Text: c.Reason + ": " + c.Message}
		}
	}
	return verdict{}
}

// podConfig begins reports about objects that a pod names and cannot get.
const podConfig = "PodConfig: "

// nodeLost begins reports about pods whose node is gone.
const nodeLost = "NodeLost: "

// judgeLoss searches for the reason of a whole pod's loss.
func judgeLoss(p *pod) verdict {
	if v := judgeDisruption(p); v.Outcome != fine {
		return v
	}
	switch {
	case p.DeletionTimestamp != nil:
		return verdict{Outcome: lost, Text: "Deleted: another client has deleted the pod"}
	case p.Status.Phase == "Failed" && len(p.Status.ContainerStatuses) == 0:
		return verdict{Outcome: lost, Text: p.Status.Reason + ": " + p.Status.Message} // refused by the node, as when it has no room any more
	}
	return verdict{}
}

// judgeDisruption searches for the reason of a pod's disruption, other than its deletion.
func judgeDisruption(p *pod) verdict {
	s := p.Status
	switch {
	case s.Reason == "Evicted":
		return verdict{Outcome: lost, Text: "Evicted: " + s.Message}
	case s.Reason == "Preempting":
		return verdict{Outcome: lost, Text: "Preempted: " + s.Message}
	case s.Reason == "NodeLost", s.Reason == "NodeShutdown", s.Reason == "NodeAffinity", s.Reason == "Terminated" &&
		s.Phase == "Failed", s.Phase == "Unknown":
		return verdict{Outcome: lost, Text: nodeLost + s.Message}
	case s.Reason == "DeadlineExceeded":
		return verdict{Outcome: failed, Text: "DeadlineExceeded: " + s.Message}
	}
	for _, c := range s.Conditions {
		if c.Type != "DisruptionTarget" || c.Status != "True" {
			continue
		}
		kind := "Evicted: "
		switch c.Reason {
		case "PreemptionByScheduler", "PreemptionByKubeScheduler":
			kind = "Preempted: "
		case "DeletionByTaintManager", "DeletionByPodGC":
			kind = nodeLost
		}
		return verdict{Outcome: lost, Text: kind + c.Message}
	}
	return verdict{}
}

// judgeContainer looks at one container.
func judgeContainer(c containerStatus, pull time.Duration) verdict {
	if w := c.State.Waiting; w != nil {
		if strings.Contains(w.Message, "invalid reference format") { // Kubernetes 1.36 has the reason ErrImagePull for it
			return verdict{Outcome: failed, Text: "ImagePull: " + w.Message, OfStep: true}
		}
		switch w.Reason {
		case "InvalidImageName":
			return verdict{Outcome: failed, Text: "ImagePull: " + w.Message, OfStep: true}
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
			return verdict{Outcome: wait, Text: "ImagePull: " + w.Message, Patience: pull,
				OfStep: w.Reason == "ErrImageNeverPull" || attempt.ImageRefused(w.Message)}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError":
			return verdict{Outcome: wait, Text: podConfig + w.Message, Patience: configDeadline, OfStep: true}
		}
		return verdict{}
	}
	t := c.State.Terminated
	switch {
	case t == nil || c.Name == containerStep: // its end is read from the spool
		return verdict{}
	case c.Name == containerInit && t.ExitCode == 0, c.Name == containerResults && t.ExitCode == 0:
		return verdict{}
	case c.Name == containerInit, c.Name == containerResults:
		return verdict{Outcome: failed, Text: fmt.Sprintf("Unknown: the container %s ended: %s", c.Name, t)}
	}
	return verdict{Outcome: wait, Text: fmt.Sprintf("the %s ended: %s", strings.Replace(c.Name, "-", " ", 1), t)}
}

func (t *terminated) String() string {
	text := fmt.Sprintf("exit status %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text = t.Reason + ", " + text
	}
	if t.Message != "" {
		text += ", " + t.Message
	}
	return text
}

// warningText returns what is noted of a warning about a pod; "" for what the pod's state shows too.
func warningText(e event) string {
	switch e.Reason {
	case "Failed", "BackOff", "FailedScheduling", "InspectFailed", "ErrImageNeverPull", "Evicted", "Preempted",
		"Unhealthy", "TaintManagerEviction":
		return ""
	case "FailedMount", "FailedAttachVolume", "FailedMapVolume":
		return podConfig + e.Message
	}
	return e.Reason + ": " + e.Message
}

// judgeWarnings decides about a pod whose containers wait for a thing that only a warning names, such as a volume.
func judgeWarnings(p *pod, warnings []string) verdict {
	if p.began() || p.Status.Phase != "Pending" {
		return verdict{}
	}
	for _, text := range warnings {
		if strings.HasPrefix(text, podConfig) {
			return verdict{Outcome: wait, Text: text, Patience: configDeadline, OfStep: true}
		}
	}
	return verdict{}
}

// outOfMemory returns the report of a step whose program was ended because it used too much memory; "" if it was not.
func outOfMemory(p *pod, limit int64) string {
	t := p.container(containerStep).Terminated
	switch {
	case t == nil || t.Reason != "OOMKilled":
		return ""
	case limit > 0:
		return attempt.OutOfMemory(limit)
	}
	return attempt.OutOfMemory(0) + ", the node was out of memory; give the step resources with a request for memory"
}
