package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

func done() action.Outcome { return action.Outcome{Kind: action.Done} }

// lastDetail is the newest entry and what it says of its step.
func (s setup) lastDetail(t *testing.T) (pipeline.Entry, pipeline.StepDetail) {
	t.Helper()
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Newest: true, Limit: 1})
	check(t, err)
	var detail pipeline.StepDetail
	check(t, json.Unmarshal(entries[0].Detail, &detail))
	return entries[0], detail
}

func failedStepIsNoted(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	for outcome, want := range map[action.OutcomeKind]struct {
		status action.Status
		event  string
	}{
		action.Fatal:    {action.Failed, pipeline.StepFailed},
		action.BadInput: {action.Invalid, pipeline.StepFailed},
		action.Stopped:  {action.Canceled, pipeline.StepCanceled},
	} {
		s.startSteps(t, lease, stepOf(1, oak, pipeline.HostDeployed))
		c := s.claim(t, host, "step/"+oak, 1)[0]
		s.end(t, host, c, action.Outcome{Kind: outcome, Code: "exit", Error: "exit 1"})
		entry, detail := s.lastDetail(t)
		if entry.Event != want.event || entry.Class != pipeline.Note || entry.Target != oak {
			t.Errorf("%s: entry %+v", outcome, entry)
		}
		wanted := pipeline.StepDetail{Event: pipeline.HostDeployed, Action: c.ID.String(), Status: want.status.String(), Error: "exit 1"}
		if diff := cmp.Diff(wanted, detail); diff != "" {
			t.Errorf("%s: detail (-want +got):\n%s", outcome, diff)
		}
	}
	standing := s.standing(t, oak)
	if standing.Failed != 1 {
		t.Errorf("last failed: %d, want 1", standing.Failed)
	}
}

func drainedStepsEndAfterTheEntries(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	elm, fir := testPipeline+"/prod/east/elm", testPipeline+"/prod/east/fir"
	s.startSteps(t, lease, stepOf(1, oak, pipeline.HostDeployed), stepOf(1, elm, pipeline.HostDeployed), stepOf(1, fir, pipeline.HostDeployed))
	running := s.claim(t, host, "step/"+elm, 1)[0]
	canceled := s.claim(t, host, "step/"+fir, 1)[0]
	head, err := s.Pass(s.ctx, lease, 0, func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: []pipeline.Entry{note(1, testPipeline+"/beta", pipeline.StageFailed)},
			Drain: []pipeline.StepKey{{Deployment: 1, Target: oak, Event: pipeline.HostDeployed},
				{Deployment: 1, Target: elm, Event: pipeline.HostDeployed}, {Deployment: 1, Target: oak, Event: "host-gone"}},
			Cancel: []pipeline.StepKey{{Deployment: 1, Target: fir, Event: pipeline.HostDeployed}}}, nil
	})
	check(t, err)
	entry, detail := s.lastDetail(t)
	if entry.Event != pipeline.StepCanceled || entry.Target != oak || detail.Event != pipeline.HostDeployed || entry.Seq != head.Seq {
		t.Errorf("last entry %+v %+v, head %d", entry, detail, head.Seq)
	}
	before, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, After: head.Seq - 2, Limit: 1})
	check(t, err)
	if before[0].Event != pipeline.StageFailed {
		t.Errorf("before it stands %+v", before[0])
	}
	asked, err := s.CancelAsked(s.ctx, host.ID)
	check(t, err)
	if diff := cmp.Diff([]action.ID{canceled.ID}, asked); diff != "" {
		t.Errorf("asked to cancel (-want +got):\n%s", diff)
	}
	s.end(t, host, running, action.Outcome{Kind: action.Retry, Error: "no answer"})
	if got := s.statusOf(t, running.ID); got != action.Canceled {
		t.Errorf("a drained attempt that wants a retry is %s", got)
	}
	s.end(t, host, canceled, done())
	if got := s.statusOf(t, canceled.ID); got != action.Successful {
		t.Errorf("an attempt that succeeded before it was canceled is %s", got)
	}
}

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
	check(t, err)
	state, err := s.Action(s.ctx, bad)
	check(t, err)
	if state.Thread.Status != action.Failed || state.Code != string(fault.BackoffWithoutTime) || state.Error == "" {
		t.Errorf("the bad one: %+v", state)
	}
	if got := s.statusOf(t, good); got != action.Successful {
		t.Errorf("the good one is %s", got)
	}
}

// failing is a driver whose transactions fail at the commit.
type failing struct{ ledger.Driver }

var errCut = errors.New("the connection was cut")

func (f failing) Write(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	return f.Driver.Write(ctx, use, func(tx store.Rows) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errCut
	})
}

func (f failing) Listen(func(store.Signal)) {}

