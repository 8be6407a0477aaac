package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// github is the driver of GitHub and GitHub Enterprise Server.
type github struct {
	account *account
	at      repository
	app     bool // the credential is that of a GitHub App
}

// githubVersion is the version of the API that requests name.
const githubVersion = "2022-11-28"

func (g *github) traits() traits { return traits{queues: true} }

type githubUser struct {
	Login string `json:"login"`
}

type githubBranch struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *struct {
		FullName string `json:"full_name"`
	} `json:"repo"`
}

type githubPull struct {
	Number         int64        `json:"number"`
	NodeID         string       `json:"node_id"`
	Title          string       `json:"title"`
	Body           string       `json:"body"`
	URL            string       `json:"html_url"`
	State          string       `json:"state"`
	Draft          bool         `json:"draft"`
	Mergeable      *bool        `json:"mergeable"`
	MergeableState string       `json:"mergeable_state"`
	CreatedAt      time.Time    `json:"created_at"`
	ClosedAt       *time.Time   `json:"closed_at"`
	MergedAt       *time.Time   `json:"merged_at"`
	MergedBy       *githubUser  `json:"merged_by"`
	Head           githubBranch `json:"head"`
	Base           githubBranch `json:"base"`
	Assignees      []githubUser `json:"assignees"`
	Reviewers      []githubUser `json:"requested_reviewers"`
	Labels         []struct {
		Name string `json:"name"`
	} `json:"labels"`
	Teams []struct {
		Slug string `json:"slug"`
	} `json:"requested_teams"`
}

func (g *github) path(format string, args ...any) string {
	return "/repos/" + g.at.path() + fmt.Sprintf(format, args...)
}

// do sends a request with the version of the API.
func (g *github) do(ctx context.Context, r request, answer any) (response, error) {
	r.header = http.Header{"X-Github-Api-Version": {githubVersion}, "Accept": {"application/vnd.github+json"}}
	return g.account.do(ctx, r, answer)
}

func (g *github) pull(p githubPull) pull {
	out := pull{number: p.Number, url: p.URL, title: p.Title, body: p.Body, head: p.Head.SHA, base: p.Base.SHA,
		headBranch: p.Head.Ref, baseBranch: p.Base.Ref, openedAt: p.CreatedAt, draft: p.Draft, key: p.NodeID, why: p.MergeableState}
	for _, l := range p.Labels {
		out.labels = append(out.labels, l.Name)
	}
	for _, u := range p.Assignees {
		out.assignees = append(out.assignees, u.Login)
	}
	for _, u := range p.Reviewers {
		out.reviewers = append(out.reviewers, u.Login)
	}
	for _, t := range p.Teams {
		out.reviewers = append(out.reviewers, teamPrefix+t.Slug)
	}
	switch {
	case p.MergedAt != nil:
		out.state, out.endedAt = stateMerged, *p.MergedAt
		if p.MergedBy != nil {
			out.endedBy = p.MergedBy.Login
		}
	case p.State == "closed":
		out.state = stateClosed
		if p.ClosedAt != nil {
			out.endedAt = *p.ClosedAt
		}
	default:
		out.mergeable = githubMergeability(p)
	}
	return out
}

func githubMergeability(p githubPull) mergeability {
	switch {
	case p.MergeableState == "dirty", p.Mergeable != nil && !*p.Mergeable:
		return mergeConflict
	case p.MergeableState == "behind":
		return mergeBehind
	case p.MergeableState == "blocked" || p.MergeableState == "draft":
		return mergeBlocked
	case p.Mergeable != nil:
		return mergeClean
	}
	return mergeUnknown
}

