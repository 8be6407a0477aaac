package pipeline

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Scenario holds the assumptions of a simulation.
type Scenario struct {
	Now      time.Time                   // at which virtual time is zero
	Revision int64                       // revision of a new deployment; 0: none, without approvals, so that steps that need one stop
	Label    string                      // label of the revision
	After    time.Duration               // time from Now until that deployment is created
	Duration func(StepKey) time.Duration // how long a step's action takes; a negative time counts as zero
	Fail     []Failing                   // steps of that deployment that fail
	Stop     func() error                // asked in every turn: an error ends the simulation; nil: never
}

// Failing names steps that fail.
type Failing struct {
	Target string // full path of a stage, group or host
	Event  string // "": of a host host-deployed, of a stage that builds build-completed
}

// fails reports whether a step is among those that fail.
func (f Failing) fails(k StepKey) bool {
	if !covers(f.Target, "", stepName{target: k.Target}) {
		return false
	}
	return k.Event == f.Event || f.Event == "" && (k.Event == HostDeployed || k.Event == BuildCompleted)
}

// Schedule is the result of a simulation.
type Schedule struct {
	Deployment int64         // the one that it created
	Steps      []PlanStep    // steps of all deployments, in the order of their ends
	Ends       []ExpectedEnd // ends of the deployments that were active or are created, oldest first
}

// PlanStep is a step that would be done, or what would follow from a failure, in virtual time.
type PlanStep struct {
	StepKey
	Start, End time.Duration
	Work       bool
	Once       bool `json:"once,omitempty"`       // it counts for all hosts of its stage
	Failed     bool `json:"failed,omitempty"`     // the scenario decides it
	Unmeasured bool `json:"unmeasured,omitempty"` // nothing is known of how long it takes, so it counts as nothing
	// Source is the origin of the expected duration: host, the median on that host; step, the median on all hosts;
	// definition, for a bake; "" if it is not known. Callers of Simulate set it.
	Source string `json:"source,omitempty"`
	// Critical is set for work on the critical path: were it shorter, the end would come sooner.
	Critical bool `json:"critical,omitempty"`
	// Reason is the reason why a stage or a part of it does not start as soon as its predecessors have ended: the
	// approvals that it needs, which are assumed to take no time, or a window or a freeze. For an event that is not a
	// step, Reason describes the event.
	Reason string `json:"reason,omitempty"`
}

// ExpectedEnd is the expected end of a deployment, or the place where it stops.
type ExpectedEnd struct {
	Deployment int64         `json:"deployment"`
	Label      string        `json:"label"`            // label of its revision
	Status     Status        `json:"status"`           // active: it stops
	At         time.Duration `json:"at"`               // virtual time from Now to the end; 0 for a deployment that stops
	Reason     string        `json:"reason,omitempty"` // why it stops, or failed
	Who        string        `json:"who,omitempty"`    // the command that can change that
}

// Simulate runs the engine on virtual time, from its present state, with one more deployment: every action succeeds
// after its duration but for those that fail by the scenario, and every approval is given as soon as it is requested.
// Actions that are live have been so since their claims. The engine must be discarded afterwards. What waits for
// longer than two years stops.
func (e *Engine) Simulate(x Scenario) (Schedule, error) {
	if e.plans[e.version] == nil {
		return Schedule{}, fmt.Errorf("simulate pipeline %s: no definition is in force", e.pipeline)
	}
	s := &simulation{Scenario: x, engine: e, waited: map[StepKey]string{}, ended: map[int64]time.Duration{}}
	if n := len(e.order); n > 0 {
		s.newest = e.order[n-1].number
	}
	for _, t := range e.active {
		s.before = append(s.before, t.number)
		if err := s.approve(t); err != nil {
			return Schedule{}, err
		}
		s.resume(t)
	}
	return s.run()
}

// simulation is an engine whose actions end after a known time.
type simulation struct {
	Scenario
	engine *Engine
	before []int64                 // deployments that were active
	newest int64                   // number of the newest deployment at the start
	made   int64                   // the deployment of the scenario; 0 before it was created
	waited map[StepKey]string      // steps that waited for a window or a freeze, with the reason
	ended  map[int64]time.Duration // ends of deployments
	live   byEnd                   // actions that have not ended
	begun  int                     // how many actions began
	done   []PlanStep              // in the order of their ends
}

