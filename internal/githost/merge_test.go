package githost_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// proposed returns a model host with an open proposal, and the action that merges it.
func proposed(t *testing.T, vendor string) (*githosttest.Host, promotion.Work) {
	t.Helper()
	h := githosttest.New(t, vendor)
	host := h.Config(githosttest.Branch)
	host.Unguarded = true
	w := githosttest.Work(host, 12, "6.6.0")
	r := mustAttempt(t, h, host, w)
	w.Number, w.Head = r.Proposal.Number, r.Proposal.Head
	return h, w
}

// TestMergesThatTakeTime: hosts with asynchronous merges are polled until they have merged; others merge at once.
func TestMergesThatTakeTime(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		h.MergeLater()
		c := h.Open(t, *w.Host)
		if r := untilMerged(t, c, w); r.Proposal.State != promotion.Merged || r.Proposal.Head != w.Head {
			t.Errorf("got %+v", r)
		}
		h.Restart(t)
		if r, err := h.Open(t, *w.Host).Merge(t.Context(), w, githosttest.Trust); err != nil || r.Change != githost.Unchanged {
			t.Errorf("after a restart: %+v, %v", r, err)
		}
	})
}

// TestMergesWaitForChecks: a base branch that demands checks refuses the merge until they have passed; that spends no
// attempt.
func TestMergesWaitForChecks(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		h.RequireChecks()
		c := h.Open(t, *w.Host)
		for _, state := range []string{"", "pending", "failure"} {
			if state != "" {
				h.SetCheck(t, w.Head, "build", state)
			}
			_, err := c.Merge(t.Context(), w, githosttest.Trust)
			if o := githost.Outcome(err); o.Kind != action.RetryAfter || o.At.IsZero() {
				t.Errorf("check %q: %v is %s, want to come back", state, err, githost.Outcome(err).Kind)
			}
		}
		h.SetCheck(t, w.Head, "build", "success")
		if r := untilMerged(t, c, w); r.Proposal.State != promotion.Merged {
			t.Errorf("got %+v", r)
		}
	})
}

// TestAHeadThatMovesIsNotMerged: the head moves after it was read and before the merge arrives.
func TestAHeadThatMovesIsNotMerged(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		if vendor == githost.BitbucketCloud {
			return // it cannot be guarded there
		}
		h, w := proposed(t, vendor)
		h.BeforeNextWrite(func() { h.Append(t, githosttest.Branch, "By hand") })
		c := h.Open(t, *w.Host)
		_, err := c.Merge(t.Context(), w, githosttest.Trust)
		if githost.Outcome(err).Kind == action.Retry { // by version: the next attempt reads the head again
			_, err = c.Merge(t.Context(), w, githosttest.Trust)
		}
		if !githost.Is(err, promotion.ErrHeadMoved) {
			t.Errorf("got %v, want HeadMoved", err)
		}
		if p := h.Pulls(t)[0]; p.State != githosttest.Open {
			t.Errorf("the host has %+v", p)
		}
	})
}

func TestConflictsAreSeen(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		h.Edit(func(p *githosttest.Pull) { p.Conflict = true })
		c := h.Open(t, *w.Host)
		p, err := c.Watch(t.Context(), w.Number)
		want := vendor != githost.BitbucketCloud
		if err != nil || p.Conflict != want {
			t.Errorf("conflict %v, %v; want %v", p.Conflict, err, want)
		}
		if _, err := c.Merge(t.Context(), w, githosttest.Trust); githost.Is(err, promotion.ErrConflict) != want || err == nil {
			t.Errorf("merge: %v, want the class Conflict: %t", err, want)
		}
	})
}

// TestAConflictThatBeginsDuringAMergeIsSeen: the base moves between the read of the proposal and its merge. Waiting would never end.
func TestAConflictThatBeginsDuringAMergeIsSeen(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		if vendor == githost.BitbucketCloud {
			return // it reports no conflicts
		}
		h, w := proposed(t, vendor)
		h.BeforeNextWrite(func() { h.Edit(func(p *githosttest.Pull) { p.Conflict = true }) })
		c := h.Open(t, *w.Host)
		_, err := c.Merge(t.Context(), w, githosttest.Trust)
		if githost.Outcome(err).Kind == action.RetryAfter { // the host has accepted the merge, and fails later
			_, err = c.Merge(t.Context(), w, githosttest.Trust)
		}
		if !githost.Is(err, promotion.ErrConflict) {
			t.Errorf("got %v, want Conflict", err)
		}
	})
}

