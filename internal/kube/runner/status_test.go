package runner

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhatPodsReport has a row for each that the design's table of failures has.
func TestWhatPodsReport(t *testing.T) {
	t.Parallel()
	const pull = 5 * time.Minute
	for name, c := range map[string]struct {
		pod  string // JSON of its status, or of the whole pod
		want verdict
	}{
		"new": {`{"phase": "Pending"}`, verdict{}},
		"running": {
			`{"phase": "Running", "initContainerStatuses": [{"name": "init-repo", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}], "containerStatuses": [{"name": "step", "state": {"running": {}}}]}`, verdict{}},
		"created": {
			`{"phase": "Pending", "containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "ContainerCreating"}}}]}`, verdict{}},
		"image not found": {
			`{"containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "ErrImagePull", "message": "golang:9: not found"}}}]}`,
			verdict{wait, "ImagePull: golang:9: not found", pull, true}},
		"image pulled again": {
			`{"containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]}`,
			verdict{wait, "ImagePull: Back-off pulling image", pull, false}},
		"image of the shim": {
			`{"initContainerStatuses": [{"name": "init-repo", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not present"}}}]}`,
			verdict{wait, "ImagePull: not present", pull, true}},
		"image of a bad name": {
			`{"containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "InvalidImageName", "message": "couldn't parse"}}}]}`,
			verdict{Outcome: failed, Text: "ImagePull: couldn't parse", OfStep: true}},
		"image of a bad name that was asked for": {
			`{"containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "ErrImagePull", "message": "invalid reference format: bad"}}}]}`,
			verdict{Outcome: failed, Text: "ImagePull: invalid reference format: bad", OfStep: true}},
		"Secret missing": {
			`{"containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"x\" not found"}}}]}`,
			verdict{wait, `PodConfig: secret "x" not found`, 2 * time.Minute, true}},
		"does not fit": {
			`{"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}`,
			verdict{Outcome: wait, Text: "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."}},
		"evicted by kubelet": {`{"phase": "Failed", "reason": "Evicted", "message": "low on memory"}`,
			verdict{Outcome: lost, Text: "Evicted: low on memory"}},
		"evicted by request": {
			`{"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}]}`,
			verdict{Outcome: lost, Text: "Evicted: Eviction API: evicting"}},
		"preempted": {
			`{"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for another pod"}]}`,
			verdict{Outcome: lost, Text: "Preempted: for another pod"}},
		"preempted by kubelet": {`{"phase": "Failed", "reason": "Preempting", "message": "to make room"}`,
			verdict{Outcome: lost, Text: "Preempted: to make room"}},
		"not disrupted": {
			`{"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]}`, verdict{}},
		"node does not answer": {
			`{"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "NoExecute"}]}`,
			verdict{Outcome: lost, Text: "NodeLost: NoExecute"}},
		"node unknown": {`{"phase": "Unknown", "message": "node vanished"}`, verdict{Outcome: lost, Text: "NodeLost: node vanished"}},
		"node shutdown": {
			`{"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}`,
			verdict{Outcome: lost, Text: "NodeLost: Pod was terminated in response to imminent node shutdown."}},
		"refused by the node": {`{"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}`,
			verdict{Outcome: lost, Text: "OutOfcpu: Node didn't have enough resource: cpu"}},
		"deleted": {`{"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"phase": "Running"}}`,
			verdict{Outcome: lost, Text: "Deleted: another client has deleted the pod"}},
		"deadline": {
			`{"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"}`,
			verdict{Outcome: failed, Text: "DeadlineExceeded: Pod was active on the node longer than the specified deadline"}},
		// judged with the exit status
		"out of memory": {
			`{"containerStatuses": [{"name": "step", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}`, verdict{}},
		"shim failed": {`{"initContainerStatuses": [{"name": "init-repo", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}`,
			verdict{Outcome: failed, Text: "Unknown: the container init-repo ended: exit status 3"}},
		"results ended": {`{"containerStatuses": [{"name": "results", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}`,
			verdict{Outcome: failed, Text: "Unknown: the container results ended: OOMKilled, exit status 137"}},
		"ended, and kubelet has yet to report why": {
			`{"phase": "Running", "containerStatuses": [{"name": "step", "state": {"terminated": {"exitCode": 143}}}, {"name": "results", "state": {"terminated": {"exitCode": 3}}}]}`, verdict{}},
		"results ended beside the step": {
			`{"phase": "Running", "containerStatuses": [{"name": "step", "state": {"running": {}}}, {"name": "results", "state": {"terminated": {"exitCode": 3}}}]}`,
			verdict{Outcome: failed, Text: "Unknown: the container results ended: exit status 3"}},
		"service ended": {`{"containerStatuses": [{"name": "service-0-db", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}`,
			verdict{Outcome: wait, Text: "the service 0-db ended: exit status 1"}},
	} {
		if got := judge(podFrom(t, c.pod), pull); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// podFrom reads a pod, or its status.
func podFrom(t *testing.T, text string) *pod {
	t.Helper()
	var p pod
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if p.DeletionTimestamp == nil {
		if err := json.Unmarshal([]byte(text), &p.Status); err != nil {
			t.Fatal(err)
		}
	}
	return &p
}

func TestOutOfMemoryNamesTheLimit(t *testing.T) {
	t.Parallel()
	killed := podFrom(t, `{"containerStatuses": [{"name": "step", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}`)
	if got, want := outOfMemory(killed, 64<<20), "OOMKilled, the memory limit is 64 MiB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := outOfMemory(killed, 0); got != "OOMKilled, the node was out of memory; give the step resources with a request for memory" {
		t.Errorf("without a limit: %q", got)
	}
	other := podFrom(t,
		`{"containerStatuses": [{"name": "step", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}, {"name": "results", "state": {"terminated": {"reason": "OOMKilled"}}}]}`)
	if got := outOfMemory(other, 1); got != "" {
		t.Errorf("of a step that was killed: %q", got)
	}
}

// TestWhatHasBegunIsKnown decides whether a lost pod may be replaced.
func TestWhatHasBegunIsKnown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{}`: false,
		`{"containerStatuses": [{"name": "step", "state": {"waiting": {"reason": "PodInitializing"}}}, {"name": "results", "state": {"running": {}}}]}`: false,
		`{"containerStatuses": [{"name": "step", "state": {"running": {}}}]}`:                                                                           true,
		`{"containerStatuses": [{"name": "step", "state": {"terminated": {"exitCode": 0}}}]}`:                                                           true,
	} {
		if got := podFrom(t, text).began(); got != want {
			t.Errorf("%s: got %t", text, got)
		}
	}
}

// TestWarningsSayWhatStatesDoNot such as a volume that cannot be mounted.
func TestWarningsSayWhatStatesDoNot(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"FailedMount": "PodConfig: text", "FailedCreatePodSandBox": "FailedCreatePodSandBox: text", "BackOff": "",
		"FailedScheduling": "", "Evicted": "",
	} {
		if got := warningText(event{Reason: reason, Message: "text"}); got != want {
			t.Errorf("%s: got %q, want %q", reason, got, want)
		}
	}
	pending, running := podFrom(t, `{"phase": "Pending"}`), podFrom(t,
		`{"phase": "Running", "containerStatuses": [{"name": "step", "state": {"running": {}}}]}`)
	mount := []string{"FailedCreatePodSandBox: text", "PodConfig: text"}
	if got, want := judgeWarnings(pending, mount), (verdict{wait, "PodConfig: text", 2 * time.Minute, true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, got := range []verdict{judgeWarnings(running, mount), judgeWarnings(pending, mount[:1])} {
		if got != (verdict{}) {
			t.Errorf("got %+v", got)
		}
	}
}

// TestWorkersAreReported has a row for each state of a pod that does not run a step.
func TestWorkersAreReported(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		pod  string
		want Report
	}{
		"new": {`{"status": {"phase": "Pending"}}`, Report{}},
		"image not found": {
			`{"status": {"phase": "Pending", "containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "ErrImagePull", "message": "x: not found"}}}]}}`,
			Report{Trouble: "ImagePull: x: not found"}},
		"does not fit": {
			`{"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}}`,
			Report{Trouble: "Unschedulable: 0/3 nodes"}},
		"clones": {`{"status": {"phase": "Pending", "podIP": "10.1.2.3", "initContainerStatuses": [{"name": "clone", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}],
			"containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "PodInitializing"}}}]}}`,
			Report{IP: "10.1.2.3", StartedAt: at}},
		"ready": {`{"status": {"phase": "Running", "initContainerStatuses": [{"name": "clone", "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-02T03:04:05Z"}}}],
			"containerStatuses": [{"name": "worker", "ready": true, "state": {"running": {"startedAt": "2026-01-02T03:04:06Z"}}}]}}`,
			Report{StartedAt: at, Running: true, Ready: true}},
		"being deleted": {`{"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": {"phase": "Running",
			"containerStatuses": [{"name": "worker", "state": {"running": {}}}]}}`, Report{Running: true}},
		"node lost": {
			`{"status": {"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "NoExecute"}]}}`,
			Report{NodeLost: true, Trouble: "NodeLost: NoExecute"}},
		"evicted": {`{"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}}`,
			Report{Ended: true, Trouble: "Evicted: low on memory"}},
		"out of memory": {
			`{"status": {"phase": "Failed", "containerStatuses": [{"name": "worker", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}}`,
			Report{Ended: true, Trouble: "the container worker ended: OOMKilled, exit status 137"}},
		"clone failed": {
			`{"status": {"phase": "Failed", "initContainerStatuses": [{"name": "clone", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}}`,
			Report{Ended: true, Trouble: "the container clone ended: exit status 3"}},
		"refused by the node": {`{"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no room"}}`,
			Report{Ended: true, Trouble: "the pod ended: OutOfcpu: no room"}},
		"node gone after its end": {`{"status": {"phase": "Failed", "reason": "NodeLost", "message": "gone"}}`,
			Report{Ended: true, Trouble: "NodeLost: gone"}},
	} {
		var object unstructured.Unstructured
		if err := json.Unmarshal([]byte(c.pod), &object.Object); err != nil {
			t.Fatal(err)
		}
		if got, err := ReportOf(&object, "worker"); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestContainersOfAPodAreACopy as several goroutines read one pod at a time.
func TestContainersOfAPodAreACopy(t *testing.T) {
	t.Parallel()
	room := make([]containerStatus, 2)
	p := &pod{Status: podStatus{InitContainerStatuses: room[:1], ContainerStatuses: []containerStatus{{Name: containerStep}}}}
	if got := p.containers(); len(got) != 2 || got[1].Name != containerStep || room[1].Name != "" {
		t.Errorf("got %+v, and beside the first list %+v", got, room[1])
	}
}
