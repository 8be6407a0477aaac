package pipeline

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Command is a person's intent on a deployment: retry, skip, hold, resume, bound, alarm or cancel.
// Only By and Reason are for people; everything else decides.
type Command struct {
	Kind       string // the note's event, one of commands
	Deployment int64
	Target     string // full path; "": the pipeline. UntilSet: the stage to go no further than; the pipeline: to the end
	Event      string // narrows Target to one step
	By, Reason string
	Groups     []string // ApprovalGiven: that By is in now
	Now        bool     // cancel: also interrupt builds and replication
}

// commands are the events of the notes that record commands.
var commands = []string{RetryRequested, StepSkipped, HoldSet, HoldCleared, UntilSet, ApprovalGiven, ApprovalRejected,
	AlarmRaised, PipelineCanceled}

// Command checks an intent and returns the notes that record it, or the error that refuses it. It
// changes nothing: the caller appends the notes, and Apply makes them effective like any other row.
//
// Errors have the code fault.NotFound for a deployment, target or step that does not exist,
// fault.Invalid for an unknown Kind, fault.Forbidden for an approval that the person may not give,
// and fault.Refused for an intent that the deployment's state does not allow; most have a hint what
// to do instead. There is no note for an approval that repeats what the person has said. The notes
// have no time: the caller sets it.
func (e *Engine) Command(c Command) ([]Entry, error) {
	t, ok := e.deployments[c.Deployment]
	if !ok {
		return nil, fault.New(fault.NotFound, "deployment %s not found", e.number(c.Deployment))
	}
	if c.Target == "" {
		c.Target = e.pipeline
	}
	c.Event = t.plan.canonicalEvent(c.Target, c.Event)
	if err := e.checkTarget(t, c); err != nil {
		return nil, err
	}
	if err := e.checkStatus(t, c); err != nil {
		return nil, err
	}
	if c.Kind == ApprovalGiven || c.Kind == ApprovalRejected {
		return e.opinion(t, c)
	}
	about, err := e.checkIntent(t, &c)
	if err != nil {
		return nil, err
	}
	return e.intent(t, c, about)
}

// checkIntent checks a command by its kind, and returns the detail of its note. It may make the command another that
// says the same.
func (e *Engine) checkIntent(t *deployment, c *Command) (about any, err error) {
	switch c.Kind {
	case RetryRequested:
		return StepDetail{Event: c.Event, By: c.By, Reason: c.Reason}, e.checkRetry(t, *c)
	case StepSkipped:
		return StepDetail{Event: c.Event, By: c.By, Reason: c.Reason}, e.checkSkip(t, *c)
	case HoldSet, HoldCleared:
		if err = e.checkHold(t, *c); c.Kind == HoldCleared && c.Target == e.pipeline && t.held[e.pipeline] == (hold{}) {
			c.Kind = UntilSet // nothing holds the deployment itself, so resuming it lifts its bound
		}
		return endDetail{By: c.By, Reason: c.Reason}, err
	case UntilSet:
		about, err = endDetail{By: c.By, Reason: c.Reason, Until: t.stageName(c.Target)}, e.checkStage(t, *c)
		c.Target = e.pipeline
		return about, err
	case AlarmRaised:
		return endDetail{By: c.By, Reason: c.Reason}, e.checkAlarm(t, *c)
	case PipelineCanceled:
		c.Target = e.pipeline
		return endDetail{By: c.By, Reason: c.Reason, Now: c.Now}, nil
	}
	return nil, fault.New(fault.Invalid, "%q is not a command: want one of %s", c.Kind, strings.Join(commands, ", "))
}

// intent returns the note that records a checked command. Occurrence numbers the notes of a
// deployment with the same target and event.
func (e *Engine) intent(t *deployment, c Command, about any) ([]Entry, error) {
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	return []Entry{{
		Pipeline: e.pipeline, Seq: e.seq + 1, Deployment: t.number, Target: c.Target, Event: c.Kind, Class: Note,
		Occurrence: t.notesOf(c.Target, c.Kind) + 1, Revision: t.revision, Version: t.version, Detail: text,
	}}, nil
}

// checkTarget refuses a target that the deployment's definition does not have. A hold on a stage
// that has left the pipeline can still be lifted.
func (e *Engine) checkTarget(t *deployment, c Command) error {
	_, known := t.plan.targets[c.Target]
	if _, held := t.held[c.Target]; known || held && c.Kind == HoldCleared {
		return nil
	}
	err := fault.New(fault.NotFound, "definition %d of %s has no %s", t.version, e.pipeline, t.plan.short(c.Target))
	if likely := t.plan.endingIn(c.Target); likely != "" {
		return err.WithHint("name it as %s", t.plan.short(likely))
	}
	return err.WithHint("`waybill deployment show %s` lists what is there", e.label(t))
}

