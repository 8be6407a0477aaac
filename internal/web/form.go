package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
)

// Bounds of a form and of one field, in bytes.
const (
	formLimit  = 64 << 10
	fieldLimit = 1000
)

// handleForm serves a form that needs a scope. do executes it and returns the page to show next. Forms on pages of other sites
// never get here: server.Server refuses them.
func (p *Pages) handleForm(pattern string, scope server.Scope, do func(r *http.Request, by string) (next string, err error)) {
	p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		next, err := submitForm(w, r, scope, do)
		if err != nil {
			p.writeError(w, r, err)
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
}

// submitForm checks the scope and the size of a form, and executes it.
func submitForm(w http.ResponseWriter, r *http.Request, scope server.Scope, do func(*http.Request, string) (string, error)) (next string, err error) {
	me, err := server.Require(r.Context(), scope)
	if err != nil {
		return "", err
	}
	if err := server.ReadForm(w, r, formLimit); err != nil {
		return "", err
	}
	for name, values := range r.PostForm {
		for _, value := range values {
			if len(value) > fieldLimit {
				return "", fault.New(fault.Invalid, "%s: %d bytes, want at most %d", name, len(value), fieldLimit)
			}
		}
	}
	return do(r, me.Name)
}

// commandDeployment records the command of a button on a deployment.
func (p *Pages) commandDeployment(r *http.Request, by string) (next string, err error) {
	ref, err := refOf(r)
	if err != nil {
		return "", err
	}
	return deploymentPath(ref), p.service.Command(r.Context(), ref, server.Command{
		Kind: r.PathValue("command"), Target: r.PostFormValue("target"), Event: r.PostFormValue("event"),
		Reason: r.PostFormValue("reason"), By: by,
	})
}

// acceptRevision accepts the rejected revision of a deployment.
func (p *Pages) acceptRevision(r *http.Request, by string) (next string, err error) {
	ref, label, err := p.deploymentOf(r)
	if err != nil {
		return "", err
	}
	_, err = p.service.AcceptRevision(r.Context(), ref.Pipeline, label, by, r.PostFormValue("reason"))
	return deploymentPath(ref), err
}

// approve returns what executes the button that approves a stage of a deployment, or rejects it.
func (p *Pages) approve(reject bool) func(r *http.Request, by string) (next string, err error) {
	return func(r *http.Request, by string) (string, error) {
		ref, err := refOf(r)
		if err != nil {
			return "", err
		}
		_, err = p.service.Approve(r.Context(), server.Approval{Pipeline: ref.Pipeline, Deployment: ref.Number, Stage: r.PathValue("stage"),
			Reject: reject, Reason: r.PostFormValue("reason"), By: by})
		return deploymentPath(ref), err
	}
}

// rollback rolls a pipeline, or a target of it, back and leads to the new deployment.
func (p *Pages) rollback(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	want := server.TargetRequest{Pipeline: name, Target: r.PostFormValue("target"), Reason: r.PostFormValue("reason"), By: by,
		Revision: r.PostFormValue("revision")}
	if text := r.PostFormValue("undoes"); text != "" { // from the page that said what it would do
		if want.Undoes, err = strconv.ParseInt(text, 10, 64); err != nil {
			return "", fault.New(fault.Invalid, "undoes: want the number of a deployment, found %q", text)
		}
	}
	made, err := p.service.Rollback(r.Context(), want)
	return deploymentPath(server.Ref{Pipeline: name, Number: made.Number}), err
}

// freeze keeps back every start in a pipeline, for a time if one is given.
func (p *Pages) freeze(r *http.Request, by string) (next string, err error) {
	name, freeze := r.PathValue("pipeline"), pipeline.Freeze{By: by, Reason: r.PostFormValue("reason")}
	if r.PostFormValue("for") != "" {
		pause, err := durationOf(r, "for")
		if err != nil {
			return "", err
		}
		freeze.Until = time.Now().Add(pause)
	}
	_, err = p.service.Freeze(r.Context(), name, freeze)
	return pipelinePath(name), err
}

// thaw ends the freeze of a pipeline.
func (p *Pages) thaw(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	_, err = p.service.Thaw(r.Context(), name, by, r.PostFormValue("reason"))
	return pipelinePath(name), err
}

// retryAction retries an action and leads to the new one.
func (p *Pages) retryAction(r *http.Request, by string) (next string, err error) {
	id, err := actionOf(r)
	if err != nil {
		return "", err
	}
	made, err := p.service.RetryAction(r.Context(), id, by)
	return actionPath(made.ID), err
}

func (p *Pages) cancelAction(r *http.Request, _ string) (next string, err error) {
	id, err := actionOf(r)
	if err != nil {
		return "", err
	}
	_, err = p.service.CancelAction(r.Context(), id)
	return actionPath(id), err
}

func (p *Pages) snoozeAction(r *http.Request, by string) (next string, err error) {
	id, err := actionOf(r)
	if err != nil {
		return "", err
	}
	pause, err := durationOf(r, "for")
	if err != nil {
		return "", err
	}
	_, err = p.service.SnoozeAction(r.Context(), id, time.Now().Add(pause), by)
	return actionPath(id), err
}

// commandLane pauses, resumes, enables or resets a lane.
func (p *Pages) commandLane(r *http.Request, by string) (next string, err error) {
	command := queue.LimitCommand{Kind: r.PathValue("command"), By: by, Reason: r.PostFormValue("reason")}
	if r.PostFormValue("for") != "" {
		if command.For, err = durationOf(r, "for"); err != nil {
			return "", err
		}
	}
	_, err = p.service.Limit(r.Context(), strings.TrimSpace(r.PostFormValue("lane")), command)
	return "/lanes", err
}

// durationOf returns the duration in a field, such as 30m or 7d.
func durationOf(r *http.Request, field string) (time.Duration, error) {
	text := strings.TrimSpace(r.PostFormValue(field))
	d, err := definition.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fault.New(fault.Invalid, "%s: want a duration such as 30m, 2h or 7d, found %q", field, text)
	}
	return d, nil
}

func actionOf(r *http.Request) (action.ID, error) {
	id, err := action.ParseID(r.PathValue("id"))
	if err != nil {
		return id, fault.Wrap(fault.NotFound, err)
	}
	return id, nil
}

func actionPath(id action.ID) string { return "/actions/" + id.String() }
