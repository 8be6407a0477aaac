package promoter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// look is one look at a pipeline.
type look struct {
	*term
	*memory
	pipeline  resource.Pipeline
	faults    resource.Faults
	input     promotion.Input
	plan      promotion.Plan
	now       time.Time // by the database's clock, as all times in the log
	changedAt time.Time // the oldest change that the look is about, by this machine's clock; zero: there was none
}

// next looks at one pipeline.
func (t *term) next(ctx context.Context, name string) (again time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookLimit, fmt.Errorf("a look at a pipeline took longer than %s", lookLimit))
	defer cancel()
	changed, end := t.begin(name)
	defer end()
	namespace, object, _ := strings.Cut(name, ":")
	one, found := t.informer.Get(namespace, object)
	if !found && !t.informer.Synced() {
		t.queue.AddAfter(name, time.Second)
		return 0, nil
	}
	if !found {
		return 0, t.forget(ctx, name, "")
	}
	if err := t.forgetFormer(ctx, name, string(one.GetUID())); err != nil {
		return 0, err
	}
	t.looks.Add(1)
	l := &look{term: t, memory: t.memoryOf(name, string(one.GetUID())), changedAt: changed}
	if err := l.read(ctx); err != nil {
		return 0, err
	}
	l.pipeline, l.faults = resource.Parse(one, t.options(l.now))
	l.faults = append(l.faults, t.branches.collisions(l.pipeline)...)
	l.last = l.pipeline
	l.observe()
	l.faults = append(l.faults, t.owners.collisions(l.pipeline)...)
	if l.isEarly() {
		return 0, nil
	}
	decide := l.decide
	if len(l.faults) > 0 {
		decide = l.stop
	}
	switch err := decide(ctx); {
	case errors.Is(err, promotions.ErrMoved):
		l.wake(l.pipeline.ID()) // a later decision or a person was faster
	case err != nil:
		return 0, err
	}
	l.logVerdicts()
	l.keepStanding()
	l.polls.keep(name, l.openProposals())
	l.checks.keep(name, l.liveGates())
	return 0, l.report(ctx, one)
}

// firstLook is the time for which the first look at a pipeline waits for clusters that are being connected. Without it each
// start would write statuses with unknown targets, and write them again.
const firstLook = 5 * time.Second

// isEarly reports whether it is too early for the first look. The pool wakes the pipeline, or the time does.
func (l *look) isEarly() bool {
	if l.status != nil {
		return false
	}
	if l.first.IsZero() {
		l.first = l.now
	}
	left := firstLook - l.now.Sub(l.first)
	if left <= 0 {
		return false
	}
	for _, seen := range l.seen {
		if seen.Class == promotion.Unknown && seen.Why == promotion.NotSynced {
			l.queue.AddAfter(l.pipeline.ID(), left)
			return true
		}
	}
	return false
}

// read reads the state of the pipeline from the log; all of it only if the log has changed since the last look.
func (l *look) read(ctx context.Context) (err error) {
	if l.state, err = l.promotions.Reload(ctx, l.state); err == nil {
		l.now = l.state.Now
		l.setHead(l.state.Name, l.state.Head)
	}
	return err
}

// memoryOf returns the memory of a pipeline; a new one if another object has the name now.
func (t *term) memoryOf(name, uid string) *memory {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.memory[name]
	if m == nil || m.uid != uid {
		m = &memory{uid: uid, state: promotions.State{Name: name, UID: uid}}
		t.memory[name] = m
	}
	return m
}

// observe reads the states of all targets.
func (l *look) observe() {
	var wants []pool.Want
	var ids []promotion.TargetID
	var envs []promotion.EnvName // one for each target
	source := l.pipeline.Spec.Source
	for _, env := range l.pipeline.Environments {
		wants = append(wants, l.wants(env)...)
		for _, target := range env.Targets {
			ids, envs = append(ids, target.TargetID), append(envs, env.Name)
		}
	}
	seen, marked := make(map[promotion.TargetID]promotion.Seen, len(ids)), map[string]bool{}
	for i, state := range l.pool.Use(l.pipeline.ID(), wants) {
		if state.Unseen != "" {
			seen[ids[i]] = promotion.UnknownTarget(state.Unseen, state.Message)
			continue
		}
		if source.Type == promotion.SourceMarker {
			if why, message := l.fill(envs[i], &state.App, marked); why != "" {
				seen[ids[i]] = promotion.UnknownTarget(why, message)
				continue
			}
		}
		seen[ids[i]] = promotion.Observe(state.App, source, l.seen[ids[i]], l.now)
	}
	l.marks.keep(l.pipeline.ID(), marked)
	l.seen = seen
}

