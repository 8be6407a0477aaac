package pipeline

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// Bounds of the page of a pipeline of Kubernetes.
const (
	runsShown    = 10  // runs on a page
	entriesShown = 200 // entries of a run, the newest
)

// promotionPage is the data of the page of a pipeline of Kubernetes.
type promotionPage struct {
	promotions.View
	Path         string
	Track        track
	Environments map[string]environment // by name
	Runs         []run
	Newer, Older string // addresses of other pages of runs; "": none
}

// environment is an environment with the state and the buttons that the page shows.
type environment struct {
	promotions.EnvironmentView
	Path      string // beginning of the addresses of its forms
	Pipeline  string
	Tone      page.Tone
	Sentences []service.Sentence
	Targets   []target
	Approver  bool // the reader may approve it
}

// target is a target of an environment.
type target struct {
	Name, Revision, Health, Message string
	Tone                            page.Tone
}

// run is a run with its newest entries.
type run struct {
	journal.Deployment
	Open    bool // the entries are shown at once
	Entries []runEntry
	More    int // number of older entries
}

// runEntry is an entry of a run with its action.
type runEntry struct {
	pipeline.Entry
	Text   string
	Action string // id; "": none
}

// promotionOf returns the data of the page of a pipeline of Kubernetes.
func (p *pages) promotionOf(r *http.Request, view service.PipelineView) (*promotionPage, error) {
	v := *view.Promotion
	data := &promotionPage{View: v, Path: page.PipelinePath(v.Pipeline), Track: trackOf(v.Pipeline, view.Stages),
		Environments: map[string]environment{}}
	me, now := service.IdentityOf(r.Context()), time.Now()
	for _, env := range v.Environments {
		shown := environment{EnvironmentView: env, Pipeline: v.Pipeline, Tone: environmentTone(env),
			Path:      data.Path + "/environments/" + env.Name,
			Sentences: service.EnvironmentSentences(env, now),
			Approver:  env.Approval != nil && p.service.MayApprove(v.Pipeline, env, me.Name)}
		for _, t := range env.Targets {
			shown.Targets = append(shown.Targets, target{Name: service.TargetName(v.Pipeline, t), Revision: service.TargetRevision(t),
				Health: service.TargetHealth(t), Message: t.Message, Tone: healthTone(t.Health)})
		}
		data.Environments[env.Name] = shown
	}
	return data, p.fillRuns(r, data)
}

// fillRuns adds a page of runs with their entries. The newest one that is not over, or the only one requested, is open.
func (p *pages) fillRuns(r *http.Request, data *promotionPage) error {
	before, err := page.Number(r, "before")
	if err != nil {
		return err
	}
	found, err := p.service.Deployments(r.Context(), journal.DeploymentQuery{Pipeline: data.Pipeline, Before: before, Limit: runsShown + 1})
	if err != nil {
		return err
	}
	if len(found) > runsShown {
		found = found[:runsShown]
		data.Older = page.WithQuery(r, "before", strconv.FormatInt(found[runsShown-1].Number, 10)) + "#runs"
	}
	if before > 0 {
		data.Newer = page.WithQuery(r, "before", "") + "#runs"
	}
	for i, d := range found {
		shown := run{Deployment: d, Open: i == 0}
		entries, err := p.service.Entries(r.Context(), journal.EntryQuery{Pipeline: data.Pipeline, Deployment: d.Number})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		shown.More = max(0, len(entries)-entriesShown)
		for _, e := range entries[shown.More:] {
			text, action := service.RunDetail(e.Detail)
			shown.Entries = append(shown.Entries, runEntry{e, text, action})
		}
		data.Runs = append(data.Runs, shown)
	}
	return nil
}

// environmentTone returns the tone of an environment: that of its phase, or of a reason that a person has to end.
func environmentTone(env promotions.EnvironmentView) page.Tone {
	switch env.Phase {
	case promotion.PhaseComplete:
		return page.Finished
	case promotion.PhaseFailed:
		return page.Failed
	case promotion.PhaseRollingOut, promotion.PhasePromoting, promotion.PhaseSoaking, promotion.PhaseVerifying:
		return page.Running
	case promotion.PhaseUnknown:
		return page.Backoff
	}
	for _, reason := range env.Reasons {
		switch of, _ := reason.Code.Condition(); {
		case of == promotion.StandsFailed || of == promotion.StandsStalled:
			return page.Failed
		case reason.Code == promotion.WhyWaitingApproval || reason.Code == promotion.WhyHeld || reason.Code == promotion.WhyFrozen ||
			reason.Code == promotion.WhyWaitingMerge:
			return page.Held
		}
	}
	return page.Waiting
}

