package assembly

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/watchdog"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
)

// watchedIn returns the builds of a new log as a watchdog sees them, and the requests that its provisioner gets.
func watchedIn(t *testing.T) (watchedBuilds, *[]string) {
	t.Helper()
	dir := t.TempDir()
	s, err := placeIn(dir, nil).Open(t.Context(), dir, Serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	var asked []string
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(served.Close)
	client := &provisionerv1.Client{URL: served.URL, Token: func() (string, error) { return "a token", nil }}
	return watchedBuilds{s.Ledger, client}, &asked
}

func TestAWatchdogSeesOpenBuildsAndThoseOfWorkers(t *testing.T) {
	t.Parallel()
	w, _ := watchedIn(t)
	queued := action.Action{ID: action.DerivedID(time.Now(), t.Name()), Kind: "noop", Handler: "noop", Lane: "noop",
		Policy: action.DefaultPolicy(), Parameters: []byte("{}")}
	if _, err := w.ledger.Enqueue(t.Context(), queued); err != nil {
		t.Fatal(err)
	}
	var ids []builds.ID
	gone := action.DerivedID(time.Now(), "no longer kept")
	for _, of := range []action.ID{queued.ID, gone, {}, {}} {
		b, err := w.ledger.Builds.Create(t.Context(), builds.Build{Project: "shop", ActionID: of})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.ID)
	}
	for _, id := range ids[2:] { // the last two have ended, and of one everything was taken
		_, err := w.ledger.Builds.Record(t.Context(), id, builds.Event{Source: builds.API, EventID: "1", Status: build.Failed})
		if err := errors.Join(err, w.ledger.Builds.Acknowledged(t.Context(), id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.ledger.Builds.Delete(t.Context(), ids[3]); err != nil {
		t.Fatal(err)
	}
	list, now, err := w.Builds(t.Context(), []int64{int64(ids[1]), int64(ids[3]), 99})
	if err != nil || !list.Complete || now.IsZero() {
		t.Fatal(list, now, err)
	}
	type seen struct{ Creating, Ended, Acknowledged bool }
	got := map[int64]seen{}
	for _, b := range list.Builds {
		got[b.ID] = seen{b.Creating, !b.EndedAt.IsZero(), b.Acknowledged}
	}
	want := map[int64]seen{int64(ids[0]): {Creating: true}, int64(ids[1]): {}, int64(ids[3]): {Ended: true, Acknowledged: true}}
	if diff := cmp.Diff(want, got); diff != "" || len(list.Builds) != 3 {
		t.Error(diff)
	}
}

func TestADecisionEndsTheBuildAndDeletesTheWorker(t *testing.T) {
	t.Parallel()
	w, asked := watchedIn(t)
	b, err := w.ledger.Builds.Create(t.Context(), builds.Build{Project: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	d := build.WatchDecision{Difference: build.Difference{Rule: build.RuleWorkerEnded, BuildID: int64(b.ID),
		WorkerID: "w1", BuildAge: time.Hour},
		Status: build.Lost, Delete: true, Reason: "it ended"}
	for range 2 { // the second time it records nothing
		if err := w.Decide(t.Context(), d, "key"); err != nil {
			t.Fatal(err)
		}
	}
	after, err := w.ledger.Builds.Build(t.Context(), b.ID)
	if err != nil || after.Status != build.Lost || after.LastSeq != 1 || after.Message != "it ended" {
		t.Errorf("%+v, %v", after, err)
	}
	unknown := build.WatchDecision{Difference: build.Difference{Rule: build.RuleBuildUnknown, BuildID: 99,
		WorkerID: "w99"}, Delete: true, Force: true}
	if err := w.Decide(t.Context(), unknown, "other"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DELETE /api/worker/w1", "DELETE /api/worker/w1", "DELETE /api/worker/w99?force=true"}, *asked); diff != "" {
		t.Error(diff)
	}
}

func TestRolesOfWorkersNeedAProvisioner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := placeIn(dir, nil).Open(t.Context(), dir, Serve)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, role := range []string{RoleAggregator, RoleWatchdog} {
		_, err := s.Roles(context.WithoutCancel(t.Context()), RoleOptions{}, role)
		wantFault(t, err, fault.Invalid, "the role "+role+" needs a provisioner")
	}
}

// TestAnUnreachableBuildIsKnownAsOne until its worker is heard from. A build that ended without being acknowledged is not looked at again.
func TestAnUnreachableBuildIsKnownAsOne(t *testing.T) {
	t.Parallel()
	w, _ := watchedIn(t)
	var ids []builds.ID
	for range 2 {
		b, err := w.ledger.Builds.Create(t.Context(), builds.Build{Project: "shop"})
		if err == nil {
			err = w.ledger.Builds.Assign(t.Context(), b.ID, "w1", "nonce")
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.ID)
	}
	if _, err := w.ledger.Builds.Record(t.Context(), ids[1],
		builds.Event{Source: builds.Watchdog, EventID: "lost", Status: build.Lost}); err != nil {
		t.Fatal(err)
	}
	unreachable := func() bool {
		t.Helper()
		list, _, err := w.Builds(t.Context(), nil)
		if err != nil || len(list.Builds) != 1 {
			t.Fatal(list, err)
		}
		return list.Builds[0].Unreachable
	}
	if unreachable() {
		t.Error("nothing was decided yet")
	}
	d := build.WatchDecision{Difference: build.Difference{Rule: build.RuleUnreachable, BuildID: int64(ids[0]),
		WorkerID: "w1", BuildAge: time.Hour}, Unreachable: true}
	if err := w.Decide(t.Context(), d, watchdog.Key(d.Difference)); err != nil {
		t.Fatal(err)
	}
	if !unreachable() {
		t.Error("the decision is not seen")
	}
	if _, err := w.ledger.Builds.Ingest(t.Context(), ids[0], builds.Batch{}); err != nil {
		t.Fatal(err)
	}
	if unreachable() {
		t.Error("its worker was heard from")
	}
}
