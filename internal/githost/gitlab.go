package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// gitlab is the driver of GitLab, whose proposals are merge requests.
type gitlab struct {
	account *account
	at      repository
}

func (g *gitlab) traits() traits { return traits{queues: true} }

// gitlabDraft begins the title of a draft.
const gitlabDraft = "Draft: "

type gitlabUser struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
}

type gitlabPull struct {
	Number        int64        `json:"iid"`
	Title         string       `json:"title"`
	Description   string       `json:"description"`
	URL           string       `json:"web_url"`
	State         string       `json:"state"` // opened, closed, merged; locked while it is merged
	SHA           string       `json:"sha"`
	SourceBranch  string       `json:"source_branch"`
	TargetBranch  string       `json:"target_branch"`
	SourceProject int64        `json:"source_project_id"`
	TargetProject int64        `json:"target_project_id"`
	Labels        []string     `json:"labels"`
	Assignees     []gitlabUser `json:"assignees"`
	Reviewers     []gitlabUser `json:"reviewers"`
	CreatedAt     time.Time    `json:"created_at"`
	ClosedAt      *time.Time   `json:"closed_at"`
	ClosedBy      *gitlabUser  `json:"closed_by"`
	MergedAt      *time.Time   `json:"merged_at"`
	MergeUser     *gitlabUser  `json:"merge_user"`
	Conflicts     bool         `json:"has_conflicts"`
	Status        string       `json:"detailed_merge_status"`
	AutoMerge     bool         `json:"merge_when_pipeline_succeeds"`
	DiffRefs      struct {
		Base string `json:"base_sha"`
	} `json:"diff_refs"`
}

// path returns an address of the project, whose whole path is one part of it.
func (g *gitlab) path(format string, args ...any) string {
	return "/projects/" + url.PathEscape(g.at.owner+"/"+g.at.name) + fmt.Sprintf(format, args...)
}

func (g *gitlab) pull(p gitlabPull) pull {
	out := pull{number: p.Number, url: p.URL, title: p.Title, body: p.Description, head: p.SHA, base: p.DiffRefs.Base,
		headBranch: p.SourceBranch, baseBranch: p.TargetBranch, openedAt: p.CreatedAt, labels: p.Labels, why: p.Status, queued: p.AutoMerge}
	if title, ok := strings.CutPrefix(p.Title, gitlabDraft); ok {
		out.title, out.draft = title, true
	}
	for _, u := range p.Assignees {
		out.assignees = append(out.assignees, u.Username)
	}
	for _, u := range p.Reviewers {
		out.reviewers = append(out.reviewers, u.Username)
	}
	switch p.State {
	case "merged":
		out.state = stateMerged
		if p.MergedAt != nil {
			out.endedAt = *p.MergedAt
		}
		if p.MergeUser != nil {
			out.endedBy = p.MergeUser.Username
		}
	case "closed":
		out.state = stateClosed
		if p.ClosedAt != nil {
			out.endedAt = *p.ClosedAt
		}
		if p.ClosedBy != nil {
			out.endedBy = p.ClosedBy.Username
		}
	default:
		out.mergeable = gitlabMergeability(p)
	}
	return out
}

func gitlabMergeability(p gitlabPull) mergeability {
	switch p.Status {
	case "mergeable":
		return mergeClean
	case "conflict":
		return mergeConflict
	case "need_rebase":
		return mergeBehind
	case "", "checking", "unchecked", "preparing", "approvals_syncing":
		if p.Conflicts {
			return mergeConflict
		}
		return mergeUnknown
	}
	return mergeBlocked
}

func (g *gitlab) find(ctx context.Context, head, base string) (found []pull, err error) {
	query := url.Values{"source_branch": {head}, "target_branch": {base}, "state": {"all"}, "order_by": {"created_at"}, "sort": {"desc"},
		"per_page": {"100"}}
	err = g.pages(request{doing: "find the proposal", op: "find", path: g.path("/merge_requests"), query: query},
		func(r request) (response, error) {
			var page []gitlabPull
			got, err := g.account.do(ctx, r, &page)
			for _, p := range page {
				if p.SourceProject == p.TargetProject && p.SourceBranch == head && p.TargetBranch == base {
					found = append(found, g.pull(p))
				}
			}
			return got, err
		})
	return found, err
}

// pages reads pages while the host names a next one.
func (g *gitlab) pages(first request, read func(r request) (response, error)) error {
	return pages(first, func(r request) (next request, err error) {
		got, err := read(r)
		number := got.header.Get("X-Next-Page")
		if err != nil || number == "" {
			return request{}, err
		}
		r.query.Set("page", number)
		return r, nil
	})
}

func (g *gitlab) get(ctx context.Context, number int64) (pull, error) {
	var p gitlabPull
	_, err := g.account.do(ctx, request{doing: "read the proposal", op: "get", path: g.path("/merge_requests/%d", number)}, &p)
	return g.pull(p), err
}