// healthTone returns the tone of the health of a target.
func healthTone(health promotion.Class) page.Tone {
	switch health {
	case promotion.Ready:
		return page.Finished
	case promotion.Failed:
		return page.Failed
	case promotion.Progressing:
		return page.Running
	}
	return page.Backoff
}

// CanRetry reports whether a retry may help the environment.
func (e environment) CanRetry() bool {
	for _, reason := range e.Reasons {
		if service.CanRetry(reason.Code) {
			return len(e.DependsOn) > 0 && e.Want != ""
		}
	}
	return false
}

// CanRollBack reports whether there is an earlier revision to bring back.
func (e environment) CanRollBack() bool {
	return e.Previous != "" && len(e.DependsOn) > 0 && e.Strategy != ""
}

// CanOverride reports whether the environment waits for a window or a soak.
func (e environment) CanOverride() bool {
	for _, reason := range e.Reasons {
		if reason.Code == promotion.WhyWindowClosed || reason.Code == promotion.WhySoaking {
			return true
		}
	}
	return false
}

// CanRelease reports whether a person may end the hold of this environment.
func (e environment) CanRelease() bool { return service.HoldOf(e.EnvironmentView, false) != nil }

// ApproveSays returns the effect of the button that approves.
func (e environment) ApproveSays() string {
	if left := e.Approval.Count - len(e.Approval.Given) - 1; left > 0 {
		return fmt.Sprintf("%s more must approve %s too before %s is promoted there.", page.Plural(left, "person", "people"), e.Name,
			e.Approval.Revision)
	}
	return fmt.Sprintf("%s is promoted into %s as soon as nothing else is in the way.", e.Approval.Revision, e.Name)
}

// Faults returns the conditions that need a person.
func (p promotionPage) Faults() []promotions.ConditionView { return service.PromotionFaults(p.View) }

// Held returns the hold of the whole pipeline that people may release; nil without one.
func (p promotionPage) Held() *promotions.HoldView {
	for _, env := range p.View.Environments {
		if hold := service.HoldOf(env, true); hold != nil {
			return hold
		}
	}
	return nil
}

// approveEnvironment returns the function of the button that approves a revision in an environment, or rejects it.
func (p *pages) approveEnvironment(reject bool) page.Submit {
	return func(r *http.Request, by string) (string, error) {
		name := r.PathValue("pipeline")
		_, err := p.service.Approve(r.Context(), service.Approval{Pipeline: name, Stage: r.PathValue("environment"),
			Revision: r.PostFormValue("revision"), Reject: reject, Reason: r.PostFormValue("reason"), By: by})
		return page.PipelinePath(name), err
	}
}

// commandEnvironment returns the function of a button that records a command for an environment, or for the pipeline.
func (p *pages) commandEnvironment(c service.Command) page.Submit {
	return func(r *http.Request, by string) (next string, err error) {
		name := r.PathValue("pipeline")
		if !service.OfKubernetes(name) {
			return "", fault.New(fault.NotFound, "%s is not a pipeline of Kubernetes", name)
		}
		want := c
		want.Target, want.Reason, want.By = r.PathValue("environment"), r.PostFormValue("reason"), by
		if r.PostFormValue("for") != "" {
			length, err := page.Duration(r, "for")
			if err != nil {
				return "", err
			}
			want.Until = time.Now().Add(length)
		}
		return page.PipelinePath(name), p.service.Command(r.Context(), service.Ref{Pipeline: name}, want)
	}
}

// rollBackEnvironment brings back the revision that the button names.
func (p *pages) rollBackEnvironment(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	_, err = p.service.Rollback(r.Context(), service.TargetRequest{Pipeline: name, Target: r.PathValue("environment"),
		To: r.PostFormValue("revision"), Reason: r.PostFormValue("reason"), By: by})
	return page.PipelinePath(name), err
}

// registerPromotion adds the forms of pipelines of Kubernetes.
func (p *pages) registerPromotion(site *page.Site) {
	const at = "POST /pipelines/{pipeline}/environments/{environment}/"
	site.HandleForm(at+"approve", service.ScopeApprove, p.approveEnvironment(false))
	site.HandleForm(at+"reject", service.ScopeApprove, p.approveEnvironment(true))
	site.HandleForm(at+"rollback", service.ScopeOperate, p.rollBackEnvironment)
	for name, command := range map[string]service.Command{"hold": {Kind: "hold"}, "release": {Kind: "resume"}, "retry": {Kind: "retry"},
		"override": {Kind: "resume", Now: true}} {
		site.HandleForm(at+name, service.ScopeOperate, p.commandEnvironment(command))
	}
	site.HandleForm("POST /pipelines/{pipeline}/hold", service.ScopeOperate, p.commandEnvironment(service.Command{Kind: "hold"}))
	site.HandleForm("POST /pipelines/{pipeline}/release", service.ScopeOperate, p.commandEnvironment(service.Command{Kind: "resume"}))
}
