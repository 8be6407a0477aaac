package promoter_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// The entries of an ended deployment leave the log with those of its stage, and the next deployment is promoted as before.
func TestADeploymentWithAStageIsArchived(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := newStageWorld(t, nil, sqlite.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	folders, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.blobs, w.keep = folders, pipeline.Keep{Entries: action.Duration(time.Nanosecond)}
	w.edit(2, func(s *pipeline.Stage) { s.Environment.MinReady = pipeline.Limit{N: 1} })
	w.health("6.5.4", "True")
	stop := w.start()
	ship := func(number int) {
		t.Helper()
		revision := fmt.Sprintf("6.6.%d", number)
		w.deploy(revision)
		w.awaitAttempt("propose " + revision)
		w.health(revision, "True")
		w.awaitEntry(fmt.Sprintf("%d shop pipeline-finished-successfully", number))
	}
	for number := range 4 { // the newest ones stay
		ship(number + 1)
	}
	stop()
	ahead.Store(int64(2 * journal.RepeatAge))
	w.start()
	w.until("the archive", func() bool {
		return !slices.ContainsFunc(w.entries(), func(e string) bool { return strings.HasPrefix(e, "1 ") })
	})
	ship(5)
	found, err := deployer.Verify(t.Context(), w.ledger, folders, "shop")
	if err != nil || len(found.Faults) > 0 || found.Archived == 0 {
		t.Errorf("the log with its archives: %+v, %v", found, err)
	}
}

// More ready targets than the edited definition wants finish the stage that waits for all.
func TestAnEditOfMinReadyCountsAtOnce(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, func(s *pipeline.Stage) {
		for _, namespace := range []string{"prod-2", "prod-3"} { // they are not there
			s.Environment.Targets = append(s.Environment.Targets, pipeline.Target{Cluster: "eu", Namespace: namespace})
		}
		s.Environment.MinReady = pipeline.Limit{N: 2}
	})
	w.health("6.5.4", "True")
	w.healthIn("prod-2", "6.5.4", "True")
	w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	w.edit(2, func(s *pipeline.Stage) { s.Environment.MinReady = pipeline.Limit{N: 100, Percent: true} })
	w.health("6.6.0", "True")
	w.healthIn("prod-2", "6.6.0", "True")
	w.awaitPhase(promotion.PhaseUnknown) // one of three is not known, and all are wanted
	w.edit(3, func(s *pipeline.Stage) { s.Environment.MinReady = pipeline.Limit{N: 60, Percent: true} })
	w.awaitEntry("1 shop pipeline-finished-successfully")
}

// A hold lets the live step end, and starts nothing after it: the gate begins once the hold has ended.
func TestAHoldWhileAStageIsLive(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, func(s *pipeline.Stage) {
		s.Gates = []pipeline.Gate{{Name: "new", When: pipeline.After, CEL: "size(targets) == 1", Policy: action.Policy{Retries: 9,
			Initial: action.Duration(time.Second), Factor: 1, Max: action.Duration(time.Second), Deadline: action.Duration(time.Hour)}}}
	})
	w.health("6.5.4", "True")
	stop := w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	w.command(pipeline.Command{Kind: pipeline.HoldSet, Deployment: 1, Target: "shop", By: "ana", Reason: "wait"})
	w.health("6.6.0", "True")
	w.awaitEntry("1 prod environment-promoted")
	stop() // a whole pass has ended
	w.start()()
	if got := w.entries(); slices.Contains(got, "1 prod gate-passed/new") || slices.Contains(got, "1 prod stage-finished-successfully") {
		t.Fatalf("the stage went on under the hold: %q", got)
	}
	w.command(pipeline.Command{Kind: pipeline.HoldCleared, Deployment: 1, Target: "shop", By: "ana"})
	w.start()
	w.awaitEntry("1 prod gate-passed/new")
	w.awaitEntry("1 shop pipeline-finished-successfully")
	if got := w.attempts(); !slices.Equal(got[:1], []string{"propose 6.6.0"}) || slices.Contains(got[1:], "propose 6.6.0") {
		t.Errorf("attempts %q, want one proposal", got)
	}
}

// Two processes that promote, since each takes itself for the leader, do everything once.
func TestTwoWritersOfAStage(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, nil)
	w.health("6.5.4", "True")
	first, second := w.start(), w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	first()
	w.start()
	w.health("6.6.0", "True")
	w.awaitEntry("1 shop pipeline-finished-successfully")
	w.awaitAttempt("close 6.6.0")
	second()
	want := []string{"1 shop deployment-created", "1 shop pipeline-started", "1 prod stage-started", "1 prod step-claimed",
		"1 prod environment-promoted", "1 prod stage-finished-successfully", "1 shop pipeline-finished-successfully"}
	if got := w.entries(); !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	if got := w.attempts(); !slices.Equal(got, []string{"propose 6.6.0", "close 6.6.0"}) {
		t.Errorf("attempts %q", got)
	}
}