func (g *gitlab) commits(ctx context.Context, p pull) (found []commit, err error) {
	first := request{doing: "read the commits of the proposal", op: "commits", path: g.path("/merge_requests/%d/commits", p.number),
		query: url.Values{"per_page": {"100"}}}
	err = g.pages(first, func(r request) (response, error) {
		var page []struct {
			ID      string `json:"id"`
			Message string `json:"message"`
		}
		got, err := g.account.do(ctx, r, &page)
		for _, one := range page {
			found = append(found, commit{one.ID, one.Message})
		}
		return got, err
	})
	return found, err
}

func (g *gitlab) checks(ctx context.Context, p pull) (found []check, err error) {
	first := request{doing: "read the checks of the proposal", op: "checks", query: url.Values{"per_page": {"100"}},
		path: g.path("/repository/commits/%s/statuses", url.PathEscape(p.head))}
	err = g.pages(first, func(r request) (response, error) {
		var page []struct {
			Name         string `json:"name"`
			Status       string `json:"status"`
			AllowFailure bool   `json:"allow_failure"`
		}
		got, err := g.account.do(ctx, r, &page)
		for _, s := range page {
			one := check{name: s.Name}
			switch s.Status {
			case "success":
				one.state = checkPassed
			case "failed", "canceled":
				one.state = checkFailed
				if s.AllowFailure {
					one.state = checkSkipped
				}
			case "skipped", "manual":
				one.state = checkSkipped
			}
			found = append(found, one)
		}
		return got, err
	})
	return found, err
}

func (g *gitlab) comments(ctx context.Context, p pull) (found []string, err error) {
	first := request{doing: "read the comments of the proposal", op: "comments", path: g.path("/merge_requests/%d/notes", p.number),
		query: url.Values{"per_page": {"100"}, "sort": {"desc"}}}
	err = g.pages(first, func(r request) (response, error) {
		var page []struct {
			Body string `json:"body"`
		}
		got, err := g.account.do(ctx, r, &page)
		for _, one := range page {
			found = append(found, one.Body)
		}
		return got, err
	})
	return found, err
}

func (g *gitlab) create(ctx context.Context, n newPull) (pull, error) {
	title := n.title
	if n.draft {
		title = gitlabDraft + title
	}
	body := map[string]any{"source_branch": n.head, "target_branch": n.base, "title": title, "description": n.body}
	if len(n.labels) > 0 {
		body["labels"] = strings.Join(n.labels, ",")
	}
	var made gitlabPull
	_, err := g.account.do(ctx, request{doing: "create the proposal", op: "create", method: http.MethodPost,
		path: g.path("/merge_requests"),
		body: body}, &made)
	if statusOf(err) == http.StatusConflict {
		return pull{}, exists(err)
	}
	return g.pull(made), err
}

func (g *gitlab) update(ctx context.Context, p pull, c change) error {
	body := map[string]any{}
	if c.title != nil {
		body["title"] = *c.title
		if p.draft {
			body["title"] = gitlabDraft + *c.title
		}
	}
	if c.body != nil {
		body["description"] = *c.body
	}
	if len(c.setLabels) > 0 {
		body["add_labels"] = strings.Join(c.setLabels, ",")
	}
	for key, add := range map[string][]string{"reviewer_ids": c.addReviewers, "assignee_ids": c.addAssignees} {
		if len(add) == 0 {
			continue
		}
		now, err := g.get(ctx, p.number) // the list replaces that of the host
		if err != nil {
			return err
		}
		there := now.reviewers
		if key == "assignee_ids" {
			there = now.assignees
		}
		ids, err := g.users(ctx, append(slices.Clone(there), add...))
		if err != nil {
			return err
		}
		body[key] = ids
	}
	_, err := g.account.do(ctx, request{doing: "update the proposal", op: "update", method: http.MethodPut,
		path: g.path("/merge_requests/%d", p.number), body: body}, nil)
	return err
}

// users returns the numbers of users.
func (g *gitlab) users(ctx context.Context, names []string) (ids []int64, err error) {
	for _, name := range names {
		if strings.HasPrefix(name, teamPrefix) {
			return nil, fatal("no_user", "add people", "GitLab has no teams as reviewers: %s", bounded(name))
		}
		var users []gitlabUser
		_, err := g.account.do(ctx, request{doing: "read a user", op: "users", path: "/users",
			query: url.Values{"username": {name}}}, &users)
		if err != nil {
			return nil, err
		}
		if len(users) == 0 {
			return nil, fatal("no_user", "add people", "user %q does not exist", bounded(name))
		}
		ids = append(ids, users[0].ID)
	}
	return ids, nil
}

