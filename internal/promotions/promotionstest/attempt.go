package promotionstest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// begin starts a run with one attempt, and returns its action.
func (s setup) begin(t *testing.T, op promotion.Op, gate string) (promotion.AttemptKey, action.Action) {
	t.Helper()
	c := run(1, "6.6.0")
	made := attempt(1, op)
	if gate != "" {
		made.Work.Gate = &promotion.GateWork{Name: gate}
	}
	c.Start = []promotions.Start{made}
	s.record(t, c)
	return made.Key(), s.started(t)
}

func attemptsAreRecordedBeforeTheyAreMade(t *testing.T, s setup) {
	key, a := s.begin(t, promotion.OpPropose, "")
	state := s.load(t)
	got := state.Attempts[key]
	want := promotion.Attempt{ActionID: a.ID.String(), Status: promotion.AttemptLive, At: got.At, Inputs: "hash", Base: "b1"}
	if diff := cmp.Diff(want, got); diff != "" || got.At.IsZero() {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
	ref, ok := promotions.OfAction(&a)
	want2 := promotions.Ref{Pipeline: name, UID: uid, RunID: state.RunIDs[1].String(), Key: key}
	if diff := cmp.Diff(want2, ref); diff != "" || !ok {
		t.Errorf("attempt of the action (-want +got):\n%s", diff)
	}
	wantKey, _ := json.Marshal([]string{state.RunIDs[1].String(), "staging", "environment-proposed", "b1", ""})
	if a.UniqueKey != string(wantKey) || a.Kind != promotion.ActionKind || a.Name != "propose apps:podinfo 6.6.0 in staging" {
		t.Errorf("action %q of kind %s has the key %s", a.Name, a.Kind, a.UniqueKey)
	}
	_, err := s.Record(s.ctx, promotions.Change{Pipeline: name, UID: uid, Head: state.Head,
		Start: []promotions.Start{attempt(9, promotion.OpMerge)}})
	storetest.WantCode(t, err, fault.Internal)
}

func successIsAFact(t *testing.T, s setup) {
	key, a := s.begin(t, promotion.OpPropose, "")
	before := s.load(t)
	proposal := promotion.Proposal{Number: 41, URL: "https://git.example.com/apps/fleet/pulls/41", Revision: "6.6.0", Run: 1,
		State: promotion.Open,
		At:    start, Base: "b1", Head: "h1"}
	output, err := json.Marshal(promotions.Output{Proposal: &proposal, Detail: "pull request 41"})
	storetest.Check(t, err)
	s.end(t, a, action.Successful, action.Outcome{Code: string(promotion.ErrAlreadyAsked), Output: output})
	got := s.load(t)
	if got.Head <= before.Head {
		t.Errorf("head %d after %d", got.Head, before.Head)
	}
	if one := got.Attempts[key]; one.Status != promotion.AttemptDone || one.Class != promotion.ErrAlreadyAsked {
		t.Errorf("attempt: %+v", one)
	}
	if diff := cmp.Diff(map[promotion.EnvName]promotion.Proposal{"staging": proposal}, got.Proposals); diff != "" {
		t.Errorf("proposals (-want +got):\n%s", diff)
	}
	facts := got.Runs[0].Facts
	last := facts[len(facts)-1]
	if last.Event != promotion.EnvProposed || last.Env != "staging" || last.Detail != "pull request 41" || last.At.IsZero() {
		t.Errorf("the last fact: %+v", last)
	}
	entries, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: 1})
	storetest.Check(t, err)
	if e := entries[len(entries)-1]; e.ActionID != a.ID || e.Class != promotions.Fact {
		t.Errorf("the last entry: %+v", e)
	}
	s.record(t, promotions.Change{Start: []promotions.Start{attempt(1, promotion.OpPropose)}}) // once more, on another base
	s.end(t, s.started(t), action.Successful, action.Outcome{})
	if again := s.load(t); len(again.Runs[0].Facts) != len(facts) {
		t.Errorf("facts after a second proposal: %+v", again.Runs[0].Facts)
	}
}

func failureIsANote(t *testing.T, s setup) {
	key, a := s.begin(t, promotion.OpMerge, "")
	s.end(t, a, action.Failed, action.Outcome{Code: string(promotion.ErrHeadMoved), Error: "the head is h2"})
	got := s.load(t)
	if one := got.Attempts[key]; one.Status != promotion.AttemptFailed || one.Class != promotion.ErrHeadMoved ||
		one.Error != "the head is h2" {
		t.Errorf("attempt: %+v", one)
	}
	entries, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: 1})
	storetest.Check(t, err)
	if e := entries[len(entries)-1]; e.Class != promotions.Note || e.Event != promotions.AttemptFailed ||
		e.Detail != "merge: HeadMoved: the head is h2" {
		t.Errorf("the last entry: %+v", e)
	}
	s.record(t, promotions.Change{Start: []promotions.Start{attempt(1, promotion.OpMerge)}})
	if one := s.load(t).Attempts[key]; one.Status != promotion.AttemptLive || one.Error != "" || one.ActionID != s.started(t).ID.String() {
		t.Errorf("the next attempt: %+v", one)
	}
	s.end(t, a, action.Failed, action.Outcome{}) // an action that is not the newest one
	if one := s.load(t).Attempts[key]; one.Status != promotion.AttemptLive {
		t.Errorf("the next attempt after the end of the former: %+v", one)
	}
}

