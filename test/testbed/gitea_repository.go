package testbed

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Repository is a repository of a Git host, with a branch main.
type Repository struct {
	Owner, Name string
	URL         string // from which it is cloned, without credentials

	host *GitHost
}

// Organisation makes an organisation.
func (h *GitHost) Organisation(t testing.TB, name string) {
	t.Helper()
	h.mustAPI(t, http.MethodPost, "/orgs", map[string]any{"username": name, "visibility": "public"}, nil)
}

// Repository makes a public repository of an organisation, with one commit.
func (h *GitHost) Repository(t testing.TB, organisation, name string) *Repository {
	t.Helper()
	h.mustAPI(t, http.MethodPost, "/orgs/"+organisation+"/repos", map[string]any{
		"name": name, "auto_init": true, "default_branch": "main",
	}, nil)
	return &Repository{Owner: organisation, Name: name, URL: fmt.Sprintf("%s/%s/%s.git", h.URL, organisation, name), host: h}
}

// As returns the repository as it is for a user of the host, which As made.
func (r *Repository) As(user *GitHost) *Repository {
	theirs := *r
	theirs.host = user
	return &theirs
}

// Allow gives a user a permission: read, write or admin.
func (r *Repository) Allow(t testing.TB, user, permission string) {
	t.Helper()
	r.host.mustAPI(t, http.MethodPut, r.path("/collaborators/"+user), map[string]any{"permission": permission}, nil)
}

// Clone clones the repository with the credentials of its user.
func (r *Repository) Clone(t testing.TB) *Clone {
	t.Helper()
	return CloneFrom(t, r.URL, r.host.User, r.host.Token)
}

// Pull is a pull request, as the host's API has it.
type Pull struct {
	Number    int64     `json:"number"`
	Title     string    `json:"title"`
	Body      string    `json:"body"`
	URL       string    `json:"html_url"`
	State     string    `json:"state"` // open or closed
	Merged    bool      `json:"merged"`
	MergedAt  time.Time `json:"merged_at"`
	Mergeable bool      `json:"mergeable"`
	Comments  int       `json:"comments"`
	User      struct {
		Name string `json:"login"`
	} `json:"user"`
	Head   Branch `json:"head"`
	Base   Branch `json:"base"`
	Labels []struct {
		Name string `json:"name"`
	} `json:"labels"`
}

// Branch is the branch of a pull request. It keeps its name when the branch is deleted.
type Branch struct {
	Name string `json:"label"`
	SHA  string `json:"sha"`
}

// Pulls returns the pull requests in a state, which is open, closed or all; newest first.
func (r *Repository) Pulls(t testing.TB, state string) []Pull {
	t.Helper()
	var pulls []Pull
	for page := 1; ; page++ {
		var some []Pull
		r.host.mustAPI(t, http.MethodGet, r.path(fmt.Sprintf("/pulls?state=%s&sort=recentcreated&limit=50&page=%d", state, page)), nil, &some)
		if pulls = append(pulls, some...); len(some) == 0 {
			return pulls
		}
	}
}

// Pull returns a pull request.
func (r *Repository) Pull(t testing.TB, number int64) Pull {
	t.Helper()
	var pull Pull
	r.host.mustAPI(t, http.MethodGet, r.path(fmt.Sprintf("/pulls/%d", number)), nil, &pull)
	return pull
}

// OpenPull opens a pull request.
func (r *Repository) OpenPull(t testing.TB, head, base, title string) Pull {
	t.Helper()
	var pull Pull
	r.host.mustAPI(t, http.MethodPost, r.path("/pulls"), map[string]any{"head": head, "base": base, "title": title}, &pull)
	return pull
}

// Merge merges a pull request by a method, such as merge, squash or rebase. It waits until the host has computed whether
// it can be merged.
func (r *Repository) Merge(t testing.TB, number int64, method string) {
	t.Helper()
	path := r.path(fmt.Sprintf("/pulls/%d/merge", number))
	repeat(t, path, func() (again bool, err error) {
		err = r.host.API(t.Context(), http.MethodPost, path, map[string]any{"do": method}, nil)
		return isStatus(err, http.StatusMethodNotAllowed), err
	})
}

