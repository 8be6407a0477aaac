package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

func finished(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished }

func TestArchivedDeploymentsCanStillBeRead(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w, ctx := servertest.StartAging(t, t.TempDir()), t.Context()
		first := service.Ref{Pipeline: "greeter", Number: 1}
		var log []pipeline.Entry
		var history []journal.Passage
		w.Until(t, w.Ship(t, "greeter", "r1"), "ends", finished)
		log = entries(t, w, journal.EntryQuery{Pipeline: "greeter", Deployment: 1})
		history = passages(t, w, journal.HistoryQuery{Pipeline: "greeter", Target: "prod/east/elm"})
		w.Grow(t, "r2", "r3", "r4", "r5", "r6", "r7")

		view, err := w.Service.Deployment(ctx, first)
		if err != nil || view.Status != pipeline.StatusFinished || view.Label != "r1" || view.EndedAt.IsZero() ||
			view.State.Status != view.Status {
			t.Fatalf("%+v, %v", view, err)
		}
		var stages []string
		for _, s := range view.Stages {
			stages = append(stages, s.Name+": "+string(s.Kind)+" "+string(s.State))
		}
		if diff := cmp.Diff([]string{"build: build finished", "beta: hosts finished", "prod: hosts finished"}, stages); diff != "" {
			t.Errorf("stages (-want +got):\n%s", diff)
		}
		for name, q := range map[string]journal.EntryQuery{
			"all":            {},
			"facts":          {Class: pipeline.Fact},
			"a target":       {Target: "greeter/prod/east"},
			"the newest":     {Newest: true, Limit: 5},
			"the oldest":     {Limit: 5},
			"after an entry": {After: log[10].Seq},
		} {
			q.Pipeline, q.Deployment = "greeter", 1
			if diff := cmp.Diff(selected(log, q), entries(t, w, q)); diff != "" {
				t.Errorf("%s (-before +after):\n%s", name, diff)
			}
		}
		if left := selected(entries(t, w, journal.EntryQuery{Pipeline: "greeter"}), journal.EntryQuery{Deployment: 1}); len(left) > 0 {
			t.Errorf("%d entries are left in the log of the pipeline", len(left))
		}
		after := passages(t, w, journal.HistoryQuery{Pipeline: "greeter", Target: "prod/east/elm"})
		if len(after) != 7 {
			t.Fatalf("%d passages of elm, want 7", len(after))
		}
		if diff := cmp.Diff(history, after[6:]); diff != "" {
			t.Errorf("history of elm (-before +after):\n%s", diff)
		}
		page := passages(t, w, journal.HistoryQuery{Pipeline: "greeter", Target: "prod", Limit: 4})
		if len(page) != 4 || page[0].Deployment != 7 || page[3].Deployment != 4 {
			t.Errorf("the first page of prod: %+v", page)
		}
		page = passages(t, w, journal.HistoryQuery{Pipeline: "greeter", Target: "prod", Limit: 4, Before: page[3].Seq})
		if len(page) != 3 || page[0].Deployment != 3 || page[2].Deployment != 1 {
			t.Errorf("the last page of prod: %+v", page)
		}
		listed, err := w.Service.Deployments(ctx, journal.DeploymentQuery{Pipeline: "greeter"})
		if err != nil || len(listed) != 7 || listed[6].Status != pipeline.StatusFinished || listed[6].Archive == "" {
			t.Errorf("%+v, %v", listed, err)
		}
		metrics, err := w.Service.Metrics(ctx, service.MetricsQuery{Pipeline: "greeter", Weeks: 2})
		if err != nil || metrics[2].All.Deployments != 7 {
			t.Errorf("metrics %+v, %v", metrics, err)
		}
	})
}

// TestNothingIsDoneToArchivedDeployments: commands are refused in one sentence, and the revision may be deployed again.
func TestNothingIsDoneToArchivedDeployments(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w, ctx := servertest.StartAging(t, t.TempDir()), t.Context()
		w.Grow(t, "r1", "r2", "r3", "r4", "r5", "r6")
		first := service.Ref{Pipeline: "greeter", Number: 1}
		for _, kind := range []string{"retry", "skip", "hold", "resume", "until", "alarm", "cancel"} {
			c := service.Command{Kind: kind, By: "ana", Reason: "to see"}
			err := w.Service.Command(ctx, first, c)
			if !fault.Is(err, fault.Refused) || err.Error() != "greeter#1 is archived: it has ended, and only its log can be read" {
				t.Errorf("%s: %v", kind, err)
			}
			if _, preview := w.Service.PreviewCommand(ctx, first, c); !fault.Is(preview, fault.Refused) || preview.Error() != err.Error() {
				t.Errorf("preview of %s: %v", kind, preview)
			}
		}
		if _, err := w.Service.Approve(ctx, service.Approval{Pipeline: "greeter", Deployment: 1, Stage: "prod",
			By: "ana"}); !fault.Is(err, fault.Refused) ||
			!strings.HasPrefix(err.Error(), "greeter#1 is archived") {
			t.Errorf("approve: %v", err)
		}
		if _, err := w.Service.Why(ctx, first, ""); !fault.Is(err, fault.Refused) {
			t.Errorf("why: %v", err)
		}
		again, err := w.Service.Deploy(ctx, service.NewDeployment{Pipeline: "greeter", Revision: "r1", By: "ana"})
		if err != nil {
			t.Fatal(err)
		}
		w.Until(t, service.Ref{Pipeline: "greeter", Number: again.Number}, "ends", finished)
		at, err := w.Service.Target(ctx, "greeter", "prod")
		if err != nil || at.Current == nil || at.Current.Label != "r1" || at.Highest.Label != "r6" {
			t.Errorf("prod: %+v, %v", at, err)
		}
	})
}

