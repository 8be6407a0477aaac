package conductor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// logged runs a conductor that logs into the returned buffer.
func logged(out *bytes.Buffer) func(*conductor.Config) {
	return func(c *conductor.Config) { c.Log = slog.New(slog.NewJSONHandler(out, nil)) }
}

// lines returns the logged lines, without attributes that differ from run to run.
func lines(t *testing.T, out *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		delete(one, "time")
		all = append(all, one)
	}
	return all
}

func TestAnIdleConductorLogsNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var out bytes.Buffer
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() }, logged(&out))
		f.add(action.Action{Handler: "work"}) // a success is not logged either
		settle(3 * time.Hour)
		stop()
		if out.Len() > 0 {
			t.Errorf("logged\n%s", out.String())
		}
	})
}

func TestEachAttemptThatIsNotDoneIsOneLine(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var out bytes.Buffer
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome {
			elapse(40 * time.Millisecond)
			return action.Outcome{Kind: action.Fatal, Code: "http_400", Error: "400: no such team"}
		}, logged(&out))
		id := f.add(action.Action{Handler: "work", Lane: "work/a"})
		settle(time.Minute)
		stop()
		want := []map[string]any{{"level": "INFO", "msg": "attempt ended", "component": "conductor", "action_id": id.String(), "handler": "work",
			"lane": "work/a", "attempt": 1.0, "spent": 0.0, "outcome": "fatal", "code": "http_400",
			"error": "400: no such team", "duration_ms": 40.0}}
		if diff := cmp.Diff(want, lines(t, &out)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEachRescueIsOneLineAndCountedByItsReason(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.pulse.Lost, f.lost = true, []queue.Rescued{{Handler: "work", Lane: "work/a", Attempt: 3, Reason: queue.LostLock, Who: "host-b/7"}}
		var out bytes.Buffer
		metrics := obs.NewConductor(nil)
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() }, logged(&out),
			func(c *conductor.Config) { c.Metrics = metrics })
		synctest.Wait() // it looks when it joins
		stop()
		want := []map[string]any{{"level": "WARN", "msg": "claim taken back", "component": "conductor", "action_id": action.ID{}.String(),
			"handler": "work", "lane": "work/a", "attempt": 3.0, "reason": "lock", "by": "host-b/7"}}
		if diff := cmp.Diff(want, lines(t, &out)); diff != "" {
			t.Error(diff)
		}
		if got := testutil.ToFloat64(metrics.Rescues.WithLabelValues("lock")); got != 1 {
			t.Errorf("%v rescues by lock, want 1", got)
		}
	})
}

// Another instance has taken the claim by the time that its attempt ends.
func TestEachLateCompletionIsOneLineAndCountedByItsHandler(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var out bytes.Buffer
		metrics := obs.NewConductor(nil)
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome {
			elapse(time.Second)
			return action.Outcome{Kind: action.Done}
		}, logged(&out), func(c *conductor.Config) { c.Metrics = metrics })
		id := f.add(action.Action{Handler: "work", Lane: "work/a"})
		settle(500 * time.Millisecond)
		f.set(func() { f.rows[id].ClaimedBy = action.NewID(time.Now(), [10]byte{1}) })
		settle(time.Second)
		stop()
		want := []map[string]any{{"level": "WARN", "msg": "late completion dropped", "component": "conductor", "action_id": id.String(),
			"handler": "work", "lane": "work/a", "attempt": 1.0, "outcome": "done", "error": ""}}
		if diff := cmp.Diff(want, lines(t, &out)); diff != "" {
			t.Error(diff)
		}
		if got := testutil.ToFloat64(metrics.LateCompletions.WithLabelValues("work")); got != 1 {
			t.Errorf("%v late completions of the handler, want 1", got)
		}
	})
}

// One conductor of those that share a ledger measures it. The rest publish no sample, so that sums
// over instances are right.
func TestOnlyTheFirstConductorMeasuresTheLedger(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.backlogs = []queue.Backlog{{Handler: "work", Counts: map[action.Status]int{action.Pending: 5, action.Running: 2},
			Ready: 4, Oldest: time.Now()}}
		registry := prometheus.NewRegistry()
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() },
			func(c *conductor.Config) { c.Ledger = obs.NewLedger(); c.Ledger.Register(registry) })
		settle(time.Minute)
		if f.samples != 0 {
			t.Errorf("%d samples by one that is not the first", f.samples)
		}
		f.mu.Lock()
		f.pulse.Leads = true
		f.mu.Unlock()
		settle(2 * time.Minute)
		if f.samples < 6 || f.samples > 9 {
			t.Errorf("%d samples in two minutes, want one every 15 s", f.samples)
		}
		const want = `
# HELP waybill_ledger_threads Live actions.
# TYPE waybill_ledger_threads gauge
waybill_ledger_threads{handler="work",status="BACKOFF"} 0
waybill_ledger_threads{handler="work",status="PENDING"} 5
waybill_ledger_threads{handler="work",status="QUEUED"} 0
waybill_ledger_threads{handler="work",status="RUNNING"} 2
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "waybill_ledger_threads"); err != nil {
			t.Error(err)
		}
		stop()
		if n, err := testutil.GatherAndCount(registry, "waybill_ledger_threads", "waybill_ledger_oldest_ready_seconds"); n != 0 || err != nil {
			t.Errorf("%d series of one that has ended, %v", n, err)
		}
	})
}
