package githosttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object.
type object = map[string]any

// answer writes JSON.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body) // a client that left gets nothing
	}
}

// locked has a handler hold the model's lock.
func (h *Host) locked(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f(w, r)
	}
}

// withPull has a handler of one pull request, whose number is in the path. missing is the body of a 404.
func (h *Host) withPull(missing any, f func(w http.ResponseWriter, r *http.Request, p *Pull)) http.HandlerFunc {
	return h.locked(func(w http.ResponseWriter, r *http.Request) {
		number, _ := strconv.ParseInt(r.PathValue("number"), 10, 64)
		if p := h.find(number); p != nil {
			f(w, r, p)
			return
		}
		answer(w, http.StatusNotFound, missing)
	})
}

// read decodes a request's JSON body.
func read(r *http.Request, into any) { _ = json.NewDecoder(r.Body).Decode(into) }

// text returns a string of a JSON object.
func text(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

// texts returns a list of strings of a JSON object.
func texts(o object, key string) (out []string) {
	list, _ := o[key].([]any)
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// timeOrNil returns a time for JSON; nil for none.
func timeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format(time.RFC3339)
}

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return n
}

var giteaMissing = object{"errors": nil, "message": "The target couldn't be found.", "url": "/api/swagger"}

// routeGitea has the interface of Gitea and Forgejo.
func (h *Host) routeGitea(mux *http.ServeMux) {
	const repo = "/api/v1/repos/apps/fleet"
	mux.HandleFunc("GET "+repo, h.locked(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"full_name": "apps/fleet", "permissions": object{"admin": false, "push": true, "pull": true},
			"has_pull_requests": true, "archived": false})
	}))
	mux.HandleFunc("GET /api/v1/user", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, object{"login": "waybill"}) })
	mux.HandleFunc("GET "+repo+"/pulls", h.locked(h.giteaList))
	mux.HandleFunc("POST "+repo+"/pulls", h.locked(h.giteaCreate))
	mux.HandleFunc("GET "+repo+"/pulls/{number}", h.withPull(giteaMissing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		answer(w, 200, h.giteaPull(p))
	}))
	mux.HandleFunc("PATCH "+repo+"/pulls/{number}", h.withPull(giteaMissing, h.giteaEdit))
	mux.HandleFunc("GET "+repo+"/pulls/{number}/commits", h.withPull(giteaMissing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		list := []object{}
		for _, sha := range h.between(p) {
			list = append(list, object{"sha": sha, "commit": object{"message": h.commits[sha].message}})
		}
		answer(w, 200, list)
	}))
	mux.HandleFunc("POST "+repo+"/pulls/{number}/merge", h.withPull(giteaMissing, h.giteaMerge))
	mux.HandleFunc("POST "+repo+"/pulls/{number}/requested_reviewers", h.withPull(giteaMissing, h.giteaReview))
	mux.HandleFunc("GET "+repo+"/issues/{number}/comments", h.withPull(giteaMissing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		list := []object{}
		for i, c := range p.Comments {
			list = append(list, object{"id": i + 1, "body": c})
		}
		answer(w, 200, list)
	}))
	mux.HandleFunc("POST "+repo+"/issues/{number}/comments",
		h.withPull(giteaMissing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in object
			read(r, &in)
			p.Comments = append(p.Comments, text(in, "body"))
			answer(w, 201, object{"id": len(p.Comments), "body": text(in, "body")})
		}))
	mux.HandleFunc("POST "+repo+"/issues/{number}/labels", h.withPull(giteaMissing, h.giteaLabel))
	mux.HandleFunc("GET "+repo+"/labels", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for i, l := range h.labels {
			list = append(list, object{"id": i + 10, "name": l})
		}
		some, more := page(h, list, number(r, "page"), number(r, "limit"))
		link(w, r, more)
		answer(w, 200, some)
	}))
	mux.HandleFunc("GET /api/v1/orgs/apps/labels", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, []object{}) })
	mux.HandleFunc("GET "+repo+"/commits/{sha}/status", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, c := range h.checks[r.PathValue("sha")] {
			list = append(list, object{"context": c.Name, "status": c.State})
		}
		answer(w, 200, object{"state": "", "sha": r.PathValue("sha"), "total_count": len(list), "statuses": list})
	}))
}

