package ledgertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue/queuetest"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

const (
	podinfo = "apps:podinfo"
	lane    = promotion.HandlerPullRequest + "/git.example.com/apps"
)

// attempt returns the attempt of an operation in staging, in run 1 of podinfo.
func attempt(op promotion.Op) promotions.Start {
	return promotions.Start{Work: promotion.Work{Namespace: "apps", Pipeline: "podinfo", Run: 1, Env: "staging", Op: op, Revision: "6.6.0"},
		Action: action.Action{Handler: promotion.HandlerPullRequest, Lane: lane, Policy: queuetest.Policy(), CreatedBy: "promoter"}}
}

// promote records a decision about podinfo, and returns the state after it.
func (s setup) promote(t *testing.T, c promotions.Change) promotions.State {
	t.Helper()
	c.Pipeline, c.UID, c.Head = podinfo, "7a1f", s.promoted(t).Head
	_, err := s.Promotions.Record(s.ctx, c)
	storetest.Check(t, err)
	return s.promoted(t)
}

func (s setup) promoted(t *testing.T) promotions.State {
	t.Helper()
	state, err := s.Promotions.Load(s.ctx, podinfo, "7a1f")
	storetest.Check(t, err)
	return state
}

// startRun starts run 1 of podinfo with attempts.
func (s setup) startRun(t *testing.T, start ...promotions.Start) promotions.State {
	t.Helper()
	return s.promote(t, promotions.Change{Start: start, Runs: []promotion.RunChange{{Run: promotion.Run{Number: 1, Revision: "6.6.0",
		Cause: promotion.ByCandidate, Environments: []promotion.EnvName{"dev", "staging"}, StartedAt: time.Now().UTC().Truncate(time.Millisecond)}}}})
}

// attemptsAreActions: a decision stores its action, and the end of the action its fact, with the proposal.
func attemptsAreActions(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	start := attempt(promotion.OpPropose)
	before := s.startRun(t, start)
	claimed := s.claim(t, host, lane, 1)[0]
	if work, ok := promotions.WorkOf(&claimed.Action); !ok || work.RunID != before.RunIDs[1].String() || work.UID != "7a1f" {
		t.Errorf("the action's work: %+v", work)
	}
	output, err := json.Marshal(promotions.Output{Proposal: &promotion.Proposal{Number: 41, State: promotion.Open}})
	storetest.Check(t, err)
	s.end(t, host, claimed, action.Outcome{Kind: action.Done, Output: output})
	after := s.promoted(t)
	if len(after.Runs[0].Facts) != 1 || after.Runs[0].Facts[0].Event != promotion.EnvProposed || after.Proposals["staging"].Number != 41 {
		t.Errorf("facts %+v, proposals %+v", after.Runs[0].Facts, after.Proposals)
	}
	if after.Attempts[start.Key()].Status != promotion.AttemptDone || after.Head <= before.Head {
		t.Errorf("attempts %+v, head %d after %d", after.Attempts, after.Head, before.Head)
	}
}

// canceledAttemptsEndWithTheDecision: an attempt that no conductor has claimed ends in the transaction of the decision that cancels it,
// and one that is claimed once its conductor has stopped it.
func canceledAttemptsEndWithTheDecision(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	idle, running := attempt(promotion.OpPropose), attempt(promotion.OpClose)
	running.Action.Lane = lane + "/running"
	s.startRun(t, idle, running)
	claimed := s.claim(t, host, running.Action.Lane, 1)[0]
	cancel := promotions.Change{Cancel: []promotion.AttemptKey{idle.Key(), running.Key()}}
	head, err := s.Promotions.Record(s.ctx, promotions.Change{Pipeline: podinfo, UID: "7a1f", Head: s.promoted(t).Head, Cancel: cancel.Cancel})
	storetest.Check(t, err)
	got := s.promoted(t)
	if got.Head != head || got.Attempts[idle.Key()].Status != promotion.AttemptCanceled || got.Attempts[running.Key()].Status != promotion.AttemptLive {
		t.Errorf("head %d, want %d; attempts after the decision: %+v", got.Head, head, got.Attempts)
	}
	if again := s.promote(t, cancel); again.Head != head {
		t.Errorf("head %d after the same decision, want %d", again.Head, head)
	}
	asked, err := s.CancelAsked(s.ctx, host.ID)
	storetest.Check(t, err)
	if len(asked) != 1 || asked[0] != claimed.ID {
		t.Errorf("asked to stop: %v", asked)
	}
	s.end(t, host, claimed, action.Outcome{Kind: action.Stopped})
	if got := s.promoted(t); got.Attempts[running.Key()].Status != promotion.AttemptCanceled {
		t.Errorf("attempts after the end: %+v", got.Attempts)
	}
}