// ClosePull closes a pull request unmerged.
func (r *Repository) ClosePull(t testing.TB, number int64) {
	t.Helper()
	r.host.mustAPI(t, http.MethodPatch, r.path(fmt.Sprintf("/pulls/%d", number)), map[string]any{"state": "closed"}, nil)
}

// Comments returns the comments of a pull request.
func (r *Repository) Comments(t testing.TB, number int64) []string {
	t.Helper()
	var comments []struct {
		Body string `json:"body"`
	}
	r.host.mustAPI(t, http.MethodGet, r.path(fmt.Sprintf("/issues/%d/comments", number)), nil, &comments)
	var bodies []string
	for _, comment := range comments {
		bodies = append(bodies, comment.Body)
	}
	return bodies
}

// Protection forbids pushes to a branch and restricts merges into it.
type Protection struct {
	Branch   string
	Checks   []string // contexts of statuses that must be success
	UpToDate bool     // the head must contain the base
	Reviews  int      // approvals that a merge needs
	Mergers  []string // users who may merge; none: all who may write
	Pushers  []string // users who may push to the branch
}

// Protect protects a branch.
func (r *Repository) Protect(t testing.TB, p Protection) {
	t.Helper()
	r.host.mustAPI(t, http.MethodPost, r.path("/branch_protections"), map[string]any{
		"rule_name": p.Branch, "block_admin_merge_override": true,
		"enable_push": len(p.Pushers) > 0, "enable_push_whitelist": len(p.Pushers) > 0, "push_whitelist_usernames": p.Pushers,
		"enable_status_check": len(p.Checks) > 0, "status_check_contexts": p.Checks,
		"block_on_outdated_branch": p.UpToDate, "required_approvals": p.Reviews,
		"enable_merge_whitelist": len(p.Mergers) > 0, "merge_whitelist_usernames": p.Mergers,
	}, nil)
}

// Unprotect ends the protection of a branch.
func (r *Repository) Unprotect(t testing.TB, branch string) {
	t.Helper()
	r.host.mustAPI(t, http.MethodDelete, r.path("/branch_protections/"+branch), nil, nil)
}

// SetStatus sets a status of a commit. state is pending, success, error or failure.
func (r *Repository) SetStatus(t testing.TB, commit, context, state string) {
	t.Helper()
	r.host.mustAPI(t, http.MethodPost, r.path("/statuses/"+commit), map[string]any{"context": context, "state": state}, nil)
}

// Webhook makes the host post events about pull requests and pushes to a URL on loopback, and returns its number.
func (r *Repository) Webhook(t testing.TB, url, secret string) int64 {
	t.Helper()
	var hook struct {
		ID int64 `json:"id"`
	}
	r.host.mustAPI(t, http.MethodPost, r.path("/hooks"), map[string]any{
		"type": "gitea", "active": true, "events": []string{"push", "pull_request", "pull_request_sync", "status"},
		"config": map[string]any{"url": url, "content_type": "json", "secret": secret},
	}, &hook)
	return hook.ID
}

// TestWebhook makes the host post an event of a push, as its page of the webhook does.
func (r *Repository) TestWebhook(t testing.TB, hook int64) {
	t.Helper()
	r.host.mustAPI(t, http.MethodPost, r.path(fmt.Sprintf("/hooks/%d/tests", hook)), nil, nil)
}

// RemoveWebhook removes a webhook.
func (r *Repository) RemoveWebhook(t testing.TB, hook int64) {
	t.Helper()
	r.host.mustAPI(t, http.MethodDelete, r.path(fmt.Sprintf("/hooks/%d", hook)), nil, nil)
}

// File returns the content of a file in a commit or branch.
func (r *Repository) File(ctx context.Context, name, at string) (string, error) {
	var file struct {
		Content []byte `json:"content"`
	}
	err := r.host.API(ctx, http.MethodGet, r.path("/contents/"+name+"?ref="+at), nil, &file)
	return string(file.Content), err
}

func (r *Repository) path(rest string) string { return "/repos/" + r.Owner + "/" + r.Name + rest }
