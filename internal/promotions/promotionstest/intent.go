package promotionstest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// opinion returns an opinion about prod in run 1.
func opinion(kind promotion.IntentKind, by string) promotion.Intent {
	return promotion.Intent{Kind: kind, Env: "prod", Run: 1, Revision: "6.6.0", By: admission.Person{Name: by, Groups: []string{"ops"}},
		Proof: "token", Reason: "looks good"}
}

// intend stores an intent.
func (s setup) intend(t *testing.T, i promotion.Intent) (promotion.Intent, bool) {
	t.Helper()
	stored, created, err := s.AddIntent(s.ctx, name, i)
	storetest.Check(t, err)
	return stored, created
}

func approvalsAreRecordedOnce(t *testing.T, s setup) {
	before := s.record(t, run(1, "6.6.0"))
	first, created := s.intend(t, opinion(promotion.Approve, "ana"))
	if !created || first.Seq == 0 || first.At.IsZero() {
		t.Errorf("the first approval: %+v", first)
	}
	again, created := s.intend(t, opinion(promotion.Approve, "ana"))
	if diff := cmp.Diff(first, again); diff != "" || created {
		t.Errorf("the same approval again (-first +again):\n%s", diff)
	}
	_, key1 := s.intend(t, opinion(promotion.Approve, "key:apps/fleet-git#hmac-key"))
	_, key2 := s.intend(t, opinion(promotion.Approve, "key:apps/fleet-git#other"))
	_, rejected := s.intend(t, opinion(promotion.Reject, "ana"))
	_, approved := s.intend(t, opinion(promotion.Approve, "ana"))
	if !key1 || key2 || !rejected || !approved {
		t.Errorf("created: a key %t, another of its Secret %t, a rejection %t, an approval after it %t", key1, key2, rejected, approved)
	}
	hold := promotion.Intent{Kind: promotion.HoldBack, Env: "prod", By: admission.Person{Name: "ben"}, Reason: "holidays", Until: start}
	_, held := s.intend(t, hold)
	_, heldAgain := s.intend(t, hold)
	if !held || heldAgain {
		t.Errorf("created: a hold %t, the same a moment later %t", held, heldAgain)
	}
	got := s.load(t)
	if len(got.Intents) != 5 || got.Head <= before.Head {
		t.Errorf("intents: %+v", got.Intents)
	}
	if diff := cmp.Diff(first, got.Intents[0]); diff != "" {
		t.Errorf("the first intent (-want +got):\n%s", diff)
	}
	if last := got.Intents[4]; last.Kind != promotion.HoldBack || !last.Until.Equal(start) {
		t.Errorf("the last intent: %+v", last)
	}
	entries, err := s.Entries(s.ctx, promotions.Page{Pipeline: name, Run: 1})
	storetest.Check(t, err)
	e := entries[2]
	if e.Class != promotions.Note || e.Event != promotions.ApprovalGiven || e.By != "ana" || e.Detail != "looks good" || e.Env != "prod" {
		t.Errorf("the note of the approval: %+v", e)
	}
}

func freezesMoveTheHead(t *testing.T, s setup) {
	before := s.record(t, run(1, "6.6.0"))
	storetest.Check(t, s.Freeze(s.ctx, name, admission.Freeze{By: "ana", Reason: "holidays", Until: before.Now.Add(time.Hour)}))
	one := s.load(t)
	if one.Head <= before.Head || one.Frozen == nil || one.Frozen.Reason != "holidays" || one.Frozen.At.IsZero() {
		t.Errorf("head %d after %d, frozen: %+v", one.Head, before.Head, one.Frozen)
	}
	storetest.WantCode(t, s.Freeze(s.ctx, name, admission.Freeze{By: "ben"}), fault.Refused)
	storetest.Check(t, s.Freeze(s.ctx, "", admission.Freeze{By: "ben", Reason: "migration"}))
	all := s.load(t)
	if all.Head <= one.Head || all.Frozen == nil || all.Frozen.Reason != "migration" {
		t.Errorf("head %d after %d, frozen: %+v", all.Head, one.Head, all.Frozen)
	}
	unknown, err := s.Load(s.ctx, "apps:other", "x")
	storetest.Check(t, err)
	if unknown.Frozen == nil {
		t.Error("a pipeline that the log does not have is not frozen")
	}
	freezes, err := s.Freezes(s.ctx)
	storetest.Check(t, err)
	if len(freezes) != 2 || freezes[""].By != "ben" || freezes[name].By != "ana" {
		t.Errorf("freezes: %+v", freezes)
	}
	storetest.Check(t, s.Thaw(s.ctx, "", "ben"))
	storetest.WantCode(t, s.Thaw(s.ctx, "", "ben"), fault.Refused)
	if got := s.load(t); got.Frozen == nil || got.Frozen.Reason != "holidays" {
		t.Errorf("frozen: %+v", got.Frozen)
	}
	storetest.Check(t, s.Thaw(s.ctx, name, "ana"))
	if got := s.load(t); got.Frozen != nil || got.Head <= all.Head {
		t.Errorf("frozen: %+v", got.Frozen)
	}
	entries, err := s.Entries(s.ctx, promotions.Page{Pipeline: name})
	storetest.Check(t, err)
	if len(entries) != 4 || entries[0].Event != promotions.FreezeSet || entries[3].Event != promotions.FreezeCleared {
		t.Errorf("notes: %+v", entries)
	}
}