// noticesAreStoredWithTheirDecision: of two decisions from one state the first stores its notice, and the second nothing. The end of a notice
// adds nothing to the log of promotions.
func noticesAreStoredWithTheirDecision(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	before := s.startRun(t)
	notice := action.Action{Kind: promotion.NoticeKind, Handler: promotion.HandlerNotice, Lane: promotion.HandlerNotice, UniqueKey: "one",
		Parameters: json.RawMessage(`{}`), Policy: queuetest.Policy(), CreatedBy: "promoter"}
	c := promotions.Change{Pipeline: podinfo, UID: "7a1f", Head: before.Head, Notices: []action.Action{notice},
		Facts: []promotion.Fact{{Run: 1, Event: promotion.AnnouncedEvent("Started", "")}}}
	_, err := s.Promotions.Record(s.ctx, c)
	storetest.Check(t, err)
	_, err = s.Promotions.Record(s.ctx, c)
	storetest.WantCode(t, err, fault.Conflict)
	recorded := s.promoted(t)
	s.end(t, host, s.claim(t, host, promotion.HandlerNotice, 1)[0], action.Outcome{Kind: action.Done})
	after := s.promoted(t)
	if len(after.Runs[0].Facts) != 1 || after.Runs[0].Facts[0].Event != "announced/Started" || after.Head != recorded.Head {
		t.Errorf("facts %+v, head %d after %d", after.Runs[0].Facts, after.Head, recorded.Head)
	}
	c.Head, c.Notices[0].Kind = after.Head, promotion.ActionKind
	_, err = s.Promotions.Record(s.ctx, c)
	storetest.WantCode(t, err, fault.Invalid)
}

// decisionsAreAllOrNothing: a decision that the queue refuses leaves nothing.
func decisionsAreAllOrNothing(t *testing.T, s setup) {
	before := s.startRun(t, attempt(promotion.OpPropose))
	_, err := s.Promotions.Record(s.ctx, promotions.Change{Pipeline: podinfo, UID: "7a1f", Head: before.Head,
		Sighting: &promotion.Sighting{Revision: "6.7.0", At: before.Now}, Start: []promotions.Start{attempt(promotion.OpPropose)}})
	storetest.WantCode(t, err, fault.DuplicateKey)
	if after := s.promoted(t); after.Head != before.Head || len(after.Sightings) != 0 {
		t.Errorf("head %d after %d, sightings %+v", after.Head, before.Head, after.Sightings)
	}
}

// endsAgainstDecisionsDoNotDeadlock: conductors end attempts of pipelines while decisions about them are recorded.
func endsAgainstDecisionsDoNotDeadlock(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	s.startRun(t)
	const rounds = 20
	failed := make(chan error, 1)
	go func() {
		for range rounds {
			if err := s.Promotions.Freeze(s.ctx, "", admission.Freeze{By: "ana"}); err != nil {
				failed <- err
				return
			}
			if err := s.Promotions.Thaw(s.ctx, "", "ana"); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	for range rounds {
		for {
			c := promotions.Change{Pipeline: podinfo, UID: "7a1f", Head: s.promoted(t).Head, Start: []promotions.Start{attempt(promotion.OpMerge)}}
			_, err := s.Promotions.Record(s.ctx, c)
			if fault.Is(err, fault.Conflict) {
				continue // the head has moved
			}
			storetest.Check(t, err)
			break
		}
		s.end(t, host, s.claim(t, host, lane, 1)[0], action.Outcome{Kind: action.Fatal, Code: "refused"})
	}
	storetest.Check(t, <-failed)
}
