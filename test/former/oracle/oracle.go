// Package oracle is the pipeline engine behind methods that take and return plain values, so that one
// program can hold the engines of two commits. Command former builds it twice: as it is here, over
// today's engine, and with the imports of an earlier commit.
//
// Wishes, rows and definitions are JSON. Answers are values of the engine's own types, in an any.
package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Engine is the engine of a pipeline, with the versions of its definition.
type Engine struct {
	engine  *pipeline.Engine
	name    string
	graphs  map[int]*pipeline.Graph // compiled
	adopted []int                   // versions that the fold may meet
}

// New returns an engine that has folded no row.
func New(name string) *Engine {
	return &Engine{engine: pipeline.New(name), name: name, graphs: map[int]*pipeline.Graph{}}
}

// Fresh returns an *Engine that has folded no row and knows the same versions.
func (e *Engine) Fresh() any {
	fresh := &Engine{engine: pipeline.New(e.name), name: e.name, graphs: e.graphs}
	for _, version := range e.adopted {
		fresh.Adopt(version)
	}
	return fresh
}

// Compile judges a definition, and keeps its graph under a version if it is a pipeline. The fold knows
// the version from Adopt on.
func (e *Engine) Compile(version int, definition []byte) (problems any, ok bool, err error) {
	var d pipeline.Definition
	if err := json.Unmarshal(definition, &d); err != nil {
		return nil, false, fmt.Errorf("definition %d: %w", version, err)
	}
	graph, found := pipeline.Compile(d)
	e.graphs[version] = graph
	return found, graph != nil, nil
}

// Edit returns what a compiled version does.
func (e *Engine) Edit(version int, newest int64, now time.Time) (edit any, refused bool) {
	it := e.engine.Edit(version, e.graphs[version], newest, now)
	return it, it.Refused.Err() != nil
}

// Adopt makes a compiled version known to the fold.
func (e *Engine) Adopt(version int) {
	e.adopted = append(e.adopted, version)
	e.engine.AddVersion(version, e.graphs[version])
}

// Steps returns how many steps a compiled version has.
func (e *Engine) Steps(version int) int { return e.graphs[version].Steps() }

// Opening reports whether the windows of a stage are open.
func (e *Engine) Opening(version, stage int, now time.Time) (bool, string) {
	return e.graphs[version].Opening(stage, now)
}

// Apply folds a row, an Entry in JSON. A version that the engine has forgotten is made known again, as the
// deployer does when it folds a log.
func (e *Engine) Apply(row []byte) error {
	var entry pipeline.Entry
	if err := json.Unmarshal(row, &entry); err != nil {
		return fmt.Errorf("row %s: %w", row, err)
	}
	if entry.Event == pipeline.PipelineDefined && slices.Contains(e.adopted, entry.Version) && !e.engine.HasVersion(entry.Version) {
		e.engine.AddVersion(entry.Version, e.graphs[entry.Version])
	}
	return e.engine.Apply(entry)
}

// Decide makes a pass.
func (e *Engine) Decide(now time.Time, limit int) (any, error) { return e.engine.Decide(now, limit) }

// Command asks for a pipeline.Command, in JSON, and returns its rows or why there are none.
func (e *Engine) Command(command []byte) (any, error) {
	return asked(command, e.engine.Command)
}

// Rollback asks for a pipeline.Rollback.
func (e *Engine) Rollback(rollback []byte) (any, error) {
	return asked(rollback, e.engine.Rollback)
}

// CatchUp asks for a pipeline.CatchUp.
func (e *Engine) CatchUp(catchUp []byte) (any, error) {
	return asked(catchUp, e.engine.CatchUp)
}

// asked reads a wish and asks for its rows.
func asked[T, R any](text []byte, ask func(T) (R, error)) (any, error) {
	var wish T
	if err := json.Unmarshal(text, &wish); err != nil {
		return nil, fmt.Errorf("wish %s: %w", text, err)
	}
	return ask(wish)
}

// Judge rejects a revision, or accepts it again.
func (e *Engine) Judge(reject bool, revision int64, label, by, reason string) (any, error) {
	if reject {
		return e.engine.Reject(revision, label, by, reason)
	}
	return e.engine.Accept(revision, label, by, reason)
}

// SetFreeze freezes the pipeline. The freeze is in JSON, since its type may be in another package then.
func (e *Engine) SetFreeze(freeze []byte, now time.Time) (any, error) {
	return asked(freeze, at(now, e.engine.SetFreeze))
}

// at fixes the time at which a wish is asked for.
func at[T, R any](now time.Time, ask func(T, time.Time) (R, error)) func(T) (R, error) {
	return func(wish T) (R, error) { return ask(wish, now) }
}

// ClearFreeze thaws the pipeline.
func (e *Engine) ClearFreeze(by, reason string, now time.Time) (any, error) {
	return e.engine.ClearFreeze(by, reason, now)
}

// Simulate runs the engine in virtual time, after which it is of no use. The scenario is in JSON, but
// for its durations.
func (e *Engine) Simulate(scenario []byte, duration func(deployment int64, target, event string) time.Duration) (any, error) {
	x := pipeline.Scenario{Duration: func(k pipeline.StepKey) time.Duration { return duration(k.Deployment, k.Target, k.Event) }}
	var plain struct {
		Now      time.Time
		Revision int64
		Label    string
		After    time.Duration
		Fail     []pipeline.Failing
	}
	if err := json.Unmarshal(scenario, &plain); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", scenario, err)
	}
	x.Now, x.Revision, x.Label, x.After, x.Fail = plain.Now, plain.Revision, plain.Label, plain.After, plain.Fail
	return e.engine.Simulate(x)
}

// Seq returns the position of the last row.
func (e *Engine) Seq() int64 { return e.engine.Seq() }

// Version returns the version in force.
func (e *Engine) Version() int {
	version, _ := e.engine.Current()
	return version
}

// Definition returns the definition in force; nil if there is none.
func (e *Engine) Definition() any {
	_, graph := e.engine.Current()
	if graph == nil {
		return nil
	}
	return graph.Definition()
}

// Explain lists the steps of a deployment.
func (e *Engine) Explain(deployment int64, now time.Time) any {
	return e.engine.Explain(deployment, now)
}

// Deployments returns the states of the deployments.
func (e *Engine) Deployments(activeOnly bool) any { return e.engine.Deployments(activeOnly) }

// Deployment returns the state of one deployment.
func (e *Engine) Deployment(number int64) (any, bool) { return e.engine.Deployment(number) }

// CurrentAt returns the deployment that is current at a target.
func (e *Engine) CurrentAt(target string) int64 { return e.engine.CurrentAt(target) }

// Outranks reports whether a deployment has a higher rank than another.
func (e *Engine) Outranks(deployment, other int64) bool { return e.engine.Outranks(deployment, other) }

// Frozen returns the freeze in force, and its text.
func (e *Engine) Frozen(now time.Time) (any, string) {
	f := e.engine.Frozen(now)
	if f == nil {
		return f, ""
	}
	return f, f.Text(now)
}
