package githosttest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// serverErrors returns the body of an error of Bitbucket Server.
func serverErrors(exception, message string, more object) object {
	one := object{"context": nil, "message": message, "exceptionName": "com.atlassian.bitbucket." + exception}
	for key, value := range more {
		one[key] = value
	}
	return object{"errors": []object{one}}
}

// routeServer has the interface of Bitbucket Server. Its repository is fleet of the project apps.
func (h *Host) routeServer(mux *http.ServeMux) {
	const repo = "/rest/api/1.0/projects/apps/repos/fleet"
	missing := serverErrors("pull.NoSuchPullRequestException", "Pull request 999999 does not exist in apps/fleet.", nil)
	here := object{"slug": "fleet", "project": object{"key": "APPS"}}
	mux.HandleFunc("GET "+repo, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-AUSERNAME", "waybill")
		answer(w, 200, here)
	})
	mux.HandleFunc("GET /rest/api/1.0/repos", h.locked(func(w http.ResponseWriter,
		r *http.Request) {
		serverList(h, w, r, []object{here})
	}))
	mux.HandleFunc("GET "+repo+"/pull-requests", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, p := range h.listed() {
			if !p.fork && "refs/heads/"+p.Head == r.URL.Query().Get("at") && (r.URL.Query().Get("state") == "ALL" || p.State == Open) {
				list = append(list, h.serverPull(p))
			}
		}
		serverList(h, w, r, list)
	}))
	mux.HandleFunc("POST "+repo+"/pull-requests", h.locked(h.serverCreate))
	mux.HandleFunc("GET "+repo+"/pull-requests/{number}", h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		answer(w, 200, h.serverPull(p))
	}))
	mux.HandleFunc("PUT "+repo+"/pull-requests/{number}", h.withPull(missing, h.serverEdit))
	mux.HandleFunc("GET "+repo+"/pull-requests/{number}/merge", h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		outcome := "CLEAN"
		if p.Conflict {
			outcome = "CONFLICTED"
		}
		answer(w, 200, object{"canMerge": !p.Conflict, "conflicted": p.Conflict, "outcome": outcome, "vetoes": []object{}})
	}))
	mux.HandleFunc("POST "+repo+"/pull-requests/{number}/merge", h.withPull(missing, h.serverMerge))
	mux.HandleFunc("POST "+repo+"/pull-requests/{number}/decline",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			if h.outdated(w, p, r.URL.Query().Get("version")) {
				return
			}
			h.finish(p, Closed, "waybill")
			answer(w, 200, h.serverPull(p))
		}))
	mux.HandleFunc("POST "+repo+"/pull-requests/{number}/comments",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in object
			read(r, &in)
			p.Comments = append(p.Comments, text(in, "text"))
			answer(w, 201, object{"id": len(p.Comments), "text": text(in, "text")})
		}))
	mux.HandleFunc("POST "+repo+"/pull-requests/{number}/participants",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in struct {
				User struct{ Name string } `json:"user"`
			}
			read(r, &in)
			if !slices.Contains(h.users, in.User.Name) {
				answer(w, 409, serverErrors("pull.InvalidPullRequestReviewersException", in.User.Name+" is not a user.", nil))
				return
			}
			if !slices.Contains(p.Reviewers, in.User.Name) {
				p.Reviewers = append(p.Reviewers, in.User.Name)
			}
			answer(w, 200, object{"user": object{"name": in.User.Name}, "role": "REVIEWER"})
		}))
	mux.HandleFunc("GET "+repo+"/pull-requests/{number}/activities",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			list := []object{}
			if p.State != Open {
				list = append(list, object{"action": serverState(p), "user": object{"name": p.EndedBy}})
			}
			for i := len(p.Comments) - 1; i >= 0; i-- {
				list = append(list, object{"action": "COMMENTED", "user": object{"name": "waybill"}, "comment": object{"text": p.Comments[i]}})
			}
			serverList(h, w, r, append(list, object{"action": "OPENED", "user": object{"name": "waybill"}}))
		}))
	mux.HandleFunc("GET "+repo+"/pull-requests/{number}/commits",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			list := []object{}
			for _, sha := range h.between(p) {
				list = append(list, object{"id": sha, "message": h.commits[sha].message})
			}
			serverList(h, w, r, list)
		}))
	mux.HandleFunc("GET /rest/build-status/1.0/commits/{sha}", h.locked(func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, c := range h.checks[r.PathValue("sha")] {
			list = append(list, object{"state": bitbucketState(c.State), "key": "key-" + c.Name, "name": c.Name})
		}
		serverList(h, w, r, list)
	}))
}

