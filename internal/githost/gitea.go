package githost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// gitea is the driver of Gitea and Forgejo.
type gitea struct {
	account *account
	at      repository
	forgejo bool
}

func (g *gitea) traits() traits { return traits{} }

// giteaUser is a user, or a team, whose name is in another field.
type giteaUser struct {
	Login string `json:"login"`
	Name  string `json:"name"`
}

type giteaLabel struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type giteaBranch struct {
	Label string `json:"label"`
	Ref   string `json:"ref"`
	SHA   string `json:"sha"`
	Repo  *struct {
		FullName string `json:"full_name"`
	} `json:"repo"`
}

type giteaPull struct {
	Number    int64        `json:"number"`
	Title     string       `json:"title"`
	Body      string       `json:"body"`
	URL       string       `json:"html_url"`
	State     string       `json:"state"`
	Draft     bool         `json:"draft"`
	Merged    bool         `json:"merged"`
	Mergeable bool         `json:"mergeable"`
	CreatedAt time.Time    `json:"created_at"`
	UpdatedAt time.Time    `json:"updated_at"`
	MergedAt  *time.Time   `json:"merged_at"`
	ClosedAt  *time.Time   `json:"closed_at"`
	MergedBy  *giteaUser   `json:"merged_by"`
	Head      giteaBranch  `json:"head"`
	Base      giteaBranch  `json:"base"`
	Labels    []giteaLabel `json:"labels"`
	Assignees []giteaUser  `json:"assignees"`
	Reviewers []giteaUser  `json:"requested_reviewers"`
	Teams     []giteaUser  `json:"requested_reviewers_teams"`
}

// draftPrefix begins the title of a draft.
const draftPrefix = "WIP: "

func (g *gitea) path(format string, args ...any) string {
	return "/repos/" + g.at.path() + fmt.Sprintf(format, args...)
}

func (g *gitea) pull(p giteaPull) pull {
	out := pull{number: p.Number, url: p.URL, title: p.Title, body: p.Body, head: p.Head.SHA, base: p.Base.SHA,
		headBranch: cmp.Or(p.Head.Label, p.Head.Ref), baseBranch: p.Base.Ref, openedAt: p.CreatedAt, draft: p.Draft}
	if title, ok := strings.CutPrefix(p.Title, draftPrefix); ok {
		out.title, out.draft = title, true
	}
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
		out.reviewers = append(out.reviewers, teamPrefix+t.Name)
	}
	switch {
	case p.Merged:
		out.state = stateMerged
		if p.MergedAt != nil {
			out.endedAt = *p.MergedAt
		}
		if p.MergedBy != nil {
			out.endedBy = p.MergedBy.Login
		}
	case p.State == "closed":
		out.state = stateClosed
		if p.ClosedAt != nil {
			out.endedAt = *p.ClosedAt
		}
	case p.Mergeable:
		out.mergeable = mergeClean
	case !out.draft && since(p.UpdatedAt) > giteaComputing:
		// Gitea reports false while it computes, too.
		out.mergeable = mergeConflict
	}
	return out
}

// giteaComputing is the age of the last change after which an unmergeable proposal is one with a conflict.
const giteaComputing = 10 * time.Second

// teamPrefix begins the name of a team among reviewers.
const teamPrefix = "team:"

// ours reports whether a proposal is one between two branches of this repository.
func (g *gitea) ours(p giteaPull, head, base string) bool {
	full := g.at.owner + "/" + g.at.name
	same := p.Head.Repo != nil && strings.EqualFold(p.Head.Repo.FullName, full)
	return same && p.Base.Ref == base && (p.Head.Ref == head || p.Head.Label == head)
}

