package githosttest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var gitlabMissing = object{"message": "404 Not found"}

// routeGitLab has the interface of GitLab.
func (h *Host) routeGitLab(mux *http.ServeMux) {
	const project = "/api/v4/projects/{project}"
	mux.HandleFunc("GET "+project, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"id": 7, "path_with_namespace": "apps/fleet", "archived": false,
			"permissions": object{"project_access": nil, "group_access": object{"access_level": 40, "notification_level": 3}}})
	})
	mux.HandleFunc("GET /api/v4/personal_access_tokens/self", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"id": 1, "active": true, "scopes": []string{"api"}})
	})
	mux.HandleFunc("GET /api/v4/user", func(w http.ResponseWriter,
		_ *http.Request) {
		answer(w, 200, object{"id": 9, "username": "waybill"})
	})
	mux.HandleFunc("GET /api/v4/users", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		if i := slices.Index(h.users, r.URL.Query().Get("username")); i >= 0 {
			list = append(list, object{"id": i + 100, "username": h.users[i]})
		}
		answer(w, 200, list)
	}))
	mux.HandleFunc("GET "+project+"/merge_requests", h.locked(h.gitlabList))
	mux.HandleFunc("POST "+project+"/merge_requests", h.locked(h.gitlabCreate))
	mux.HandleFunc("GET "+project+"/merge_requests/{number}",
		h.withPull(gitlabMissing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
			answer(w, 200, h.gitlabPull(p))
		}))
	mux.HandleFunc("PUT "+project+"/merge_requests/{number}", h.withPull(gitlabMissing, h.gitlabEdit))
	mux.HandleFunc("PUT "+project+"/merge_requests/{number}/merge", h.withPull(gitlabMissing, h.gitlabMerge))
	mux.HandleFunc("GET "+project+"/merge_requests/{number}/commits",
		h.withPull(gitlabMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			list := []object{}
			for _, sha := range h.between(p) {
				list = append(list, object{"id": sha, "message": h.commits[sha].message})
			}
			gitlabPage(h, w, r, list)
		}))
	mux.HandleFunc("GET "+project+"/merge_requests/{number}/notes",
		h.withPull(gitlabMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			list := []object{}
			for i, c := range p.Comments {
				list = append(list, object{"id": i + 1, "body": c, "system": false})
			}
			slices.Reverse(list)
			gitlabPage(h, w, r, list)
		}))
	mux.HandleFunc("POST "+project+"/merge_requests/{number}/notes",
		h.withPull(gitlabMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in object
			read(r, &in)
			p.Comments = append(p.Comments, text(in, "body"))
			answer(w, 201, object{"id": len(p.Comments), "body": text(in, "body")})
		}))
	mux.HandleFunc("GET "+project+"/repository/commits/{sha}/statuses", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, c := range h.checks[r.PathValue("sha")] {
			status := c.State
			if status == "failure" {
				status = "failed"
			}
			list = append(list, object{"name": c.Name, "status": status, "allow_failure": false})
		}
		gitlabPage(h, w, r, list)
	}))
	mux.HandleFunc("GET "+project+"/merge_trains/merge_requests/{number}",
		h.withPull(gitlabMissing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
			if !p.queued {
				answer(w, 404, gitlabMissing)
				return
			}
			answer(w, 200, object{"id": 1, "status": "fresh", "target_branch": p.Base})
		}))
	mux.HandleFunc("POST "+project+"/merge_trains/merge_requests/{number}",
		h.withPull(gitlabMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in object
			read(r, &in)
			if text(in, "sha") != p.SHA {
				answer(w, 409, object{"message": "SHA does not match HEAD of source branch: " + p.SHA})
				return
			}
			p.queued = true
			answer(w, 201, []object{})
		}))
}

// gitlabPage answers with a page of a list.
func gitlabPage(h *Host, w http.ResponseWriter, r *http.Request, list []object) {
	some, more := page(h, list, number(r, "page"), number(r, "per_page"))
	next := ""
	if more {
		next = strconv.Itoa(max(1, number(r, "page")) + 1)
	}
	w.Header().Set("X-Next-Page", next)
	answer(w, 200, some)
}

func (h *Host) gitlabList(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := []object{}
	for _, p := range h.listed() {
		if p.Head != query.Get("source_branch") || p.Base != query.Get("target_branch") || query.Get("state") != "all" && p.State != Open {
			continue
		}
		list = append(list, h.gitlabPull(p))
	}
	gitlabPage(h, w, r, list)
}