// TestADamagedArchiveIsNamed: in one sentence, with its key, by whatever reads it.
func TestADamagedArchiveIsNamed(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w, ctx := servertest.StartAging(t, t.TempDir()), t.Context()
		w.Grow(t, "r1", "r2", "r3", "r4", "r5", "r6")
		d, err := w.Ledger.Deployment(ctx, "greeter", 1)
		if err != nil {
			t.Fatal(err)
		}
		for want, spoil := range map[string]func() error{
			"is damaged":               func() error { _, _, _, err := w.Blobs.Put(ctx, d.Archive, strings.NewReader("no archive")); return err },
			"is not in the blob store": func() error { return w.Blobs.Clear(ctx, "archives") },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			q := journal.EntryQuery{Pipeline: "greeter", Deployment: 1}
			_, read := w.Service.Entries(ctx, q)
			followed := w.Service.Follow(ctx, q, func(pipeline.Entry) error { return nil })
			for what, err := range map[string]error{"log": read, "follow": followed} {
				if !fault.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "the archive "+d.Archive+" "+want) ||
					!strings.Contains(err.Error(), "greeter#1") {
					t.Errorf("%s %s: %v", what, want, err)
				}
			}
			for _, target := range []string{"", "prod", "prod/east/elm"} {
				history := passages(t, w, journal.HistoryQuery{Pipeline: "greeter", Target: target})
				if len(history) != 6 || history[4].Error != "" || !strings.Contains(history[5].Error, "the archive "+d.Archive+" "+want) {
					t.Errorf("history of %q: %+v", target, history)
				}
				if rest := passages(t, w, journal.HistoryQuery{Pipeline: "greeter", Target: target, Before: history[5].Seq}); len(rest) != 0 {
					t.Errorf("the page after it: %+v", rest)
				}
			}
			if view, err := w.Service.Deployment(ctx, service.Ref{Pipeline: "greeter", Number: 1}); err != nil || len(view.Stages) != 3 {
				t.Errorf("the view needs no archive: %+v, %v", view.Stages, err)
			}
		}
	})
}

// TestAServerThatLagsFoldsAgain: its fold ends within deployments that are archived in the meantime by another
// process.
func TestAServerThatLagsFoldsAgain(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w, ctx := servertest.StartAging(t, t.TempDir()), t.Context()
		asking := service.New(w.Ledger.NewWaiter(), w.Blobs, service.Options{})
		deciding := service.New(w.Ledger.NewWaiter(), w.Blobs, service.Options{})
		w.Until(t, w.Ship(t, "greeter", "r1"), "has finished beta", func(v service.DeploymentView) bool {
			return len(v.Stages) > 1 && v.Stages[1].State == service.RunFinished
		})
		for _, s := range []*service.Service{asking, deciding} {
			if _, err := s.Pipeline(ctx, "greeter"); err != nil {
				t.Fatal(err)
			}
		}
		w.Grow(t, "r2", "r3", "r4", "r5", "r6", "r7")
		want, err := w.Service.Pipeline(ctx, "greeter")
		if err != nil {
			t.Fatal(err)
		}
		got, err := asking.Pipeline(ctx, "greeter")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(standings(want), standings(got)); diff != "" || len(want.Hosts) == 0 {
			t.Errorf("the pipeline (-one that follows +one that lagged):\n%s", diff)
		}
		seventh := service.Ref{Pipeline: "greeter", Number: 7}
		if err := deciding.Command(ctx, seventh, service.Command{Kind: "alarm", By: "ana"}); err == nil || fault.Is(err, fault.Internal) {
			t.Errorf("an alarm about a deployment that has ended: %v", err)
		}
		if _, err := deciding.Freeze(ctx, "greeter", admission.Freeze{By: "ana", Reason: "to see"}); err != nil {
			t.Error(err)
		}
	})
}

// standings returns a view's part about stages and hosts.
func standings(v service.PipelineView) (all []string) {
	for _, s := range v.Stages {
		all = append(all, s.Name+" "+s.Current.Label)
	}
	for _, h := range v.Hosts {
		all = append(all, h.Target+" "+h.Runs.Label+" "+h.Runs.Status)
	}
	return all
}

func entries(t *testing.T, w servertest.Aging, q journal.EntryQuery) []pipeline.Entry {
	t.Helper()
	rows, err := w.Service.Entries(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func passages(t *testing.T, w servertest.Aging, q journal.HistoryQuery) []journal.Passage {
	t.Helper()
	found, err := w.Service.History(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// selected returns the rows that a query selects.
func selected(rows []pipeline.Entry, q journal.EntryQuery) (found []pipeline.Entry) {
	for _, e := range rows {
		isBelow := q.Target == "" || e.Target == q.Target || strings.HasPrefix(e.Target, q.Target+"/")
		if e.Seq > q.After && (q.Class == 0 || e.Class == q.Class) && isBelow && (q.Deployment == 0 || e.Deployment == q.Deployment) {
			found = append(found, e)
		}
	}
	switch {
	case q.Limit == 0 || q.Limit > len(found):
		return found
	case q.Newest:
		return found[len(found)-q.Limit:]
	}
	return found[:q.Limit]
}
