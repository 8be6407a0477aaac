package runner

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Report describes a pod that runs something other than a step, such as a worker.
type Report struct {
	Ended     bool
	NodeLost  bool      // its node does not answer: what runs there is not known
	Trouble   string    // what keeps the pod from running, or how it ended; "" if nothing is wrong
	IP        string    // "": it has none yet
	StartedAt time.Time // start of the first container; zero: none has begun
	Running   bool      // the main container
	Ready     bool      // the main container, by its probe
}

// ReportOf returns the report of a pod, one of whose containers is the main one.
func ReportOf(object *unstructured.Unstructured, main string) (Report, error) {
	var p pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &p); err != nil {
		return Report{}, fmt.Errorf("read the state of pod %s: %w", object.GetName(), err)
	}
	r := Report{Ended: p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed", IP: p.Status.PodIP}
	for _, c := range p.containers() {
		if at := c.State.began(); !at.IsZero() && (r.StartedAt.IsZero() || at.Before(r.StartedAt)) {
			r.StartedAt = at
		}
		if c.Name == main && c.State.Running != nil {
			r.Running, r.Ready = true, c.Ready
		}
	}
	r.Trouble = p.trouble()
	r.NodeLost = !r.Ended && strings.HasPrefix(r.Trouble, nodeLost)
	if r.Ended && r.Trouble == "" {
		r.Trouble = p.end(main)
	}
	return r, nil
}

// began returns when a container began; zero if it has not.
func (s containerState) began() (at time.Time) {
	text := ""
	switch {
	case s.Running != nil:
		text = s.Running.StartedAt
	case s.Terminated != nil:
		text = s.Terminated.StartedAt
	}
	at, _ = time.Parse(time.RFC3339, text) // "": it has not
	return at
}

// trouble returns the reason why a pod does not run or is gone.
func (p *pod) trouble() string {
	if v := judgeDisruption(p); v.Outcome != fine {
		return v.Text
	}
	for _, c := range p.containers() {
		if c.State.Waiting == nil {
			continue
		}
		if v := judgeContainer(c, 0); v.Outcome != fine {
			return v.Text
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// end returns how a pod ended.
func (p *pod) end(main string) string {
	for _, c := range p.containers() {
		if t := c.State.Terminated; t != nil && (c.Name == main || t.ExitCode != 0) {
			return fmt.Sprintf("the container %s ended: %s", c.Name, t)
		}
	}
	return strings.TrimSuffix("the pod ended: "+p.Status.Reason+": "+p.Status.Message, ": ")
}
