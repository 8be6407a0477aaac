package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// bitbucketServer is the driver of Bitbucket Server and Data Center. It has neither labels nor assignees.
type bitbucketServer struct {
	account *account
	at      repository
}

func (b *bitbucketServer) traits() traits {
	return traits{plain: true, noLabels: true, noAssignees: true, maxBody: 32000}
}

type serverRepository struct {
	Slug    string `json:"slug"`
	Project struct {
		Key string `json:"key"`
	} `json:"project"`
}

type serverRef struct {
	ID         string            `json:"id"` // refs/heads/name
	Commit     string            `json:"latestCommit,omitempty"`
	Repository *serverRepository `json:"repository,omitempty"`
}

type serverUser struct {
	User struct {
		Name string `json:"name"`
	} `json:"user"`
}

type serverPull struct {
	ID          int64        `json:"id"`
	Version     int64        `json:"version"`
	Title       string       `json:"title"`
	Description string       `json:"description"`
	State       string       `json:"state"` // OPEN, MERGED, DECLINED
	Draft       bool         `json:"draft"`
	CreatedDate int64        `json:"createdDate"` // milliseconds
	ClosedDate  int64        `json:"closedDate"`
	From        serverRef    `json:"fromRef"`
	To          serverRef    `json:"toRef"`
	Reviewers   []serverUser `json:"reviewers"`
	Links       struct {
		Self []struct {
			Href string `json:"href"`
		} `json:"self"`
	} `json:"links"`
}

// serverPage is a page of a list.
type serverPage[T any] struct {
	Values []T   `json:"values"`
	Last   bool  `json:"isLastPage"`
	Next   int64 `json:"nextPageStart"`
}

const heads = "refs/heads/"

func (b *bitbucketServer) path(format string, args ...any) string {
	return "/projects/" + url.PathEscape(b.at.owner) + "/repos/" + url.PathEscape(b.at.name) + fmt.Sprintf(format, args...)
}

func (b *bitbucketServer) pull(p serverPull) pull {
	out := pull{number: p.ID, title: p.Title, body: p.Description, head: p.From.Commit, base: p.To.Commit, version: p.Version,
		draft:      p.Draft,
		headBranch: strings.TrimPrefix(p.From.ID, heads), baseBranch: strings.TrimPrefix(p.To.ID, heads),
		openedAt: time.UnixMilli(p.CreatedDate)}
	if len(p.Links.Self) > 0 {
		out.url = p.Links.Self[0].Href
	}
	for _, r := range p.Reviewers {
		out.reviewers = append(out.reviewers, r.User.Name)
	}
	switch p.State {
	case "MERGED":
		out.state = stateMerged
	case "DECLINED":
		out.state = stateClosed
	}
	if out.state != stateOpen && p.ClosedDate > 0 {
		out.endedAt = time.UnixMilli(p.ClosedDate)
	}
	return out
}

// ours reports whether a reference is one to a branch of this repository.
func (b *bitbucketServer) ours(r serverRef, branch string) bool {
	return r.ID == heads+branch && r.Repository != nil && strings.EqualFold(r.Repository.Slug, b.at.name) &&
		strings.EqualFold(r.Repository.Project.Key, b.at.owner)
}

// serverPages reads pages, each into values.
func serverPages[T any](ctx context.Context, a *account, first request, each func(values []T)) error {
	if first.query == nil {
		first.query = url.Values{}
	}
	first.query.Set("limit", "100")
	return pages(first, func(r request) (next request, err error) {
		var page serverPage[T]
		if _, err = a.do(ctx, r, &page); err != nil {
			return request{}, err
		}
		each(page.Values)
		if page.Last || page.Next == 0 {
			return request{}, nil
		}
		r.query.Set("start", strconv.FormatInt(page.Next, 10))
		return r, nil
	})
}

func (b *bitbucketServer) find(ctx context.Context, head, base string) (found []pull, err error) {
	query := url.Values{"at": {heads + head}, "direction": {"OUTGOING"}, "state": {"ALL"}, "order": {"NEWEST"}}
	err = serverPages(ctx, b.account, request{doing: "find the proposal", op: "find", path: b.path("/pull-requests"), query: query},
		func(page []serverPull) {
			for _, p := range page {
				if b.ours(p.From, head) && b.ours(p.To, base) {
					found = append(found, b.pull(p))
				}
			}
		})
	return found, err
}