func turnIsAllOrNothing(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	s.startSteps(t, s.lease(t, host), stepOf(1, oak, pipeline.HostDeployed))
	waiting := s.enqueue(t, job("waiting"))
	c := s.claim(t, host, "step/"+oak, 1)[0]
	completion := []queue.Completion{{ID: c.ID, Attempt: 1, Outcome: done()}}
	wants := []queue.Want{{Lane: "noop", N: 1}}
	before, err := s.Head(s.ctx, testPipeline)
	check(t, err)

	if _, err := ledger.New(failing{s.driver}, ledger.Options{}).CompleteAndClaim(s.ctx, host, completion, wants); !errors.Is(err, errCut) {
		t.Fatalf("got %v", err)
	}
	after, err := s.Head(s.ctx, testPipeline)
	check(t, err)
	if after != before || s.statusOf(t, c.ID) != action.Running || s.statusOf(t, waiting) != action.Pending {
		t.Errorf("a failed turn left head %+v, %s and %s", after, s.statusOf(t, c.ID), s.statusOf(t, waiting))
	}
	turned, err := s.CompleteAndClaim(s.ctx, host, completion, wants)
	check(t, err)
	if s.statusOf(t, c.ID) != action.Successful || len(turned.Claimed) != 1 {
		t.Errorf("the same turn again: %+v", turned)
	}
}

func cancelEndsOrAsks(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	idle := s.enqueue(t, job("idle"))
	check(t, s.Cancel(s.ctx, idle, queue.CancelNow))
	if got := s.statusOf(t, idle); got != action.Canceled {
		t.Errorf("an unclaimed action is %s", got)
	}
	wantCode(t, s.Cancel(s.ctx, idle, queue.CancelNow), fault.Terminal)
	wantCode(t, s.Cancel(s.ctx, host.ID, queue.CancelNow), fault.NoSuchAction)

	running := s.enqueue(t, job("running"))
	c := s.claim(t, host, "noop", 1)[0]
	check(t, s.Cancel(s.ctx, running, queue.CancelNow))
	asked, err := s.CancelAsked(s.ctx, host.ID)
	check(t, err)
	if diff := cmp.Diff([]action.ID{running}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	s.end(t, host, c, action.Outcome{Kind: action.Stopped})
	if got := s.statusOf(t, running); got != action.Canceled {
		t.Errorf("the stopped one is %s", got)
	}
	s.startSteps(t, s.lease(t, host), stepOf(1, oak, pipeline.HostDeployed))
	step := s.claim(t, host, "step/"+oak, 1)[0]
	wantCode(t, s.Cancel(s.ctx, step.ID, queue.CancelNow), fault.OwnedByDeployment)
}

// endsAgainstPassesDoNotDeadlock: passes start and stop steps of two pipelines while turns end them and people append.
func endsAgainstPassesDoNotDeadlock(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	const rounds = 15
	var all sync.WaitGroup
	ended := make(chan struct{})
	all.Go(func() {
		defer close(ended)
		for i := range rounds {
			var steps []action.Action
			var stop []pipeline.StepKey
			for n := range 8 {
				a := stepOf(1, fmt.Sprintf("%s/prod/east/h%d", testPipeline, n), fmt.Sprintf("host-round-%d", i))
				a.Lane = "step"
				steps = append(steps, a)
				if n%2 == 0 {
					stop = append(stop, pipeline.StepKey{Deployment: 1, Target: a.Step.Target, Event: a.Step.Event})
				}
			}
			s.startSteps(t, lease, steps...)
			_, err := s.Pass(s.ctx, lease, 0, func(journal.Locked) (journal.Change, error) { return journal.Change{Cancel: stop}, nil })
			if err != nil {
				t.Errorf("pass %d: %v", i, err)
			}
		}
	})
	for range 3 {
		all.Go(func() { s.work(t, host, ended) })
	}
	all.Go(func() {
		for i := range rounds {
			s.append(t, note(1, testPipeline, fmt.Sprintf("hold-set-%d", i)))
		}
	})
	all.Wait()
	s.finishAll(t, host)
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline})
	check(t, err)
	claimed, over := 0, 0
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has position %d", i+1, e.Seq)
		}
		switch {
		case e.Event == pipeline.StepClaimed:
			claimed++
		case e.Event == pipeline.StepCanceled, e.Class == pipeline.Fact:
			over++
		}
	}
	if claimed != 8*rounds || over != claimed {
		t.Errorf("%d steps were claimed and %d ended, want %d of both", claimed, over, 8*rounds)
	}
}