// link sets the header Link of a page.
func link(w http.ResponseWriter, r *http.Request, more bool) {
	if !more {
		return
	}
	next := *r.URL
	query := next.Query()
	query.Set("page", strconv.Itoa(max(1, number(r, "page"))+1))
	next.RawQuery = query.Encode()
	w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="next"`, r.Host, next.String()))
}

func (h *Host) giteaList(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := []object{}
	for _, p := range h.listed() {
		open := p.State == Open
		if state := query.Get("state"); state == "open" && !open || state == "closed" && open {
			continue
		}
		if base := query.Get("base_branch"); base != "" && base != p.Base {
			continue
		}
		list = append(list, h.giteaPull(p))
	}
	some, more := page(h, list, number(r, "page"), number(r, "limit"))
	link(w, r, more)
	answer(w, 200, some)
}

func (h *Host) giteaPull(p *Pull) object {
	full := "apps/fleet"
	if p.fork {
		full = "eve/fleet"
	}
	head := p.SHA
	if branch, ok := h.branches[p.Head]; ok && !p.fork {
		head = branch // also once it has ended
	}
	state := "open"
	if p.State != Open {
		state = "closed"
	}
	out := object{"number": p.Number, "title": p.Title, "body": p.Body,
		"html_url": fmt.Sprintf("%s/apps/fleet/pulls/%d", h.server.URL, p.Number),
		"state":    state, "draft": strings.HasPrefix(p.Title, "WIP: "), "merged": p.State == Merged,
		"mergeable":  p.State == Open && !p.Conflict && !p.Computing,
		"created_at": p.Created.Format(time.RFC3339), "updated_at": p.updated.Format(time.RFC3339), "merged_at": nil, "closed_at": nil,
		"merged_by": nil, "head": object{"label": p.Head, "ref": p.Head, "sha": head, "repo": object{"full_name": full}},
		"base":   object{"label": p.Base, "ref": p.Base, "sha": h.branches[p.Base], "repo": object{"full_name": "apps/fleet"}},
		"labels": giteaNames(p.Labels, "name"), "assignees": giteaNames(p.Assignees, "login"),
		"requested_reviewers": giteaNames(p.Reviewers, "login"), "requested_reviewers_teams": []object{}}
	switch p.State {
	case Merged:
		out["merged_at"], out["closed_at"], out["merged_by"] = timeOrNil(p.Ended), timeOrNil(p.Ended), object{"login": p.EndedBy}
	case Closed:
		out["closed_at"] = timeOrNil(p.Ended)
	}
	return out
}

func giteaNames(names []string, key string) []object {
	list := []object{}
	for i, name := range names {
		list = append(list, object{"id": i + 1, key: name})
	}
	return list
}

func (h *Host) giteaCreate(w http.ResponseWriter, r *http.Request) {
	var in object
	read(r, &in)
	head, base := text(in, "head"), text(in, "base")
	switch {
	case h.exists(head, base) != nil:
		answer(w, 409, object{"message": "pull request already exists for these targets [id: 1, issue_id: 1, head_repo_id: 1, " +
			"base_repo_id: 1, head_branch: " + head + ", base_branch: " + base + "]", "url": "/api/swagger"})
	case h.branches[head] == "" || h.branches[base] == "":
		answer(w, 404, giteaMissing)
	default:
		answer(w, 201, h.giteaPull(h.add(head, base, text(in, "title"), text(in, "body"), false)))
	}
}

func (h *Host) giteaEdit(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	for _, name := range texts(in, "assignees") {
		if !slices.Contains(h.users, name) {
			answer(w, 422, object{"message": "Assignee does not exist: [name: " + name + "]"})
			return
		}
	}
	if _, ok := in["title"]; ok {
		p.Title = text(in, "title")
	}
	if _, ok := in["body"]; ok {
		p.Body = text(in, "body")
	}
	if _, ok := in["assignees"]; ok {
		p.Assignees = texts(in, "assignees")
	}
	if text(in, "state") == "closed" && p.State == Open {
		h.finish(p, Closed, "waybill")
	}
	answer(w, 201, h.giteaPull(p))
}

func (h *Host) giteaReview(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	for _, name := range texts(in, "team_reviewers") {
		answer(w, 404, object{"message": "team does not exist [org_id 1, team_id 0, name: " + name + "]"})
		return
	}
	for _, name := range texts(in, "reviewers") {
		if !slices.Contains(h.users, name) {
			answer(w, 404, object{"message": "user does not exist [uid: 0, name: " + name + "]"})
			return
		}
		p.Reviewers = append(p.Reviewers, name)
	}
	answer(w, 201, []object{})
}

func (h *Host) giteaLabel(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in struct {
		Labels []int `json:"labels"`
	}
	read(r, &in)
	for _, id := range in.Labels {
		if name := h.labels[id-10]; !slices.Contains(p.Labels, name) {
			p.Labels = append(p.Labels, name)
		}
	}
	answer(w, 200, giteaNames(p.Labels, "name"))
}

func (h *Host) giteaMerge(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	p.Draft = strings.HasPrefix(p.Title, "WIP: ")
	switch h.merge(p, text(in, "head_commit_id")) {
	case "":
		w.WriteHeader(http.StatusOK)
	case refusedMoved:
		answer(w, 409, object{"message": "head out of date", "url": "/api/swagger"})
	case refusedChecks:
		answer(w, 405, object{"message": "Not all required status checks successful"})
	case refusedDraft:
		answer(w, 405, object{"message": "Work in progress PRs cannot be merged"})
	case refusedEnded:
		if p.State == Merged {
			answer(w, 405, object{"message": "The PR is already merged"})
			return
		}
		answer(w, 404, giteaMissing)
	default:
		answer(w, 405, object{"message": "Please try again later"})
	}
}
