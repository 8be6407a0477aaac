package githost

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// CodeForeign is the code of an error about a proposal with commits of others.
const CodeForeign = "ForeignCommits"

// Merge merges the proposal of an action at the action's head, if verify has no error, which reads the content of that commit. Merged at it
// before is success. Errors besides those of calls and verify: ErrHeadMoved, ErrConflict, ErrDeclined of one that was closed; CodeForeign;
// action.RetryAfter while the host computes, waits for checks or merges.
func (c *Client) Merge(ctx context.Context, w promotion.Work, verify func(context.Context) error) (Result, error) {
	const doing = "merge the proposal"
	p, err := c.driver.get(ctx, w.Number)
	if err != nil {
		return Result{}, err
	}
	h, err := c.history(ctx, p)
	if err != nil {
		return Result{}, err
	}
	head := h.headOf(p)
	switch {
	case p.state == stateClosed:
		return Result{}, fatal(string(promotion.ErrDeclined), doing, "proposal %d was closed unmerged%s", p.number, by(p.endedBy))
	case !strings.EqualFold(head, w.Head):
		return Result{}, fatal(string(promotion.ErrHeadMoved), doing, "the head of proposal %d is %s, not %s", p.number, head, w.Head)
	case p.state == stateMerged:
		r := Result{Change: Unchanged}
		r.Proposal, err = c.proposal(ctx, p)
		return r, err
	}
	if h.foreign {
		return Result{}, Foreign(p.number, head)
	}
	if err := c.mergeable(p, w); err != nil {
		return Result{}, err
	}
	if err := verify(ctx); err != nil {
		return Result{}, err
	}
	return c.mergeNow(ctx, p, w)
}

// Foreign returns the error of a proposal with commits of others.
func Foreign(number int64, head string) error {
	return fatal(CodeForeign, "merge the proposal", "proposal %d at %s has changes of others: a person must merge it", number, head)
}

// mergeable refuses an open proposal that cannot be merged.
func (c *Client) mergeable(p pull, w promotion.Work) error {
	const doing = "merge the proposal"
	switch {
	case c.driver.traits().unguarded && !w.Host.Unguarded:
		return fatal(CodeUnguarded, doing, "this host cannot bind a merge to its head: set allowUnguarded, or let a person merge")
	case w.Host.Queue && !c.driver.traits().queues:
		return fatal("no_queue", doing, "this kind of host has no merge queue")
	case p.mergeable == mergeConflict:
		return conflict(p)
	}
	return nil
}

// mergeNow merges an open proposal, and reads its state after that.
func (c *Client) mergeNow(ctx context.Context, p pull, w promotion.Work) (Result, error) {
	refused := c.driver.merge(ctx, p, mergeOptions{method: cmp.Or(w.Host.Method, "merge"), queue: w.Host.Queue, message: p.title})
	if refused != nil && !mayConflict(refused) {
		return Result{}, refused
	}
	r := Result{Change: Merged}
	p, err := c.driver.get(ctx, w.Number)
	if err != nil {
		return r, err
	}
	switch {
	case p.state == stateOpen && p.mergeable == mergeConflict:
		return r, conflict(p)
	case refused != nil:
		return r, slower(refused, p)
	case p.state != stateMerged:
		return r, later(CodeRunning, pauseRunning, "the host has accepted the merge")
	}
	r.Proposal, err = c.proposal(ctx, p)
	return r, err
}

// conflict returns the error of a proposal that cannot be merged with its base. It has to be made again, so waiting for
// the host would never end.
func conflict(p pull) error {
	return fatal(string(promotion.ErrConflict), "merge the proposal", "proposal %d is in conflict with its base", p.number)
}

// mayConflict reports whether the refusal of a merge may be due to a conflict. Hosts report that with messages that they use for
// other reasons too.
func mayConflict(refused error) bool {
	o := Outcome(refused)
	return o.Code == CodeNotMergeable || o.Kind == action.Fatal && o.Code != string(promotion.ErrHeadMoved)
}

// longestPause bounds the pause before the merge of an old proposal is tried again.
const longestPause = 5 * time.Minute

// slower returns a refusal with a pause that grows with the age of the proposal: one that waits for a review for days
// must not use up the host's budget of requests.
func slower(refused error, p pull) error {
	e, ok := errors.AsType[*Error](refused)
	if !ok || e.Kind != action.RetryAfter || time.Until(e.At) < pauseRunning/2 {
		return refused
	}
	same := *e
	same.At = time.Now().Add(min(max(pauseRunning, since(p.openedAt)/20), longestPause))
	return &same
}

// since returns the age of a time, or a long time for none.
func since(t time.Time) time.Duration {
	if t.IsZero() {
		return time.Hour
	}
	return time.Since(t)
}
