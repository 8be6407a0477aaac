//go:build services

package promotion_test

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// smoke is a gate with a Job, in an environment that is brought back when it fails.
const smoke = merging + `
rollback: {mode: Automatic, after: 0s}
gates:
- name: smoke
  job:
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers: [{name: smoke, image: "example.com/smoke:1", args: ["{{revision}}", "{{environment}}"]}]`

// gatedByJob ends the Jobs of a gate as a node would. One that fails brings staging back, where the gate is asked again.
func gatedByJob(t *testing.T, s *promotion.Scene) {
	s.EndJob(t, "6.5.4", true)
	s.Push(t, promotion.Dev, "6.6.0")
	job := s.EndJob(t, "6.6.0", true)
	containers, _, _ := unstructured.NestedSlice(job.Object, "spec", "template", "spec", "containers")
	if len(containers) != 1 || job.GetNamespace() != s.Namespace {
		t.Fatalf("Job %s/%s has the containers %v, want one, in the namespace of the pipeline", job.GetNamespace(), job.GetName(),
			containers)
	}
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
	s.Push(t, promotion.Dev, "6.6.1")
	s.EndJob(t, "6.6.1", false)
	s.AwaitRunning(t, promotion.Staging, "6.6.0")
	s.EndJob(t, "6.6.0", true)
	s.AwaitStatus(t, "staging is complete with the revision before", func(status pipelines.PipelineStatus) bool {
		e := status.Environments[promotion.Staging]
		return e.Phase == "Complete" && e.Want == "6.6.0"
	})
	if pulls := s.Proposals(t, promotion.Prod, "6.6.1"); len(pulls) != 0 {
		t.Errorf("pull requests of prod after the gate failed: %+v, want none", pulls)
	}
}

// agreed is a gate on an annotation of the live objects.
const agreed = `gates: [{name: agreed, when: Before, interval: 1s, failures: 1000,
  cel: "targets.all(t, has(t.metadata.annotations) && 'agreed' in t.metadata.annotations && t.metadata.annotations.agreed == '{{revision}}')"}]`

func gatedByExpression(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Prod, "WaitingGate")
	agree := func(app *testbed.Application) {
		patch := []byte(`{"metadata": {"annotations": {"agreed": "6.6.0"}}}`)
		releases := s.Cluster.Dynamic.Resource(testbed.HelmReleases()).Namespace(app.Namespace)
		if _, err := releases.Patch(t.Context(), promotion.App, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	agree(s.Apps[promotion.Prod][0])
	if pulls := s.Proposals(t, promotion.Prod, "6.6.0"); len(pulls) != 0 {
		t.Errorf("pull requests of prod while one target does not agree: %+v, want none", pulls)
	}
	agree(s.Apps[promotion.Prod][1])
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
}

// announced has a sink notified of a whole run, with one request for each occasion.
func announced(t *testing.T, s *promotion.Scene) {
	sink := promotion.StartSink(t)
	s.Cluster.Apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: sink, namespace: "+s.Namespace+"}, stringData: {secret: "+promotion.SinkSecret+"}}")
	notify := `notify: [{webhook: {url: "` + sink.URL + `", secretRef: {name: sink}}}]`
	s.Change(t, promotion.Extra{Spec: notify, Staging: merging, Prod: merging + "\napproval: {count: 1}"})
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Prod, "WaitingApproval")
	run(t, s, "approve", s.ID(), promotion.Prod, "--revision", "6.6.0")
	want := map[string]int{"started": 1, "proposed staging": 1, "promoted staging": 1, "waiting-approval prod": 1, "proposed prod": 1,
		"promoted prod": 1, "finished": 1}
	s.Await(t, promotion.Step{Name: "the sink is notified", Holds: func() bool { return len(sink.Received("6.6.0")) >= len(want) }})
	if got := sink.Received("6.6.0"); !maps.Equal(got, want) {
		t.Errorf("notifications: got %v, want %v", got, want)
	}
}