// find lists all open proposals, then those that have ended until it finds one: hosts of this kind cannot search by head,
// and a repository may have thousands.
func (g *gitea) find(ctx context.Context, head, base string) (found []pull, err error) {
	for _, state := range []string{"open", "closed"} {
		query := url.Values{"state": {state}, "sort": {"newest"}, "base_branch": {base}, "limit": {strconv.Itoa(pageSize)}}
		number := 1
		first := request{doing: "find the proposal", op: "find", path: g.path("/pulls"), query: query}
		err := pages(first, func(r request) (next request, err error) {
			var page []giteaPull
			r.query.Set("page", strconv.Itoa(number))
			got, err := g.account.do(ctx, r, &page)
			if err != nil {
				return next, err
			}
			matched := false
			for _, p := range page {
				if g.ours(p, head, base) {
					found, matched = append(found, g.pull(p)), true
				}
			}
			if state == "closed" && matched || len(page) == 0 || !hasNext(got.header, len(page)) {
				return next, nil
			}
			number++
			return r, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// hasNext reports whether a page has a successor: by the header Link, or without one by the length of the page.
func hasNext(header http.Header, length int) bool {
	if link := header.Get("Link"); link != "" {
		return strings.Contains(link, `rel="next"`)
	}
	if more := header.Get("X-Hasmore"); more != "" {
		return more == "true"
	}
	return length >= pageSize
}

func (g *gitea) get(ctx context.Context, number int64) (pull, error) {
	var p giteaPull
	_, err := g.account.do(ctx, request{doing: "read the proposal", op: "get", path: g.path("/pulls/%d", number)}, &p)
	return g.pull(p), err
}

func (g *gitea) commits(ctx context.Context, p pull) (found []commit, err error) {
	var commits []struct {
		SHA    string `json:"sha"`
		Commit struct {
			Message string `json:"message"`
		} `json:"commit"`
	}
	query := url.Values{"limit": {strconv.Itoa(pageSize)}, "verification": {"false"}, "files": {"false"}}
	_, err = g.account.do(ctx, request{doing: "read the commits of the proposal", op: "commits", query: query,
		path: g.path("/pulls/%d/commits", p.number)}, &commits)
	for _, one := range commits {
		found = append(found, commit{one.SHA, one.Commit.Message})
	}
	return found, err
}

func (g *gitea) checks(ctx context.Context, p pull) (found []check, err error) {
	var combined struct {
		Statuses []struct {
			Context string `json:"context"`
			Status  string `json:"status"`
			State   string `json:"state"`
		} `json:"statuses"`
	}
	_, err = g.account.do(ctx, request{doing: "read the checks of the proposal", op: "checks",
		query: url.Values{"limit": {strconv.Itoa(pageSize)}}, path: g.path("/commits/%s/status", url.PathEscape(p.head))}, &combined)
	for _, s := range combined.Statuses {
		one := check{name: s.Context}
		switch cmp.Or(s.Status, s.State) {
		case "success", "warning":
			one.state = checkPassed
		case "failure", "error":
			one.state = checkFailed
		case "skipped":
			one.state = checkSkipped
		}
		found = append(found, one)
	}
	return found, err
}

func (g *gitea) comments(ctx context.Context, p pull) (found []string, err error) {
	var comments []struct {
		Body string `json:"body"`
	}
	_, err = g.account.do(ctx, request{doing: "read the comments of the proposal", op: "comments",
		path: g.path("/issues/%d/comments", p.number)},
		&comments)
	for _, one := range comments {
		found = append(found, one.Body)
	}
	return found, err
}

func (g *gitea) create(ctx context.Context, n newPull) (pull, error) {
	title := n.title
	if n.draft {
		title = draftPrefix + title
	}
	var made giteaPull
	_, err := g.account.do(ctx, request{doing: "create the proposal", op: "create", method: http.MethodPost, path: g.path("/pulls"),
		body: map[string]any{"head": n.head, "base": n.base, "title": title, "body": n.body}}, &made)
	if statusOf(err) == http.StatusConflict {
		return pull{}, exists(err)
	}
	return g.pull(made), err
}

// exists gives an error the code for a proposal that exists.
func exists(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	same := *e
	same.Kind, same.Code = action.Retry, CodeExists
	return &same
}

func (g *gitea) update(ctx context.Context, p pull, c change) error {
	body := map[string]any{}
	if c.title != nil {
		body["title"] = *c.title
		if p.draft {
			body["title"] = draftPrefix + *c.title
		}
	}
	if c.body != nil {
		body["body"] = *c.body
	}
	if len(c.addAssignees) > 0 {
		now, err := g.get(ctx, p.number) // the list replaces that of the host
		if err != nil {
			return err
		}
		body["assignees"] = append(now.assignees, c.addAssignees...)
	}
	if len(body) > 0 {
		if err := g.patch(ctx, "update the proposal", p, body); err != nil {
			return err
		}
	}
	if len(c.setLabels) > 0 {
		if err := g.label(ctx, p, c.setLabels); err != nil {
			return err
		}
	}
	if len(c.addReviewers) == 0 {
		return nil
	}
	users, teams := splitReviewers(c.addReviewers)
	_, err := g.account.do(ctx, request{doing: "add reviewers", op: "reviewers", method: http.MethodPost,
		path: g.path("/pulls/%d/requested_reviewers", p.number), body: map[string]any{"reviewers": users, "team_reviewers": teams}}, nil)
	return err
}

func (g *gitea) patch(ctx context.Context, doing string, p pull, body map[string]any) error {
	_, err := g.account.do(ctx, request{doing: doing, op: "update", method: http.MethodPatch, path: g.path("/pulls/%d", p.number),
		body: body}, nil)
	return err
}

// splitReviewers separates users and teams.
func splitReviewers(names []string) (users, teams []string) {
	users, teams = []string{}, []string{}
	for _, name := range names {
		if team, ok := strings.CutPrefix(name, teamPrefix); ok {
			teams = append(teams, team)
			continue
		}
		users = append(users, name)
	}
	return users, teams
}

// label adds labels, which the API names by number: those of the repository, then those of its organization.
func (g *gitea) label(ctx context.Context, p pull, names []string) error {
	ids, err := g.labelIDs(ctx, g.path("/labels"), names)
	if err != nil {
		return err
	}
	if len(ids) < len(names) {
		more, err := g.labelIDs(ctx, "/orgs/"+url.PathEscape(g.at.owner)+"/labels", names)
		if err != nil && statusOf(err) != http.StatusNotFound {
			return err
		}
		for name, id := range more {
			if _, ok := ids[name]; !ok {
				ids[name] = id
			}
		}
	}
	var numbers []int64
	for _, name := range names {
		id, ok := ids[strings.ToLower(name)]
		if !ok {
			return fatal("no_label", "add labels", "label %q does not exist", bounded(name))
		}
		numbers = append(numbers, id)
	}
	_, err = g.account.do(ctx, request{doing: "add labels", op: "labels", method: http.MethodPost,
		path: g.path("/issues/%d/labels", p.number), body: map[string]any{"labels": numbers}}, nil)
	return err
}

// labelIDs returns the numbers of labels by their names in lower case.
func (g *gitea) labelIDs(ctx context.Context, path string, names []string) (map[string]int64, error) {
	ids := map[string]int64{}
	number := 1
	first := request{doing: "read the labels", op: "labels", path: path, query: url.Values{"limit": {strconv.Itoa(pageSize)}}}
	err := pages(first, func(r request) (next request, err error) {
		var page []giteaLabel
		r.query.Set("page", strconv.Itoa(number))
		got, err := g.account.do(ctx, r, &page)
		for _, l := range page {
			if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, l.Name) }) {
				ids[strings.ToLower(l.Name)] = l.ID
			}
		}
		if err != nil || len(page) == 0 || !hasNext(got.header, len(page)) {
			return next, err
		}
		number++
		return r, nil
	})
	return ids, err
}

func (g *gitea) comment(ctx context.Context, p pull, text string) error {
	_, err := g.account.do(ctx, request{doing: "comment on the proposal", op: "comment", method: http.MethodPost,
		path: g.path("/issues/%d/comments", p.number), body: map[string]any{"body": text}}, nil)
	return err
}

func (g *gitea) close(ctx context.Context, p pull, body string) error {
	return g.patch(ctx, "close the proposal", p, map[string]any{"state": "closed", "body": body})
}

func (g *gitea) merge(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	_, err := g.account.do(ctx, request{doing: doing, op: "merge", method: http.MethodPost, path: g.path("/pulls/%d/merge", p.number),
		body: map[string]any{"Do": m.method, "head_commit_id": p.head}}, nil)
	message := strings.ToLower(messageOf(err))
	switch status := statusOf(err); {
	case status == http.StatusConflict && strings.Contains(message, "head out of date"):
		return fatal(string(promotion.ErrHeadMoved), doing, "%s", messageOf(err))
	case status == http.StatusMethodNotAllowed && strings.Contains(message, "try again later"):
		// The host computes whether it can be merged, or it has a conflict.
		return later(CodeNotMergeable, pauseComputing, messageOf(err))
	case status == http.StatusMethodNotAllowed && notReady.has(message):
		return later(CodeNotMergeable, pauseRunning, messageOf(err))
	}
	return err
}

// phrases are parts of messages, in lower case.
type phrases []string

func (p phrases) has(text string) bool {
	return slices.ContainsFunc(p, func(phrase string) bool { return strings.Contains(text, phrase) })
}

// notReady are the reasons for which a protected branch refuses a merge that may be possible later.
var notReady = phrases{"status check", "approval", "behind the base", "review", "requested changes", "up-to-date", "up to date"}

func (g *gitea) access(ctx context.Context) (Access, error) {
	var repo struct {
		Permissions struct {
			Admin bool `json:"admin"`
			Push  bool `json:"push"`
			Pull  bool `json:"pull"`
		} `json:"permissions"`
		PullRequests bool `json:"has_pull_requests"`
		Archived     bool `json:"archived"`
		Merge        bool `json:"allow_merge_commits"`
		Squash       bool `json:"allow_squash_merge"`
		Rebase       bool `json:"allow_rebase"`
	}
	_, err := g.account.do(ctx, request{doing: "read the repository", op: "check", path: g.path("")}, &repo)
	if err != nil {
		return Access{}, err
	}
	may := repo.Permissions.Push && !repo.Archived
	a := Access{Read: repo.Permissions.Pull, Push: may, Propose: may && repo.PullRequests, Merge: may, Checks: repo.Permissions.Pull}
	if repo.Archived {
		a.Warnings = append(a.Warnings, "the repository is archived")
	}
	if !repo.PullRequests {
		a.Warnings = append(a.Warnings, "the repository has no pull requests")
	}
	var user giteaUser
	if _, err := g.account.do(ctx, request{doing: "read the user", op: "check", path: "/user"}, &user); err == nil {
		a.User = user.Login
	}
	return a, nil
}
