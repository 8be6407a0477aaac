package githost

import (
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// proposal converts a proposal for deciders. Its checks are read if it is open.
func (c *Client) proposal(ctx context.Context, p pull) (promotion.Proposal, error) {
	h, err := c.history(ctx, p)
	if err != nil {
		return promotion.Proposal{}, err
	}
	out := promotion.Proposal{Number: p.number, URL: p.url, Revision: h.revision, Run: h.run, At: p.openedAt, Base: p.base,
		Head: h.headOf(p), Foreign: h.foreign}
	switch p.state {
	case stateMerged:
		out.State, out.At, out.By = promotion.Merged, p.endedAt, bounded(p.endedBy)
		return out, nil
	case stateClosed:
		out.State, out.At, out.By = promotion.Closed, p.endedAt, bounded(p.endedBy)
		out.ClosedByUs = h.closed != ""
		return out, nil
	}
	out.State = promotion.Open
	out.Conflict, out.Behind = p.mergeable == mergeConflict, p.mergeable == mergeBehind
	checks, err := c.driver.checks(ctx, p)
	if err != nil {
		return out, err
	}
	out.Checks, out.FailedChecks = summarize(checks)
	return out, nil
}

// maxNames is the number of failed checks that are named.
const maxNames = 20

// summarize returns the state of all checks together.
func summarize(checks []check) (state promotion.Checks, failed []string) {
	state = promotion.ChecksNone
	for _, one := range checks {
		switch one.state {
		case checkFailed:
			if name := cutRunes(oneLine(one.name), maxSnippet); len(failed) < maxNames && !slices.Contains(failed, name) {
				failed = append(failed, name)
			}
		case checkPending:
			state = promotion.ChecksPending
		case checkPassed:
			if state == promotion.ChecksNone {
				state = promotion.ChecksPassed
			}
		}
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		return promotion.ChecksFailed, failed
	}
	return state, nil
}