func (g *gitlab) comment(ctx context.Context, p pull, text string) error {
	_, err := g.account.do(ctx, request{doing: "comment on the proposal", op: "comment", method: http.MethodPost,
		path: g.path("/merge_requests/%d/notes", p.number), body: map[string]any{"body": text}}, nil)
	return err
}

func (g *gitlab) close(ctx context.Context, p pull, body string) error {
	_, err := g.account.do(ctx, request{doing: "close the proposal", op: "close", method: http.MethodPut,
		path: g.path("/merge_requests/%d", p.number), body: map[string]any{"state_event": "close", "description": body}}, nil)
	return err
}

// merge merges at once. How it merges besides squashing is a setting of the project.
func (g *gitlab) merge(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	if m.queue {
		return g.board(ctx, p, m)
	}
	_, err := g.account.do(ctx, request{doing: doing, op: "merge", method: http.MethodPut,
		path: g.path("/merge_requests/%d/merge", p.number),
		body: map[string]any{"sha": p.head, "squash": m.method == "squash", "should_remove_source_branch": false}}, nil)
	return g.refusal(ctx, p, err)
}

// refusal classifies a refused merge by the host's present opinion of the merge request.
func (g *gitlab) refusal(ctx context.Context, p pull, err error) error {
	const doing = "merge the proposal"
	switch statusOf(err) {
	case http.StatusConflict:
		return fatal(string(promotion.ErrHeadMoved), doing, "%s", messageOf(err))
	case http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnprocessableEntity, http.StatusBadRequest:
	default:
		return err
	}
	now, failed := g.get(ctx, p.number)
	if failed != nil {
		return failed
	}
	switch now.mergeable {
	case mergeUnknown, mergeClean: // a clean one has changed since
		return later(CodeNotMergeable, pauseComputing, messageOf(err))
	case mergeBlocked:
		if now.draft || now.why == "broken_status" || now.why == "not_open" {
			return err
		}
		return later(CodeNotMergeable, pauseRunning, fmt.Sprintf("%s (%s)", messageOf(err), now.why))
	}
	return err
}

// board adds a merge request to the merge train, or reads how it goes there.
func (g *gitlab) board(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	key := mergeKey{g.at.owner, g.at.name, p.number, p.head}
	train := g.path("/merge_trains/merge_requests/%d", p.number)
	_, err := g.account.do(ctx, request{doing: "read the merge train", op: "queue", path: train}, nil)
	switch {
	case err == nil:
		g.account.merges.set(key, inQueue)
		return later(CodeRunning, pauseRunning, "it is on the merge train")
	case statusOf(err) != http.StatusNotFound:
		return err
	case g.account.merges.get(key) != "":
		g.account.merges.set(key, "")
		return fatal(CodeChecksFailed, doing, "it was removed from the merge train")
	case p.mergeable == mergeUnknown:
		return later(CodeNotMergeable, pauseComputing, "the host computes whether it can be merged")
	}
	_, err = g.account.do(ctx, request{doing: doing, op: "merge", method: http.MethodPost, path: train,
		body: map[string]any{"sha": p.head, "squash": m.method == "squash"}}, nil)
	if err != nil {
		return g.refusal(ctx, p, err)
	}
	g.account.merges.set(key, inQueue)
	return later(CodeRunning, pauseRunning, "it is on the merge train")
}

// gitlabDeveloper is the lowest level of access that may push and merge.
const gitlabDeveloper = 30

func (g *gitlab) access(ctx context.Context) (Access, error) {
	type level struct {
		Level int `json:"access_level"`
	}
	var project struct {
		Archived    bool `json:"archived"`
		Permissions struct {
			Project *level `json:"project_access"`
			Group   *level `json:"group_access"`
		} `json:"permissions"`
	}
	if _, err := g.account.do(ctx, request{doing: "read the project", op: "check", path: g.path("")}, &project); err != nil {
		return Access{}, err
	}
	highest := 0
	for _, l := range []*level{project.Permissions.Project, project.Permissions.Group} {
		if l != nil {
			highest = max(highest, l.Level)
		}
	}
	may := highest >= gitlabDeveloper && !project.Archived
	a := Access{Read: true, Push: may, Propose: may, Merge: may, Checks: true}
	if project.Archived {
		a.Warnings = append(a.Warnings, "the project is archived")
	}
	var token struct {
		Scopes []string `json:"scopes"`
	}
	_, err := g.account.do(ctx, request{doing: "read the token", op: "check", path: "/personal_access_tokens/self"}, &token)
	if err == nil && !slices.Contains(token.Scopes, "api") {
		a.Propose, a.Merge = false, false
		a.Push = a.Push && slices.Contains(token.Scopes, "write_repository")
		a.Warnings = append(a.Warnings, "the token lacks the scope api")
	}
	var user gitlabUser
	if _, err := g.account.do(ctx, request{doing: "read the user", op: "check", path: "/user"}, &user); err == nil {
		a.User = user.Username
	}
	return a, nil
}