func (h *Host) gitlabUsers(names []string) []object {
	list := []object{}
	for _, name := range names {
		list = append(list, object{"id": slices.Index(h.users, name) + 100, "username": name})
	}
	return list
}

func (h *Host) gitlabPull(p *Pull) object {
	status := "mergeable"
	failing := slices.ContainsFunc(h.checks[p.SHA], func(c Check) bool { return c.State != "success" })
	switch {
	case p.State != Open:
		status = "not_open"
	case p.Computing:
		status = "checking"
	case p.Conflict:
		status = "conflict"
	case p.Behind:
		status = "need_rebase"
	case h.required && (failing || len(h.checks[p.SHA]) == 0):
		status = "ci_must_pass"
	}
	source := 7
	if p.fork {
		source = 8
	}
	labels := p.Labels
	if labels == nil {
		labels = []string{}
	}
	out := object{"id": p.Number + 1000, "iid": p.Number, "title": p.Title, "description": p.Body, "state": "opened", "sha": p.SHA,
		"web_url": fmt.Sprintf("%s/apps/fleet/-/merge_requests/%d", h.server.URL, p.Number), "source_branch": p.Head,
		"target_branch":     p.Base,
		"source_project_id": source, "target_project_id": 7, "project_id": 7, "labels": labels, "assignees": h.gitlabUsers(p.Assignees),
		"reviewers": h.gitlabUsers(p.Reviewers), "created_at": p.Created.Format(time.RFC3339Nano), "closed_at": nil, "closed_by": nil,
		"merged_at": nil, "merge_user": nil, "has_conflicts": p.Conflict, "detailed_merge_status": status,
		"merge_when_pipeline_succeeds": false,
		"draft":                        strings.HasPrefix(p.Title, "Draft: "),
		"diff_refs":                    object{"base_sha": h.branches[p.Base], "head_sha": p.SHA}}
	switch p.State {
	case Merged:
		out["state"], out["merged_at"], out["merge_user"] = "merged", timeOrNil(p.Ended), object{"username": p.EndedBy}
	case Closed:
		out["state"], out["closed_at"], out["closed_by"] = "closed", timeOrNil(p.Ended), object{"username": p.EndedBy}
	}
	return out
}

func (h *Host) gitlabCreate(w http.ResponseWriter, r *http.Request) {
	var in object
	read(r, &in)
	head, base := text(in, "source_branch"), text(in, "target_branch")
	if there := h.exists(head, base); there != nil {
		answer(w, 409, object{"message": []string{fmt.Sprintf("Another open merge request already exists for this source branch: !%d", there.Number)}})
		return
	}
	p := h.add(head, base, text(in, "title"), text(in, "description"), false)
	if labels := text(in, "labels"); labels != "" {
		p.Labels = strings.Split(labels, ",")
	}
	answer(w, 201, h.gitlabPull(p))
}

func (h *Host) gitlabEdit(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	if _, ok := in["title"]; ok {
		p.Title = text(in, "title")
	}
	if _, ok := in["description"]; ok {
		p.Body = text(in, "description")
	}
	for _, label := range strings.Split(text(in, "add_labels"), ",") {
		if label != "" && !slices.Contains(p.Labels, label) {
			p.Labels = append(p.Labels, label)
		}
	}
	if ids, ok := in["reviewer_ids"].([]any); ok {
		p.Reviewers = h.gitlabNames(ids)
	}
	if ids, ok := in["assignee_ids"].([]any); ok {
		p.Assignees = h.gitlabNames(ids)
	}
	if text(in, "state_event") == "close" && p.State == Open {
		h.finish(p, Closed, "waybill")
	}
	answer(w, 200, h.gitlabPull(p))
}

func (h *Host) gitlabNames(ids []any) (names []string) {
	for _, id := range ids {
		if n, ok := id.(float64); ok {
			names = append(names, h.users[int(n)-100])
		}
	}
	return names
}

func (h *Host) gitlabMerge(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	p.Draft = strings.HasPrefix(p.Title, "Draft: ")
	switch h.merge(p, text(in, "sha")) {
	case "":
		answer(w, 200, h.gitlabPull(p))
	case refusedMoved:
		answer(w, 409, object{"message": "SHA does not match HEAD of source branch: " + p.SHA})
	case refusedConflict:
		answer(w, 422, object{"message": "Branch cannot be merged"})
	default:
		answer(w, 405, object{"message": "405 Method Not Allowed"})
	}
}
