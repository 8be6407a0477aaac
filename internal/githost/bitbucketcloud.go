package githost

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// bitbucketCloud is the driver of Bitbucket Cloud. It has neither labels nor assignees, reports no mergeability, and
// cannot bind a merge to a head.
type bitbucketCloud struct {
	account *account
	at      repository
}

func (b *bitbucketCloud) traits() traits {
	return traits{plain: true, noLabels: true, noAssignees: true, unguarded: true, maxBody: 30000}
}

type cloudUser struct {
	UUID     string `json:"uuid"`
	Nickname string `json:"nickname"`
}

type cloudSide struct {
	Branch struct {
		Name string `json:"name"`
	} `json:"branch"`
	Commit struct {
		Hash string `json:"hash"` // 12 characters
	} `json:"commit"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
}

type cloudPull struct {
	ID          int64       `json:"id"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	State       string      `json:"state"` // OPEN, MERGED, DECLINED, SUPERSEDED
	Draft       bool        `json:"draft"`
	CreatedOn   time.Time   `json:"created_on"`
	UpdatedOn   time.Time   `json:"updated_on"`
	ClosedBy    *cloudUser  `json:"closed_by"`
	Source      cloudSide   `json:"source"`
	Destination cloudSide   `json:"destination"`
	Reviewers   []cloudUser `json:"reviewers"`
	Links       struct {
		HTML struct {
			Href string `json:"href"`
		} `json:"html"`
	} `json:"links"`
}

type cloudPage[T any] struct {
	Values []T    `json:"values"`
	Next   string `json:"next"`
}

func (b *bitbucketCloud) path(format string, args ...any) string {
	return "/repositories/" + b.at.path() + fmt.Sprintf(format, args...)
}

// cloudPages reads pages, each into values.
func cloudPages[T any](ctx context.Context, a *account, first request, each func(values []T)) error {
	if first.query == nil {
		first.query = url.Values{}
	}
	first.query.Set("pagelen", "50")
	return pages(first, func(r request) (next request, err error) {
		var page cloudPage[T]
		if _, err = a.do(ctx, r, &page); err != nil {
			return request{}, err
		}
		each(page.Values)
		r.path, r.query = page.Next, nil
		return r, nil
	})
}

func (b *bitbucketCloud) pull(p cloudPull) pull {
	out := pull{number: p.ID, url: p.Links.HTML.Href, title: p.Title, body: p.Description, head: p.Source.Commit.Hash,
		base:       p.Destination.Commit.Hash,
		headBranch: p.Source.Branch.Name, baseBranch: p.Destination.Branch.Name, openedAt: p.CreatedOn, draft: p.Draft}
	for _, r := range p.Reviewers {
		out.reviewers = append(out.reviewers, r.Nickname)
		out.key += r.UUID + " "
	}
	switch p.State {
	case "MERGED":
		out.state = stateMerged
	case "DECLINED", "SUPERSEDED":
		out.state = stateClosed
	}
	if out.state != stateOpen {
		out.endedAt = p.UpdatedOn
		if p.ClosedBy != nil {
			out.endedBy = cmp.Or(p.ClosedBy.Nickname, p.ClosedBy.UUID)
		}
	}
	return out
}

// quoted returns a string of Bitbucket's query language.
func quoted(text string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`) + `"`
}

func (b *bitbucketCloud) find(ctx context.Context, head, base string) (found []pull, err error) {
	query := url.Values{"q": {"source.branch.name=" + quoted(head) + " AND destination.branch.name=" + quoted(base)},
		"state": {"OPEN", "MERGED", "DECLINED", "SUPERSEDED"}, "sort": {"-created_on"}}
	full := b.at.owner + "/" + b.at.name
	err = cloudPages(ctx, b.account, request{doing: "find the proposal", op: "find", path: b.path("/pullrequests"), query: query},
		func(page []cloudPull) {
			for _, p := range page {
				if p.Source.Branch.Name == head && p.Destination.Branch.Name == base && strings.EqualFold(p.Source.Repository.FullName, full) {
					found = append(found, b.pull(p))
				}
			}
		})
	return found, err
}

