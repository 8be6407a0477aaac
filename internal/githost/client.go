package githost

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
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

// Latest returns the newest proposal for the branches of the host's configuration: the open one, else the one that ended
// last. ok is false if there is none.
func (c *Client) Latest(ctx context.Context) (p promotion.Proposal, ok bool, err error) {
	found, err := c.find(ctx)
	if err != nil || len(found) == 0 {
		return promotion.Proposal{}, false, err
	}
	newest, isOpen := firstOpen(found)
	if !isOpen {
		newest = found[0]
	}
	if newest, err = c.driver.get(ctx, newest.number); err != nil {
		return promotion.Proposal{}, false, err
	}
	p, err = c.proposal(ctx, newest)
	return p, err == nil, err
}

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

// history is the origin of a proposal.
type history struct {
	identity
	head    string // its newest commit
	foreign bool   // it has commits without Waybill's trailers
	listed  bool   // the host has listed its commits
}

// history reads the origin of a proposal: the trailers of its newest commit, then its body.
func (c *Client) history(ctx context.Context, p pull) (history, error) {
	h, ok := c.account.histories.get(c.at, p)
	if !ok {
		commits, err := c.driver.commits(ctx, p)
		if err != nil && statusOf(err) != 404 {
			return h, err // a deleted branch has no commits on some hosts
		}
		if p.state == stateOpen && len(commits) > 0 && !listsHead(commits, p.head) {
			if len(commits) < mostCommits {
				return h, laterDoing("read the commits of the proposal", "", stalePause, "the host does not list the newest one yet")
			}
			h.foreign = true
		}
		if len(commits) > 0 {
			h.read(commits)
			c.account.histories.put(c.at, p, h)
		}
	}
	written, known := readDetails(p.title, p.body)
	h.closed = written.closed
	if h.revision == "" && known {
		h.identity = written
	}
	if h.identity.pipeline == written.pipeline && h.identity.env == written.env && h.identity.revision == written.revision {
		h.runID = written.runID
	}
	h.head = cmp.Or(h.head, p.head)
	return h, nil
}

// read reads the trailers of commits, the newest first.
func (h *history) read(commits []commit) {
	for _, one := range commits {
		_, ours := readTrailers(one.message)
		h.foreign = h.foreign || !ours
	}
	h.foreign = h.foreign || len(commits) > 1 // Waybill's proposals have one commit
	h.head, h.listed = commits[0].sha, true
	h.identity, _ = readTrailers(commits[0].message)
}

// Hosts update the head of a proposal before the list of its commits. A list without the head would hide commits of others.
const (
	stalePause  = time.Second
	mostCommits = 100 // length from which a list may be cut
)

func listsHead(commits []commit, head string) bool {
	return slices.ContainsFunc(commits, func(one commit) bool { return strings.HasPrefix(one.sha, head) })
}

// mergedAt returns the commit at which a proposal was merged; "" if it was not, or the commit is not known. The head that some hosts report
// follows the branch also after the end.
func (h history) mergedAt(p pull) string {
	if p.state != stateMerged || !h.listed {
		return ""
	}
	return h.head
}

// headOf returns the newest commit of an open proposal. Some hosts shorten it.
func (h history) headOf(p pull) string {
	if p.state != stateOpen || strings.HasPrefix(h.head, p.head) {
		return h.head
	}
	return p.head
}

// histories remembers the commits of proposals by their heads. Safe for concurrent use.
type histories struct {
	mu    sync.Mutex
	known map[historyKey]history
}

type historyKey struct {
	owner, name, head string
	number            int64
	state             pullState
}

func keyOf(at repository, p pull) historyKey {
	return historyKey{at.owner, at.name, p.head, p.number, p.state}
}

func (s *histories) get(at repository, p pull) (history, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.known[keyOf(at, p)]
	return h, ok && p.head != ""
}

func (s *histories) put(at repository, p pull, h history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxRemembered {
		s.known = map[historyKey]history{}
	}
	s.known[keyOf(at, p)] = h
}

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
