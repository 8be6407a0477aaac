package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func done() action.Outcome { return action.Outcome{Kind: action.Done} }

// lastDetail returns the newest entry and its detail of the step.
func (s setup) lastDetail(t *testing.T) (pipeline.Entry, pipeline.StepDetail) {
	t.Helper()
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Newest: true, Limit: 1})
	storetest.Check(t, err)
	var detail pipeline.StepDetail
	storetest.Check(t, json.Unmarshal(entries[0].Detail, &detail))
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
	storetest.Check(t, s.read(func(tx rows) error {
		standings, err := tx.Standings(testPipeline, []string{oak})
		if len(standings) != 1 || standings[0].Failed != 1 {
			t.Errorf("standings %+v, want one whose last failed is 1", standings)
		}
		return err
	}))
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
	storetest.Check(t, err)
	entry, detail := s.lastDetail(t)
	if entry.Event != pipeline.StepCanceled || entry.Target != oak || detail.Event != pipeline.HostDeployed || entry.Seq != head.Seq {
		t.Errorf("last entry %+v %+v, head %d", entry, detail, head.Seq)
	}
	before, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, After: head.Seq - 2, Limit: 1})
	storetest.Check(t, err)
	if before[0].Event != pipeline.StageFailed {
		t.Errorf("before it is %+v", before[0])
	}
	asked, err := s.CancelAsked(s.ctx, host.ID)
	storetest.Check(t, err)
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
	storetest.Check(t, err)

	if _, err := ledger.New(failing{s.driver}, ledger.Options{}).CompleteAndClaim(s.ctx, host, completion, wants); !errors.Is(err, errCut) {
		t.Fatalf("got %v", err)
	}
	after, err := s.Head(s.ctx, testPipeline)
	storetest.Check(t, err)
	if after != before || s.statusOf(t, c.ID) != action.Running || s.statusOf(t, waiting) != action.Pending {
		t.Errorf("a failed turn left head %+v, %s and %s", after, s.statusOf(t, c.ID), s.statusOf(t, waiting))
	}
	turned, err := s.CompleteAndClaim(s.ctx, host, completion, wants)
	storetest.Check(t, err)
	if s.statusOf(t, c.ID) != action.Successful || len(turned.Claimed) != 1 {
		t.Errorf("the same turn again: %+v", turned)
	}
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
	storetest.Check(t, err)
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

// work claims and completes its claims until stop.
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