// farthest bounds the virtual time, for windows that never open.
const farthest = 2 * 366 * 24 * time.Hour

// run alternates passes with what comes next: the ends of actions, the opening of a window, or the
// creation of the deployment.
func (s *simulation) run() (Schedule, error) {
	for now := time.Duration(0); ; {
		if s.Stop != nil {
			if err := s.Stop(); err != nil {
				return Schedule{}, err
			}
		}
		if s.creates() && now >= s.After {
			if err := s.create(now); err != nil {
				return Schedule{}, err
			}
		}
		decision, err := s.engine.Decide(s.Now.Add(now), 1<<30)
		if err != nil {
			return Schedule{}, err
		}
		if err := s.begin(decision, now); err != nil {
			return Schedule{}, err
		}
		s.noteWaits(decision, now)
		next, ok := s.next(decision)
		if !ok || next > farthest {
			return s.schedule(), nil
		}
		now = next
		for len(s.live) > 0 && s.live[0].End <= now {
			if err := s.end(heap.Pop(&s.live).(running).PlanStep); err != nil {
				return Schedule{}, err
			}
		}
	}
}

// next returns the time of what comes next, and false if nothing does.
func (s *simulation) next(d Decision) (at time.Duration, ok bool) {
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if s.creates() {
		sooner(s.After)
	}
	if len(s.live) > 0 {
		sooner(s.live[0].End)
	}
	if !d.Wake.IsZero() {
		sooner(d.Wake.Sub(s.Now))
	}
	return at, ok
}

// creates reports whether the deployment of the scenario is still to be made.
func (s *simulation) creates() bool { return s.made == 0 && s.Revision != 0 }

// create makes the deployment, and registers artifacts that are built elsewhere.
func (s *simulation) create(now time.Duration) error {
	def := s.engine.plans[s.engine.version].def
	for i := range def.Stages {
		if b := def.Stages[i].Build; b != nil && b.External {
			s.register(s.Revision, b)
		}
	}
	s.made = 1
	if n := len(s.engine.order); n > 0 {
		s.made = s.engine.order[n-1].number + 1
	}
	row := Entry{Deployment: s.made, Target: s.engine.pipeline, Event: DeploymentCreated, Class: Note, Revision: s.Revision}
	var err error
	if row.Detail, err = json.Marshal(createdDetail{Label: s.Label}); err != nil {
		return err
	}
	if err := s.apply(row, now); err != nil {
		return err
	}
	return s.approve(s.engine.deployments[s.made])
}

// resume puts the live actions of a deployment into the simulation. They are searched for in the order of lists,
// because ends at one time are taken as they were put in, and a simulation must return the same every time.
func (s *simulation) resume(t *deployment) {
	for _, n := range t.plan.order() {
		name := stepName{t.plan.target(n), t.plan.nodes[n].event}
		if l := s.engine.liveStepOf(t, n, name); l != nil {
			key := StepKey{t.number, name.target, name.event}
			since := min(0, l.since.Sub(s.Now))
			s.push(PlanStep{StepKey: key, Start: since, End: max(0, since+s.Duration(key)), Work: true, Once: l.kind == onceStep})
		}
	}
}

