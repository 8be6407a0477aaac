package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// TestAConflictDuringAMergeEndsInANewProposal: several pipelines write to one file, and a merge of theirs made this proposal
// conflict with the base. The failed merge blocks nothing; once the conflict is observed, the proposal is made again.
func TestAConflictDuringAMergeEndsInANewProposal(t *testing.T) {
	t.Parallel()
	failed := func() *world {
		w := newWorld(func(s *promotion.Spec) { env(s, "staging").AutoMerge = &promotion.AutoMerge{IgnoreChecks: true} }).
			sees("dev=b staging=a prod=a")
		w.settle(t)
		wantVerdict(t, w.proposes("staging").decide(), "staging", "Proposed", "merge")
		w.settle(t)
		return w.end("staging", promotion.OpMerge, promotion.AttemptFailed, func(a *promotion.Attempt) {
			a.Class, a.Head = promotion.ErrConflict, w.Proposals["staging"].Head
		})
	}
	w := failed()
	plan := w.decide()
	wantVerdict(t, plan, "staging", "Proposed: WaitingMerge", "")
	if plan.Recheck.IsZero() {
		t.Error("nothing ends the wait for the observation")
	}
	plan = w.changes("staging", func(p *promotion.Proposal) { p.Conflict = true }).decide()
	wantVerdict(t, plan, "staging", "Proposed", "propose on new base")

	plan = failed().after(3 * time.Minute).decide() // it was none: the host was still computing
	wantVerdict(t, plan, "staging", "Proposed", "merge again")
}

// A host without checks keeps a merge waiting forever, so the reason names the field.
func TestAMergeThatWaitsForChecksOfAHostWithoutAnyNamesTheField(t *testing.T) {
	t.Parallel()
	for checks, want := range map[promotion.Checks]string{
		promotion.ChecksNone:    " waits for its checks, and the host reports none; with requireChecks: false it is merged without",
		promotion.ChecksPending: " waits for its checks",
	} {
		v := promotion.Judge(change(prod(1, "a"), autoMerge, proposed(func(p *promotion.Proposal) { p.Checks = checks })))
		if len(v.Why) != 1 || !strings.HasSuffix(v.Why[0].Message, want) {
			t.Errorf("checks %q: got %+v, want %s", checks, v.Why, want)
		}
	}
}