// checkStatus refuses commands to a deployment that has ended; a canceled one may be canceled once
// more, with Now. A failed one may be retried, and changed before that, until a newer deployment
// has overtaken it; then it can only be canceled.
func (e *Engine) checkStatus(t *deployment, c Command) error {
	ended := func(format string, args ...any) error {
		err := fault.New(fault.Refused, format, args...)
		if c.Kind != PipelineCanceled && c.Kind != HoldSet && c.Kind != HoldCleared {
			return err.WithHint("deploy the revision again: `waybill deployment create`")
		}
		return err // who wants less of it does not want it again
	}
	switch t.status { //exhaustive:enforce
	case StatusActive:
	case StatusFinished:
		return ended("%s has finished", e.label(t))
	case StatusCanceled:
		if c.Kind == PipelineCanceled && c.Now && !t.interrupt && len(t.live) > 0 {
			return nil // canceled without "now" before; its remaining actions are to be interrupted after all
		}
		return ended("%s was canceled %s", e.label(t), t.reason)
	case StatusSuperseded:
		return ended("%s was superseded by %s", e.label(t), e.number(t.by))
	case StatusFailed:
		if newer := e.outranks(t); newer != nil && c.Kind != PipelineCanceled {
			return fault.New(fault.Refused, "%s has failed, and %s has started a host that %s has still to do", e.label(t),
				e.label(newer), e.label(t)).
				WithHint("an older revision does not go over a newer one; to bring it back, deploy it again: `waybill deployment create`")
		}
	}
	return nil
}

// checkRetry refuses a retry when the revision is rejected, when nothing has failed under the
// target, or when a newer deployment
// holds a batch that t would return to, or has started a host that t has still to do: an older
// revision must not go over a newer one (R25). A failed deployment as a whole may be retried even
// if no failure is left, because each may have been skipped since.
func (e *Engine) checkRetry(t *deployment, c Command) error {
	if t.rejected != nil {
		return e.refuseRejected(t.revision, t.label)
	}
	found := t.status == StatusFailed && c.Target == e.pipeline && c.Event == ""
	var steps []int32 // the steps with which the deployment would resume
	for _, name := range slices.SortedFunc(maps.Keys(t.failures), compareNames) {
		if !covers(c.Target, c.Event, name) {
			continue
		}
		found = true
		if n := t.plan.find(name.target, name.event); n >= 0 {
			steps = append(steps, n)
		}
	}
	// A failed deployment resumes with all its doable steps: what failed may have been skipped
	// since.
	if t.status == StatusFailed {
		steps = append(steps, t.candidates()...)
	}
	for _, n := range steps {
		for _, b := range slices.Backward(t.plan.around(n)) { // outermost first, since that error explains most
			if h := e.holderOf(b.id); h.deployment != nil && t.isOlder(h.deployment) && t.isInside(b) {
				return fault.New(fault.Refused, "batch %s is held by %s", t.plan.short(string(b.id)), e.label(h.deployment)).
					WithHint("%s carries a newer revision; retry when it has passed, or deploy this revision again", e.label(h.deployment))
			}
		}
	}
	if !found {
		return fault.New(fault.Refused, "nothing has failed in %s of %s", t.plan.short(c.Target), e.label(t))
	}
	if newer := e.outranks(t); newer != nil {
		return fault.New(fault.Refused, "%s has started a host that %s has still to do", e.label(newer), e.label(t)).
			WithHint("an older revision does not go over a newer one; to bring it back, deploy it again: `waybill deployment create`")
	}
	return nil
}

// checkSkip refuses a skip when a step under the target is running, when nothing is left to skip,
// or when the one step that is named is a marker. A running step is not skipped, because its action
// would have to be drained first and might still succeed.
func (e *Engine) checkSkip(t *deployment, c Command) error {
	if c.Target == e.pipeline {
		return fault.New(fault.Refused, "a whole deployment is not skipped").WithHint("`waybill deployment cancel %s` ends it", e.label(t))
	}
	if t.plan.targets[c.Target].wave >= 0 && c.Event == "" {
		return fault.New(fault.Refused, "%s is not skipped as a whole", t.plan.short(c.Target)).WithHint("skip its hosts, its bake, or the group")
	}
	steps := t.plan.under(c.Target, c.Event)
	left := 0
	for _, n := range steps {
		switch {
		case t.is(n, claimed):
			return fault.New(fault.Refused, "%s is running", t.plan.name(n)).WithHint("skip it when it has ended, or cancel the deployment")
		case c.Event != "" && !t.plan.nodes[n].isListed():
			return fault.New(fault.Refused, "%s does nothing by itself", t.plan.name(n)).WithHint("skip the host, the group or the stage")
		case !t.is(n, complete|excluded):
			left++
		}
	}
	switch {
	case len(steps) == 0:
		return fault.New(fault.NotFound, "%s has no step %q", t.plan.short(c.Target), c.Event).
			WithHint("it has %s", strings.Join(t.plan.eventsOf(c.Target), ", "))
	case left == 0:
		return fault.New(fault.Refused, "nothing is left to skip in %s of %s", t.plan.short(c.Target), e.label(t))
	}
	return nil
}

