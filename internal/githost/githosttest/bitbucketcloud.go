package githosttest

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func cloudError(message string) object {
	return object{"type": "error", "error": object{"message": message}}
}

// routeCloud has the interface of Bitbucket Cloud. Its addresses begin with /2.0.
func (h *Host) routeCloud(mux *http.ServeMux) {
	const repo = "/2.0/repositories/apps/fleet"
	missing := cloudError("Pull request not found")
	mux.HandleFunc("GET "+repo, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-OAuth-Scopes", "repository:write, pullrequest:write")
		answer(w, 200, object{"full_name": "apps/fleet"})
	})
	mux.HandleFunc("GET /2.0/workspaces/apps/members", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, name := range h.users {
			if strings.Contains(r.URL.Query().Get("q"), `"`+name+`"`) {
				list = append(list, object{"user": cloudPerson(name)})
			}
		}
		cloudList(h, w, r, list)
	}))
	mux.HandleFunc("GET "+repo+"/pullrequests", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, p := range h.listed() {
			if cloudMatches(p, r.URL.Query()) {
				list = append(list, h.cloudPull(p))
			}
		}
		cloudList(h, w, r, list)
	}))
	mux.HandleFunc("POST "+repo+"/pullrequests", h.locked(h.cloudCreate))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}", h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		if p.merging > 0 {
			h.advance(p)
		}
		answer(w, 200, h.cloudPull(p))
	}))
	mux.HandleFunc("PUT "+repo+"/pullrequests/{number}", h.withPull(missing, h.cloudEdit))
	mux.HandleFunc("POST "+repo+"/pullrequests/{number}/decline",
		h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
			if p.State != Open {
				answer(w, 400, cloudError("This pull request is already closed."))
				return
			}
			h.finish(p, Closed, "waybill")
			answer(w, 200, h.cloudPull(p))
		}))
	mux.HandleFunc("POST "+repo+"/pullrequests/{number}/merge", h.withPull(missing, h.cloudMerge))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}/merge/task-status/{task}",
		h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
			switch reason := h.advance(p); {
			case reason != "":
				answer(w, 400, cloudError("There are failing checks: "+string(reason)))
			case p.State == Merged:
				answer(w, 200, object{"task_status": "SUCCESS", "merge_result": h.cloudPull(p)})
			default:
				answer(w, 200, object{"task_status": "PENDING"})
			}
		}))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}/comments",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			list := []object{}
			for i, c := range p.Comments {
				list = append(list, object{"id": i + 1, "deleted": false, "content": object{"raw": c}})
			}
			cloudList(h, w, r, list)
		}))
	mux.HandleFunc("POST "+repo+"/pullrequests/{number}/comments",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in struct{ Content struct{ Raw string } }
			read(r, &in)
			p.Comments = append(p.Comments, in.Content.Raw)
			answer(w, 201, object{"id": len(p.Comments)})
		}))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}/commits", h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
		list := []object{}
		for _, sha := range h.between(p) {
			list = append(list, object{"hash": sha, "message": h.commits[sha].message})
		}
		cloudList(h, w, r, list)
	}))
	mux.HandleFunc("GET "+repo+"/commit/{sha}/statuses", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for sha, checks := range h.checks {
			for _, c := range checks {
				if strings.HasPrefix(sha, r.PathValue("sha")) {
					list = append(list, object{"state": bitbucketState(c.State), "key": "key-" + c.Name, "name": c.Name})
				}
			}
		}
		cloudList(h, w, r, list)
	}))
}

func cloudPerson(name string) object {
	return object{"uuid": "{" + name + "-uuid}", "nickname": name, "display_name": strings.ToUpper(name)}
}

// cloudClause matches one comparison of the query language.
var cloudClause = regexp.MustCompile(`(source|destination)\.branch\.name="([^"]*)"`)

