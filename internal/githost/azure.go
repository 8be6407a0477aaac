package githost

import (
	"context"
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

// azure is the driver of Azure DevOps. Its lists cut descriptions, and it merges asynchronously. It has no assignees.
type azure struct {
	account *account
	at      repository
}

func (z *azure) traits() traits { return traits{noAssignees: true, maxBody: azureBody - closingRoom} }

// azureBody is the number of characters of a description that the host stores.
const azureBody = 4000

// azureVersion is the version of the API that requests name.
const azureVersion = "7.1"

type azurePerson struct {
	ID         string `json:"id"`
	Name       string `json:"displayName"`
	UniqueName string `json:"uniqueName"`
}

type azureCommit struct {
	ID string `json:"commitId"`
}

type azurePull struct {
	ID           int64         `json:"pullRequestId"`
	Title        string        `json:"title"`
	Description  string        `json:"description"`
	Status       string        `json:"status"` // active, completed, abandoned
	CreationDate time.Time     `json:"creationDate"`
	ClosedDate   *time.Time    `json:"closedDate"`
	ClosedBy     *azurePerson  `json:"closedBy"`
	Source       string        `json:"sourceRefName"`
	Target       string        `json:"targetRefName"`
	MergeStatus  string        `json:"mergeStatus"`
	MergeFailure string        `json:"mergeFailureMessage"`
	Draft        bool          `json:"isDraft"`
	SourceCommit azureCommit   `json:"lastMergeSourceCommit"`
	TargetCommit azureCommit   `json:"lastMergeTargetCommit"`
	Reviewers    []azurePerson `json:"reviewers"`
	Fork         *struct{}     `json:"forkSource"`
	Labels       []struct {
		Name   string `json:"name"`
		Active bool   `json:"active"`
	} `json:"labels"`
	Repository struct {
		ID      string `json:"id"`
		Web     string `json:"webUrl"`
		Project struct {
			ID string `json:"id"`
		} `json:"project"`
	} `json:"repository"`
}

type azureList[T any] struct {
	Value []T `json:"value"`
}

// path returns an address of the repository.
func (z *azure) path(format string, args ...any) string {
	return "/" + url.PathEscape(z.at.owner) + "/_apis/git/repositories/" + url.PathEscape(z.at.name) + fmt.Sprintf(format, args...)
}

// do sends a request with the version of the API. Azure DevOps answers a bad token with 203 and a page to sign in.
func (z *azure) do(ctx context.Context, r request, answer any) error {
	if r.query == nil {
		r.query = url.Values{}
	}
	if r.query.Get("api-version") == "" {
		r.query.Set("api-version", azureVersion)
	}
	got, err := z.account.send(ctx, r)
	if err == nil && got.status == http.StatusNonAuthoritativeInfo {
		return &Error{Kind: action.Fatal, Code: "http_401", Doing: r.doing, Status: http.StatusUnauthorized,
			Message: "the host wants to sign in: the token is wrong or has ended"}
	}
	if err != nil {
		return err
	}
	return decode(r, got, answer)
}

func (z *azure) pull(p azurePull) pull {
	out := pull{number: p.ID, url: fmt.Sprintf("%s/%s/_git/%s/pullrequest/%d", strings.TrimSuffix(z.account.api.String(), "/"),
		url.PathEscape(z.at.owner), url.PathEscape(z.at.name), p.ID), title: p.Title, body: p.Description, head: p.SourceCommit.ID,
		base: p.TargetCommit.ID, headBranch: strings.TrimPrefix(p.Source, heads), baseBranch: strings.TrimPrefix(p.Target, heads),
		openedAt: p.CreationDate, draft: p.Draft, why: p.MergeStatus, key: p.Repository.Project.ID}
	for _, l := range p.Labels {
		out.labels = append(out.labels, l.Name)
	}
	for _, r := range p.Reviewers {
		out.reviewers = append(out.reviewers, r.ID)
	}
	switch p.Status {
	case "completed":
		out.state = stateMerged
	case "abandoned":
		out.state = stateClosed
	}
	if out.state != stateOpen {
		if p.ClosedDate != nil {
			out.endedAt = *p.ClosedDate
		}
		if p.ClosedBy != nil {
			out.endedBy = p.ClosedBy.Name
		}
		return out
	}
	switch p.MergeStatus {
	case "conflicts":
		out.mergeable = mergeConflict
	case "succeeded":
		out.mergeable = mergeClean
	case "rejectedByPolicy", "failure":
		out.mergeable = mergeBlocked
	default:
		out.head = "" // the commit of the last merge that was tried: a push has not reached it yet
	}
	return out
}

func (z *azure) find(ctx context.Context, head, base string) (found []pull, err error) {
	const size = 100
	query := url.Values{"searchCriteria.sourceRefName": {heads + head}, "searchCriteria.targetRefName": {heads + base},
		"searchCriteria.status": {"all"},
		"$top":                  {strconv.Itoa(size)}}
	skip := 0
	err = pages(request{doing: "find the proposal", op: "find", path: z.path("/pullrequests"), query: query},
		func(r request) (next request, err error) {
			var page azureList[azurePull]
			r.query.Set("$skip", strconv.Itoa(skip))
			if err = z.do(ctx, r, &page); err != nil || len(page.Value) == 0 {
				return request{}, err
			}
			for _, p := range page.Value {
				if p.Fork == nil && p.Source == heads+head && p.Target == heads+base {
					found = append(found, z.pull(p))
				}
			}
			skip += len(page.Value) // a server may return fewer than requested
			return r, nil
		})
	return found, err
}

func (z *azure) get(ctx context.Context, number int64) (pull, error) {
	var p azurePull
	err := z.do(ctx, request{doing: "read the proposal", op: "get", path: z.path("/pullrequests/%d", number)}, &p)
	out := z.pull(p)
	if err != nil || out.state != stateOpen || out.head != "" {
		return out, err
	}
	newest, err := z.commits(ctx, out)
	if len(newest) > 0 {
		out.head = newest[0].sha
	}
	return out, err
}

// commits lists the commits. Messages that the list has cut are read one by one: trailers are at their ends.
func (z *azure) commits(ctx context.Context, p pull) (found []commit, err error) {
	type one struct {
		ID      string `json:"commitId"`
		Comment string `json:"comment"`
		Cut     bool   `json:"commentTruncated"`
	}
	var list azureList[one]
	err = z.do(ctx, request{doing: "read the commits of the proposal", op: "commits", path: z.path("/pullrequests/%d/commits", p.number),
		query: url.Values{"$top": {"100"}}}, &list)
	if err != nil {
		return nil, err
	}
	for _, c := range list.Value {
		if c.Cut {
			if err := z.do(ctx, request{doing: "read a commit of the proposal", op: "commits",
				path: z.path("/commits/%s", url.PathEscape(c.ID))}, &c); err != nil {
				return nil, err
			}
		}
		found = append(found, commit{c.ID, c.Comment})
	}
	return found, nil
}

// The types of policies that are checks: builds, and statuses of other services.
var azureChecks = []string{"0609b952-1397-4640-95ec-e00a01b2c241", "cbdc66da-9728-4af8-aada-9a5a32e4a226"}

// checks joins the statuses of a pull request and the policies of its base.
func (z *azure) checks(ctx context.Context, p pull) (found []check, err error) {
	type status struct {
		State   string `json:"state"`
		Context struct {
			Name  string `json:"name"`
			Genre string `json:"genre"`
		} `json:"context"`
	}
	var statuses azureList[status]
	err = z.do(ctx, request{doing: "read the statuses of the proposal", op: "checks",
		path: z.path("/pullrequests/%d/statuses", p.number)}, &statuses)
	if err != nil {
		return nil, err
	}
	newest := map[string]check{} // a later status replaces an earlier one
	for _, s := range statuses.Value {
		name := s.Context.Name
		if s.Context.Genre != "" {
			name = s.Context.Genre + "/" + name
		}
		newest[name] = check{name, azureState(s.State)}
	}
	for _, one := range newest {
		found = append(found, one)
	}
	policies, err := z.policies(ctx, p)
	return append(found, policies...), err
}

func azureState(word string) checkState {
	switch word {
	case "succeeded", "approved":
		return checkPassed
	case "failed", "error", "rejected", "broken":
		return checkFailed
	case "notApplicable":
		return checkSkipped
	}
	return checkPending
}

func (z *azure) policies(ctx context.Context, p pull) (found []check, err error) {
	type evaluation struct {
		Status        string `json:"status"`
		Configuration struct {
			Enabled  bool `json:"isEnabled"`
			Blocking bool `json:"isBlocking"`
			Type     struct {
				ID   string `json:"id"`
				Name string `json:"displayName"`
			} `json:"type"`
			Settings struct {
				Name       string `json:"displayName"`
				StatusName string `json:"statusName"`
			} `json:"settings"`
		} `json:"configuration"`
	}
	if p.key == "" {
		return nil, nil
	}
	var list azureList[evaluation]
	err = z.do(ctx, request{doing: "read the policies of the proposal", op: "checks", path: "/" + url.PathEscape(z.at.owner) +
		"/_apis/policy/evaluations",
		query: url.Values{"artifactId": {fmt.Sprintf("vstfs:///CodeReview/CodeReviewId/%s/%d", p.key, p.number)},
			"api-version": {"7.1-preview.1"}}}, &list)
	for _, e := range list.Value {
		c := e.Configuration
		if c.Enabled && c.Blocking && slices.Contains(azureChecks, c.Type.ID) {
			name := c.Settings.Name
			if name == "" {
				name = c.Settings.StatusName
			}
			if name == "" {
				name = c.Type.Name
			}
			found = append(found, check{name, azureState(e.Status)})
		}
	}
	return found, err
}

func (z *azure) comments(ctx context.Context, p pull) (found []string, err error) {
	type thread struct {
		Comments []struct {
			Content string `json:"content"`
			Deleted bool   `json:"isDeleted"`
		} `json:"comments"`
	}
	var threads azureList[thread]
	err = z.do(ctx, request{doing: "read the comments of the proposal", op: "comments",
		path: z.path("/pullrequests/%d/threads", p.number)}, &threads)
	for _, t := range threads.Value {
		for _, one := range t.Comments {
			if !one.Deleted {
				found = append(found, one.Content)
			}
		}
	}
	return found, err
}

func (z *azure) create(ctx context.Context, n newPull) (pull, error) {
	var made azurePull
	err := z.do(ctx, request{doing: "create the proposal", op: "create", method: http.MethodPost, path: z.path("/pullrequests"),
		body: map[string]any{"sourceRefName": heads + n.head, "targetRefName": heads + n.base, "title": n.title,
			"description": n.body, "isDraft": n.draft}}, &made)
	if statusOf(err) == http.StatusConflict && (phrases{"tf401179", "already exists"}).has(strings.ToLower(messageOf(err))) {
		return pull{}, exists(err)
	}
	return z.pull(made), err
}

func (z *azure) update(ctx context.Context, p pull, c change) error {
	body := map[string]any{}
	if c.title != nil {
		body["title"] = *c.title
	}
	if c.body != nil {
		body["description"] = *c.body
	}
	if len(body) > 0 {
		if err := z.patch(ctx, "update the proposal", p, body); err != nil {
			return err
		}
	}
	for _, name := range absent(p.labels, c.setLabels) {
		err := z.do(ctx, request{doing: "add labels", op: "labels", method: http.MethodPost,
			path: z.path("/pullrequests/%d/labels", p.number),
			body: map[string]any{"name": name}}, nil)
		if err != nil {
			return err
		}
	}
	for _, id := range c.addReviewers {
		if !guid(id) {
			return fatal("no_user", "add reviewers", "Azure DevOps names reviewers by the id (a GUID) of their identity: %s", bounded(id))
		}
		err := z.do(ctx, request{doing: "add reviewers", op: "reviewers", method: http.MethodPut,
			path: z.path("/pullrequests/%d/reviewers/%s", p.number, url.PathEscape(id)), body: map[string]any{"id": id, "vote": 0}}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// guid reports whether a text has the form of a GUID.
func guid(text string) bool {
	return len(text) == 36 && strings.Count(text, "-") == 4 && strings.Trim(strings.ToLower(text), "0123456789abcdef-") == ""
}

func (z *azure) patch(ctx context.Context, doing string, p pull, body map[string]any) error {
	err := z.do(ctx, request{doing: doing, op: "update", method: http.MethodPatch, path: z.path("/pullrequests/%d", p.number),
		body: body}, nil)
	return err
}

func (z *azure) comment(ctx context.Context, p pull, text string) error {
	err := z.do(ctx, request{doing: "comment on the proposal", op: "comment", method: http.MethodPost,
		path: z.path("/pullrequests/%d/threads", p.number),
		body: map[string]any{"status": "closed", "comments": []map[string]any{{"parentCommentId": 0, "content": text,
			"commentType": "text"}}}}, nil)
	return err
}

// close changes the body first: one request cannot change body and status.
func (z *azure) close(ctx context.Context, p pull, body string) error {
	if !sameText(p.body, body) {
		if err := z.patch(ctx, "update the proposal", p, map[string]any{"description": cutRunes(body, azureBody)}); err != nil {
			return err
		}
	}
	return z.patch(ctx, "close the proposal", p, map[string]any{"status": "abandoned"})
}

// azureMethods are the host's names of merge methods.
var azureMethods = map[string]string{"merge": "noFastForward", "squash": "squash", "rebase": "rebase"}

// merge completes the pull request at its head. The host merges later; the pull request's own state reports the end.
func (z *azure) merge(ctx context.Context, p pull, m mergeOptions) error {
	const doing = "merge the proposal"
	if p.mergeable == mergeUnknown {
		return later(CodeNotMergeable, pauseComputing, "the host computes whether it can be merged")
	}
	err := z.patch(ctx, doing, p, map[string]any{"status": "completed", "lastMergeSourceCommit": azureCommit{p.head},
		"completionOptions": map[string]any{"mergeStrategy": azureMethods[m.method], "deleteSourceBranch": false, "bypassPolicy": false}})
	message := strings.ToLower(messageOf(err))
	switch {
	case err == nil || Outcome(err).Kind != action.Fatal:
		return err
	case (phrases{"stale", "source branch has been updated", "out of date", "tf401192"}).has(message):
		return fatal(string(promotion.ErrHeadMoved), doing, "%s", messageOf(err))
	case (phrases{"policy", "policies"}).has(message):
		return later(CodeNotMergeable, pauseRunning, messageOf(err))
	}
	return err
}

// azureGit is the namespace of permissions of Git repositories, with the bits of those that promoting needs.
const (
	azureGit        = "2e9eb7ed-3c0a-47d4-87c1-0ffdd275fd87"
	azureContribute = 4
	azurePropose    = 16384
)

func (z *azure) access(ctx context.Context) (Access, error) {
	var repo struct {
		ID       string `json:"id"`
		Disabled bool   `json:"isDisabled"`
		Project  struct {
			ID string `json:"id"`
		} `json:"project"`
	}
	if err := z.do(ctx, request{doing: "read the repository", op: "check", path: z.path("")}, &repo); err != nil {
		return Access{}, err
	}
	a := Access{Read: true, Checks: true}
	if repo.Disabled {
		a.Warnings = append(a.Warnings, "the repository is disabled")
		return a, nil
	}
	may := func(bit int) (bool, error) {
		var list azureList[bool]
		err := z.do(ctx, request{doing: "read the permissions", op: "check", path: fmt.Sprintf("/_apis/permissions/%s/%d", azureGit, bit),
			query: url.Values{"tokens": {"repoV2/" + repo.Project.ID + "/" + repo.ID}}}, &list)
		return len(list.Value) > 0 && list.Value[0], err
	}
	var err error
	if a.Push, err = may(azureContribute); err != nil {
		return a, err
	}
	a.Propose, err = may(azurePropose)
	a.Merge = a.Push && a.Propose
	return a, err
}
