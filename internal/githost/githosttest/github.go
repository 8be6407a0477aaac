package githosttest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

var githubMissing = object{"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}

// routeGitHub has the interface of GitHub Enterprise Server, which is that of GitHub below /api/v3.
func (h *Host) routeGitHub(mux *http.ServeMux) {
	const repo = "/api/v3/repos/apps/fleet"
	mux.HandleFunc("GET "+repo, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"full_name": "apps/fleet", "archived": false,
			"permissions": object{"admin": false, "push": true, "pull": true}})
	})
	mux.HandleFunc("GET /api/v3/user", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, object{"login": "waybill"}) })
	mux.HandleFunc("GET "+repo+"/pulls", h.locked(h.githubList))
	mux.HandleFunc("POST "+repo+"/pulls", h.locked(h.githubCreate))
	mux.HandleFunc("GET "+repo+"/pulls/{number}", h.withPull(githubMissing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		h.advance(p)
		answer(w, 200, h.githubPull(p, true))
	}))
	mux.HandleFunc("GET "+repo+"/issues/{number}", h.withPull(githubMissing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		answer(w, 200, object{"number": p.Number, "closed_by": object{"login": p.EndedBy}})
	}))
	mux.HandleFunc("PATCH "+repo+"/pulls/{number}", h.withPull(githubMissing, h.githubEdit))
	mux.HandleFunc("GET "+repo+"/pulls/{number}/commits", h.withPull(githubMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
		list := []object{}
		for _, sha := range h.between(p) {
			list = append(list, object{"sha": sha, "commit": object{"message": h.commits[sha].message}})
		}
		slices.Reverse(list)
		githubPage(h, w, r, list)
	}))
	mux.HandleFunc("GET "+repo+"/issues/{number}/comments",
		h.withPull(githubMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			list := []object{}
			for i, c := range p.Comments {
				list = append(list, object{"id": i + 1, "body": c})
			}
			githubPage(h, w, r, list)
		}))
	mux.HandleFunc("POST "+repo+"/issues/{number}/comments",
		h.withPull(githubMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in object
			read(r, &in)
			p.Comments = append(p.Comments, text(in, "body"))
			answer(w, 201, object{"id": len(p.Comments)})
		}))
	mux.HandleFunc("POST "+repo+"/issues/{number}/labels", h.withPull(githubMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
		p.Labels = h.union(r, p.Labels, "labels")
		answer(w, 200, giteaNames(p.Labels, "name"))
	}))
	mux.HandleFunc("POST "+repo+"/issues/{number}/assignees",
		h.withPull(githubMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			p.Assignees = h.union(r, p.Assignees, "assignees")
			answer(w, 201, h.githubPull(p, true))
		}))
	mux.HandleFunc("POST "+repo+"/pulls/{number}/requested_reviewers", h.withPull(githubMissing, h.githubReview))
	mux.HandleFunc("GET "+repo+"/commits/{sha}/status",
		h.locked(func(w http.ResponseWriter, r *http.Request) { h.githubChecks(w, r, true) }))
	mux.HandleFunc("GET "+repo+"/commits/{sha}/check-runs",
		h.locked(func(w http.ResponseWriter, r *http.Request) { h.githubChecks(w, r, false) }))
	mux.HandleFunc("PUT "+repo+"/pulls/{number}/merge", h.withPull(githubMissing, h.githubMerge))
	mux.HandleFunc("PUT "+repo+"/pulls/{number}/merge-async", h.withPull(githubMissing, h.githubMergeLater))
	mux.HandleFunc("GET "+repo+"/pulls/{number}/merge-async/{uuid}", h.withPull(githubMissing, h.githubMergeEnd))
	mux.HandleFunc("POST /api/graphql", h.locked(h.githubQueue))
	mux.HandleFunc("GET "+repo+"/installation", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, object{"id": 4711}) })
	mux.HandleFunc("POST /api/v3/app/installations/4711/access_tokens", h.locked(func(w http.ResponseWriter, _ *http.Request) {
		h.issued++
		answer(w, 201, object{"token": fmt.Sprintf("ghs_%d", h.issued), "expires_at": time.Now().Add(h.lifetime).Format(time.RFC3339),
			"permissions": object{"contents": "write", "pull_requests": "write", "checks": "read", "statuses": "read", "metadata": "read"}})
	}))
}

// githubPage answers with a page of a list.
func githubPage(h *Host, w http.ResponseWriter, r *http.Request, list []object) {
	some, more := page(h, list, number(r, "page"), number(r, "per_page"))
	link(w, r, more)
	answer(w, 200, some)
}

// union adds names of a request that are not there.
func (h *Host) union(r *http.Request, there []string, key string) []string {
	var in object
	read(r, &in)
	for _, name := range texts(in, key) {
		if !slices.Contains(there, name) {
			there = append(there, name)
		}
	}
	return there
}

func (h *Host) githubList(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := []object{}
	for _, p := range h.listed() {
		if p.fork || "apps:"+p.Head != query.Get("head") || p.Base != query.Get("base") || query.Get("state") != "all" && p.State != Open {
			continue // the owner of a fork is another one
		}
		list = append(list, h.githubPull(p, false))
	}
	githubPage(h, w, r, list)
}

