package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/test/former/oracle"
)

const name = "shop"

// world is both engines with one log, one clock and the actions that are live.
type world struct {
	*comparer
	today, then engine
	log         []json.RawMessage
	rows        []pipeline.Entry
	now         time.Time
	version     int // the last one adopted
	deployment  int64
	revision    int64
	deployments []int64
	live        []pipeline.Work // in the order of their claims
	asked       []pipeline.StepKey
	failed      []pipeline.StepKey // steps that have failed, retried or not
	targets     []string           // all there ever were
	wake        time.Time          // time of the last pass
	idle        bool               // the last pass decided nothing

	// found is the first difference; nothing is done after it.
	found *difference
	// stuck is a row that both engines refuse alike: the program has made what cannot happen.
	stuck error
}

// begin is the time at which programs begin: a Monday.
var begin = time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)

func newWorld(then engine) *world {
	return &world{comparer: newComparer(), today: oracle.New(name), then: then, now: begin}
}

func (w *world) over() bool { return w.found != nil || w.stuck != nil }

// same notes the first difference of two answers.
func (w *world) same(what string, today, then any) bool {
	if d, differs := w.compare(what, today, then); differs {
		w.differ(d)
		return false
	}
	return !w.over()
}

// differ notes the first difference.
func (w *world) differ(d difference) {
	if w.found == nil {
		w.found = &d
	}
}

// sameErrors notes the first difference of two errors, and reports whether both are nil.
func (w *world) sameErrors(what string, today, then error) bool {
	if d, differs := w.compareErrors(what, today, then); differs {
		w.differ(d)
		return false
	}
	return !w.over() && today == nil && then == nil
}

// do does one op with both engines.
func (w *world) do(o op) {
	if w.over() {
		return
	}
	switch o.Do {
	case doClock:
		w.now = o.Now
		w.check()
	case doDecide:
		w.decide(o.Limit)
	case doEnd:
		w.end(o)
	case doRow:
		w.row(*o.Row)
	case doEdit, doPlan:
		w.edit(o)
	case doRefold:
		w.refold(o.Part)
	case doWild:
		w.wild(o)
	case doSimulate:
		w.simulate(o.Wish)
	default:
		w.ask(o)
	}
}

// fold applies a row to both engines.
func (w *world) fold(row pipeline.Entry) bool {
	row.Pipeline, row.Seq, row.At = name, w.today.Seq()+1, w.now
	text := raw(row)
	what := "Apply " + string(text)
	today, then := w.today.Apply(text), w.then.Apply(text)
	if !w.sameErrors(what, today, then) {
		if !w.over() {
			w.stuck = fmt.Errorf("%s: %w", what, today)
		}
		return false
	}
	w.took(row)
	return w.check()
}

// took notes a row that both engines have folded.
func (w *world) took(row pipeline.Entry) {
	w.log, w.rows = append(w.log, raw(row)), append(w.rows, row)
	w.revision = max(w.revision, row.Revision)
	w.idle = false
	switch row.Event {
	case pipeline.DeploymentCreated:
		w.deployment = max(w.deployment, row.Deployment)
		w.deployments = append(w.deployments, row.Deployment)
	case pipeline.StepFailed:
		w.failed = append(w.failed, pipeline.StepKey{Deployment: row.Deployment, Target: row.Target, Event: eventOf(row)})
	}
}

// eventOf returns the event of the step that a note is about.
func eventOf(row pipeline.Entry) string {
	var about pipeline.StepDetail
	if json.Unmarshal(row.Detail, &about) != nil {
		return ""
	}
	return about.Event
}

// row folds a row that is not an answer of the engines. A deployment gets the next number.
func (w *world) row(row pipeline.Entry) {
	if row.Event == pipeline.DeploymentCreated {
		row.Deployment = w.deployment + 1
	}
	if row.Deployment == 0 || slices.Contains(w.deployments, row.Deployment) || row.Event == pipeline.DeploymentCreated {
		w.fold(row)
	}
}

// end ends a live action.
func (w *world) end(o op) {
	at := slices.IndexFunc(w.live, func(l pipeline.Work) bool { return l.StepKey == *o.Key })
	if at < 0 {
		return
	}
	w.live = slices.Delete(w.live, at, at+1)
	w.asked = slices.DeleteFunc(w.asked, func(k pipeline.StepKey) bool { return k == *o.Key })
	w.fold(*o.Row)
}

// decide makes a pass.
func (w *world) decide(limit int) {
	today, errToday := w.today.Decide(w.now, limit)
	then, errThen := w.then.Decide(w.now, limit)
	if !w.sameErrors("error of Decide", errToday, errThen) {
		if !w.over() {
			w.stuck = fmt.Errorf("decide: %w", errToday)
		}
		return
	}
	if !w.same("Decide", today, then) {
		return
	}
	decision, ok := today.(pipeline.Decision)
	if !ok {
		w.stuck = fmt.Errorf("a decision is a %T", today)
		return
	}
	for _, row := range decision.Entries {
		w.took(row)
	}
	w.live = append(w.live, decision.Work...)
	w.asked = append(append(w.asked, decision.Drain...), decision.Cancel...)
	w.wake, w.idle = decision.Wake, decision.Empty()
	w.check()
}