func (g *github) find(ctx context.Context, head, base string) (found []pull, err error) {
	query := url.Values{"head": {g.at.owner + ":" + head}, "base": {base}, "state": {"all"}, "per_page": {"100"}}
	full := g.at.owner + "/" + g.at.name
	first := request{doing: "find the proposal", op: "find", path: g.path("/pulls"), query: query}
	err = pages(first, func(r request) (next request, err error) {
		var page []githubPull
		got, err := g.do(ctx, r, &page)
		for _, p := range page {
			// A fork of the same owner passes the filter.
			if p.Head.Ref == head && p.Base.Ref == base && p.Head.Repo != nil && strings.EqualFold(p.Head.Repo.FullName, full) {
				found = append(found, g.pull(p))
			}
		}
		r.path, r.query = nextLink(got.header), nil
		return r, err
	})
	return found, err
}

// nextLink returns the address of the next page in the header Link (RFC 8288); "": there is none.
func nextLink(header http.Header) string {
	for _, value := range header.Values("Link") {
		for link := range strings.SplitSeq(value, ",") {
			address, parameters, ok := strings.Cut(strings.TrimSpace(link), ">")
			if ok && strings.HasPrefix(address, "<") && strings.Contains(parameters, `rel="next"`) {
				return address[1:]
			}
		}
	}
	return ""
}

func (g *github) get(ctx context.Context, number int64) (pull, error) {
	var p githubPull
	_, err := g.do(ctx, request{doing: "read the proposal", op: "get", path: g.path("/pulls/%d", number)}, &p)
	out := g.pull(p)
	if err != nil || out.state != stateClosed {
		return out, err
	}
	var issue struct {
		ClosedBy *githubUser `json:"closed_by"`
	}
	_, err = g.do(ctx, request{doing: "read who closed the proposal", op: "get", path: g.path("/issues/%d", number)}, &issue)
	if issue.ClosedBy != nil {
		out.endedBy = issue.ClosedBy.Login
	}
	return out, err
}

// commits lists the commits, which GitHub returns with the oldest first, at most 250.
func (g *github) commits(ctx context.Context, p pull) (found []commit, err error) {
	first := request{doing: "read the commits of the proposal", op: "commits", path: g.path("/pulls/%d/commits", p.number),
		query: url.Values{"per_page": {"100"}}}
	err = pages(first, func(r request) (next request, err error) {
		var page []struct {
			SHA    string `json:"sha"`
			Commit struct {
				Message string `json:"message"`
			} `json:"commit"`
		}
		got, err := g.do(ctx, r, &page)
		for _, one := range page {
			found = append(found, commit{one.SHA, one.Commit.Message})
		}
		r.path, r.query = nextLink(got.header), nil
		return r, err
	})
	slices.Reverse(found)
	return found, err
}

// checks joins the statuses of the head, the older interface, and its check runs.
func (g *github) checks(ctx context.Context, p pull) ([]check, error) {
	var found []check
	at := url.PathEscape(p.head)
	first := request{doing: "read the statuses of the proposal", op: "checks", path: g.path("/commits/%s/status", at),
		query: url.Values{"per_page": {"100"}}}
	err := pages(first, func(r request) (next request, err error) {
		var page struct {
			Statuses []struct {
				Context string `json:"context"`
				State   string `json:"state"`
			} `json:"statuses"`
		}
		got, err := g.do(ctx, r, &page)
		for _, s := range page.Statuses {
			found = append(found, check{s.Context, githubState(s.State)})
		}
		r.path, r.query = nextLink(got.header), nil
		return r, err
	})
	if err != nil {
		return found, err
	}
	first.doing, first.path = "read the check runs of the proposal", g.path("/commits/%s/check-runs", at)
	err = pages(first, func(r request) (next request, err error) {
		var page struct {
			Runs []struct {
				Name       string  `json:"name"`
				Status     string  `json:"status"`
				Conclusion *string `json:"conclusion"`
			} `json:"check_runs"`
		}
		got, err := g.do(ctx, r, &page)
		for _, run := range page.Runs {
			one := check{name: run.Name}
			if run.Status == "completed" && run.Conclusion != nil {
				one.state = githubState(*run.Conclusion)
			}
			found = append(found, one)
		}
		r.path, r.query = nextLink(got.header), nil
		return r, err
	})
	if statusOf(err) == http.StatusForbidden && Outcome(err).At.IsZero() {
		// A credential without the permission checks: read must not make failing checks look passed.
		return append(found, check{"check runs cannot be read", checkPending}), nil
	}
	return found, err
}