// bitbucketState returns a build's state in the words of Bitbucket.
func bitbucketState(state string) string {
	return map[string]string{"pending": "INPROGRESS", "success": "SUCCESSFUL", "failure": "FAILED"}[state]
}

// serverList answers with a page of a list.
func serverList(h *Host, w http.ResponseWriter, r *http.Request, list []object) {
	size := number(r, "limit")
	if h.pageSize > 0 {
		size = h.pageSize
	}
	if size == 0 {
		size = 25
	}
	from := min(number(r, "start"), len(list))
	to := min(from+size, len(list))
	out := object{"values": list[from:to], "size": to - from, "isLastPage": to == len(list), "start": from, "limit": size,
		"nextPageStart": nil}
	if to < len(list) {
		out["nextPageStart"] = to
	}
	answer(w, 200, out)
}

func serverState(p *Pull) string {
	return map[State]string{Open: "OPEN", Merged: "MERGED", Closed: "DECLINED"}[p.State]
}

func (h *Host) serverPull(p *Pull) object {
	here := object{"slug": "fleet", "project": object{"key": "APPS"}}
	reviewers := []object{}
	for _, name := range p.Reviewers {
		reviewers = append(reviewers, object{"user": object{"name": name}, "role": "REVIEWER", "approved": false})
	}
	out := object{"id": p.Number, "version": p.Version, "title": p.Title, "description": p.Body, "state": serverState(p),
		"open":   p.State == Open,
		"closed": p.State != Open, "createdDate": p.Created.UnixMilli(), "updatedDate": p.Created.UnixMilli(), "draft": p.Draft,
		"fromRef":   object{"id": "refs/heads/" + p.Head, "displayId": p.Head, "latestCommit": p.SHA, "repository": here},
		"toRef":     object{"id": "refs/heads/" + p.Base, "displayId": p.Base, "latestCommit": h.branches[p.Base], "repository": here},
		"reviewers": reviewers, "links": object{"self": []object{{"href": fmt.Sprintf("%s/projects/APPS/repos/fleet/pull-requests/%d", h.server.URL, p.Number)}}}}
	if p.State != Open {
		out["closedDate"] = p.Ended.UnixMilli()
	}
	return out
}

func (h *Host) serverCreate(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Title, Description string
		Draft              bool
		FromRef, ToRef     struct{ ID string }
	}
	read(r, &in)
	head, base := strings.TrimPrefix(in.FromRef.ID, "refs/heads/"), strings.TrimPrefix(in.ToRef.ID, "refs/heads/")
	if there := h.exists(head, base); there != nil {
		answer(w, 409, serverErrors("pull.DuplicatePullRequestException",
			"Only one pull request may be open for a given source and target branch", object{"existingPullRequest": h.serverPull(there)}))
		return
	}
	answer(w, 201, h.serverPull(h.add(head, base, in.Title, in.Description, in.Draft)))
}

// outdated answers a write that has another version than the pull request.
func (h *Host) outdated(w http.ResponseWriter, p *Pull, version string) bool {
	if version == strconv.Itoa(p.Version) && p.State == Open {
		return false
	}
	answer(w, 409, serverErrors("pull.PullRequestOutOfDateException",
		"You are attempting to modify a pull request based on out-of-date information.",
		object{"currentVersion": p.Version, "expectedVersion": version, "pullRequest": h.serverPull(p)}))
	return true
}

func (h *Host) serverEdit(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in struct {
		Version            int
		Title, Description string
		Reviewers          []struct{ User struct{ Name string } }
	}
	read(r, &in)
	if h.outdated(w, p, strconv.Itoa(in.Version)) {
		return
	}
	p.Title, p.Body, p.Reviewers, p.Version = in.Title, in.Description, nil, p.Version+1
	for _, reviewer := range in.Reviewers {
		p.Reviewers = append(p.Reviewers, reviewer.User.Name)
	}
	answer(w, 200, h.serverPull(p))
}

func (h *Host) serverMerge(w http.ResponseWriter, r *http.Request, p *Pull) {
	if h.outdated(w, p, r.URL.Query().Get("version")) {
		return
	}
	switch h.merge(p, "") {
	case "":
		answer(w, 200, h.serverPull(p))
	case refusedConflict:
		answer(w, 409, serverErrors("pull.PullRequestMergeVetoedException", "The pull request has conflicts and cannot be merged.",
			object{"conflicted": true, "vetoes": []object{}}))
	default:
		answer(w, 409, serverErrors("pull.PullRequestMergeVetoedException", "A merge check has vetoed the merge.",
			object{"conflicted": false,
				"vetoes": []object{{"summaryMessage": "Not all required builds are successful yet",
					"detailedMessage": "You need 1 successful build."}}}))
	}
}