func (h *Host) githubPull(p *Pull, whole bool) object {
	state, mergeable := "open", any(!p.Conflict)
	word := "clean"
	failing := slices.ContainsFunc(h.checks[p.SHA], func(c Check) bool { return c.State != "success" })
	switch {
	case p.State != Open:
		state, mergeable, word = "closed", nil, "unknown"
	case p.Computing:
		mergeable, word = nil, "unknown"
	case p.Conflict:
		word = "dirty"
	case p.Behind:
		word = "behind"
	case h.required && (failing || len(h.checks[p.SHA]) == 0):
		word = "blocked"
	}
	full := "apps/fleet"
	if p.fork {
		full = "eve/fleet"
	}
	out := object{"number": p.Number, "node_id": fmt.Sprintf("PR_%d", p.Number), "title": p.Title, "body": p.Body,
		"html_url": fmt.Sprintf("%s/apps/fleet/pull/%d", h.server.URL, p.Number), "state": state, "draft": p.Draft,
		"created_at": p.Created.Format(time.RFC3339), "closed_at": timeOrNil(p.Ended), "merged_at": nil,
		"head":      object{"ref": p.Head, "sha": p.SHA, "repo": object{"full_name": full}},
		"base":      object{"ref": p.Base, "sha": h.branches[p.Base], "repo": object{"full_name": "apps/fleet"}},
		"labels":    giteaNames(p.Labels, "name"),
		"assignees": giteaNames(p.Assignees, "login"), "requested_reviewers": giteaNames(p.Reviewers, "login"),
		"requested_teams": []object{}}
	if p.State == Merged {
		out["merged_at"] = timeOrNil(p.Ended)
	}
	if whole {
		out["mergeable"], out["mergeable_state"], out["merged"], out["merged_by"] = mergeable, word, p.State == Merged, nil
		if p.State == Merged {
			out["merged_by"] = object{"login": p.EndedBy}
		}
	}
	return out
}

// githubInvalid answers with a validation error.
func githubInvalid(w http.ResponseWriter, message string) {
	answer(w, 422, object{"message": "Validation Failed", "status": "422", "errors": []object{{"resource": "PullRequest", "code": "custom",
		"message": message}}})
}

func (h *Host) githubCreate(w http.ResponseWriter, r *http.Request) {
	var in object
	read(r, &in)
	head, base := text(in, "head"), text(in, "base")
	draft, _ := in["draft"].(bool)
	switch {
	case h.exists(head, base) != nil:
		githubInvalid(w, "A pull request already exists for apps:"+head+".")
	case h.branches[head] == "":
		answer(w, 422, object{"message": "Validation Failed",
			"errors": []object{{"resource": "PullRequest", "field": "head", "code": "invalid"}}})
	default:
		answer(w, 201, h.githubPull(h.add(head, base, text(in, "title"), text(in, "body"), draft), true))
	}
}

func (h *Host) githubEdit(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	if _, ok := in["title"]; ok {
		p.Title = text(in, "title")
	}
	if _, ok := in["body"]; ok {
		p.Body = text(in, "body")
	}
	if text(in, "state") == "closed" && p.State == Open {
		h.finish(p, Closed, "waybill")
	}
	answer(w, 200, h.githubPull(p, true))
}

func (h *Host) githubReview(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	for _, name := range texts(in, "team_reviewers") {
		answer(w, 422, object{"message": "Could not resolve to a node with the global id of '" + name + "'."})
		return
	}
	for _, name := range texts(in, "reviewers") {
		if !slices.Contains(h.users, name) {
			answer(w, 422, object{"message": "Reviews may only be requested from collaborators."})
			return
		}
		p.Reviewers = append(p.Reviewers, name)
	}
	answer(w, 201, h.githubPull(p, false))
}

// githubChecks shows a check named build as a status, and all others as check runs.
func (h *Host) githubChecks(w http.ResponseWriter, r *http.Request, statuses bool) {
	list := []object{}
	for _, c := range h.checks[r.PathValue("sha")] {
		switch {
		case statuses && c.Name == "build":
			list = append(list, object{"context": c.Name, "state": c.State})
		case !statuses && c.Name != "build" && c.State == "pending":
			list = append(list, object{"name": c.Name, "status": "in_progress", "conclusion": nil})
		case !statuses && c.Name != "build":
			list = append(list, object{"name": c.Name, "status": "completed", "conclusion": c.State})
		}
	}
	some, more := page(h, list, number(r, "page"), number(r, "per_page"))
	link(w, r, more)
	if statuses {
		answer(w, 200, object{"state": "pending", "sha": r.PathValue("sha"), "total_count": len(list), "statuses": some})
		return
	}
	answer(w, 200, object{"total_count": len(list), "check_runs": some})
}

