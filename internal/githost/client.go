package githost

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Client opens, updates, merges and closes proposals of one repository with one credential. Its methods are safe for
// concurrent use and may be repeated.
type Client struct {
	account *account
	driver  driver
	host    promotion.Host
	at      repository
	keys    map[string]string
}

// Result is the end of an operation on a proposal.
type Result struct {
	Proposal promotion.Proposal
	Change   Change
	Warnings []string // rejections without harm to the promotion, such as that of a reviewer
	// MergedHead is the commit at which the newest proposal was merged, shortened on some hosts; "": it was not. Prepare fills it in.
	MergedHead string
}

// Change is the effect of an operation.
type Change string

// The effects.
const (
	Created   Change = "created"
	Updated   Change = "updated"
	Unchanged Change = "unchanged"
	Merged    Change = "merged" // the revision was merged before
	Ended     Change = "closed"
)

// Watch returns the present state of a proposal. One that was given another base does not belong to Waybill any more, and counts as closed
// by it: it is neither open nor declined. Its requests are conditional and use at most a fifth of the budget that
// the host reports; beyond that its error is action.Throttle with the time of the next window.
func (c *Client) Watch(ctx context.Context, number int64) (promotion.Proposal, error) {
	ctx = watching(ctx)
	p, err := c.driver.get(ctx, number)
	if err != nil {
		return promotion.Proposal{}, err
	}
	out, err := c.proposal(ctx, p)
	if out.State == promotion.Open && p.baseBranch != c.host.Base {
		out.State, out.ClosedByUs, out.At = promotion.Closed, true, time.Now().UTC()
	}
	return out, err
}

// find returns the proposals from the head branch to the base, the newest first.
func (c *Client) find(ctx context.Context) ([]pull, error) {
	found, err := c.driver.find(ctx, c.host.Branch, c.host.Base)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b pull) int { return cmp.Compare(b.number, a.number) })
	return slices.CompactFunc(found, func(a, b pull) bool { return a.number == b.number }), nil
}

func firstOpen(found []pull) (pull, bool) {
	at := slices.IndexFunc(found, func(p pull) bool { return p.state == stateOpen })
	if at < 0 {
		return pull{}, false
	}
	return found[at], true
}

// Close closes the proposal of an action, with a comment that has the action's reason. One that has ended is left alone.
func (c *Client) Close(ctx context.Context, w promotion.Work) (Result, error) {
	p, err := c.driver.get(ctx, w.Number)
	if err != nil {
		return Result{}, err
	}
	r := Result{Change: Unchanged}
	if p.headBranch != c.host.Branch {
		return r, fatal("other_branch", "close the proposal", "proposal %d is of the branch %s, not %s", p.number,
			bounded(p.headBranch), c.host.Branch)
	}
	if p.state == stateOpen {
		h, err := c.history(ctx, p)
		if err != nil {
			return r, err
		}
		if err := c.end(ctx, p, h.identity, w); err != nil {
			return r, err
		}
		r.Change = Ended
		if p, err = c.driver.get(ctx, w.Number); err != nil {
			return r, err
		}
	}
	r.Proposal, err = c.proposal(ctx, p)
	return r, err
}

// end comments and closes. After a crash in between the comment is found and not repeated.
func (c *Client) end(ctx context.Context, p pull, id identity, w promotion.Work) error {
	text := "Closed by Waybill: " + escape(cutRunes(oneLine(w.Reason), maxSnippet))
	comments, err := c.driver.comments(ctx, p)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(comments, func(comment string) bool { return sameText(comment, text) }) {
		if err := c.driver.comment(ctx, p, text); err != nil {
			return err
		}
	}
	if id.pipeline == "" {
		id = identity{pipeline: w.Namespace + "/" + w.Pipeline, env: string(w.Env), revision: w.Revision, run: w.Run}
	}
	id.closed = cutRunes(cmp.Or(oneLine(w.Reason), "by Waybill"), maxSnippet)
	return c.driver.close(ctx, p, closedBody(p.body, id))
}

// Access is the set of things that a credential may do with a repository.
type Access struct {
	User     string // "": the host does not report it
	Read     bool
	Push     bool // push branches
	Propose  bool // open and close proposals
	Merge    bool
	Checks   bool // read checks
	Warnings []string
}

// Check returns the permissions of the credential, as far as the host reports them. It changes nothing.
func (c *Client) Check(ctx context.Context) (Access, error) {
	a, err := c.driver.access(ctx)
	t := c.driver.traits()
	if err == nil && t.noLabels && len(c.host.Labels) > 0 {
		a.Warnings = append(a.Warnings, "this kind of host has no labels")
	}
	if err == nil && t.noAssignees && len(c.host.Assignees) > 0 {
		a.Warnings = append(a.Warnings, "this kind of host has no assignees")
	}
	return a, err
}

// Unguarded reports whether the host cannot bind a merge to the head that was judged.
func (c *Client) Unguarded() bool { return c.driver.traits().unguarded }

// Queues reports whether the host has merge queues.
func (c *Client) Queues() bool { return c.driver.traits().queues }