// serverActivity is an entry of a pull request's history.
type serverActivity struct {
	Action string `json:"action"` // COMMENTED, MERGED, DECLINED, …
	User   struct {
		Name string `json:"name"`
	} `json:"user"`
	Comment struct {
		Text string `json:"text"`
	} `json:"comment"`
}

func (b *bitbucketServer) activities(ctx context.Context, number int64, each func(a serverActivity)) error {
	return serverPages(ctx, b.account, request{doing: "read the history of the proposal", op: "comments",
		path: b.path("/pull-requests/%d/activities", number)}, func(page []serverActivity) {
		for _, a := range page {
			each(a)
		}
	})
}

func (b *bitbucketServer) get(ctx context.Context, number int64) (pull, error) {
	var p serverPull
	_, err := b.account.do(ctx, request{doing: "read the proposal", op: "get", path: b.path("/pull-requests/%d", number)}, &p)
	out := b.pull(p)
	if err != nil {
		return out, err
	}
	if out.state != stateOpen {
		return out, b.activities(ctx, number, func(a serverActivity) {
			if out.endedBy == "" && a.Action == p.State { // the newest is first
				out.endedBy = a.User.Name
			}
		})
	}
	var merge struct {
		CanMerge   bool   `json:"canMerge"`
		Conflicted bool   `json:"conflicted"`
		Outcome    string `json:"outcome"`
	}
	_, err = b.account.do(ctx, request{doing: "read whether the proposal can be merged", op: "get",
		path: b.path("/pull-requests/%d/merge", number)}, &merge)
	switch {
	case merge.Conflicted || merge.Outcome == "CONFLICTED":
		out.mergeable = mergeConflict
	case merge.CanMerge:
		out.mergeable = mergeClean
	case merge.Outcome == "CLEAN":
		out.mergeable = mergeBlocked
	}
	return out, err
}

func (b *bitbucketServer) commits(ctx context.Context, p pull) (found []commit, err error) {
	err = serverPages(ctx, b.account, request{doing: "read the commits of the proposal", op: "commits",
		path: b.path("/pull-requests/%d/commits", p.number)},
		func(page []struct {
			ID      string `json:"id"`
			Message string `json:"message"`
		}) {
			for _, one := range page {
				found = append(found, commit{one.ID, one.Message})
			}
		})
	return found, err
}

// checks reads build statuses, which have an address of their own beside that of repositories.
func (b *bitbucketServer) checks(ctx context.Context, p pull) (found []check, err error) {
	root := *b.account.api
	root.Path = strings.TrimSuffix(strings.TrimSuffix(root.Path, "/"), "/api/1.0") + "/build-status/1.0/commits/" + url.PathEscape(p.head)
	err = serverPages(ctx, b.account, request{doing: "read the checks of the proposal", op: "checks", path: root.String()},
		func(page []struct {
			State string `json:"state"`
			Key   string `json:"key"`
			Name  string `json:"name"`
		}) {
			for _, s := range page {
				one := check{name: s.Name}
				if one.name == "" {
					one.name = s.Key
				}
				switch s.State {
				case "SUCCESSFUL":
					one.state = checkPassed
				case "FAILED", "CANCELLED":
					one.state = checkFailed
				}
				found = append(found, one)
			}
		})
	return found, err
}

func (b *bitbucketServer) comments(ctx context.Context, p pull) (found []string, err error) {
	err = b.activities(ctx, p.number, func(a serverActivity) {
		if a.Action == "COMMENTED" {
			found = append(found, a.Comment.Text)
		}
	})
	return found, err
}

func (b *bitbucketServer) create(ctx context.Context, n newPull) (pull, error) {
	here := &serverRepository{Slug: b.at.name}
	here.Project.Key = b.at.owner
	var made serverPull
	_, err := b.account.do(ctx, request{doing: "create the proposal", op: "create", method: http.MethodPost, path: b.path("/pull-requests"),
		body: map[string]any{"title": n.title, "description": n.body, "draft": n.draft,
			"fromRef": serverRef{ID: heads + n.head, Repository: here},
			"toRef":   serverRef{ID: heads + n.base, Repository: here}}}, &made)
	if statusOf(err) == http.StatusConflict && strings.Contains(strings.ToLower(messageOf(err)), "only one pull request may be open") {
		return pull{}, exists(err)
	}
	return b.pull(made), err
}

// retryStale has a write repeated whose version was outdated.
func retryStale(err error) error {
	if statusOf(err) != http.StatusConflict || !strings.Contains(messageOf(err), "out-of-date") {
		return err
	}
	return &Error{Kind: action.Retry, Code: "http_409", Doing: "update the proposal", Message: messageOf(err), Status: http.StatusConflict}
}

