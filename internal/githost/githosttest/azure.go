package githosttest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

func azureError(status int, key, message string) (int, object) {
	return status, object{"$id": "1", "innerException": nil, "message": message, "typeName": "Microsoft.TeamFoundation." + key,
		"typeKey":   key,
		"errorCode": 0, "eventId": 3000}
}

// azureID returns the id of the identity of a name.
func azureID(name string) string {
	return fmt.Sprintf("%08x-0000-4000-8000-000000000000", []byte((name + "    ")[:4]))
}

func azureName(id string) string {
	for _, name := range []string{"ann", "bob"} {
		if azureID(name) == id {
			return name
		}
	}
	return ""
}

// routeAzure has the interface of Azure DevOps Server: collection, project apps, repository fleet.
func (h *Host) routeAzure(mux *http.ServeMux) {
	const repo = "/collection/apps/_apis/git/repositories/fleet"
	_, missing := azureError(404, "GitPullRequestNotFoundException", "TF401180: The requested pull request was not found.")
	mux.HandleFunc("GET "+repo, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"id": "repo-id", "name": "fleet", "isDisabled": false, "project": object{"id": "project-id"}})
	})
	mux.HandleFunc("GET /collection/_apis/permissions/{namespace}/{bits}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"count": 1, "value": []bool{true}})
	})
	mux.HandleFunc("GET "+repo+"/pullrequests", h.locked(h.azureList))
	mux.HandleFunc("POST "+repo+"/pullrequests", h.locked(h.azureCreate))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}", h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		h.advance(p)
		answer(w, 200, h.azurePull(p, false))
	}))
	mux.HandleFunc("PATCH "+repo+"/pullrequests/{number}", h.withPull(missing, h.azureEdit))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}/commits", h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		list := []object{}
		for _, sha := range h.between(p) {
			list = append(list, object{"commitId": sha, "comment": h.commits[sha].message[:10], "commentTruncated": true})
		}
		answer(w, 200, object{"count": len(list), "value": list})
	}))
	mux.HandleFunc("GET "+repo+"/commits/{sha}", h.locked(func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, object{"commitId": r.PathValue("sha"), "comment": h.commits[r.PathValue("sha")].message})
	}))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}/statuses",
		h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
			list := []object{}
			for _, c := range h.checks[p.SHA] {
				if c.Name == "build" {
					list = append(list, object{"state": "pending", "context": object{"name": c.Name, "genre": ""}}) // an older one
					list = append(list, object{"state": azureState(c.State), "context": object{"name": c.Name, "genre": ""}})
				}
			}
			answer(w, 200, object{"count": len(list), "value": list})
		}))
	mux.HandleFunc("GET /collection/apps/_apis/policy/evaluations", h.locked(h.azurePolicies))
	mux.HandleFunc("GET "+repo+"/pullrequests/{number}/threads", h.withPull(missing, func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		list := []object{}
		for i, c := range p.Comments {
			list = append(list, object{"id": i + 1, "status": "closed",
				"comments": []object{{"id": 1, "content": c, "commentType": "text"}}})
		}
		answer(w, 200, object{"count": len(list), "value": list})
	}))
	mux.HandleFunc("POST "+repo+"/pullrequests/{number}/threads",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			var in struct{ Comments []struct{ Content string } }
			read(r, &in)
			p.Comments = append(p.Comments, in.Comments[0].Content)
			answer(w, 200, object{"id": len(p.Comments)})
		}))
	mux.HandleFunc("POST "+repo+"/pullrequests/{number}/labels", h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
		var in object
		read(r, &in)
		if !slices.Contains(p.Labels, text(in, "name")) {
			p.Labels = append(p.Labels, text(in, "name"))
		}
		answer(w, 200, object{"name": text(in, "name"), "active": true})
	}))
	mux.HandleFunc("PUT "+repo+"/pullrequests/{number}/reviewers/{id}",
		h.withPull(missing, func(w http.ResponseWriter, r *http.Request, p *Pull) {
			name := azureName(r.PathValue("id"))
			if name == "" {
				status, body := azureError(400, "InvalidIdentityException", "TF400898: the identity is unknown.")
				answer(w, status, body)
				return
			}
			if !slices.Contains(p.Reviewers, r.PathValue("id")) {
				p.Reviewers = append(p.Reviewers, r.PathValue("id"))
			}
			answer(w, 200, object{"id": r.PathValue("id"), "vote": 0})
		}))
}

func azureState(state string) string {
	return map[string]string{"pending": "pending", "success": "succeeded", "failure": "failed"}[state]
}

// azurePolicies shows checks other than build as policies that demand a build.
func (h *Host) azurePolicies(w http.ResponseWriter, r *http.Request) {
	list := []object{}
	for _, p := range h.pulls {
		if !strings.HasSuffix(r.URL.Query().Get("artifactId"), fmt.Sprintf("/project-id/%d", p.Number)) {
			continue
		}
		for _, c := range h.checks[p.SHA] {
			if c.Name != "build" {
				status := map[string]string{"pending": "running", "success": "approved", "failure": "rejected"}[c.State]
				list = append(list, object{"status": status, "configuration": object{"isEnabled": true, "isBlocking": true,
					"type":     object{"id": "0609b952-1397-4640-95ec-e00a01b2c241", "displayName": "Build"},
					"settings": object{"displayName": c.Name}}})
			}
		}
		list = append(list, object{"status": "queued", "configuration": object{"isEnabled": true, "isBlocking": true,
			"type":     object{"id": "fa4e907d-c16b-4a4c-9dfa-4906e5d171dd", "displayName": "Minimum number of reviewers"},
			"settings": object{}}})
	}
	answer(w, 200, object{"count": len(list), "value": list})
}