func (b *bitbucketCloud) get(ctx context.Context, number int64) (pull, error) {
	var p cloudPull
	_, err := b.account.do(ctx, request{doing: "read the proposal", op: "get", path: b.path("/pullrequests/%d", number)}, &p)
	return b.pull(p), err
}

func (b *bitbucketCloud) commits(ctx context.Context, p pull) (found []commit, err error) {
	err = cloudPages(ctx, b.account, request{doing: "read the commits of the proposal", op: "commits",
		path: b.path("/pullrequests/%d/commits", p.number)},
		func(page []struct {
			Hash    string `json:"hash"`
			Message string `json:"message"`
		}) {
			for _, one := range page {
				found = append(found, commit{one.Hash, one.Message})
			}
		})
	return found, err
}

func (b *bitbucketCloud) checks(ctx context.Context, p pull) (found []check, err error) {
	err = cloudPages(ctx, b.account, request{doing: "read the checks of the proposal", op: "checks",
		path: b.path("/commit/%s/statuses", url.PathEscape(p.head))},
		func(page []struct {
			State string `json:"state"`
			Key   string `json:"key"`
			Name  string `json:"name"`
		}) {
			for _, s := range page {
				one := check{name: cmp.Or(s.Name, s.Key)}
				switch s.State {
				case "SUCCESSFUL":
					one.state = checkPassed
				case "FAILED", "STOPPED":
					one.state = checkFailed
				}
				found = append(found, one)
			}
		})
	return found, err
}

func (b *bitbucketCloud) comments(ctx context.Context, p pull) (found []string, err error) {
	err = cloudPages(ctx, b.account, request{doing: "read the comments of the proposal", op: "comments",
		path: b.path("/pullrequests/%d/comments", p.number)},
		func(page []struct {
			Deleted bool `json:"deleted"`
			Content struct {
				Raw string `json:"raw"`
			} `json:"content"`
		}) {
			for _, one := range page {
				if !one.Deleted {
					found = append(found, one.Content.Raw)
				}
			}
		})
	return found, err
}

func (b *bitbucketCloud) create(ctx context.Context, n newPull) (pull, error) {
	branch := func(name string) map[string]any { return map[string]any{"branch": map[string]string{"name": name}} }
	var made cloudPull
	_, err := b.account.do(ctx, request{doing: "create the proposal", op: "create", method: http.MethodPost, path: b.path("/pullrequests"),
		body: map[string]any{"title": n.title, "description": n.body, "source": branch(n.head), "destination": branch(n.base),
			"draft":               n.draft,
			"close_source_branch": false}}, &made)
	if status := statusOf(err); (status == http.StatusConflict || status == http.StatusBadRequest) &&
		(phrases{"already exists", "already an open", "already open"}).has(strings.ToLower(messageOf(err))) {
		return pull{}, exists(err)
	}
	return b.pull(made), err
}

