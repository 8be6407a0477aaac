package conductor_test

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

// onBoth runs a test on an empty ledger of each kind.
func onBoth(t *testing.T, test func(t *testing.T, l *ledger.Ledger)) {
	t.Parallel()
	open := map[string]func(t *testing.T) (ledger.Driver, error){
		"sqlite": func(t *testing.T) (ledger.Driver, error) {
			return sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db")), nil
		},
	}
	maps.Copy(open, sharedDrivers)
	for name, driver := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := driver(t)
			if err != nil {
				t.Fatal(err)
			}
			l := ledger.New(d, ledger.Options{})
			t.Cleanup(func() { l.Close() })
			test(t, l)
		})
	}
}

// conduct runs a conductor with the noop handler; the returned function stops it.
func conduct(t *testing.T, l *ledger.Ledger) (stop func()) {
	t.Helper()
	c := conductor.New(l.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "test"},
		Handlers: map[string]conductor.Handler{"noop": noop.Handler{}}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// enqueue stores noop actions with the parameters.
func enqueue(t *testing.T, l *ledger.Ledger, n int, parameters string, p action.Policy) []action.ID {
	t.Helper()
	actions := make([]action.Action, n)
	for i := range actions {
		actions[i] = action.Action{Kind: "job", Name: "test", Handler: "noop", Lane: "noop", Parameters: json.RawMessage(parameters),
			Policy: p, Delivery: action.AtLeastOnce}
	}
	done, err := l.Enqueue(t.Context(), actions...)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]action.ID, n)
	for i, e := range done {
		ids[i] = e.ID
	}
	return ids
}

// await returns an action once the condition holds for it.
func await(t *testing.T, l *ledger.Ledger, id action.ID, what string, holds func(queue.ActionState) bool) queue.ActionState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	view := l.NewWaiter()
	for {
		state, err := l.Action(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if holds(state) {
			return state
		}
		// Claims are not announced, so look again soon.
		if view.Wait(ctx, store.TopicAction, time.Now().Add(50*time.Millisecond)) != nil {
			t.Fatalf("%s: still %+v", what, state.Thread)
		}
	}
}

func ended(s queue.ActionState) bool { return s.Thread.Status.Ended() }

func running(s queue.ActionState) bool { return s.Thread.Status == action.Running }

func TestOutcomesAreRecorded(t *testing.T) {
	onBoth(t, func(t *testing.T, l *ledger.Ledger) {
		twice := action.Policy{Retries: 1, Initial: action.Duration(time.Millisecond), Factor: 1, Max: action.Duration(time.Millisecond)}
		hasty := action.Policy{AttemptTimeout: action.Duration(20 * time.Millisecond)}
		stop := conduct(t, l)
		defer stop()
		for _, c := range []struct {
			parameters string
			policy     action.Policy
			status     action.Status
			attempts   int
			code       string
		}{
			{`{}`, twice, action.Successful, 1, ""},
			{`{"outcome": "retry"}`, twice, action.RetriesExhausted, 2, ""},
			{`{"outcome": "fatal"}`, twice, action.Failed, 1, ""},
			{`{"outcome": "invalid"}`, twice, action.Invalid, 1, ""},
			{`{"sleep": "1h"}`, hasty, action.RetriesExhausted, 1, "attempt_timeout"},
		} {
			id := enqueue(t, l, 1, c.parameters, c.policy)[0]
			got := await(t, l, id, c.parameters, ended)
			if got.Thread.Status != c.status || got.Thread.Attempt != c.attempts || c.code != "" && got.Code != c.code {
				t.Errorf("%s: %s after %d attempts, code %q; want %s after %d, %q", c.parameters,
					got.Thread.Status, got.Thread.Attempt, got.Code, c.status, c.attempts, c.code)
			}
		}
	})
}

func TestManyActionsRunOnceEach(t *testing.T) {
	onBoth(t, func(t *testing.T, l *ledger.Ledger) {
		enqueue(t, l, 1000, "", action.Policy{})
		stop := conduct(t, l)
		for left := 1; left > 0; {
			lives, err := l.Actions(t.Context(), queue.ActionQuery{LiveOnly: true, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if left = len(lives); left > 0 {
				await(t, l, lives[0].ID, "drain", ended)
			}
		}
		stop()
		all, err := l.Actions(t.Context(), queue.ActionQuery{})
		if err != nil || len(all) != 1000 {
			t.Fatalf("%d actions, %v", len(all), err)
		}
		for _, got := range all {
			if got.Thread.Status != action.Successful || got.Thread.Spent != 0 { // a claim that waits too long is given back
				t.Fatalf("%s: %+v, want SUCCESSFUL with no attempt spent", got.ID, got.Thread)
			}
		}
	})
}

func TestARunningActionIsCanceled(t *testing.T) {
	onBoth(t, func(t *testing.T, l *ledger.Ledger) {
		stop := conduct(t, l)
		defer stop()
		id := enqueue(t, l, 1, `{"sleep": "1h"}`, action.Policy{})[0]
		await(t, l, id, "start", running)
		if err := l.Cancel(t.Context(), id, queue.CancelNow); err != nil {
			t.Fatal(err)
		}
		if got := await(t, l, id, "cancel", ended); got.Thread.Status != action.Canceled {
			t.Errorf("%s, want CANCELED", got.Thread.Status)
		}
	})
}

func TestWhatDoesNotEndIsHandedBackUnspent(t *testing.T) {
	onBoth(t, func(t *testing.T, l *ledger.Ledger) {
		stop := conduct(t, l)
		id := enqueue(t, l, 1, `{"sleep": "1h"}`, action.Policy{})[0]
		await(t, l, id, "start", running)
		stop()
		got, err := l.Action(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if th := got.Thread; th.Status != action.Backoff || th.Spent != 0 || !th.ClaimedBy.IsZero() {
			t.Errorf("%+v, want BACKOFF, unclaimed and unspent", th)
		}
		stop = conduct(t, l)
		await(t, l, id, "next attempt", func(s queue.ActionState) bool { return running(s) && s.Thread.Attempt == 2 })
		stop()
	})
}

func TestActionsWaitForTheirTime(t *testing.T) {
	onBoth(t, func(t *testing.T, l *ledger.Ledger) {
		stop := conduct(t, l)
		defer stop()
		now, err := l.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		due := now.Add(300 * time.Millisecond)
		done, err := l.Enqueue(t.Context(), action.Action{Kind: "job", Name: "later", Handler: "noop", Lane: "noop",
			Delivery: action.AtLeastOnce, RunAt: due})
		if err != nil {
			t.Fatal(err)
		}
		if got := await(t, l, done[0].ID, "due", ended); got.Thread.StartedAt.Before(due) {
			t.Errorf("started at %s, want not before %s", got.Thread.StartedAt, due)
		}
	})
}