// wants returns the applications of an environment.
func (l *look) wants(env resource.Environment) []pool.Want {
	wants := make([]pool.Want, len(env.Targets))
	for i, target := range env.Targets {
		wants[i] = pool.Want{Cluster: target.Cluster, GVK: l.pipeline.App.Kind, Namespace: target.Namespace, Name: l.pipeline.App.Name}
		switch source := l.pipeline.Spec.Source; source.Type {
		case promotion.SourceLabel:
			wants[i].Label = source.Key
		case promotion.SourceAnnotation:
			wants[i].Annotation = source.Key
		}
	}
	return wants
}

// mostDecisions bounds the decisions of one look, each of which is made from the rows that the last one has stored.
const mostDecisions = 5

// decide has package promotion decide, and stores the decision, until there is nothing new.
func (l *look) decide(ctx context.Context) error {
	defer l.keepBroken()
	for range mostDecisions {
		l.input = l.state.Input()
		l.input.Spec, l.input.Now, l.input.Seen = l.pipeline.Spec, l.now, l.seen
		l.input.Latest, l.input.LatestSince, l.input.Inputs = l.latest, l.latestSince, l.inputs(ctx)
		if err := l.addAnswers(ctx); err != nil {
			return err
		}
		l.leaveMoved()
		l.plan = promotion.Decide(l.input)
		l.awaitMoved()
		l.latest, l.latestSince = l.plan.Latest, l.plan.LatestSince
		change, err := l.change(ctx)
		if err != nil {
			return err
		}
		if isEmpty(change) {
			l.lookAtRecheck()
			return nil
		}
		next, err := l.promotions.RecordAndLoad(ctx, change)
		if err != nil {
			return err
		}
		if next.Head == l.state.Head { // cancellations alone, all requested before: the end of the attempts changes the log
			l.lookAtRecheck()
			return nil
		}
		l.count(len(change.Start))
		l.logSteps()
		l.state = next
		l.setHead(next.Name, next.Head)
	}
	l.wake(l.pipeline.ID())
	return nil
}

// stop cancels the live attempts to promote of a pipeline with faults.
func (l *look) stop(ctx context.Context) error {
	c := promotions.Change{Pipeline: l.pipeline.ID(), UID: l.pipeline.UID, Head: l.state.Head, Frozen: l.state.Frozen != nil}
	for key, a := range l.state.Attempts {
		if a.Status == promotion.AttemptLive && key.Op != promotion.OpClose && key.Op != promotion.OpGate {
			c.Cancel = append(c.Cancel, key)
		}
	}
	if isEmpty(c) {
		return nil
	}
	_, err := l.promotions.RecordAndLoad(ctx, c)
	return err
}

// lookAtRecheck has the pipeline looked at again when the clock alone changes its plan.
func (l *look) lookAtRecheck() {
	if !l.plan.Recheck.IsZero() {
		l.queue.AddAfter(l.pipeline.ID(), max(l.plan.Recheck.Sub(l.now), mergeWakes))
	}
	if l.isStalled() || len(l.merges()) > 0 {
		l.queue.AddAfter(l.pipeline.ID(), l.cfg.ProposalsEvery/unseenShare)
	}
}

// unseenShare is the part of ProposalsEvery, one in so many, after which a pipeline is looked at again for a change
// that nothing reports: of the Secret of an attempt that failed permanently, since Secrets of Git hosts are not
// watched, and of a host's answer to a merge.
const unseenShare = 4

// merges returns the live attempts at merges.
func (l *look) merges() (keys []promotion.AttemptKey) {
	for key, a := range l.state.Attempts {
		if key.Op == promotion.OpMerge && a.Status == promotion.AttemptLive {
			keys = append(keys, key)
		}
	}
	return keys
}

// addAnswers adds the host's last answer to live attempts at merges, so that the status shows the reason of a merge
// that waits, such as a review.
func (l *look) addAnswers(ctx context.Context) error {
	keys := l.merges()
	if len(keys) == 0 {
		return nil
	}
	l.input.Attempts = maps.Clone(l.input.Attempts)
	for _, key := range keys {
		a := l.input.Attempts[key]
		id, err := action.ParseID(a.ActionID)
		if err != nil {
			return fmt.Errorf("merge of %s/%s: %w", l.pipeline.ID(), key.Env, err)
		}
		state, err := l.ledger.Action(ctx, id)
		if fault.Is(err, fault.NoSuchAction) {
			continue
		}
		if err != nil {
			return err
		}
		if state.Thread.Status.Live() { // else its end is read soon
			a.Error = state.Error
			l.input.Attempts[key] = a
		}
	}
	return nil
}

