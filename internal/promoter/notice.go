package promoter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// mostSentence bounds the bytes of a reason in a notice.
const mostSentence = 1000

// announcer finds out which occasions of runs were not announced yet. An announcement is a fact of the run, which is stored in one
// transaction with an action for each sink: no sink misses an occasion or gets a second notice of it, wherever a process ends.
//
// Only runs are announced that begin while the pipeline has sinks, from their start on. So a pipeline that gets sinks does not announce the
// past.
type announcer struct {
	*look
	runs  map[int64]promotion.Run // runs that are announced, by number, after the changes of the plan
	added []promotion.Fact
}

// announce adds announcements to a change, for all that the change, or earlier ones, have recorded.
func (l *look) announce(c *promotions.Change) error {
	if len(l.pipeline.Notify) == 0 {
		return nil
	}
	a := announcer{look: l, runs: map[int64]promotion.Run{}}
	for _, run := range l.state.Runs {
		if a.isAnnounced(run) {
			a.runs[run.Number] = run
		}
	}
	facts := slices.Clone(c.Facts)
	for _, change := range c.Runs {
		if run, known := a.runs[change.Run.Number]; known && change.End != promotion.Running {
			run.End = change.End
			a.runs[run.Number] = run
		} else if change.End == promotion.Running {
			a.runs[change.Run.Number] = change.Run
		}
		facts = append(facts, change.Facts...)
	}
	for _, run := range l.state.Runs {
		facts = append(facts, run.Facts...)
	}
	var notices []promotion.Notice
	for _, fact := range facts {
		if occasion := a.occasionOf(fact); occasion != "" {
			notices = append(notices, a.notice(occasion, fact))
		}
	}
	for _, verdict := range slices.Concat(l.plan.Verdicts, l.plan.Also) {
		notices = append(notices, a.conditions(verdict)...)
	}
	return a.add(c, notices)
}

// isAnnounced reports whether the start of a run was announced.
func (a *announcer) isAnnounced(run promotion.Run) bool {
	return hasFact(run.Facts, run.Env, promotion.AnnouncedEvent(string(v1alpha1.OnStarted), ""))
}

func hasFact(facts []promotion.Fact, env promotion.EnvName, event promotion.Event) bool {
	return slices.ContainsFunc(facts, func(f promotion.Fact) bool { return f.Env == env && f.Event == event && f.Target == nil })
}

// occasionOf returns the occasion that a fact is; "": none.
func (a *announcer) occasionOf(f promotion.Fact) v1alpha1.Occasion {
	switch f.Event {
	case promotion.PipelineStarted:
		return v1alpha1.OnStarted
	case promotion.EnvProposed:
		return v1alpha1.OnProposed
	case promotion.EnvPromoted:
		return v1alpha1.OnPromoted
	case promotion.PipelineSuperseded:
		return v1alpha1.OnSuperseded
	case promotion.PipelineFinished:
		if cause := a.runs[f.Run].Cause; cause == promotion.ByRollback || cause == promotion.ByFailure {
			return v1alpha1.OnRolledBack
		}
		return v1alpha1.OnFinished
	}
	return ""
}

// conditions returns notices of the reasons of a verdict: it waits for approval, or something is wrong. Each is announced once in a run,
// although it may come and go.
func (a *announcer) conditions(v promotion.Verdict) (notices []promotion.Notice) {
	for _, why := range v.Why {
		fact := promotion.Fact{Run: v.Run, Env: v.Env, At: a.now, Detail: why.Message}
		standing, _ := why.Code.Condition()
		switch {
		case why.Code == promotion.WhyWaitingApproval && resource.IsApprovable(v):
			notices = append(notices, a.notice(v1alpha1.OnWaitingApproval, fact))
		case standing == promotion.StandsFailed, standing == promotion.StandsStalled:
			notice := a.notice(v1alpha1.OnFailed, fact)
			notice.Reason = string(why.Code)
			notices = append(notices, notice)
		}
	}
	return notices
}

// notice returns the notice of an occasion in a run.
func (a *announcer) notice(occasion v1alpha1.Occasion, f promotion.Fact) promotion.Notice {
	run := a.runs[f.Run]
	n := promotion.Notice{Namespace: a.pipeline.Namespace, Pipeline: a.pipeline.Name, UID: a.pipeline.UID, Run: f.Run, Cause: run.Cause,
		Revision: run.Revision, Was: run.Was, Env: f.Env, Occasion: string(occasion), At: f.At, By: f.By, Message: cut(f.Detail),
		Link: a.link(f.Run)}
	if proposal, known := a.state.Proposals[f.Env]; known && f.Env != "" && proposal.Revision == run.Revision {
		n.URL = proposal.URL
	}
	return n
}

// cut returns the beginning of a long text.
func cut(text string) string {
	if len(text) <= mostSentence {
		return text
	}
	return strings.ToValidUTF8(text[:mostSentence], "") + "…"
}

// add adds the notices of announced runs that are new.
func (a *announcer) add(c *promotions.Change, notices []promotion.Notice) error {
	for _, n := range notices {
		run, announced := a.runs[n.Run]
		fact := promotion.Fact{Run: n.Run, Env: n.Env, Event: promotion.AnnouncedEvent(n.Occasion, n.Reason), At: a.now}
		if !announced || hasFact(run.Facts, n.Env, fact.Event) || slices.ContainsFunc(a.added, func(f promotion.Fact) bool {
			return f.Run == n.Run && f.Env == n.Env && f.Event == fact.Event
		}) {
			continue
		}
		a.added = append(a.added, fact)
		for i, sink := range a.pipeline.Notify {
			if !sink.Wants(v1alpha1.Occasion(n.Occasion)) {
				continue
			}
			n.Sink = sink.Sink
			one, err := a.action(n, i)
			if err != nil {
				return err
			}
			c.Notices = append(c.Notices, one)
		}
	}
	c.Facts = append(c.Facts, a.added...)
	return nil
}

// action returns the action that notifies one sink.
func (a *announcer) action(n promotion.Notice, sink int) (action.Action, error) {
	parameters, err := json.Marshal(n)
	if err != nil {
		return action.Action{}, fmt.Errorf("notice of %s#%d: %w", a.pipeline.ID(), n.Run, err)
	}
	event := promotion.AnnouncedEvent(n.Occasion, n.Reason)
	key, _ := json.Marshal([]any{n.UID, n.Run, n.Env, event, sink}) // texts and numbers always marshal
	return action.Action{Kind: promotion.NoticeKind, Handler: promotion.HandlerNotice,
		Lane:       lane(promotion.HandlerNotice, n.Sink.URL, false),
		Parameters: parameters, UniqueKey: string(key), Policy: policy(), Delivery: action.AtLeastOnce, CreatedBy: role,
		Name: fmt.Sprintf("notify %s of %s#%d", n.Occasion, a.pipeline.ID(), n.Run)}, nil
}