// githubState reads the state of a status or the conclusion of a check run.
func githubState(word string) checkState {
	switch word {
	case "success":
		return checkPassed
	case "neutral", "skipped":
		return checkSkipped
	case "failure", "error", "timed_out", "cancelled", "action_required", "startup_failure", "stale":
		return checkFailed
	}
	return checkPending
}

// comments returns the first comments: Waybill's are few, and its last ones are among the first hundred of a proposal
// that it keeps.
func (g *github) comments(ctx context.Context, p pull) (found []string, err error) {
	first := request{doing: "read the comments of the proposal", op: "comments", path: g.path("/issues/%d/comments", p.number),
		query: url.Values{"per_page": {"100"}}}
	err = pages(first, func(r request) (next request, err error) {
		var page []struct {
			Body string `json:"body"`
		}
		got, err := g.do(ctx, r, &page)
		for _, one := range page {
			found = append(found, one.Body)
		}
		r.path, r.query = nextLink(got.header), nil
		return r, err
	})
	return found, err
}

func (g *github) create(ctx context.Context, n newPull) (pull, error) {
	var made githubPull
	_, err := g.do(ctx, request{doing: "create the proposal", op: "create", method: http.MethodPost, path: g.path("/pulls"),
		body: map[string]any{"head": n.head, "base": n.base, "title": n.title, "body": n.body, "draft": n.draft}}, &made)
	if statusOf(err) == http.StatusUnprocessableEntity && strings.Contains(messageOf(err), "already exists") {
		return pull{}, exists(err)
	}
	return g.pull(made), err
}

func (g *github) update(ctx context.Context, p pull, c change) error {
	body := map[string]any{}
	if c.title != nil {
		body["title"] = *c.title
	}
	if c.body != nil {
		body["body"] = *c.body
	}
	users, teams := splitReviewers(c.addReviewers)
	for _, call := range []struct {
		needed bool
		request
	}{
		{len(body) > 0, request{doing: "update the proposal", op: "update", method: http.MethodPatch,
			path: g.path("/pulls/%d", p.number), body: body}},
		{len(c.setLabels) > 0, request{doing: "add labels", op: "labels", method: http.MethodPost,
			path: g.path("/issues/%d/labels", p.number), body: map[string]any{"labels": c.setLabels}}},
		{len(c.addAssignees) > 0, request{doing: "add assignees", op: "assignees", method: http.MethodPost,
			path: g.path("/issues/%d/assignees", p.number), body: map[string]any{"assignees": c.addAssignees}}},
		{len(users)+len(teams) > 0, request{doing: "add reviewers", op: "reviewers", method: http.MethodPost,
			path: g.path("/pulls/%d/requested_reviewers", p.number), body: map[string]any{"reviewers": users, "team_reviewers": teams}}},
	} {
		if !call.needed {
			continue
		}
		if _, err := g.do(ctx, call.request, nil); err != nil {
			return err
		}
	}
	return nil
}

func (g *github) comment(ctx context.Context, p pull, text string) error {
	_, err := g.do(ctx, request{doing: "comment on the proposal", op: "comment", method: http.MethodPost,
		path: g.path("/issues/%d/comments", p.number), body: map[string]any{"body": text}}, nil)
	return err
}

func (g *github) close(ctx context.Context, p pull, body string) error {
	_, err := g.do(ctx, request{doing: "close the proposal", op: "close", method: http.MethodPatch, path: g.path("/pulls/%d", p.number),
		body: map[string]any{"state": "closed", "body": body}}, nil)
	return err
}