// isStalled reports whether an environment waits for other inputs of its promotion.
func (l *look) isStalled() bool {
	for _, verdict := range l.plan.Verdicts {
		for _, reason := range verdict.Why {
			if reason.Code == promotion.WhyAttemptFailed {
				return true
			}
		}
	}
	return false
}

// change returns the parts of the plan that the log does not have.
func (l *look) change(ctx context.Context) (promotions.Change, error) {
	c := promotions.Change{Pipeline: l.pipeline.ID(), UID: l.pipeline.UID, Head: l.state.Head, Frozen: l.state.Frozen != nil,
		Sighting: l.plan.Sighting, Runs: l.plan.Runs}
	steps := slices.Concat(l.removed(), l.moved())
	for _, verdict := range slices.Concat(l.plan.Verdicts, l.plan.Also) {
		c.Facts = append(c.Facts, verdict.Facts...)
		if phase, moved := l.phase(verdict); moved {
			c.Phases = append(c.Phases, phase)
		}
		steps = append(steps, verdict.Do...)
	}
	for _, step := range steps {
		if step.Cancel {
			c.Cancel = append(c.Cancel, step.Key())
			continue
		}
		start, err := l.start(ctx, step)
		if err != nil {
			return c, err
		}
		c.Start = append(c.Start, start)
	}
	return c, l.announce(&c)
}

// isEmpty reports whether a change adds nothing to the log.
func isEmpty(c promotions.Change) bool {
	return c.Sighting == nil && len(c.Runs)+len(c.Facts)+len(c.Phases)+len(c.Start)+len(c.Cancel) == 0
}

// phase returns the phase of a verdict, and whether it is news to the log.
func (l *look) phase(v promotion.Verdict) (p promotions.Phase, moved bool) {
	if v.Run == 0 || v.Since.IsZero() {
		return p, false
	}
	p = promotions.Phase{Run: v.Run, Env: v.Env, PhaseSince: promotion.PhaseSince{Phase: v.Phase, Since: v.Since}}
	run, _ := l.run(v.Run)
	known, recorded := run.Phases[v.Env]
	return p, !recorded || known.Phase != v.Phase || !known.Since.Equal(v.Since)
}

// run returns a run by its number, also one that the plan starts.
func (l *look) run(number int64) (promotion.Run, bool) {
	for _, change := range l.plan.Runs {
		if change.Run.Number == number && change.End == promotion.Running {
			return change.Run, true
		}
	}
	for _, run := range l.state.Runs {
		if run.Number == number {
			return run, true
		}
	}
	return promotion.Run{}, false
}

// logSteps logs the steps that were taken.
func (l *look) logSteps() {
	for _, verdict := range slices.Concat(l.plan.Verdicts, l.plan.Also) {
		for _, step := range verdict.Do {
			event := string(step.Op)
			if step.Cancel {
				event = "cancel " + event
			}
			l.log.Info("step", obs.KeyPipeline, l.pipeline.ID(), obs.KeyEnv, string(step.Env), obs.KeyEvent, event,
				obs.KeyRun, step.Run, obs.KeyRevision, string(step.Revision))
		}
	}
}

// logVerdicts logs the verdicts that differ from those of the look before. The first look of a term logs none: its verdicts
// are seldom news.
func (l *look) logVerdicts() {
	now := make(map[promotion.EnvName]string, len(l.plan.Verdicts))
	for _, v := range l.plan.Verdicts {
		reasons := make([]string, len(v.Why))
		for i, reason := range v.Why {
			reasons[i] = string(reason.Code)
		}
		why := strings.Join(reasons, " ")
		now[v.Env] = fmt.Sprintf("%d %s %s", v.Run, v.Phase, why)
		if l.verdicts != nil && l.verdicts[v.Env] != now[v.Env] {
			l.log.Info("verdict", obs.KeyPipeline, l.pipeline.ID(), obs.KeyEnv, string(v.Env), obs.KeyStatus, string(v.Phase), obs.KeyReason, why,
				obs.KeyRun, v.Run, obs.KeyRevision, string(v.Want))
		}
	}
	l.verdicts = now
}