// finishAll completes the rest.
func (s setup) finishAll(t *testing.T, host queue.Instance) {
	t.Helper()
	stopped := make(chan struct{})
	close(stopped)
	s.work(t, host, stopped)
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
		storetest.Check(t, err)
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

func passStartsAndTurnFinishes(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	target := testPipeline + "/beta/all/oak"
	s.append(t, fact(1, target, pipeline.HostStarted))
	s.startSteps(t, lease, stepOf(1, target, pipeline.HostDeployed))

	c := s.claim(t, host, "step/"+target, 1)[0]
	if c.Step == nil || c.Step.Event != pipeline.HostDeployed || c.Thread.Status != action.Running || c.Thread.Attempt != 1 {
		t.Errorf("claimed: %+v", c)
	}
	s.end(t, host, c, action.Outcome{Kind: action.Done, Output: json.RawMessage(`{"text": "already runs 3f2c9a1"}`)})
	if got := s.statusOf(t, c.ID); got != action.Successful {
		t.Errorf("it ended %s", got)
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Newest: true, Limit: 1})
	storetest.Check(t, err)
	last := entries[0]
	if last.Class != pipeline.Fact || last.Event != pipeline.HostDeployed || last.Target != target ||
		last.Deployment != 1 || last.Revision != 1 {
		t.Errorf("last entry: %+v", last)
	}
	var detail map[string]any
	storetest.Check(t, json.Unmarshal(last.Detail, &detail))
	want := map[string]any{"text": "already runs 3f2c9a1", "action": c.ID.String(), "attempt": 1.0, "spent": 0.0}
	if diff := cmp.Diff(want, detail); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	state, err := s.Action(s.ctx, c.ID)
	storetest.Check(t, err)
	if state.Thread.Status != action.Successful || state.FinishedAt.IsZero() {
		t.Errorf("state: %+v", state)
	}
	events, err := s.Events(s.ctx, c.ID)
	storetest.Check(t, err)
	var story []action.Status
	for i, e := range events {
		if e.Seq != i {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
		story = append(story, e.Status)
	}
	if diff := cmp.Diff([]action.Status{action.Pending, action.Running, action.Successful}, story); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

func deploymentsOwnTheirSteps(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	s.startSteps(t, lease, stepOf(1, oak, pipeline.HostDeployed))
	states, err := s.Actions(s.ctx, queue.ActionQuery{Handler: "step"})
	storetest.Check(t, err)
	step := states[0]
	refused := func(err error, instead string) {
		t.Helper()
		storetest.WantCode(t, err, fault.OwnedByDeployment)
		if hint := fault.HintOf(err); hint != instead {
			t.Errorf("hint %q, want %q", hint, instead)
		}
	}
	refused(s.Snooze(s.ctx, step.ID, time.Now().Add(time.Hour), "ana"), "waybill deployment hold greeter#1")
	refused(s.Cancel(s.ctx, step.ID, queue.CancelNow), "waybill deployment cancel greeter#1")
	thief := job("thief")
	thief.UniqueKey = step.UniqueKey
	_, err = s.EnqueueWith(s.ctx, queue.EnqueueOptions{OnConflict: queue.ReplaceWaiting}, thief)
	refused(err, "waybill deployment cancel greeter#1")
	s.end(t, host, s.claim(t, host, "step/"+oak, 1)[0], action.Outcome{Kind: action.Fatal})
	for _, dry := range []bool{true, false} {
		_, err = s.Replay(s.ctx, queue.Replay{Statuses: []action.Status{action.Failed}, DryRun: dry})
		refused(err, "waybill deployment retry greeter#1")
	}
}

// observersMayRepeat: in one transaction for many, whatever is known already changes nothing.
func observersMayRepeat(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	runs, ends, fails := s.accepted(t, host, job("runs")), s.accepted(t, host, job("ends")), s.accepted(t, host, job("fails"))
	s.startSteps(t, lease, stepOf(1, oak, pipeline.HostDeployed))
	step := s.handOff(t, host, "step/"+oak)
	s.settle(t, host, step, done())
	began := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	seen := []queue.Observation{
		{ID: runs, Source: "caboose", Began: true, BeganAt: began, Ref: "flows/runs"},
		{ID: ends, Source: "caboose", Began: true, BeganAt: began, EndedAt: began.Add(time.Minute),
			Outcome: action.Outcome{Kind: action.Done, Output: []byte(`{"n": 1}`), Ref: "archive"}},
		{ID: fails, Source: "caboose", Outcome: action.Outcome{Kind: action.Fatal, Error: "exit 1"}},
		{ID: step.ID, Source: "caboose", Began: true, Outcome: done()},
		{ID: host.ID, Source: "caboose", Began: true},
	}
	var wantEnded []action.ID
	for round := range 3 {
		got, err := s.Observe(s.ctx, seen...)
		storetest.Check(t, err)
		if diff := cmp.Diff([]action.ID{host.ID}, got.Unknown); diff != "" {
			t.Errorf("round %d: unknown (-want +got):\n%s", round, diff)
		}
		if round == 0 {
			wantEnded = []action.ID{ends, fails, step.ID}
		}
		if diff := cmp.Diff(wantEnded, got.Ended); diff != "" {
			t.Errorf("round %d: ended (-want +got):\n%s", round, diff)
		}
		wantEnded = nil
	}
	s.wantHistory(t, runs, action.Queued, action.Running)
	s.wantHistory(t, ends, action.Queued, action.Running, action.Successful)
	s.wantHistory(t, fails, action.Queued, action.Failed)
	s.wantHistory(t, step.ID, action.Queued, action.Running, action.Successful)
	state, err := s.Action(s.ctx, runs)
	storetest.Check(t, err)
	if state.Ref != "flows/runs" {
		t.Errorf("what runs is at %q", state.Ref)
	}
	events, err := s.Events(s.ctx, ends)
	storetest.Check(t, err)
	if !events[2].At.Equal(began) || !events[3].At.Equal(began.Add(time.Minute)) || events[3].Source != "caboose" ||
		events[3].Ref != "archive" {
		t.Errorf("events %+v", events)
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Newest: true, Limit: 1})
	storetest.Check(t, err)
	if e := entries[0]; e.Event != pipeline.HostDeployed || e.Class != pipeline.Fact {
		t.Errorf("the step's end gave %+v", e)
	}
	// an observer may put back what it saw wait, and an end that differs comes too late
	_, err = s.Observe(s.ctx, queue.Observation{ID: runs, Source: "caboose",
		Outcome: action.Outcome{Kind: action.Retry, Error: "lost its node"}},
		queue.Observation{ID: ends, Outcome: action.Outcome{Kind: action.Fatal}})
	storetest.Check(t, err)
	s.wantHistory(t, runs, action.Queued, action.Running, action.Backoff)
	s.wantHistory(t, ends, action.Queued, action.Running, action.Successful)
}