func (b *bitbucketCloud) update(ctx context.Context, p pull, c change) error {
	now, err := b.get(ctx, p.number) // the list of reviewers replaces that of the host
	if err != nil {
		return err
	}
	body := map[string]any{"title": now.title}
	if c.title != nil {
		body["title"] = *c.title
	}
	if c.body != nil {
		body["description"] = *c.body
	}
	ids := strings.Fields(now.key)
	for _, name := range c.addReviewers {
		id, err := b.member(ctx, name)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	reviewers := make([]map[string]string, len(ids))
	for i, id := range ids {
		reviewers[i] = map[string]string{"uuid": id}
	}
	body["reviewers"] = reviewers
	_, err = b.account.do(ctx, request{doing: "update the proposal", op: "update", method: http.MethodPut,
		path: b.path("/pullrequests/%d", p.number), body: body}, nil)
	return err
}

// member returns the UUID of a member of the workspace. A name in braces is one already.
func (b *bitbucketCloud) member(ctx context.Context, name string) (id string, err error) {
	if strings.HasPrefix(name, "{") {
		return name, nil
	}
	err = cloudPages(ctx, b.account, request{doing: "read a user", op: "users", path: "/workspaces/" + url.PathEscape(b.at.owner) +
		"/members",
		query: url.Values{"q": {"user.nickname=" + quoted(name)}}}, func(page []struct {
		User cloudUser `json:"user"`
	}) {
		for _, m := range page {
			if m.User.Nickname == name {
				id = m.User.UUID
			}
		}
	})
	if err == nil && id == "" {
		return "", fatal("no_user", "add reviewers", "the workspace has no member %q", bounded(name))
	}
	return id, err
}

func (b *bitbucketCloud) comment(ctx context.Context, p pull, text string) error {
	_, err := b.account.do(ctx, request{doing: "comment on the proposal", op: "comment", method: http.MethodPost,
		path: b.path("/pullrequests/%d/comments", p.number), body: map[string]any{"content": map[string]string{"raw": text}}}, nil)
	return err
}

// close changes the body first: a declined pull request cannot be edited.
func (b *bitbucketCloud) close(ctx context.Context, p pull, body string) error {
	if !sameText(p.body, body) {
		if err := b.update(ctx, p, change{body: &body}); err != nil {
			return err
		}
	}
	_, err := b.account.do(ctx, request{doing: "close the proposal", op: "close", method: http.MethodPost,
		path: b.path("/pullrequests/%d/decline", p.number), body: map[string]any{}}, nil)
	return err
}

// cloudMethods are the host's names of merge methods.
var cloudMethods = map[string]string{"merge": "merge_commit", "squash": "squash", "rebase": "rebase_fast_forward"}

// merge merges. A merge that takes longer is a task of the host, whose end the next attempt reads.
func (b *bitbucketCloud) merge(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	key := mergeKey{b.at.owner, b.at.name, p.number, p.head}
	if task := b.account.merges.get(key); task != "" {
		return b.follow(ctx, key, task)
	}
	got, err := b.account.do(ctx, request{doing: doing, op: "merge", method: http.MethodPost,
		path: b.path("/pullrequests/%d/merge", p.number),
		body: map[string]any{"type": "pullrequest", "merge_strategy": cloudMethods[m.method], "close_source_branch": false}}, nil)
	if err != nil {
		return cloudRefusal(err)
	}
	if got.status == http.StatusAccepted {
		b.account.merges.set(key, got.header.Get("Location"))
		return later(CodeRunning, pauseComputing, "the host is merging it")
	}
	return nil
}

func (b *bitbucketCloud) follow(ctx context.Context, key mergeKey, task string) error {
	const doing = "merge the proposal"
	var got struct {
		Status string `json:"task_status"` // PENDING, SUCCESS
	}
	_, err := b.account.do(ctx, request{doing: doing, op: "merge", path: task}, &got)
	switch {
	case statusOf(err) == http.StatusNotFound:
		b.account.merges.set(key, "")
		return later(CodeRunning, pauseComputing, "the host has forgotten the merge")
	case err != nil:
		if Outcome(err).Kind == action.Fatal {
			b.account.merges.set(key, "")
		}
		return cloudRefusal(err)
	case got.Status == "PENDING":
		return later(CodeRunning, pauseComputing, "the host is merging it")
	}
	b.account.merges.set(key, "")
	return nil
}

// cloudRefusal classifies the refusal of a merge by its message.
func cloudRefusal(err error) error {
	message := strings.ToLower(messageOf(err))
	if Outcome(err).Kind == action.Fatal && !strings.Contains(message, "conflict") &&
		(phrases{"check", "approv", "build", "task", "in progress", "locked"}).has(message) {
		return later(CodeNotMergeable, pauseRunning, messageOf(err))
	}
	return err
}

func (b *bitbucketCloud) access(ctx context.Context) (Access, error) {
	got, err := b.account.do(ctx, request{doing: "read the repository", op: "check", path: b.path("")}, nil)
	if err != nil {
		return Access{}, err
	}
	a := Access{Read: true, Push: true, Propose: true, Merge: true, Checks: true}
	if text := got.header.Get("X-Oauth-Scopes"); text != "" {
		has := func(names ...string) bool {
			return slices.ContainsFunc(strings.Split(text, ","), func(s string) bool {
				s = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(s), ":bitbucket"), "write:")
				return slices.Contains(names, s)
			})
		}
		a.Push = has("repository:write", "repository")
		a.Propose = has("pullrequest:write", "pullrequest")
		a.Merge = a.Push && a.Propose
	} else {
		a.Warnings = append(a.Warnings, "the host does not report the permissions of this credential")
	}
	return a, nil
}