// TestMergesOfOldProposalsAreTriedLessOften: a review may take days, and each try costs requests of the host's budget.
func TestMergesOfOldProposalsAreTriedLessOften(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		h.RequireChecks()
		c := h.Open(t, *w.Host)
		pause := func() time.Duration {
			_, err := c.Merge(t.Context(), w, githosttest.Trust)
			return time.Until(githost.Outcome(err).At)
		}
		h.Edit(func(p *githosttest.Pull) { p.Created = time.Now() })
		if got := pause(); got > 15*time.Second {
			t.Errorf("pause of a new proposal: got %v, want about 10 seconds", got)
		}
		h.Edit(func(p *githosttest.Pull) { p.Created = time.Now().Add(-48 * time.Hour) })
		if got := pause(); got < 4*time.Minute || got > 5*time.Minute {
			t.Errorf("pause of an old proposal: got %v, want about 5 minutes", got)
		}
	})
}

func TestComputingIsNoConflict(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		h.Edit(func(p *githosttest.Pull) { p.Computing = true })
		h.Touch()
		c := h.Open(t, *w.Host)
		if p, err := c.Watch(t.Context(), w.Number); err != nil || p.Conflict || p.Behind {
			t.Errorf("got %+v, %v", p, err)
		}
		if _, err := c.Merge(t.Context(), w, githosttest.Trust); err != nil && githost.Outcome(err).Kind != action.RetryAfter {
			t.Errorf("%v is %s, want to come back", err, githost.Outcome(err).Kind)
		}
	})
}

func TestClosedProposalsAreNotMerged(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		h.CloseByPerson(t, w.Number)
		if _, err := h.Open(t, *w.Host).Merge(t.Context(), w, githosttest.Trust); !githost.Is(err, promotion.ErrDeclined) {
			t.Errorf("got %v, want Declined", err)
		}
	})
}

// TestProposalsOfOtherBranchesAreNotClosed: a number alone may be that of a proposal in another repository.
func TestProposalsOfOtherBranchesAreNotClosed(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		other := *w.Host
		other.Branch = "promotion-apps-podinfo-staging"
		if _, err := h.Open(t, other).Close(t.Context(), w); githost.Outcome(err).Kind != action.Fatal {
			t.Errorf("got %v, want a refusal", err)
		}
		if p := h.Pulls(t)[0]; p.State != githosttest.Open {
			t.Errorf("the host has %+v", p)
		}
	})
}

func TestMergesNeedAGuardOrPermission(t *testing.T) {
	t.Parallel()
	h, w := proposed(t, githost.BitbucketCloud)
	w.Host.Unguarded = false
	c := h.Open(t, *w.Host)
	if !c.Unguarded() {
		t.Error("Bitbucket Cloud has no guard")
	}
	_, err := c.Merge(t.Context(), w, githosttest.Trust)
	if o := githost.Outcome(err); o.Kind != action.Fatal || o.Code != githost.CodeUnguarded {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestQueuesExistOnTwoHosts(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h, w := proposed(t, vendor)
		w.Host.Queue = true
		c := h.Open(t, *w.Host)
		want := vendor == githost.GitHub || vendor == githost.GitLab
		_, err := c.Merge(t.Context(), w, githosttest.Trust)
		if c.Queues() != want || want != (githost.Outcome(err).Kind == action.RetryAfter) {
			t.Errorf("queues %v, %v; want %v", c.Queues(), err, want)
		}
	})
}

func TestGitLabMergeTrain(t *testing.T) {
	t.Parallel()
	for _, merged := range []bool{true, false} {
		h, w := proposed(t, githost.GitLab)
		w.Host.Queue = true
		c := h.Open(t, *w.Host)
		for range 3 {
			if _, err := c.Merge(t.Context(), w, githosttest.Trust); githost.Outcome(err).Kind != action.RetryAfter {
				t.Fatalf("%v, want to wait for the train", err)
			}
		}
		h.LeaveQueue(merged)
		r, err := c.Merge(t.Context(), w, githosttest.Trust)
		switch {
		case merged && (err != nil || r.Proposal.State != promotion.Merged):
			t.Errorf("%+v, %v; want merged", r, err)
		case !merged && githost.Outcome(err).Code != githost.CodeChecksFailed:
			t.Errorf("%v; want ChecksFailed", err)
		}
	}
}

func TestDraftsStayDrafts(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h := githosttest.New(t, vendor)
		host := h.Config(githosttest.Branch)
		host.Draft = true
		w := githosttest.Work(host, 12, "6.6.0")
		r := mustAttempt(t, h, host, w)
		if again := mustAttempt(t, h, host, w); again.Change != githost.Unchanged {
			t.Errorf("again: %+v, want unchanged", again)
		}
		next := mustAttempt(t, h, host, githosttest.Work(host, 13, "6.7.0"))
		if next.Proposal.Number != r.Proposal.Number {
			t.Errorf("next: %+v", next)
		}
		w = githosttest.Work(host, 13, "6.7.0")
		w.Number, w.Head, w.Host.Unguarded = next.Proposal.Number, next.Proposal.Head, true
		if _, err := h.Open(t, host).Merge(t.Context(), w, githosttest.Trust); err == nil {
			t.Error("a draft was merged")
		}
	})
}