func cloudMatches(p *Pull, query url.Values) bool {
	for _, clause := range cloudClause.FindAllStringSubmatch(query.Get("q"), -1) {
		if clause[1] == "source" && clause[2] != p.Head || clause[1] == "destination" && clause[2] != p.Base {
			return false
		}
	}
	return slices.Contains(query["state"], serverState(p))
}

// cloudList answers with a page of a list.
func cloudList(h *Host, w http.ResponseWriter, r *http.Request, list []object) {
	some, more := page(h, list, number(r, "page"), number(r, "pagelen"))
	out := object{"values": some, "page": max(1, number(r, "page")), "pagelen": len(some)}
	if more {
		next := *r.URL
		query := next.Query()
		query.Set("page", strconv.Itoa(max(1, number(r, "page"))+1))
		next.RawQuery = query.Encode()
		out["next"] = "http://" + r.Host + next.String()
	}
	answer(w, 200, out)
}

func (h *Host) cloudPull(p *Pull) object {
	full := "apps/fleet"
	if p.fork {
		full = "eve/fleet"
	}
	reviewers := []object{}
	for _, name := range p.Reviewers {
		reviewers = append(reviewers, cloudPerson(name))
	}
	side := func(branch, sha, repo string) object {
		return object{"branch": object{"name": branch}, "commit": object{"hash": sha[:12]}, "repository": object{"full_name": repo}}
	}
	out := object{"type": "pullrequest", "id": p.Number, "title": p.Title, "description": p.Body, "state": serverState(p), "draft": p.Draft,
		"created_on": p.Created.Format(time.RFC3339Nano), "updated_on": p.Created.Format(time.RFC3339Nano), "closed_by": nil,
		"source": side(p.Head, p.SHA, full), "destination": side(p.Base, h.branches[p.Base], "apps/fleet"), "reviewers": reviewers,
		"links": object{"html": object{"href": fmt.Sprintf("%s/apps/fleet/pull-requests/%d", h.server.URL, p.Number)}}}
	if p.State != Open {
		out["updated_on"], out["closed_by"] = p.Ended.Format(time.RFC3339Nano), cloudPerson(p.EndedBy)
	}
	return out
}

func (h *Host) cloudCreate(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Title, Description  string
		Draft               bool
		Source, Destination struct{ Branch struct{ Name string } }
	}
	read(r, &in)
	head, base := in.Source.Branch.Name, in.Destination.Branch.Name
	if h.exists(head, base) != nil {
		answer(w, 409, cloudError("There is already an open pull request from "+head+" to "+base+"."))
		return
	}
	answer(w, 201, h.cloudPull(h.add(head, base, in.Title, in.Description, in.Draft)))
}

func (h *Host) cloudEdit(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	if p.State != Open {
		answer(w, 400, cloudError("This pull request is closed."))
		return
	}
	p.Title = text(in, "title")
	if _, ok := in["description"]; ok {
		p.Body = text(in, "description")
	}
	if list, ok := in["reviewers"].([]any); ok {
		p.Reviewers = nil
		for _, item := range list {
			one, _ := item.(object)
			p.Reviewers = append(p.Reviewers, strings.TrimSuffix(strings.TrimPrefix(text(one, "uuid"), "{"), "-uuid}"))
		}
	}
	answer(w, 200, h.cloudPull(p))
}

func (h *Host) cloudMerge(w http.ResponseWriter, r *http.Request, p *Pull) {
	if h.async && p.State == Open && p.merging == 0 {
		p.merging, p.wanted = 3, ""
		w.Header().Set("Location", fmt.Sprintf("http://%s/2.0/repositories/apps/fleet/pullrequests/%d/merge/task-status/task-1",
			r.Host, p.Number))
		answer(w, 202, nil)
		return
	}
	switch h.merge(p, "") {
	case "":
		answer(w, 200, h.cloudPull(p))
	case refusedConflict:
		answer(w, 409, cloudError("You can't merge until you resolve all merge conflicts."))
	default:
		answer(w, 400, cloudError("You can't merge until all merge checks pass."))
	}
}