// edit asks what a definition would do, and applies it if it is to be.
func (w *world) edit(o op) {
	version, text := w.version+1, raw(o.Edit)
	today, ok, errToday := w.today.Compile(version, text)
	then, _, errThen := w.then.Compile(version, text)
	if !w.sameErrors("error of Compile", errToday, errThen) || !w.same("Compile", today, then) || !ok {
		return
	}
	w.same("Steps", w.today.Steps(version), w.then.Steps(version))
	did, refused := w.today.Edit(version, w.revision, w.now)
	done, _ := w.then.Edit(version, w.revision, w.now)
	if !w.same("Edit", did, done) || !w.check() || refused || o.Do == doPlan {
		return
	}
	edit, ok := did.(pipeline.Edit)
	if !ok {
		w.stuck = fmt.Errorf("an edit is a %T", did)
		return
	}
	w.version = version
	w.today.Adopt(version)
	w.then.Adopt(version)
	for _, target := range targetsOf(o.Edit) {
		if !slices.Contains(w.targets, target) {
			w.targets = append(w.targets, target)
		}
	}
	w.foldAll(edit.Entries)
}

func (w *world) foldAll(rows []pipeline.Entry) {
	for _, row := range rows {
		if !w.fold(row) {
			return
		}
	}
}

// ask has a person ask for something, and folds the rows that both engines answer.
func (w *world) ask(o op) {
	today, errToday := w.answer(w.today, o)
	then, errThen := w.answer(w.then, o)
	if !w.sameErrors("error of "+o.String(), errToday, errThen) || !w.same(o.String(), today, then) {
		return
	}
	switch rows := today.(type) {
	case []pipeline.Entry:
		w.foldAll(rows)
	case pipeline.Entry:
		w.fold(rows)
	default:
		w.stuck = fmt.Errorf("%s: a %T", o.Do, today)
	}
}

// answer asks one engine.
func (w *world) answer(e engine, o op) (any, error) {
	switch o.Do {
	case doCommand:
		return e.Command(o.Wish)
	case doRollback:
		return e.Rollback(o.Wish)
	case doCatchUp:
		return e.CatchUp(o.Wish)
	case doJudge:
		return e.Judge(o.Reject, o.Revision, fmt.Sprintf("r%d", o.Revision), "ana", "test")
	case doFreeze:
		return e.SetFreeze(raw(admission.Freeze{By: "bob", Reason: "holidays", Until: o.Until}), w.now)
	case doThaw:
		return e.ClearFreeze("bob", "", w.now)
	}
	return nil, fmt.Errorf("unknown op %q", o.Do)
}

// fresh returns two engines that have folded the first rows of the log, in a world of their own.
func (w *world) fresh(rows int) *world {
	today, okToday := w.today.Fresh().(engine)
	then, okThen := w.then.Fresh().(engine)
	if !okToday || !okThen {
		w.stuck = fmt.Errorf("a fresh engine is a %T, a %T", w.today.Fresh(), w.then.Fresh())
		return w
	}
	aside := &world{comparer: w.comparer, today: today, then: then, now: w.now, version: w.version, targets: w.targets}
	for i, row := range w.log[:rows] {
		if !aside.sameErrors("fold again "+string(row), today.Apply(row), then.Apply(row)) {
			if !aside.over() {
				aside.stuck = fmt.Errorf("fold again %s: refused", row)
			}
			break
		}
		aside.took(w.rows[i])
	}
	return aside
}

// take has the difference of another world, if it has one.
func (w *world) take(aside *world) bool {
	if w.found == nil {
		w.found = aside.found
	}
	if w.stuck == nil {
		w.stuck = aside.stuck
	}
	return !w.over()
}

// refold folds a part of the log again and makes a pass there. With the whole log the program continues
// with the fresh engines.
func (w *world) refold(part int) {
	rows := len(w.log) * part / 1000
	aside := w.fresh(rows)
	aside.check()
	if !w.take(aside) {
		return
	}
	if rows == len(w.log) {
		w.today, w.then = aside.today, aside.then
		return
	}
	if aside.version = aside.today.Version(); aside.version > 0 {
		aside.decide(50)
	}
	w.take(aside)
}

// wild folds rows that no engine would write: both must refuse them with the same error, or be in the
// same state.
func (w *world) wild(o op) {
	aside := w.fresh(len(w.log) * o.Part / 1000)
	for _, row := range o.Rows {
		if aside.over() {
			break
		}
		row.Seq += aside.today.Seq() + 1
		row.At = w.now
		text := raw(row)
		then := attempt(aside.then, text)
		if errors.Is(then, errPanic) { // what the earlier engine does not survive is not defined by it
			break
		}
		if !aside.sameErrors("Apply "+string(text), attempt(aside.today, text), then) {
			break
		}
		aside.took(row)
		aside.check()
	}
	w.take(aside)
}

// errPanic is the error of an engine that panics.
var errPanic = errors.New("the engine panics")

// attempt folds a row that may be more than an engine survives.
func attempt(e engine, row json.RawMessage) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	return e.Apply(row)
}

// simulate plays a scenario from the log as it is.
func (w *world) simulate(scenario json.RawMessage) {
	aside := w.fresh(len(w.log))
	if aside.over() {
		w.take(aside)
		return
	}
	today, errToday := aside.today.Simulate(scenario, duration)
	then, errThen := aside.then.Simulate(scenario, duration)
	if aside.sameErrors("error of Simulate", errToday, errThen) {
		aside.same("Simulate", today, then)
	}
	w.take(aside)
}

// duration returns how long an action takes in simulations: by its name, up to two hours.
func duration(deployment int64, target, event string) time.Duration {
	h := fnv.New32a()
	fmt.Fprint(h, deployment, target, event)
	return time.Duration(h.Sum32()%120) * time.Minute
}