func (h *Host) azureList(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := []object{}
	for _, p := range h.listed() {
		if "refs/heads/"+p.Head == query.Get("searchCriteria.sourceRefName") &&
			"refs/heads/"+p.Base == query.Get("searchCriteria.targetRefName") &&
			(query.Get("searchCriteria.status") == "all" || p.State == Open) {
			list = append(list, h.azurePull(p, true))
		}
	}
	size := number(r, "$top")
	if h.pageSize > 0 {
		size = h.pageSize
	}
	from := min(number(r, "$skip"), len(list))
	some := list[from:min(from+size, len(list))]
	answer(w, 200, object{"count": len(some), "value": some})
}

func (h *Host) azurePull(p *Pull, cut bool) object {
	status := map[State]string{Open: "active", Merged: "completed", Closed: "abandoned"}[p.State]
	merge := "succeeded"
	switch {
	case p.Computing || p.merging > 0:
		merge = "queued"
	case p.Conflict:
		merge = "conflicts"
	}
	description := p.Body
	if cut && len(description) > 400 {
		description = description[:400]
	}
	reviewers := []object{}
	for _, id := range p.Reviewers {
		reviewers = append(reviewers, object{"id": id, "displayName": azureName(id), "vote": 0})
	}
	out := object{"pullRequestId": p.Number, "title": p.Title, "description": description, "status": status,
		"creationDate":  p.Created.Format(time.RFC3339Nano),
		"sourceRefName": "refs/heads/" + p.Head, "targetRefName": "refs/heads/" + p.Base, "mergeStatus": merge, "isDraft": p.Draft,
		"lastMergeSourceCommit": object{"commitId": p.SHA}, "lastMergeTargetCommit": object{"commitId": h.branches[p.Base]},
		"reviewers": reviewers,
		"labels":    giteaNames(p.Labels, "name"), "repository": object{"id": "repo-id", "name": "fleet",
			"project": object{"id": "project-id", "name": "apps"}}}
	if p.fork {
		out["forkSource"] = object{"name": "refs/heads/" + p.Head}
	}
	if p.State != Open {
		out["closedDate"], out["closedBy"] = p.Ended.Format(time.RFC3339Nano), object{"displayName": p.EndedBy}
	}
	return out
}

func (h *Host) azureCreate(w http.ResponseWriter, r *http.Request) {
	var in object
	read(r, &in)
	head, base := strings.TrimPrefix(text(in, "sourceRefName"), "refs/heads/"), strings.TrimPrefix(text(in, "targetRefName"), "refs/heads/")
	if h.exists(head, base) != nil {
		status, body := azureError(409, "GitPullRequestExistsException",
			"TF401179: An active pull request for the source and target branch already exists.")
		answer(w, status, body)
		return
	}
	draft, _ := in["isDraft"].(bool)
	answer(w, 201, h.azurePull(h.add(head, base, text(in, "title"), text(in, "description"), draft), false))
}

func (h *Host) azureEdit(w http.ResponseWriter, r *http.Request, p *Pull) {
	var in object
	read(r, &in)
	if _, ok := in["title"]; ok {
		p.Title = text(in, "title")
	}
	if body, ok := in["description"]; ok {
		p.Body, _ = body.(string)
		if len([]rune(p.Body)) > 4000 {
			status, body := azureError(400, "InvalidArgumentValueException", "A maximum of 4000 characters is allowed for the description.")
			answer(w, status, body)
			return
		}
	}
	switch text(in, "status") {
	case "abandoned":
		if p.State == Open {
			h.finish(p, Closed, "waybill")
		}
	case "completed":
		commit, _ := in["lastMergeSourceCommit"].(object)
		h.azureComplete(w, p, text(commit, "commitId"))
		return
	}
	answer(w, 200, h.azurePull(p, false))
}

// azureComplete takes a merge, which is made later.
func (h *Host) azureComplete(w http.ResponseWriter, p *Pull, sha string) {
	failing := slices.ContainsFunc(h.checks[p.SHA], func(c Check) bool { return c.State != "success" })
	switch {
	case sha != p.SHA:
		status, body := azureError(409, "GitPullRequestStaleException",
			"TF401192: The source branch has been updated since the pull request was read.")
		answer(w, status, body)
	case h.required && (failing || len(h.checks[p.SHA]) == 0):
		status, body := azureError(403, "GitPullRequestUpdateRejectedByPolicyException",
			"TF402455: Pushes to this branch are not permitted by policy.")
		answer(w, status, body)
	default:
		p.merging, p.wanted = 2, sha
		answer(w, 200, h.azurePull(p, false))
	}
}