func aGateAnswersByItsAttempt(t *testing.T, s setup) {
	key, a := s.begin(t, promotion.OpGate, "smoke")
	gate := promotion.GateKey{Run: 1, Env: "staging", Gate: "smoke"}
	if got := s.load(t).Gates(); len(got) != 0 {
		t.Errorf("answers of a gate that runs: %+v", got)
	}
	s.end(t, a, action.Failed, action.Outcome{Error: "HTTP 500"})
	if got := s.load(t).Gates()[gate]; !got.Failed || got.Passed || got.Detail != "HTTP 500" {
		t.Errorf("the answer of a gate that failed: %+v", got)
	}
	again := attempt(1, promotion.OpGate)
	again.Work.Gate = &promotion.GateWork{Name: "smoke"}
	s.record(t, promotions.Change{Start: []promotions.Start{again}})
	s.end(t, s.started(t), action.Successful, action.Outcome{})
	got := s.load(t)
	if answer := got.Gates()[gate]; !answer.Passed || answer.Failed || again.Key() != key {
		t.Errorf("the answer of a gate that passed: %+v", answer)
	}
	if last := got.Runs[0].Facts[len(got.Runs[0].Facts)-1]; last.Event != promotion.GateEvent("smoke") {
		t.Errorf("the last fact: %+v", last)
	}
}

func anAttemptIsAskedToStopOnce(t *testing.T, s setup) {
	key, a := s.begin(t, promotion.OpPropose, "")
	cancel := promotions.Change{Cancel: []promotion.AttemptKey{key}}
	first := s.record(t, cancel)
	second := s.record(t, cancel)
	if diff := cmp.Diff([]string{a.UniqueKey}, s.queue.stopped); diff != "" || first.Head != second.Head {
		t.Errorf("heads %d and %d, stopped (-want +got):\n%s", first.Head, second.Head, diff)
	}
	s.end(t, a, action.Canceled, action.Outcome{})
	if one := s.load(t).Attempts[key]; one.Status != promotion.AttemptCanceled {
		t.Errorf("attempt: %+v", one)
	}
}

func anotherObjectIsAnotherPipeline(t *testing.T, s setup) {
	_, a := s.begin(t, promotion.OpPropose, "")
	next, err := s.Load(s.ctx, name, "other")
	storetest.Check(t, err)
	if next.Head != 0 || next.LastRun != 1 || len(next.Runs) != 0 {
		t.Errorf("the state of another object: %+v", next)
	}
	c := run(next.LastRun+1, "6.6.0")
	c.Pipeline, c.UID = name, "other"
	_, err = s.Record(s.ctx, c)
	storetest.Check(t, err)
	if diff := cmp.Diff([]string{a.UniqueKey}, s.queue.stopped); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	former := s.load(t)
	if former.Runs[0].End != promotion.Superseded {
		t.Errorf("the run of the former object: %+v", former.Runs[0])
	}
	_, err = s.Record(s.ctx, promotions.Change{Pipeline: name, UID: uid, Head: former.Head})
	storetest.WantCode(t, err, fault.Conflict)
	s.end(t, a, action.Successful, action.Outcome{}) // it was done before it could be stopped
	now, err := s.Load(s.ctx, name, "")
	storetest.Check(t, err)
	if now.UID != "other" || len(now.Runs) != 1 || now.Runs[0].Number != 2 || len(now.Attempts) != 0 {
		t.Errorf("the state of the name: %+v", now)
	}
	for number, runs := range map[int64]int{1: 4, 2: 2} {
		entries, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: number})
		storetest.Check(t, err)
		if len(entries) != runs {
			t.Errorf("entries of run %d: %+v", number, entries)
		}
	}
}

func aForgottenPipelineIsClosed(t *testing.T, s setup) {
	_, a := s.begin(t, promotion.OpPropose, "")
	storetest.Check(t, s.Forget(s.ctx, promotions.Change{Pipeline: name, UID: "other"}))
	if got := s.load(t).Runs[0]; got.End != promotion.Running {
		t.Errorf("the run after another object was forgotten: %+v", got)
	}
	notice := action.Action{Kind: promotion.NoticeKind, Handler: promotion.HandlerNotice, UniqueKey: "superseded"}
	last := promotions.Change{Pipeline: name, UID: uid, Head: s.load(t).Head - 1, Notices: []action.Action{notice},
		Facts: []promotion.Fact{{Run: 1, Event: promotion.AnnouncedEvent("Superseded", "")}}}
	if err := s.Forget(s.ctx, last); !errors.Is(err, promotions.ErrMoved) {
		t.Errorf("announcements of an older state: %v", err)
	}
	last.Head++
	started := len(s.queue.started)
	storetest.Check(t, s.Forget(s.ctx, last))
	storetest.Check(t, s.Forget(s.ctx, last))
	if more := s.queue.started[started:]; len(more) != 1 || more[0].UniqueKey != "superseded" {
		t.Errorf("notices: %+v", more)
	}
	if diff := cmp.Diff([]string{a.UniqueKey}, s.queue.stopped); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	open, err := s.Pipelines(s.ctx, promotions.HeadQuery{})
	storetest.Check(t, err)
	all, err := s.Pipelines(s.ctx, promotions.HeadQuery{Closed: true})
	storetest.Check(t, err)
	if len(open) != 0 || len(all) != 1 || all[0].ClosedAt.IsZero() {
		t.Errorf("pipelines %+v, with closed ones %+v", open, all)
	}
	_, _, err = s.AddIntent(s.ctx, name, promotion.Intent{Kind: promotion.HoldBack})
	storetest.WantCode(t, err, fault.NotFound)
	s.record(t, run(2, "6.7.0")) // the object was there all the time
	if got := s.load(t); len(got.Runs) != 2 {
		t.Errorf("runs: %+v", got.Runs)
	}
}