func (g *github) access(ctx context.Context) (Access, error) {
	var repo struct {
		Archived    bool `json:"archived"`
		Permissions *struct {
			Push bool `json:"push"`
			Pull bool `json:"pull"`
		} `json:"permissions"`
	}
	got, err := g.do(ctx, request{doing: "read the repository", op: "check", path: g.path("")}, &repo)
	if err != nil {
		return Access{}, err
	}
	a := Access{Read: true}
	if repo.Permissions != nil {
		a.Push, a.Propose, a.Merge, a.Checks = repo.Permissions.Push, repo.Permissions.Push, repo.Permissions.Push, true
	}
	if granted := g.account.tokens.granted(); g.app && granted != nil {
		a.Push = granted["contents"] == "write"
		a.Propose, a.Merge = granted["pull_requests"] == "write", granted["pull_requests"] == "write" && a.Push
		a.Checks = granted["checks"] != "" && granted["statuses"] != ""
	} else if scopes := got.header.Get("X-Oauth-Scopes"); scopes != "" &&
		!slices.ContainsFunc(strings.Split(scopes, ","), func(s string) bool {
			return strings.TrimSpace(s) == "repo" || strings.TrimSpace(s) == "public_repo"
		}) {
		a.Push, a.Propose, a.Merge = false, false, false
		a.Warnings = append(a.Warnings, "the token has none of the scopes repo and public_repo")
	}
	if repo.Archived {
		a.Push, a.Propose, a.Merge = false, false, false
		a.Warnings = append(a.Warnings, "the repository is archived")
	}
	if g.app {
		return a, nil
	}
	var user githubUser
	if _, err := g.do(ctx, request{doing: "read the user", op: "check", path: "/user"}, &user); err == nil {
		a.User = user.Login
	}
	return a, nil
}

// githubMerge is the answer of the asynchronous merge.
type githubMerge struct {
	Status  string `json:"status"` // pending, merged, enqueued, failed
	Details struct {
		Message string `json:"message"`
		UUID    string `json:"uuid"`
	} `json:"details"`
}

// merge requests a merge, which the host makes later. The request is remembered, so that the next attempt reads its end;
// after a restart a second request returns the first one. Where the host has no asynchronous merges, it merges at once.
func (g *github) merge(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	key := mergeKey{g.at.owner, g.at.name, p.number, p.head}
	if uuid := g.account.merges.get(key); uuid != "" {
		return g.follow(ctx, key, p, uuid)
	}
	action := "direct_merge"
	if m.queue {
		action = "merge_queue"
	}
	body := map[string]any{"sha": p.head, "merge_action": action}
	if !m.queue {
		body["merge_method"] = m.method
	}
	var asked githubMerge
	_, err := g.do(ctx, request{doing: doing, op: "merge", method: http.MethodPut, path: g.path("/pulls/%d/merge-async", p.number),
		body: body}, &asked)
	switch status := statusOf(err); {
	case status == http.StatusNotFound:
		return g.mergeNow(ctx, p, m)
	case status == http.StatusConflict && !headMoved.has(strings.ToLower(messageOf(err))):
		return later(CodeRunning, pauseComputing, messageOf(err)) // it was requested before
	case err != nil:
		return githubRefusal(err)
	}
	return g.judge(key, asked)
}

// judge returns the meaning of an answer about an asynchronous merge.
func (g *github) judge(key mergeKey, asked githubMerge) error {
	const doing = "merge the proposal"
	switch asked.Status {
	case "merged":
		g.account.merges.set(key, "")
		return nil
	case "failed":
		g.account.merges.set(key, "")
		return githubRefusal(&Error{Kind: action.Fatal, Code: CodeNotMergeable, Doing: doing, Message: bounded(asked.Details.Message)})
	case "enqueued":
		g.account.merges.set(key, inQueue)
		return later(CodeRunning, pauseRunning, "it is in the merge queue")
	}
	if id := asked.Details.UUID; id != "" && len(id) <= 64 {
		g.account.merges.set(key, id)
	}
	return later(CodeRunning, pauseComputing, "the host is merging it")
}

// inQueue is remembered instead of a request that has ended in the merge queue.
const inQueue = "queue"