// checkAlarm refuses an alarm where nothing bakes: it would be forgotten, while the person relies
// on it.
func (e *Engine) checkAlarm(t *deployment, c Command) error {
	for _, l := range t.live {
		if l.kind == bakeStep && covers(c.Target, "", l.name) {
			return nil
		}
	}
	return fault.New(fault.Refused, "nothing bakes in %s of %s", t.plan.short(c.Target), e.label(t)).
		WithHint("`waybill deployment hold %s` starts nothing more, `waybill deployment cancel %s` ends it", e.label(t), e.label(t))
}

// checkHold refuses a second hold on the same target, and to resume what is neither held nor beyond
// the bound of until.
func (e *Engine) checkHold(t *deployment, c Command) error {
	if err := e.checkStage(t, c); err != nil {
		return err
	}
	h, held := t.held[c.Target]
	bound := t.until != "" && c.Target == e.pipeline
	if at, ok := t.plan.targets[c.Target]; ok && at.stage >= 0 && t.beyond != nil {
		bound = t.beyond[at.stage]
	}
	switch {
	case c.Kind == HoldSet && held:
		return fault.New(fault.Refused, "%s is already held %s", e.label(t), h)
	case c.Kind == HoldCleared && !held && !bound:
		refused := fault.New(fault.Refused, "%s is not held", e.heldName(t, c.Target))
		if stages := sortedKeys(t.held); len(stages) > 0 && c.Target == e.pipeline { // the person means the hold that there is
			return refused.WithHint("waybill deployment resume %s %s", e.label(t), t.plan.short(stages[0]))
		}
		return refused
	}
	return nil
}

// checkStage refuses a target that is neither the pipeline nor a stage.
func (e *Engine) checkStage(t *deployment, c Command) error {
	if at, ok := t.plan.targets[c.Target]; ok && at.group >= 0 {
		return fault.New(fault.Refused, "%s is neither a stage nor the pipeline", t.plan.short(c.Target)).WithHint("name its stage")
	}
	return nil
}

// stageName returns the name of the stage with a path; "" for the pipeline.
func (t *deployment) stageName(target string) string {
	if at := t.plan.targets[target]; at.stage >= 0 {
		return t.plan.def.Stages[at.stage].Name
	}
	return ""
}

// heldName returns the target of a hold in words, such as "prod of shop#7".
func (e *Engine) heldName(t *deployment, target string) string {
	if target == e.pipeline {
		return e.label(t)
	}
	return t.plan.short(target) + " of " + e.label(t)
}

// canonicalEvent returns the event that a person means by a name: the name of a step in the
// definition, a short form, or the event itself (R23). An unknown name is returned as it is, and is
// then not found.
func (p *Graph) canonicalEvent(target, name string) string {
	switch name {
	case Replicate:
		return HostReplicated
	case Deploy:
		return HostDeployed
	case Test:
		return HostTested
	case "build":
		return BuildCompleted
	case "pipeline-start":
		return PipelineStarted
	case "host-tested":
		return HostTested
	case "pipeline-finished", "stage-finished", "host-group-finished", "host-finished":
		return name + "-successfully"
	}
	if name == "bake" {
		if p.targets[target].wave >= 0 {
			return WaveBaked
		}
		return StageBaked
	}
	if gate := GateEvent(name); len(p.under(target, gate)) > 0 {
		return gate
	}
	if own := "host-" + name; len(p.under(target, name)) == 0 && len(p.under(target, own)) > 0 {
		return own // a step that the definition names
	}
	return name
}

// eventsOf lists the events of the steps of a target that do something, in their order.
func (p *Graph) eventsOf(target string) []string {
	var events []string
	for _, n := range p.under(target, "") {
		if p.nodes[n].isListed() && !slices.Contains(events, p.nodes[n].event) {
			events = append(events, p.nodes[n].event)
		}
	}
	return events
}

// endingIn returns the one target whose path ends like target, such as greeter/prod/east/elm for
// greeter/elm; "" when there is none or more than one.
func (p *Graph) endingIn(target string) string {
	found := ""
	for path := range p.targets {
		if strings.HasSuffix(path, "/"+p.short(target)) {
			if found != "" {
				return ""
			}
			found = path
		}
	}
	return found
}