// approve gives every approval that a deployment needs, where the scenario gives them.
func (s *simulation) approve(t *deployment) error {
	if s.Revision == 0 {
		return nil
	}
	for i := range t.plan.stages {
		want := t.plan.def.Stages[i].Approval
		if want == nil {
			continue
		}
		// All who are named approve, since one may be the person whose approval does not count.
		people, groups := want.By, want.Groups()
		if len(people) == 0 || len(groups) > 0 {
			people = anybody(want.Count)
		}
		for _, by := range people {
			given := Entry{Deployment: t.number, Target: t.plan.stages[i].path, Event: ApprovalGiven, Class: Note}
			given.Detail, _ = json.Marshal(endDetail{By: by, Groups: groups}) // a plain struct of strings always marshals
			if err := s.apply(given, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// anybody returns the names of so many people.
func anybody(count int) []string {
	names := make([]string, count)
	for k := range names {
		names[k] = strconv.Itoa(k + 1)
	}
	return names
}

// noteWaits remembers which steps wait for a window or for the end of a freeze.
func (s *simulation) noteWaits(d Decision, now time.Duration) {
	if d.Blocked[isClosed.String()]+d.Blocked[isFrozen.String()] == 0 {
		return
	}
	at := s.Now.Add(now)
	for _, t := range s.engine.active {
		for _, n := range t.candidates() {
			b := s.engine.check(t, n, at)
			key := StepKey{t.number, t.plan.target(n), t.plan.nodes[n].event}
			if (b.why == isClosed || b.why == isFrozen) && s.waited[key] == "" {
				s.waited[key], _ = (&explanation{e: s.engine, t: t, now: at}).admissionText(n, b)
			}
		}
	}
}

// reason returns the Reason of a step that is complete.
func (s *simulation) reason(row Entry) string {
	var reasons []string
	if row.Event == StageStarted {
		stage, _, _, _ := s.engine.plans[s.engine.version].def.Find(row.Target)
		if stage != nil && stage.Approval != nil {
			reasons = append(reasons, admission.ApprovalState{Count: stage.Approval.Count}.String())
		}
	}
	if waited := s.waited[StepKey{row.Deployment, row.Target, row.Event}]; waited != "" {
		reasons = append(reasons, waited)
	}
	return strings.Join(reasons, "; ")
}

// register registers the artifacts of a build, as a successful build does.
func (s *simulation) register(revision int64, b *Build) {
	if s.engine.artifacts[revision] == nil {
		s.engine.artifacts[revision] = map[string]json.RawMessage{}
	}
	for _, a := range b.Artifacts {
		if s.engine.artifacts[revision][a.Label] == nil {
			s.engine.artifacts[revision][a.Label] = json.RawMessage("{}")
		}
	}
}

// begin takes what a pass decided: markers and consequences are done at once, actions begin or end.
func (s *simulation) begin(d Decision, now time.Duration) error {
	for _, row := range d.Entries {
		step := PlanStep{StepKey: StepKey{row.Deployment, row.Target, row.Event}, Start: now, End: now}
		switch {
		case row.Class == Fact:
			step.Reason = s.reason(row)
		case row.Event == DeploymentCreated:
			t := s.engine.deployments[row.Deployment]
			step.Reason = detail[createdDetail](row).Kind + " to " + t.label
			if err := s.approve(t); err != nil {
				return err
			}
		default:
			step.Reason = consequences[row.Event]
			if row.Event == RevisionRejected { // an entry of a revision has no deployment
				step.Deployment = s.engine.newestOf(row.Revision)
			}
		}
		if row.Class == Fact || step.Reason != "" {
			s.done = append(s.done, step)
		}
		if t := s.engine.deployments[row.Deployment]; t != nil && t.status != StatusActive {
			s.ended[t.number] = now
		}
	}
	for _, w := range d.Work {
		s.push(PlanStep{StepKey: w.StepKey, Start: now, End: now + max(0, s.Duration(w.StepKey)), Work: true, Once: w.Step != nil && w.Step.Once})
	}
	for _, k := range d.Cancel {
		if err := s.cancel(k, now); err != nil {
			return err
		}
	}
	return nil
}

// newestOf returns the newest deployment of a revision; 0 if it has none.
func (e *Engine) newestOf(revision int64) int64 {
	for _, t := range slices.Backward(e.order) {
		if t.revision == revision {
			return t.number
		}
	}
	return 0
}

// consequences describes the rows that are not steps. A row without a description is not shown.
var consequences = map[string]string{
	HostFailureTolerated: "the failure is tolerated",
	GroupFailed:          "the group fails",
	StageFailed:          "the stage fails",
	PipelineFailed:       "the deployment fails",
	PipelineSuperseded:   "the deployment is superseded",
	PipelineCanceled:     "the deployment is canceled",
	RevisionRejected:     "the revision is rejected",
}

// push begins an action.
func (s *simulation) push(step PlanStep) {
	s.begun++
	heap.Push(&s.live, running{step, s.begun})
}

// cancel ends a live action that a pass wants ended.
func (s *simulation) cancel(k StepKey, now time.Duration) error {
	for i := range s.live {
		if s.live[i].StepKey != k {
			continue
		}
		heap.Remove(&s.live, i)
		return s.note(k, StepCanceled, now)
	}
	return nil
}

// end completes a step, or fails it if the scenario has it fail.
func (s *simulation) end(step PlanStep) error {
	t := s.engine.deployments[step.Deployment]
	for _, f := range s.Fail {
		step.Failed = step.Failed || step.Deployment == s.made && f.fails(step.StepKey)
	}
	s.done = append(s.done, step)
	if step.Failed {
		return s.note(step.StepKey, StepFailed, step.End)
	}
	if step.Event == BuildCompleted {
		if stage, _, _, _ := t.plan.def.Find(step.Target); stage != nil && stage.Build != nil {
			s.register(t.revision, stage.Build)
		}
	}
	return s.apply(Entry{Deployment: step.Deployment, Target: step.Target, Event: step.Event, Class: Fact}, step.End)
}

// note ends a step otherwise than by its fact.
func (s *simulation) note(k StepKey, event string, now time.Duration) error {
	text, err := json.Marshal(StepDetail{Event: k.Event, Error: "assumed to fail"})
	if err != nil {
		return err
	}
	return s.apply(Entry{Deployment: k.Deployment, Target: k.Target, Event: event, Class: Note, Detail: text}, now)
}

// apply folds a row at the next position of the simulation's own log.
func (s *simulation) apply(row Entry, now time.Duration) error {
	row.Pipeline, row.Seq, row.At = s.engine.pipeline, s.engine.seq+1, s.Now.Add(now)
	return s.engine.Apply(row)
}

// schedule returns what was found, once nothing happens any more.
func (s *simulation) schedule() Schedule {
	found := Schedule{Deployment: s.made, Steps: s.done}
	s.markCritical()
	at := s.Now
	if len(s.done) > 0 {
		at = at.Add(s.done[len(s.done)-1].End)
	}
	was := map[int64]bool{}
	for _, number := range s.before {
		was[number] = true
	}
	for _, t := range s.engine.order {
		if !was[t.number] && t.number <= s.newest {
			continue // it had ended before; a rollback or catch-up that begins before the scenario's deployment is newer
		}
		end := ExpectedEnd{Deployment: t.number, Label: t.label, Status: t.status, At: s.ended[t.number], Reason: t.reason}
		if t.status == StatusActive {
			end.Reason, end.Who = s.stops(t.number, at)
		}
		found.Ends = append(found.Ends, end)
	}
	return found
}

// stops returns why a deployment that is active goes no further.
func (s *simulation) stops(number int64, now time.Time) (reason, who string) {
	for _, step := range s.engine.Explain(number, now) {
		if step.State != StateWaiting {
			continue
		}
		if reason == "" {
			reason, who = step.Reason, step.Who
		}
		if !strings.HasPrefix(step.Reason, "waits for ") { // what is waited for has a reason of its own
			return step.Reason, step.Who
		}
	}
	return reason, who
}

// markCritical marks the work that the end of the scenario's deployment depends on: what ended
// last, and before it each time what ended when that began, the nearest in the graph first. Work
// that takes no time cannot be shorter, so it is not marked, and the path leads through it: each
// turn goes back in time, and together the turns read the schedule once.
func (s *simulation) markCritical() {
	last := -1
	for i := range s.done {
		if step := &s.done[i]; step.Work && step.Deployment == s.made && (last < 0 || step.End >= s.done[last].End) {
			last = i
		}
	}
	for last >= 0 {
		step := &s.done[last]
		step.Critical = step.End > step.Start
		before, near := -1, -1
		for i := last - 1; i >= 0 && s.done[i].End >= step.Start; i-- {
			if d := &s.done[i]; d.Work && d.End == step.Start && d.End > d.Start {
				if n := nearness(d.StepKey, step.StepKey); n > near {
					before, near = i, n
				}
			}
		}
		last = before
	}
}

// nearness returns how many parts the targets of two steps have in common; more for the same
// deployment.
func nearness(a, b StepKey) (n int) {
	x, y := strings.Split(a.Target, "/"), strings.Split(b.Target, "/")
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	if a.Deployment == b.Deployment {
		n += len(y) + 1
	}
	return n
}

// running is a step in progress. order makes steps that end at the same time end in the order in which they began.
type running struct {
	PlanStep
	order int // counts claims from 1
}

// byEnd is a heap of running steps: the one that ends first, then the one that began first.
type byEnd []running

func (h byEnd) Len() int { return len(h) }
func (h byEnd) Less(i, k int) bool {
	return h[i].End < h[k].End || h[i].End == h[k].End && h[i].order < h[k].order
}
func (h byEnd) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *byEnd) Push(x any)   { *h = append(*h, x.(running)) }
func (h *byEnd) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
