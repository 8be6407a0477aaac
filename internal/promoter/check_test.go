package promoter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// template is the YAML of a gate that runs a Job.
const template = `, gates: [{name: smoke, when: WHEN, timeout: 1h, job: {template: {metadata: {name: mine, labels: {team: a}}, spec: {backoffLimit: 1,
	template: {spec: {restartPolicy: Never, containers: [{name: smoke, image: smoke, args: ["{{revision}}"]}]}}}}}}]`

// jobs lists the Jobs of gates.
func (w *world) jobs() []unstructured.Unstructured {
	w.t.Helper()
	list, err := w.management.Resource(kube.Jobs()).Namespace("apps").List(w.t.Context(),
		metav1.ListOptions{LabelSelector: promotion.LabelGate})
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// awaitJobs waits until there are n Jobs.
func (w *world) awaitJobs(n int) []unstructured.Unstructured {
	w.t.Helper()
	events, err := w.management.Resource(kube.Jobs()).Namespace("apps").Watch(w.t.Context(),
		metav1.ListOptions{LabelSelector: promotion.LabelGate})
	if err != nil {
		w.t.Fatal(err)
	}
	defer events.Stop()
	limit := time.After(patience)
	for {
		if found := w.jobs(); len(found) == n {
			return found
		}
		select {
		case <-events.ResultChan():
		case <-limit:
			w.t.Fatalf("Jobs: got %d, want %d", len(w.jobs()), n)
		}
	}
}

// end gives a Job a condition.
func (w *world) end(job unstructured.Unstructured, condition string) {
	w.t.Helper()
	job.Object["status"] = map[string]any{"startTime": "2026-01-01T00:00:00Z", "conditions": []any{
		map[string]any{"type": condition, "status": "True", "reason": "Test", "message": "ended by the test"}}}
	if _, err := w.management.Resource(kube.Jobs()).Namespace("apps").UpdateStatus(w.t.Context(), &job,
		metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// carry adds a pipeline with gates of one time in prod.
func (w *world) carry(gates, when string) {
	w.t.Helper()
	w.at("dev", "6.5.4")
	w.at("prod", "6.5.4")
	w.pipeline(strings.ReplaceAll(gates, "WHEN", when))
}

// why returns a function that reports whether an environment waits for a reason with a text in its message.
func why(env string, code promotion.ReasonCode, text string) func(promotions.View) bool {
	return func(v promotions.View) bool {
		return slices.ContainsFunc(v.Environments, func(e promotions.EnvironmentView) bool {
			return e.Name == env && slices.ContainsFunc(e.Reasons, func(r promotions.ReasonView) bool {
				return r.Code == code && strings.Contains(r.Message, text)
			})
		})
	}
}

// A Job is created once, although processes end at any point, and its completion passes the gate.
func TestAJobPassesAGateAfterTheRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(template, "After")
	stop := w.start()
	first := w.awaitJobs(1)[0] // the baseline has one
	stop()
	stop = w.start()
	w.end(first, "Complete")
	w.awaitBaseline()
	stop()
	w.start()
	if got := first.GetLabels()["team"]; got != "a" || first.GetName() == "mine" {
		t.Errorf("label team of the Job %s: got %q, want the template's label and the name of the action", first.GetName(), got)
	}
	owners := first.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "Pipeline" || owners[0].Name != "podinfo" {
		t.Errorf("owners of the Job: %v, want the pipeline", owners)
	}
	containers, _, _ := unstructured.NestedSlice(first.Object, "spec", "template", "spec", "containers")
	if args := containers[0].(map[string]any)["args"]; !slices.Equal(args.([]any), []any{"6.5.4"}) {
		t.Errorf("arguments: got %v, want the revision", args)
	}
	for field, want := range map[string]string{"ttlSecondsAfterFinished": "86400", "activeDeadlineSeconds": "3600", "backoffLimit": "1"} {
		if got, _, _ := unstructured.NestedFieldNoCopy(first.Object, "spec", field); fmt.Sprint(got) != want {
			t.Errorf("spec.%s: got %v, want %s", field, got, want)
		}
	}
	if found := w.jobs(); len(found) != 1 {
		t.Errorf("Jobs of a gate that has passed: got %d, want 1", len(found))
	}
}

func TestAJobFailsAGateBeforeThePromotion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(template, "Before")
	w.start()
	w.awaitBaseline()
	w.at("dev", "6.6.0")
	job := w.awaitJobs(1)[0]
	w.await("the gate", why("prod", promotion.WhyWaitingGate, "gate smoke"))
	w.end(job, "Failed")
	w.await("the failure", why("prod", promotion.WhyGateFailed, "failed: Test: ended by the test"))
	if got := w.promoted(); len(got) > 0 {
		t.Errorf("announced %v although the gate has failed", got)
	}
}

// A Job whose run is superseded, or whose pipeline is gone, is deleted.
func TestAJobThatNothingWaitsForIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(template, "Before")
	w.start()
	w.awaitBaseline()
	w.at("dev", "6.6.0")
	first := w.awaitJobs(1)[0]
	gone := w.watchJobs()
	w.at("dev", "6.6.1")
	for event := range gone {
		if event.Type == watch.Deleted {
			break
		}
	}
	second := w.awaitJobs(1)[0]
	if first.GetName() == second.GetName() {
		t.Fatalf("the Job %s was not replaced", first.GetName())
	}
	gone = w.watchJobs()
	if err := w.management.Resource(pipelines).Namespace("apps").Delete(t.Context(), "podinfo", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range gone {
		if event.Type == watch.Deleted {
			return
		}
	}
}

func (w *world) watchJobs() <-chan watch.Event {
	w.t.Helper()
	events, err := w.management.Resource(kube.Jobs()).Namespace("apps").Watch(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(events.Stop)
	return events.ResultChan()
}

// A Job that vanishes before its end was seen fails its gate: it may have run.
func TestALostJobFailsItsGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.carry(template, "Before")
	w.start()
	w.awaitBaseline()
	w.at("dev", "6.6.0")
	job := w.awaitJobs(1)[0]
	w.await("the gate", why("prod", promotion.WhyWaitingGate, "gate smoke"))
	if err := w.management.Resource(kube.Jobs()).Namespace("apps").Delete(t.Context(), job.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the failure", why("prod", promotion.WhyGateFailed, "vanished before its end was seen"))
}

func TestAnExpressionIsEvaluatedOverTheLiveObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expression string
		code       promotion.ReasonCode // "": it passes
		text       string
	}{
		"passes": {`targets.all(o, o.metadata.namespace == '{{environment}}' && o.status.lastAppliedRevision == '{{revision}}')`, "", ""},
		"fails":  {`targets.exists(o, o.metadata.generation > 7)`, promotion.WhyGateFailed, "the expression is false"},
		"errs":   {`targets[0].metadata.labels.tier == 'web'`, promotion.WhyGateFailed, "no such key: labels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld(t)
			w.pipeline(`, gates: [{name: live, interval: 1s, failures: 2, cel: "` + c.expression + `"}]`)
			w.start()
			if c.code != "" {
				w.await("the failure", why("prod", c.code, c.text))
				return
			}
			w.await("the gate", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
		})
	}
}
