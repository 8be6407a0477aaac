package promotion

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/kube"
	base "github.com/waybill-dev/waybill/internal/promotion"
)

// EndJob waits for the Job of a gate about a version that has not ended, and ends it as the controller of Jobs does: complete, or
// failed.
func (p *Project) EndJob(t testing.TB, version string, complete bool) *unstructured.Unstructured {
	t.Helper()
	jobs := p.Management.Dynamic.Resource(kube.Jobs()).Namespace(p.Namespace)
	var found *unstructured.Unstructured
	p.Await(t, Step{Name: "the Job for " + version, Holds: func() bool {
		list, err := jobs.List(t.Context(), metav1.ListOptions{LabelSelector: base.LabelGate})
		if err != nil {
			return false
		}
		for _, job := range list.Items {
			_, started, _ := unstructured.NestedString(job.Object, "status", "startTime")
			if job.GetAnnotations()["waybill.dev/revision"] == version && !started && job.GetDeletionTimestamp() == nil {
				found = &job
				return true
			}
		}
		return false
	}})
	now := time.Now().UTC().Format(time.RFC3339)
	status, types := map[string]any{"startTime": now}, []string{"FailureTarget", "Failed"}
	if complete {
		types = []string{"SuccessCriteriaMet", "Complete"}
		status["completionTime"], status["succeeded"] = now, int64(1)
	} else {
		status["failed"] = int64(1)
	}
	var conditions []any
	for _, kind := range types {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "reason": "Test", "message": "ended by the test",
			"lastProbeTime": now, "lastTransitionTime": now})
	}
	status["conditions"] = conditions
	found.Object["status"] = status
	if _, err := jobs.UpdateStatus(t.Context(), found, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("end the Job for %s: %v", version, err)
	}
	return found
}