// follow reads how a merge went that an earlier attempt has requested.
func (g *github) follow(ctx context.Context, key mergeKey, p pull, uuid string) error {
	const doing = "merge the proposal"
	if uuid == inQueue {
		queued, err := g.queued(ctx, p)
		switch {
		case err != nil:
			return err
		case queued:
			return later(CodeRunning, pauseRunning, "it is in the merge queue")
		}
		g.account.merges.set(key, "")
		return fatal(CodeChecksFailed, doing, "it was removed from the merge queue")
	}
	var asked githubMerge
	_, err := g.do(ctx, request{doing: doing, op: "merge",
		path: g.path("/pulls/%d/merge-async/%s", p.number, url.PathEscape(uuid))}, &asked)
	if statusOf(err) == http.StatusNotFound {
		g.account.merges.set(key, "")
		return later(CodeRunning, pauseComputing, "the host has forgotten the merge")
	}
	if err != nil {
		return err
	}
	return g.judge(key, asked)
}

// graphql returns the address of the GraphQL interface.
func (g *github) graphql() string {
	u := *g.account.api
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v3") + "/graphql"
	return u.String()
}

// queued reports whether a proposal is in the merge queue, which only GraphQL knows.
func (g *github) queued(ctx context.Context, p pull) (bool, error) {
	var got struct {
		Data struct {
			Node struct {
				Entry *struct {
					State string `json:"state"`
				} `json:"mergeQueueEntry"`
				Merged bool `json:"merged"`
			} `json:"node"`
		} `json:"data"`
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	_, err := g.do(ctx, request{doing: "read the merge queue", op: "queue", method: http.MethodPost, path: g.graphql(),
		body: map[string]any{
			"query":     "query($id:ID!){node(id:$id){... on PullRequest{merged mergeQueueEntry{state}}}}",
			"variables": map[string]any{"id": p.key}}}, &got)
	if err == nil && len(got.Errors) > 0 {
		err = fatal("graphql", "read the merge queue", "%s", bounded(got.Errors[0].Message))
	}
	return got.Data.Node.Entry != nil || got.Data.Node.Merged, err
}

// mergeNow merges at once, or adds to the merge queue.
func (g *github) mergeNow(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	if !m.queue {
		_, err := g.do(ctx, request{doing: doing, op: "merge", method: http.MethodPut, path: g.path("/pulls/%d/merge", p.number),
			body: map[string]any{"sha": p.head, "merge_method": m.method}}, nil)
		return githubRefusal(err)
	}
	var got struct {
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	_, err := g.do(ctx, request{doing: doing, op: "merge", method: http.MethodPost, path: g.graphql(), body: map[string]any{
		"query":     "mutation($id:ID!,$head:GitObjectID!){enqueuePullRequest(input:{pullRequestId:$id,expectedHeadOid:$head}){clientMutationId}}",
		"variables": map[string]any{"id": p.key, "head": p.head}}}, &got)
	switch {
	case err != nil:
		return err
	case len(got.Errors) > 0 && !strings.Contains(got.Errors[0].Message, "already"):
		return githubRefusal(fatal("graphql", doing, "%s", bounded(got.Errors[0].Message)))
	}
	g.account.merges.set(mergeKey{g.at.owner, g.at.name, p.number, p.head}, inQueue)
	return later(CodeRunning, pauseRunning, "it is in the merge queue")
}

// headMoved are parts of messages about another head than the expected one.
var headMoved = phrases{"head branch was modified", "head sha", "expected head", "does not match"}

// githubRefusal classifies the refusal of a merge by its message, since one status has several reasons.
func githubRefusal(err error) error {
	message := strings.ToLower(messageOf(err))
	status := statusOf(err)
	if err == nil || status >= http.StatusInternalServerError || Outcome(err).Kind != action.Fatal {
		return err
	}
	switch {
	case headMoved.has(message):
		return fatal(string(promotion.ErrHeadMoved), "merge the proposal", "%s", messageOf(err))
	case (phrases{"conflict", "not allowed on this repository", "draft", "merge queue"}).has(message):
		return err
	case (phrases{"status check", "review", "expected", "is not mergeable", "required", "pending", "unknown",
		"being checked"}).has(message):
		return later(CodeNotMergeable, pauseRunning, messageOf(err))
	}
	return err
}