func anEmptyLogMayBeginFrozen(t *testing.T, s setup) {
	for _, want := range []bool{true, false} {
		got, err := s.FreezeEmpty(s.ctx, admission.Freeze{By: "install"})
		storetest.Check(t, err)
		if got != want {
			t.Errorf("frozen: %t, want %t", got, want)
		}
	}
	storetest.Check(t, s.Thaw(s.ctx, "", "ana"))
	s.record(t, run(1, "6.6.0"))
	if got, err := s.FreezeEmpty(s.ctx, admission.Freeze{}); got || err != nil {
		t.Errorf("a log with a pipeline was frozen: %t, %v", got, err)
	}
}

// A freeze between the reading of the state and the first decision, or the one that opens a closed pipeline again, refuses the decision.
func theFirstDecisionKnowsAFreeze(t *testing.T, s setup) {
	for _, scope := range []string{"", name, "", name} {
		seen := s.load(t) // a new pipeline first, then a closed one
		storetest.Check(t, s.Freeze(s.ctx, scope, admission.Freeze{By: "ana"}))
		c := run(seen.LastRun+1, "6.6.0")
		c.Pipeline, c.UID, c.Head = name, uid, seen.Head
		if _, err := s.Record(s.ctx, c); !errors.Is(err, promotions.ErrMoved) {
			t.Errorf("a decision from head %d without the freeze of %q: %v", seen.Head, scope, err)
		}
		again, err := s.Reload(s.ctx, seen)
		storetest.Check(t, err)
		if again.Frozen == nil {
			t.Errorf("the state of head %d is read again without the freeze of %q", seen.Head, scope)
		}
		c.Head, c.Frozen = again.Head, true
		_, err = s.Record(s.ctx, c)
		storetest.Check(t, err)
		storetest.Check(t, s.Thaw(s.ctx, scope, "ana"))
		storetest.Check(t, s.Forget(s.ctx, promotions.Change{Pipeline: name, UID: uid}))
	}
}

// A freeze of all pipelines beside the first decisions about some has a note in each that was decided without it.
func aFreezeFindsEveryNewPipeline(t *testing.T, s setup) {
	const rounds, each = 10, 4
	for round := range rounds {
		made := make([]error, each)
		var work sync.WaitGroup
		for i := range each {
			work.Go(func() {
				c := run(1, "6.6.0")
				c.Pipeline, c.UID = fmt.Sprintf("apps:new-%d-%d", round, i), fmt.Sprintf("%d-%d", round, i)
				_, made[i] = s.Record(s.ctx, c)
			})
		}
		work.Go(func() { storetest.Check(t, s.Freeze(s.ctx, "", admission.Freeze{By: "ana"})) })
		work.Wait()
		for i, err := range made {
			if errors.Is(err, promotions.ErrMoved) {
				continue
			}
			storetest.Check(t, err)
			entries, err := s.Entries(s.ctx, promotions.Page{Pipeline: fmt.Sprintf("apps:new-%d-%d", round, i), All: true})
			storetest.Check(t, err)
			if !slices.ContainsFunc(entries, func(e promotions.Entry) bool { return e.Event == promotions.FreezeSet }) {
				t.Errorf("round %d: pipeline %d has a decision without the freeze, and no note of it: %+v", round, i, entries)
			}
		}
		storetest.Check(t, s.Thaw(s.ctx, "", "ana"))
	}
}

func proposalsAreStoredAsSeen(t *testing.T, s setup) {
	before := s.record(t, run(1, "6.6.0"))
	seen := map[promotion.EnvName]promotion.Proposal{
		"staging": {Number: 41, URL: "u", Revision: "6.6.0", State: promotion.Open, At: start, Head: "h1", Checks: promotion.ChecksFailed,
			FailedChecks: []string{"lint"}, Foreign: true, Conflict: true, Behind: true, LinesChanged: true},
		"prod": {Number: 42, Revision: "6.6.0", State: promotion.Closed, At: start, By: "ana", ClosedByUs: true, Base: "b1"},
	}
	first, err := s.SaveProposals(s.ctx, name, uid, seen)
	storetest.Check(t, err)
	again, err := s.SaveProposals(s.ctx, name, uid, seen)
	storetest.Check(t, err)
	if first <= before.Head || again != first {
		t.Errorf("heads %d, %d and %d", before.Head, first, again)
	}
	if diff := cmp.Diff(seen, s.load(t).Proposals); diff != "" {
		t.Errorf("proposals (-want +got):\n%s", diff)
	}
	_, err = s.SaveProposals(s.ctx, name, "other", seen)
	storetest.WantCode(t, err, fault.NotFound)
}

func textsThatNoDatabaseStoresAreRefused(t *testing.T, s setup) {
	s.record(t, run(1, "6.6.0"))
	bad := opinion(promotion.Approve, "ana")
	bad.Reason = "a\x00b"
	_, _, err := s.AddIntent(s.ctx, name, bad)
	storetest.WantCode(t, err, fault.Invalid)
	_, _, err = s.AddIntent(s.ctx, name, promotion.Intent{Kind: "other"})
	storetest.WantCode(t, err, fault.Invalid)
	for _, bad := range []string{"podinfo", ":podinfo", "apps:", "a\x00:b"} {
		_, err = s.Record(s.ctx, promotions.Change{Pipeline: bad, UID: uid})
		storetest.WantCode(t, err, fault.Invalid)
	}
	got := s.record(t, promotions.Change{Facts: []promotion.Fact{{Run: 1, Event: promotion.StageFailed, Env: "prod", At: start,
		Detail: "a\x00b\xff"}}})
	if last := got.Runs[0].Facts[2]; last.Detail != "a\uFFFDb\uFFFD" {
		t.Errorf("detail %q", last.Detail)
	}
}
