package queuetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func done() action.Outcome { return action.Outcome{Kind: action.Done} }

func badOutcomeFailsItsActionAlone(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	bad, good := s.enqueue(t, job("bad")), s.enqueue(t, job("good"))
	var completions []queue.Completion
	for _, c := range s.claim(t, host, "noop", 2) {
		o := done()
		if c.ID == bad {
			o = action.Outcome{Kind: action.RetryAfter} // names no time
		}
		completions = append(completions, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: o})
	}
	_, err := s.CompleteAndClaim(s.ctx, host, completions, nil)
	storetest.Check(t, err)
	state, err := s.Action(s.ctx, bad)
	storetest.Check(t, err)
	if state.Thread.Status != action.Failed || state.Code != string(fault.BackoffWithoutTime) || state.Error == "" {
		t.Errorf("the bad one: %+v", state)
	}
	if got := s.statusOf(t, good); got != action.Successful {
		t.Errorf("the good one is %s", got)
	}
}

func cancelEndsOrAsks(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	idle := s.enqueue(t, job("idle"))
	storetest.Check(t, s.Cancel(s.ctx, idle, queue.CancelNow))
	if got := s.statusOf(t, idle); got != action.Canceled {
		t.Errorf("an unclaimed action is %s", got)
	}
	storetest.WantCode(t, s.Cancel(s.ctx, idle, queue.CancelNow), fault.Terminal)
	storetest.WantCode(t, s.Cancel(s.ctx, host.ID, queue.CancelNow), fault.NoSuchAction)

	running := s.enqueue(t, job("running"))
	c := s.claim(t, host, "noop", 1)[0]
	storetest.Check(t, s.Cancel(s.ctx, running, queue.CancelNow))
	asked, err := s.CancelAsked(s.ctx, host.ID)
	storetest.Check(t, err)
	if diff := cmp.Diff([]action.ID{running}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	s.end(t, host, c, action.Outcome{Kind: action.Stopped})
	if got := s.statusOf(t, running); got != action.Canceled {
		t.Errorf("the stopped one is %s", got)
	}
	s.enqueue(t, stepOf(1, oak, "host-deployed"))
	step := s.claim(t, host, "step/"+oak, 1)[0]
	storetest.WantCode(t, s.Cancel(s.ctx, step.ID, queue.CancelNow), fault.OwnedByDeployment)
}

// illegalTransitionsAreRefused: the database lets a thread change its status exactly where package action may want that.
func illegalTransitionsAreRefused(t *testing.T, s setup) {
	id := s.enqueue(t, job("a"))
	for _, c := range []struct {
		from  action.Status // to be reached from the one before
		legal []action.Status
	}{
		{action.Pending, []action.Status{action.Queued, action.Running, action.Backoff}},
		{action.Queued, []action.Status{action.Running, action.Backoff}},
		{action.Backoff, []action.Status{action.Queued, action.Running}},
		{action.Running, []action.Status{action.Backoff}},
		{action.Backoff, []action.Status{action.Queued, action.Running}},
	} {
		storetest.Check(t, s.setStatus(id, c.from, nil))
		for to := action.Pending; to <= action.RetriesExhausted; to++ {
			err := s.setStatus(id, to, errTaken)
			if legal := to == c.from || slices.Contains(c.legal, to); legal != errors.Is(err, errTaken) {
				t.Errorf("from %s to %s: %v", c.from, to, err)
			}
		}
	}
	if _, err := s.Due(s.ctx); err != nil { // it may be claimed
		t.Fatal(err)
	}
	host := s.join(t, "host-a")
	c := s.claim(t, host, "noop", 1)[0]
	for _, statement := range []string{
		"UPDATE thread SET seq = 0", "UPDATE thread SET attempt = 0", "UPDATE thread SET spent = spent - 1",
		"UPDATE thread SET id = (SELECT id FROM instance)",
		"UPDATE thread SET ready = (1 = 1)",                 // while it is claimed
		"UPDATE thread SET claimed_by = NULL, lease = NULL", // while it runs
		"UPDATE thread SET claimed_by = id",                 // by the same attempt
		"UPDATE thread SET claimed_by = NULL, status = 4",
		"DELETE FROM thread",
	} {
		if err := s.database.Exec(statement); err == nil {
			t.Errorf("%s was not refused", statement)
		}
	}
	s.end(t, host, c, done())
	err := s.write(func(tx rows) error {
		th := c.Thread
		th.Status = action.Failed
		_, err := tx.EndThreads(action.ID{},
			[]queue.Ending{{Thread: th, Event: action.Event{ActionID: c.ID, Seq: th.Seq + 1, Status: th.Status, At: tx.Now()}}})
		return err
	})
	if err == nil {
		t.Error("an action ended twice")
	}
}

var errTaken = errors.New("it is taken back")

// setStatus writes the status of a live action behind package action's back; with an error that is taken back.
func (s setup) setStatus(id action.ID, to action.Status, back error) error {
	return s.write(func(tx rows) error {
		threads, err := tx.LockThreads([]action.ID{id})
		if err != nil {
			return err
		}
		thread := threads[id]
		thread.Status = to
		if err := tx.UpdateThreads([]queue.ThreadRow{{ID: id, Thread: thread, Rank: thread.RunAt}}); err != nil {
			return err
		}
		return back
	})
}

func actionsAreSelected(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	names := map[action.ID]string{}
	at := time.Now().Add(-time.Hour)
	for i, name := range []string{"one", "two", "three"} {
		a := job(name)
		a.ID, a.CreatedBy = action.DerivedID(at.Add(time.Duration(i)*time.Second), name), "ana"
		if name == "three" {
			a.ParentID = action.DerivedID(at.Add(time.Second), "two")
			a.RetryOf = a.ParentID
		}
		names[s.enqueue(t, a)] = name
	}
	s.enqueue(t, stepOf(1, oak, "host-deployed"))
	step := s.claim(t, host, "step/"+oak, 1)[0]
	names[step.ID] = "step"
	for _, c := range s.claim(t, host, "noop", 1) {
		s.end(t, host, c, done()) // the oldest
	}
	two := action.DerivedID(at.Add(time.Second), "two")
	for name, c := range map[string]struct {
		query queue.ActionQuery
		want  string
	}{
		"all, newest first":   {queue.ActionQuery{}, "step three two one"},
		"a limit":             {queue.ActionQuery{Limit: 2}, "step three"},
		"older ones":          {queue.ActionQuery{After: two}, "one"},
		"of a handler":        {queue.ActionQuery{Handler: "noop"}, "three two one"},
		"live":                {queue.ActionQuery{LiveOnly: true}, "step three two"},
		"pending":             {queue.ActionQuery{Statuses: []action.Status{action.Pending}}, "three two"},
		"successful":          {queue.ActionQuery{Statuses: []action.Status{action.Successful}}, "one"},
		"of a deployment":     {queue.ActionQuery{Pipeline: testPipeline, Deployment: 1}, "step"},
		"of a target":         {queue.ActionQuery{Pipeline: testPipeline, Target: oak, LiveOnly: true}, "step"},
		"of two statuses":     {queue.ActionQuery{Statuses: []action.Status{action.Pending, action.Successful}}, "three two one"},
		"the oldest first":    {queue.ActionQuery{Oldest: true, Handler: "noop", Limit: 2}, "one two"},
		"newer ones":          {queue.ActionQuery{Oldest: true, After: two}, "three step"},
		"since a time":        {queue.ActionQuery{Since: at.Add(time.Second), Kind: "job"}, "three two"},
		"before a time":       {queue.ActionQuery{Until: at.Add(time.Second)}, "one"},
		"of a lane":           {queue.ActionQuery{Lane: "step/" + oak}, "step"},
		"of a name":           {queue.ActionQuery{Kind: "job", Name: "two", CreatedBy: "ana"}, "two"},
		"of a parent":         {queue.ActionQuery{Parent: two}, "three"},
		"that repeat one":     {queue.ActionQuery{RetryOf: two}, "three"},
		"of a stranger":       {queue.ActionQuery{CreatedBy: "bob"}, ""},
		"of no such target":   {queue.ActionQuery{Pipeline: testPipeline, Target: "x"}, ""},
		"live of the handler": {queue.ActionQuery{Handler: "noop", LiveOnly: true, Limit: 1}, "three"},
	} {
		states, err := s.Actions(s.ctx, c.query)
		storetest.Check(t, err)
		var got []string
		for _, state := range states {
			got = append(got, names[state.ID])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
}

// repeatedValuesCountOnce: a list of filters makes no statement longer than its different values do, and they are few.
func repeatedValuesCountOnce(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	s.enqueue(t, job("one"))
	s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
	const many = 1000
	statuses := slices.Repeat([]action.Status{action.Successful}, many)
	for name, q := range map[string]queue.ActionQuery{
		"statuses": {Statuses: statuses},
		"phases":   {Kind: action.KindJob, Phases: slices.Repeat([]queue.Phase{queue.Successful}, many)},
		"names":    {Kind: action.KindJob, Names: slices.Repeat([]string{"one"}, many)},
	} {
		if found, err := s.Actions(s.ctx, q); err != nil || len(found) != 1 {
			t.Errorf("repeated %s: %d actions, %v", name, len(found), err)
		}
	}
	for _, dry := range []bool{true, false} {
		if done, err := s.Replay(s.ctx, queue.Replay{Statuses: statuses, DryRun: dry}); err != nil || done.Found != 1 {
			t.Errorf("replay with repeated statuses (dry: %v): %+v, %v", dry, done, err)
		}
	}
	names := make([]string, queue.MaxNames+1)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	for name, q := range map[string]queue.ActionQuery{
		"too many names":    {Names: names},
		"an unknown status": {Statuses: []action.Status{99}},
		"an unknown phase":  {Phases: []queue.Phase{"done"}},
	} {
		if _, err := s.Actions(s.ctx, q); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Actions(s.ctx, queue.ActionQuery{Names: names[1:]}); err != nil {
		t.Errorf("as many names as a query may have: %v", err)
	}
}

// deepDocumentsAreTexts: JSON that is too deep for one of the databases is refused as parameters and kept as a text as an
// output, here and there.
func deepDocumentsAreTexts(t *testing.T, s setup) {
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	host := s.join(t, "host-a")
	for levels, whole := range map[int]bool{500: true, 501: false, 1_100: false, 9_000: false} {
		a := job("deep")
		a.Parameters = json.RawMessage(nested(levels))
		if _, err := s.Enqueue(s.ctx, a); whole && err != nil ||
			!whole && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "500 levels")) {
			t.Errorf("parameters of %d levels: %v", levels, err)
		}
		if !whole {
			s.enqueue(t, job("plain"))
		}
		c := s.claim(t, host, "noop", 1)[0]
		s.end(t, host, c, action.Outcome{Kind: action.Done, Output: json.RawMessage(nested(levels))})
		state, err := s.Action(s.ctx, c.ID)
		storetest.Check(t, err)
		want := nested(levels)
		if !whole {
			want = `"` + want + `"`
		}
		if state.Thread.Status != action.Successful || string(state.Output) != want {
			t.Errorf("an output of %d levels is %.40s…, %s", levels, state.Output, state.Thread.Status)
		}
	}
	large := job("large")
	large.Parameters = json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)
	if _, err := s.Enqueue(s.ctx, large); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "8 MiB") {
		t.Errorf("parameters of 8 MiB: %.200v", err)
	}
}
