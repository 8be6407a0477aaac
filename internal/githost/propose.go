package githost

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Prepare finds reasons against pushing the branch of a promotion: the revision is merged (the result's Change is
// Merged, and nothing is left to do), or was declined (the error has the code promotion.ErrDeclined). It closes an open
// proposal for another revision if the host's configuration wants that; pushing first would hand it the new commit.
// Otherwise Change is Unchanged, and the branch may be pushed.
func (c *Client) Prepare(ctx context.Context, w promotion.Work) (Result, error) {
	found, err := c.find(ctx)
	if err != nil {
		return Result{}, err
	}
	r, err, ended := c.ended(ctx, w, found)
	if ended {
		return r, err
	}
	open, ok := firstOpen(found)
	if !ok || !c.host.Close {
		return Result{Change: Unchanged, MergedHead: r.MergedHead}, nil
	}
	if open, err = c.driver.get(ctx, open.number); err != nil {
		return Result{}, err
	}
	h, err := c.history(ctx, open)
	if err != nil || h.foreign || h.revision == w.Revision || h.revision == "" {
		return Result{Change: Unchanged}, err
	}
	w.Reason = "superseded by " + string(w.Revision)
	if err := c.end(ctx, open, h.identity, w); err != nil {
		return Result{}, err
	}
	return Result{Change: Ended}, nil
}

// Ensure makes the right proposal exist, once the branch is pushed: the open one is brought up to date, without a call if
// it is, else one is created. Its result and errors are also those of Prepare.
func (c *Client) Ensure(ctx context.Context, w promotion.Work, text Text) (Result, error) {
	pause := c.account.pace.pause / 5
	for try := 0; ; try++ {
		r, err := c.ensure(ctx, w, text)
		if !Is(err, CodeExists) || try == 5 {
			if Is(err, CodeExists) {
				return r, &Error{Kind: action.Retry, Code: CodeExists, Doing: "find the proposal", Message: messageOf(err)}
			}
			return r, err
		}
		if err := sleep(ctx, pause<<try); err != nil { // lists of hosts lag
			return r, err
		}
	}
}

func (c *Client) ensure(ctx context.Context, w promotion.Work, text Text) (Result, error) {
	found, err := c.find(ctx)
	if err != nil {
		return Result{}, err
	}
	if open, ok := firstOpen(found); ok {
		return c.update(ctx, open, w, text)
	}
	if r, err, ended := c.ended(ctx, w, found); ended {
		return r, err
	}
	n := newPull{head: c.host.Branch, base: c.host.Base, title: text.Title, body: text.Body, labels: c.host.Labels,
		reviewers: c.host.Reviewers, assignees: c.host.Assignees, draft: c.host.Draft}
	made, err := c.driver.create(ctx, n)
	if err != nil {
		return Result{}, err
	}
	r := Result{Change: Created}
	if r.Warnings, err = c.complete(ctx, made); err != nil {
		return r, err
	}
	r.Proposal, err = c.proposal(ctx, made)
	return r, err
}

// ended returns the result for a revision whose newest proposal has ended. If a new one may be made, the result has the commit at
// which it was merged.
func (c *Client) ended(ctx context.Context, w promotion.Work, found []pull) (r Result, err error, ended bool) {
	if _, ok := firstOpen(found); ok || len(found) == 0 {
		return Result{}, nil, false
	}
	last, err := c.driver.get(ctx, found[0].number) // lists cut bodies, and lack who merged
	if err != nil {
		return Result{}, err, true
	}
	h, err := c.history(ctx, last)
	if err != nil {
		return Result{}, err, true
	}
	r.MergedHead = h.mergedAt(last)
	if h.revision != w.Revision || h.pipeline != "" && !h.belongs(w) {
		return r, nil, false
	}
	switch {
	case last.state == stateMerged && h.run == w.Run && !last.endedAt.Before(w.Started.Add(-clockSkew)):
		r.Change = Merged
		r.Proposal, err = c.proposal(ctx, last)
		return r, err, true
	case last.state == stateClosed && h.closed == "" && !w.Repeats:
		return Result{}, fatal(string(promotion.ErrDeclined), "propose", "proposal %d was closed unmerged%s: %s", last.number,
			by(last.endedBy), last.url), true
	}
	return r, nil, false
}

// clockSkew is the difference between the clocks of hosts and this process that is tolerated.
const clockSkew = 10 * time.Minute

func by(name string) string {
	if name == "" {
		return ""
	}
	return " by " + bounded(name)
}

// update brings an open proposal up to date. It comments if the proposal was one for another revision.
func (c *Client) update(ctx context.Context, p pull, w promotion.Work, text Text) (Result, error) {
	p, err := c.driver.get(ctx, p.number) // lists cut bodies
	if err != nil {
		return Result{}, err
	}
	before, known := readDetails(p.title, p.body)
	var ch change
	if p.title != text.Title {
		ch.title = &text.Title
	}
	if !sameText(p.body, text.Body) {
		ch.body = &text.Body
	}
	if !c.driver.traits().noLabels {
		ch.setLabels = withMissing(p.labels, c.host.Labels)
	}
	r := Result{Change: Unchanged}
	if !ch.empty() {
		r.Change = Updated
		if err := c.driver.update(ctx, p, ch); err != nil {
			return r, err
		}
		if known && before.revision != w.Revision {
			err := c.driver.comment(ctx, p, "Updated from "+code(string(before.revision))+" to "+code(string(w.Revision))+".")
			if err != nil {
				return r, err
			}
		}
		if p, err = c.driver.get(ctx, p.number); err != nil {
			return r, err
		}
	}
	if r.Warnings, err = c.complete(ctx, p); err != nil {
		return r, err
	}
	if len(r.Warnings) > 0 && r.Change == Unchanged {
		r.Change = Updated
	}
	r.Proposal, err = c.proposal(ctx, p)
	return r, err
}

// complete adds labels, reviewers and assignees that are missing. A rejection is a warning, since the promotion does not
// depend on them.
func (c *Client) complete(ctx context.Context, p pull) (warnings []string, err error) {
	var missing []change
	if labels := withMissing(p.labels, c.host.Labels); labels != nil && !c.driver.traits().noLabels {
		missing = append(missing, change{setLabels: labels})
	}
	if people := absent(p.reviewers, c.host.Reviewers); people != nil {
		missing = append(missing, change{addReviewers: people})
	}
	if people := absent(p.assignees, c.host.Assignees); people != nil && !c.driver.traits().noAssignees {
		missing = append(missing, change{addAssignees: people})
	}
	for len(missing) > 0 {
		next := missing[0]
		missing = missing[1:]
		err := c.driver.update(ctx, p, next)
		if e, ok := errors.AsType[*Error](err); ok && e.Kind == action.Fatal {
			if single := next.apart(); single != nil {
				missing = append(missing, single...) // hosts reject all if one is wrong
				continue
			}
			warnings = append(warnings, e.Error())
			continue
		}
		if err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

// absent returns the wanted names that are not there.
func absent(there, wanted []string) (missing []string) {
	for _, name := range wanted {
		if !slices.ContainsFunc(there, func(t string) bool { return strings.EqualFold(t, name) }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// withMissing returns all names if one of the wanted is not there, else nil.
func withMissing(there, wanted []string) []string {
	missing := absent(there, wanted)
	if missing == nil {
		return nil
	}
	return append(slices.Clone(there), missing...)
}

// sameText compares texts as hosts keep them: they change line ends and the space at the ends.
func sameText(a, b string) bool {
	plain := func(text string) string {
		return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	}
	return plain(a) == plain(b)
}
