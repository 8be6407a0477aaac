//go:build linux && services

package crash_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// checker compares the log with what it held before, and judges it by the
// invariants of the deployment log: no fact lost, doubled or changed.
type checker struct {
	ledger *ledger.Ledger
	seen   []pipeline.Entry
}

// look reads the whole log. What was there before must still be there, unchanged, and positions
// have no gap.
func (c *checker) look(t *testing.T) {
	t.Helper()
	entries, err := c.ledger.Entries(t.Context(), journal.EntryQuery{Pipeline: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) < len(c.seen) {
		t.Fatalf("the log had %d entries and has %d", len(c.seen), len(entries))
	}
	if diff := cmp.Diff(c.seen, entries[:len(c.seen)], cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("entries changed (-before +now):\n%s", diff)
	}
	facts := map[pipeline.StepKey]int64{}
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has seq %d", i+1, e.Seq)
		}
		key := pipeline.StepKey{Deployment: e.Deployment, Target: e.Target, Event: e.Event}
		if first, twice := facts[key]; twice && e.Class == pipeline.Fact {
			t.Fatalf("the fact %v is at %d and at %d", key, first, e.Seq)
		}
		if e.Class == pipeline.Fact {
			facts[key] = e.Seq
		}
	}
	c.seen = entries
}

// finished judges a deployment that has ended well: every fact is there, and
// every step that took work has exactly one action that succeeded.
func (c *checker) finished(t *testing.T, number int64) {
	t.Helper()
	engine, err := deployer.Fold(t.Context(), c.ledger, "hello")
	if err != nil {
		t.Fatalf("fold the log: %v", err)
	}
	d, ok := engine.Deployment(number)
	if !ok || d.Status != pipeline.StatusFinished || d.Done != facts {
		t.Errorf("hello#%d is %s with %d facts, want finished with %d", number, d.Status, d.Done, facts)
	}
	actions, err := c.ledger.Actions(t.Context(), queue.ActionQuery{Pipeline: "hello", Deployment: number, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	succeeded := map[string]int{}
	for _, a := range actions {
		if a.Thread.Status.Live() {
			t.Errorf("%s of hello#%d is still %s", a.Name, number, a.Thread.Status)
		}
		if a.Thread.Status == action.Successful {
			succeeded[a.Step.Target+" "+a.Step.Event]++
		}
		c.history(t, a)
	}
	if len(succeeded) != 13 {
		t.Errorf("hello#%d has %d steps of work, want 13: %v", number, len(succeeded), succeeded)
	}
	for step, n := range succeeded {
		if n != 1 {
			t.Errorf("hello#%d: %s succeeded %d times", number, step, n)
		}
	}
}

// history judges the events of one action: no gap, one end, the last one.
func (c *checker) history(t *testing.T, a queue.ActionState) {
	t.Helper()
	events, err := c.ledger.Events(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.Seq != i {
			t.Errorf("%s: event %d has seq %d", a.Name, i, e.Seq)
		}
		if e.Status.Ended() != (i == len(events)-1) {
			t.Errorf("%s: event %d of %d is %s", a.Name, i, len(events), e.Status)
		}
	}
}

// hostsRun judges the hosts: the right release everywhere, and every release started once.
func hostsRun(t *testing.T, home, label string) {
	t.Helper()
	for target, name := range hosts {
		service := filepath.Join(home, "hosts", name, "hello")
		current, err := os.Readlink(filepath.Join(service, "current"))
		if err != nil || !strings.Contains(current, label) {
			t.Errorf("%s runs %q (%v), want %s", target, current, err, label)
		}
		starts, err := os.ReadFile(filepath.Join(service, "shared", "data", "starts"))
		if err != nil {
			t.Error(err)
		}
		times := map[string]int{}
		for line := range strings.Lines(string(starts)) {
			times[strings.TrimSpace(line)]++
		}
		for revision, n := range times {
			if n > 1 {
				t.Errorf("%s started %s %d times: a needless restart", target, revision, n)
			}
		}
		if times[label] == 0 {
			t.Errorf("%s never started %s", target, label)
		}
	}
}
