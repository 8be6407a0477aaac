package promoter_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// notified adds a pipeline with two sinks, one of which wants two occasions only.
func (w *world) notified(more string) {
	w.t.Helper()
	w.management.Add(pipelines, w.object(`{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline,
		metadata: {name: podinfo, namespace: apps, generation: 1}, spec: {
		appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: podinfo},
		promotion: {strategy: {notification: {}}},
		notify: [{webhook: {url: "https://all.example/"}}, {"on": [Finished, Failed], webhook: {url: "https://some.example/", format: slack}}],
		environments: [{name: dev, targets: [{namespace: dev}]},
			{name: prod, targets: [{namespace: prod, clusterRef: {kind: GitopsCluster, name: leaf}}]`+more+`}]}}`))
}

// sent counts the notices of each occasion of a revision: those of the first sink, and those of both.
func (w *world) sent(revision string) map[string]string {
	w.t.Helper()
	count := map[string][2]int{}
	states, err := w.ledger.Actions(w.t.Context(), queue.ActionQuery{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range states {
		var n promotion.Notice
		if s.Kind != promotion.NoticeKind || promotions.ReadDocument(string(s.Parameters), &n) != nil || string(n.Revision) != revision {
			continue
		}
		what := strings.Trim(n.Occasion+" "+string(n.Env)+" "+n.Reason, " ")
		c := count[what]
		if c[1]++; strings.Contains(n.Sink.URL, "all.") {
			c[0]++
		}
		count[what] = c
	}
	texts := map[string]string{}
	for what, c := range count {
		texts[what] = fmt.Sprintf("%d of %d", c[0], c[1])
	}
	return texts
}

// awaitSent waits until the notices of a revision are as wanted. The pipeline may be gone.
func (w *world) awaitSent(revision string, want map[string]string) {
	w.t.Helper()
	log := w.ledger.NewWaiter()
	for deadline := time.Now().Add(patience); !maps.Equal(w.sent(revision), want); {
		if time.Now().After(deadline) {
			w.t.Fatalf("notices of %s, not in time: got %v, want %v", revision, w.sent(revision), want)
		}
		_ = log.Wait(w.t.Context(), store.TopicPromotion, time.Now().Add(time.Second))
	}
}

// setNotify adds a sink to the pipeline.
func (w *world) setNotify() {
	w.t.Helper()
	w.change(func(spec map[string]any) {
		spec["notify"] = w.object(`{notify: [{webhook: {url: "https://all.example/"}}]}`).Object["notify"]
	})
}

// Each occasion of a run is announced once to each sink that wants it, although processes end at any point.
func TestSinksAreNotifiedOnceOfEachOccasion(t *testing.T) {
	t.Parallel()
	w := newSettledWorld(t)
	w.notified(", approval: {count: 1}")
	stop := w.start()
	w.awaitSent("6.5.4", map[string]string{"Started": "1 of 1", "Finished": "1 of 2"})
	stop()
	w.at("dev", "6.6.0")
	stop = w.start()
	w.awaitSent("6.6.0", map[string]string{"Started": "1 of 1", "WaitingApproval prod": "1 of 1"})
	stop()
	stop = w.start()
	view := w.await("the approval", func(v promotions.View) bool { return v.Environments[1].Approval != nil })
	if _, _, err := w.ledger.Promotions.AddIntent(t.Context(), name,
		promotion.Intent{Kind: promotion.Approve, Env: "prod", Run: view.Environments[1].Run,
			Revision: "6.6.0", By: admission.Person{Name: "alice"}}); err != nil {
		t.Fatal(err)
	}
	w.awaitSent("6.6.0", map[string]string{"Started": "1 of 1", "WaitingApproval prod": "1 of 1", "Promoted prod": "1 of 1"})
	stop()
	w.at("prod", "6.6.0")
	w.start()
	w.awaitSent("6.6.0", map[string]string{"Started": "1 of 1", "WaitingApproval prod": "1 of 1", "Promoted prod": "1 of 1",
		"Finished": "1 of 2"})
	if got := w.sent("6.5.4"); len(got) != 2 {
		t.Errorf("notices of the revision before: %v, want no more", got)
	}
}

func TestSinksAreNotifiedOfFailuresAndSuperseding(t *testing.T) {
	t.Parallel()
	w := newSettledWorld(t)
	w.notified(`, gates: [{name: never, when: Before, interval: 1s, failures: 1, cel: "targets.size() > 7"}]`)
	w.start()
	w.awaitSent("6.5.4", map[string]string{"Started": "1 of 1", "Finished": "1 of 2"})
	w.at("dev", "6.6.0")
	w.awaitSent("6.6.0", map[string]string{"Started": "1 of 1", "Failed prod GateFailed": "1 of 2"})
	w.at("dev", "6.6.1")
	w.awaitSent("6.6.0", map[string]string{"Started": "1 of 1", "Failed prod GateFailed": "1 of 2", "Superseded": "1 of 1"})
	w.awaitSent("6.6.1", map[string]string{"Started": "1 of 1", "Failed prod GateFailed": "1 of 2"})
}

// A pipeline that gets sinks announces neither the past nor the rest of a run.
func TestSinksThatAreAddedLearnOfNewRunsOnly(t *testing.T) {
	t.Parallel()
	w := newSettledWorld(t)
	w.pipeline("")
	stop := w.start()
	w.awaitBaseline()
	w.at("dev", "6.6.0")
	w.await("prod is promoted", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseRollingOut })
	stop()
	w.setNotify()
	w.start()
	w.at("prod", "6.6.0")
	w.await("the run is finished", func(v promotions.View) bool {
		return v.Run != nil && v.Run.Revision == "6.6.0" && v.Run.End == promotion.Finished
	})
	w.at("dev", "6.7.0")
	w.awaitSent("6.7.0", map[string]string{"Started": "1 of 1", "Promoted prod": "1 of 1"})
	for _, revision := range []string{"6.5.4", "6.6.0"} {
		if got := w.sent(revision); len(got) > 0 {
			t.Errorf("notices of %s: %v, want none", revision, slices.Sorted(maps.Keys(got)))
		}
	}
}

// The end of a run whose pipeline was deleted, or deleted and made again, is announced, and no notice is taken back.
func TestSinksLearnThatThePipelineOfARunWasDeleted(t *testing.T) {
	t.Parallel()
	for name, isMadeAgain := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.at("dev", "6.5.4")
			w.at("prod", "6.5.4")
			w.notified(", approval: {count: 1}")
			w.start()
			w.awaitSent("6.5.4", map[string]string{"Started": "1 of 1", "Finished": "1 of 2"})
			w.at("dev", "6.6.0")
			w.awaitSent("6.6.0", map[string]string{"Started": "1 of 1", "WaitingApproval prod": "1 of 1"})
			objects := w.management.Resource(pipelines).Namespace("apps")
			if err := objects.Delete(t.Context(), "podinfo", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"Started": "1 of 1", "WaitingApproval prod": "1 of 1", "Superseded": "1 of 1"}
			if isMadeAgain { // with a run of its own
				w.notified(", approval: {count: 1}")
				want["Started"], want["WaitingApproval prod"] = "2 of 2", "2 of 2"
			}
			w.awaitSent("6.6.0", want)
			states, err := w.ledger.Actions(t.Context(), queue.ActionQuery{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range states {
				if s.Kind == promotion.NoticeKind && (s.Thread.Status.Ended() || !s.Thread.CancelAt.IsZero()) {
					t.Errorf("the notice %s has ended: %+v", s.Name, s.Thread)
				}
			}
		})
	}
}
