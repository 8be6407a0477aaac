package ogc

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// statusInfo returns a job's description in the form of the standard.
func statusInfo(r *http.Request, state queue.ActionState) StatusInfo {
	at := pathOf("jobs", state.ID.String())
	info := StatusInfo{ProcessID: state.Name, Type: "process", JobID: state.ID.String(), Status: string(state.Phase()),
		WaybillStatus: state.Thread.Status.String(), Message: jobMessage(state), Created: state.CreatedAt, Started: state.Thread.StartedAt,
		Finished: state.FinishedAt, Updated: state.UpdatedAt, Progress: state.Thread.Progress}
	if state.Thread.Status == action.Successful {
		info.Progress = 100
	}
	info.Links = addLink(nil, r, at, "self", typeJSON, "the job")
	info.Links = addLink(info.Links, r, at, "monitor", typeJSON, "the job, while it runs")
	info.Links = append(info.Links, Link{Href: absoluteURL(r, at, url.Values{"f": {"html"}}), Rel: "alternate",
		Type: typeHTML, Title: "the job as a page"})
	info.Links = addLink(info.Links, r, pathOf("processes", state.Name), "up", typeJSON, "its process")
	if info.Status == string(queue.Successful) {
		info.Links = addLink(info.Links, r, at+"/results", relResults, typeJSON, "its results")
	}
	info.Links = addLink(info.Links, r, at+"/inputs", "inputs", typeJSON, "its inputs")
	info.Links = addLink(info.Links, r, pathOf("api", "v1", "actions", state.ID.String(), "events"), "events", typeJSON,
		"its history, also live")
	info.Links = append(info.Links, Link{Href: absoluteURL(r, "/api/v1/actions", url.Values{"parent": {state.ID.String()}}), Rel: "callbacks",
		Type: typeJSON, Title: "what follows from it"})
	return info
}

// jobMessage returns the state of a job for people.
func jobMessage(state queue.ActionState) string {
	switch status := state.Thread.Status; {
	case !state.Dismissed.IsZero():
		return "dismissed after its end"
	case status == action.Backoff:
		return fmt.Sprintf("%s; next attempt at %s", state.Error, state.Thread.RunAt.UTC().Format(time.RFC3339))
	case status == action.RetriesExhausted:
		return "no retries are left: " + state.Error
	case status == action.TimedOut && state.Error == "":
		return "its deadline has passed"
	case status.Live() && !state.Thread.CancelAt.IsZero():
		return "it is being canceled"
	}
	return state.Error
}

// jobID returns the id in the path. Error: fault.NotFound, also for an invalid id.
func jobID(r *http.Request) (action.ID, error) {
	id, err := action.ParseID(r.PathValue("jobID"))
	if err != nil {
		return id, fault.New(fault.NoSuchAction, "job %q not found", r.PathValue("jobID"))
	}
	return id, nil
}

// stateOf returns the job in the path.
func (a *API) stateOf(r *http.Request) (queue.ActionState, error) {
	id, err := jobID(r)
	if err != nil {
		return queue.ActionState{}, err
	}
	return a.service.Job(r.Context(), id)
}

func (a *API) job(r *http.Request) (reply, error) {
	state, err := a.stateOf(r)
	if err != nil {
		return reply{}, err
	}
	return reply{name: "job", doc: statusInfo(r, state)}, nil
}

// dismiss cancels a live job, or deletes the results of an ended one.
func (a *API) dismiss(r *http.Request) (reply, error) {
	id, err := jobID(r)
	if err != nil {
		return reply{}, err
	}
	state, err := a.service.DismissJob(r.Context(), id, service.IdentityOf(r.Context()).Name)
	if err != nil {
		return reply{}, err
	}
	info := statusInfo(r, state)
	info.Status = string(queue.Dismissed) // also while its attempt is being stopped
	return reply{doc: info}, nil
}

// inputs answers with the inputs of a job.
func (a *API) inputs(r *http.Request) (reply, error) {
	state, err := a.stateOf(r)
	if err != nil {
		return reply{}, err
	}
	inputs, err := a.service.Parameters(r.Context(), state.Action)
	if err != nil {
		return reply{}, err
	}
	if len(inputs) == 0 {
		inputs = []byte("{}")
	}
	return reply{name: "inputs", doc: []byte(inputs), raw: inputs}, nil
}

// results answers with the outputs of a job. The form is that of its execution, unless the request
// has outputs= or response=.
func (a *API) results(r *http.Request) (reply, error) {
	state, err := a.stateOf(r)
	if err != nil {
		return reply{}, err
	}
	var want action.Answer
	if state.Answer != nil {
		want = *state.Answer
	}
	if response := r.URL.Query().Get("response"); response != "" {
		if want.Response = response; !isResponse(response) {
			return reply{}, fault.New(fault.Invalid, "response=%s: want %s or %s", response, asRaw, asDocument)
		}
	}
	if names := listedValues(r, "outputs"); len(names) > 0 {
		want.Outputs = map[string]string{}
		for _, name := range names {
			want.Outputs[name] = byValue
		}
	}
	all, err := a.readOutputs(r.Context(), state)
	if err != nil {
		return reply{}, err
	}
	return all.replyAs(r, state.ID, want)
}

func isResponse(word string) bool { return word == asRaw || word == asDocument }

// result answers with one output, in its own media type.
func (a *API) result(r *http.Request) (reply, error) {
	state, err := a.stateOf(r)
	if err != nil {
		return reply{}, err
	}
	all, err := a.readOutputs(r.Context(), state)
	if err != nil {
		return reply{}, err
	}
	name := r.PathValue("outputID")
	if _, ok := all.Values[name]; !ok {
		return reply{}, all.unknownOutput(name)
	}
	answer := all.rawOutput(name)
	answer.name, answer.doc = "result", answer.raw
	return answer, nil
}

// listedValues returns the distinct values of a query parameter that may be repeated and may hold
// commas.
func listedValues(r *http.Request, name string) []string {
	var all []string
	known := map[string]bool{"": true}
	for _, value := range r.URL.Query()[name] {
		for part := range strings.SplitSeq(value, ",") {
			if !known[part] {
				known[part] = true
				all = append(all, part)
			}
		}
	}
	return all
}