// update changes title and body by the version that was read. It sends the reviewers again, whom the host would remove.
func (b *bitbucketServer) update(ctx context.Context, p pull, c change) error {
	if c.title != nil || c.body != nil {
		if err := b.edit(ctx, p, c); err != nil {
			return err
		}
	}
	for _, name := range c.addReviewers {
		if strings.HasPrefix(name, teamPrefix) {
			return fatal("no_user", "add reviewers", "this kind of host has no teams as reviewers: %s", bounded(name))
		}
		_, err := b.account.do(ctx, request{doing: "add reviewers", op: "reviewers", method: http.MethodPost,
			path: b.path("/pull-requests/%d/participants", p.number),
			body: map[string]any{"user": map[string]string{"name": name}, "role": "REVIEWER"}}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bitbucketServer) edit(ctx context.Context, p pull, c change) error {
	title, body := p.title, p.body
	if c.title != nil {
		title = *c.title
	}
	if c.body != nil {
		body = *c.body
	}
	reviewers := make([]serverUser, len(p.reviewers))
	for i, name := range p.reviewers {
		reviewers[i].User.Name = name
	}
	_, err := b.account.do(ctx, request{doing: "update the proposal", op: "update", method: http.MethodPut,
		path: b.path("/pull-requests/%d", p.number),
		body: map[string]any{"version": p.version, "title": title, "description": body, "reviewers": reviewers}}, nil)
	return retryStale(err)
}

func (b *bitbucketServer) comment(ctx context.Context, p pull, text string) error {
	_, err := b.account.do(ctx, request{doing: "comment on the proposal", op: "comment", method: http.MethodPost,
		path: b.path("/pull-requests/%d/comments", p.number), body: map[string]any{"text": text}}, nil)
	return err
}

// close changes the body first: a declined pull request cannot be edited.
func (b *bitbucketServer) close(ctx context.Context, p pull, body string) error {
	if !sameText(p.body, body) {
		if err := b.edit(ctx, p, change{body: &body}); err != nil {
			return err
		}
	}
	now, err := b.get(ctx, p.number)
	if err != nil || now.state != stateOpen {
		return err
	}
	_, err = b.account.do(ctx, request{doing: "close the proposal", op: "close", method: http.MethodPost,
		path: b.path("/pull-requests/%d/decline", p.number), query: b.version(now)}, nil)
	return retryStale(err)
}

func (b *bitbucketServer) version(p pull) url.Values {
	return url.Values{"version": {strconv.FormatInt(p.version, 10)}}
}

// serverMethods are the host's names of merge methods.
var serverMethods = map[string]string{"merge": "no-ff", "squash": "squash", "rebase": "rebase-ff-only"}

// merge sends the version, which each push raises and which was read together with the head.
func (b *bitbucketServer) merge(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	_, err := b.account.do(ctx, request{doing: doing, op: "merge", method: http.MethodPost,
		path:  b.path("/pull-requests/%d/merge", p.number),
		query: b.version(p), body: map[string]any{"strategyId": serverMethods[m.method]}}, nil)
	if statusOf(err) != http.StatusConflict {
		return err
	}
	if stale := retryStale(err); Outcome(stale).Kind == action.Retry {
		return stale // the next attempt reads the head again
	}
	if message := strings.ToLower(messageOf(err)); p.mergeable != mergeConflict && !strings.Contains(message, "conflict") {
		return later(CodeNotMergeable, pauseRunning, messageOf(err))
	}
	return err
}

// access searches for the repository among those that the credential may write to: the permissions of a repository are
// shown to its administrators only.
func (b *bitbucketServer) access(ctx context.Context) (a Access, err error) {
	got, err := b.account.do(ctx, request{doing: "read the repository", op: "check", path: b.path("")}, nil)
	if err != nil {
		return Access{}, err
	}
	a = Access{User: got.header.Get("X-Ausername"), Read: true, Checks: true}
	err = serverPages(ctx, b.account, request{doing: "read the permissions", op: "check", path: "/repos",
		query: url.Values{"permission": {"REPO_WRITE"}, "name": {b.at.name}}}, func(page []serverRepository) {
		for _, r := range page {
			if strings.EqualFold(r.Slug, b.at.name) && strings.EqualFold(r.Project.Key, b.at.owner) {
				a.Push, a.Propose, a.Merge = true, true, true
			}
		}
	})
	return a, err
}