// githubReason returns the message of a refused merge.
func githubReason(reason refusal) string {
	return map[refusal]string{
		refusedMoved: "Head branch was modified. Review and try the merge again.", refusedConflict: "Merge conflict",
		refusedChecks: `Required status check "build" is expected.`, refusedDraft: "Pull Request is still a draft",
		refusedBusy: "Pull Request is not mergeable", refusedEnded: "Pull Request is not mergeable",
	}[reason]
}

func (h *Host) githubMerge(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	switch reason := h.merge(p, text(in, "sha")); reason {
	case "":
		answer(w, 200, object{"sha": h.branches["main"], "merged": true, "message": "Pull Request successfully merged"})
	case refusedMoved:
		answer(w, 409, object{"message": githubReason(reason)})
	default:
		answer(w, 405, object{"message": githubReason(reason)})
	}
}

// githubMergeLater takes a merge, if the model merges asynchronously.
func (h *Host) githubMergeLater(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	pending := object{"status": "pending", "details": object{"message": "Merge request enqueued.", "uuid": fmt.Sprintf("uuid-%d", p.Number),
		"merge_action": text(in, "merge_action"), "expected_head_sha": text(in, "sha")}}
	switch {
	case !h.async:
		answer(w, 404, githubMissing)
	case p.State == Merged:
		answer(w, 200, object{"status": "merged", "details": object{"message": "Pull request was merged.", "sha": h.branches["main"]}})
	case p.queued:
		answer(w, 200, object{"status": "enqueued", "details": object{"message": "Pull request is in the merge queue."}})
	case p.merging > 0:
		answer(w, 409, pending)
	case p.State == Closed || p.Draft:
		answer(w, 400, object{"status": "failed", "details": object{"message": githubReason(refusedDraft)}})
	default:
		p.merging, p.wanted, p.queue = 2, text(in, "sha"), text(in, "merge_action") == "merge_queue"
		answer(w, 202, pending)
	}
}

// githubMergeEnd reports how an asynchronous merge goes.
func (h *Host) githubMergeEnd(w http.ResponseWriter, _ *http.Request, p *Pull) {
	reason := h.advance(p)
	switch {
	case reason != "":
		answer(w, 200, object{"status": "failed", "details": object{"message": githubReason(reason)}})
	case p.State == Merged:
		answer(w, 200, object{"status": "merged", "details": object{"message": "Pull request was merged.", "sha": h.branches["main"]}})
	case p.queued:
		answer(w, 200, object{"status": "enqueued", "details": object{"message": "Pull request was added to the merge queue."}})
	default:
		answer(w, 200, object{"status": "pending", "details": object{"uuid": fmt.Sprintf("uuid-%d", p.Number)}})
	}
}

// advance brings an asynchronous merge nearer to its end.
func (h *Host) advance(p *Pull) refusal {
	if p.merging == 0 {
		return p.refused
	}
	if p.merging--; p.merging > 0 {
		return ""
	}
	if h.stuck {
		p.refused = refusedChecks
		return p.refused
	}
	if p.queue {
		p.queued = p.SHA == p.wanted
		return ""
	}
	p.refused = h.merge(p, p.wanted)
	return p.refused
}

// LeaveQueue merges the newest pull request out of the merge queue, or removes it.
func (h *Host) LeaveQueue(merged bool) {
	h.Edit(func(p *Pull) {
		p.queued = false
		if merged {
			h.finish(p, Merged, "queue")
		}
	})
}

// githubQueue answers GraphQL requests about the merge queue.
func (h *Host) githubQueue(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query     string            `json:"query"`
		Variables map[string]string `json:"variables"`
	}
	read(r, &in)
	for _, p := range h.pulls {
		if fmt.Sprintf("PR_%d", p.Number) != in.Variables["id"] {
			continue
		}
		if strings.HasPrefix(in.Query, "mutation") {
			if in.Variables["head"] != p.SHA {
				answer(w, 200, object{"data": nil, "errors": []object{{"message": "The expected head sha does not match the head."}}})
				return
			}
			p.queued = true
			answer(w, 200, object{"data": object{"enqueuePullRequest": object{"clientMutationId": nil}}})
			return
		}
		var entry any
		if p.queued {
			entry = object{"state": "QUEUED"}
		}
		answer(w, 200, object{"data": object{"node": object{"merged": p.State == Merged, "mergeQueueEntry": entry}}})
		return
	}
	answer(w, 200, object{"data": object{"node": nil}})
}

// LimitTokens sets the lifetime of the tokens of an App.
func (h *Host) LimitTokens(lifetime time.Duration) { h.set(func() { h.lifetime = lifetime }) }

// Issued returns the number of tokens that an App got.
func (h *Host) Issued() (n int) {
	h.set(func() { n = h.issued })
	return n
}

// allowedApp reports whether a request has the credential of a GitHub App: a JSON Web Token for requests about the
// installation, else its newest token.
func (h *Host) allowedApp(r *http.Request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if strings.Contains(r.URL.Path, "/installation") {
		return h.appKey != nil && validJWT(got, h.appKey)
	}
	return h.issued > 0 && got == fmt.Sprintf("ghs_%d", h.issued)
}