// work claims and completes what it gets until stop.
func (s setup) work(t *testing.T, host queue.Instance, stop <-chan struct{}) {
	var completions []queue.Completion
	for {
		turned, err := s.CompleteAndClaim(s.ctx, host, completions, []queue.Want{{Lane: "step", N: 3}})
		if err != nil {
			t.Errorf("turn: %v", err)
			return
		}
		completions = nil
		for _, c := range turned.Claimed {
			completions = append(completions, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done()})
		}
		select {
		case <-stop:
			if len(completions) == 0 {
				return
			}
		default:
		}
	}
}

// finishAll completes what is left.
func (s setup) finishAll(t *testing.T, host queue.Instance) {
	t.Helper()
	stopped := make(chan struct{})
	close(stopped)
	s.work(t, host, stopped)
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
		check(t, s.setStatus(id, c.from, nil))
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
		_, err := tx.EndThreads(action.ID{}, []queue.Ending{{Thread: th, Event: action.Event{ActionID: c.ID, Seq: th.Seq + 1, Status: th.Status, At: tx.Now()}}})
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
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
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
	s.startSteps(t, lease, stepOf(1, oak, pipeline.HostDeployed))
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
		"of nobody":           {queue.ActionQuery{CreatedBy: "bob"}, ""},
		"of no such target":   {queue.ActionQuery{Pipeline: testPipeline, Target: "x"}, ""},
		"live of the handler": {queue.ActionQuery{Handler: "noop", LiveOnly: true, Limit: 1}, "three"},
	} {
		states, err := s.Actions(s.ctx, c.query)
		check(t, err)
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

func anyTextIsStored(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	nasty := "a\x00b\xff" + strings.Repeat("long ", action.MaxError)
	s.startSteps(t, lease, stepOf(1, oak, pipeline.HostDeployed))
	s.end(t, host, s.claim(t, host, "step/"+oak, 1)[0], action.Outcome{Kind: action.Fatal, Code: "x\x00", Ref: "\xff", Error: nasty})
	if _, detail := s.lastDetail(t); !strings.HasPrefix(detail.Error, "a�b�long ") || len(detail.Error) > action.MaxError {
		t.Errorf("stored error of %d bytes: %.40q", len(detail.Error), detail.Error)
	}
	for _, output := range []string{`{"nul": "\u0000"}`, `not JSON`, "\"\xff\"", `[1, 2]`, `null`} {
		s.startSteps(t, lease, stepOf(1, oak, "host-"+fmt.Sprint(len(output))))
		c := s.claim(t, host, "step/"+oak, 1)[0]
		s.end(t, host, c, action.Outcome{Kind: action.Done, Output: json.RawMessage(output)})
		state, err := s.Action(s.ctx, c.ID)
		check(t, err)
		if state.Thread.Status != action.Successful || !json.Valid(state.Output) {
			t.Errorf("%q is stored as %q, %s", output, state.Output, state.Thread.Status)
		}
	}
}

// whatIsNoTextIsRefused: both databases refuse the same texts, wherever they come from.
func whatIsNoTextIsRefused(t *testing.T, s setup) {
	s.define(t)
	for _, bad := range []string{"a\x00b", "\xff", strings.Repeat("long", 1000)} {
		for name, spoil := range map[string]func(*action.Action){
			"name":       func(a *action.Action) { a.Name = bad },
			"handler":    func(a *action.Action) { a.Handler = bad },
			"lane":       func(a *action.Action) { a.Lane = bad },
			"unique key": func(a *action.Action) { a.UniqueKey = bad },
			"creator":    func(a *action.Action) { a.CreatedBy = bad },
		} {
			a := job("a")
			spoil(&a)
			_, err := s.Enqueue(s.ctx, a)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "the "+name+" of action") {
				t.Errorf("%s %.10q: %v", name, bad, err)
			}
		}
	}
	for name, ask := range map[string]func(text string) error{
		"actions": func(text string) error { _, err := s.Actions(s.ctx, queue.ActionQuery{Handler: text}); return err },
		"a lane": func(text string) error {
			_, err := s.Actions(s.ctx, queue.ActionQuery{Lane: text, LiveOnly: true})
			return err
		},
		"a version": func(text string) error { _, err := s.Versions(s.ctx, text); return err },
		"a label":   func(text string) error { _, err := s.Revision(s.ctx, testPipeline, text, 0); return err },
	} {
		for _, bad := range []string{"a\x00b", "\xff"} {
			if err := ask(bad); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s by %q: %v", name, bad, err)
			}
		}
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
		if _, err := s.Enqueue(s.ctx, a); whole && err != nil || !whole && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "500 levels")) {
			t.Errorf("parameters of %d levels: %v", levels, err)
		}
		if !whole {
			s.enqueue(t, job("plain"))
		}
		c := s.claim(t, host, "noop", 1)[0]
		s.end(t, host, c, action.Outcome{Kind: action.Done, Output: json.RawMessage(nested(levels))})
		state, err := s.Action(s.ctx, c.ID)
		check(t, err)
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
