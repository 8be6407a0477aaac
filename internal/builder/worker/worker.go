// Package worker runs one build: it gets the next step from build.Next, lets a runner do it, and writes everything
// that happens into the results store. It decides nothing itself, and reports only data that it has written to disk.
package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/mask"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Runner runs steps: as processes, in containers, in pods.
type Runner interface {
	// Check lists the steps that this runner cannot run, all at once, before anything starts.
	Check(ctx context.Context, steps []build.PlanStep) fault.Problems
	// Run makes one attempt at a step and returns when nothing of it is alive any more.
	Run(ctx context.Context, run build.Run, sink build.Sink) (build.Exit, error)
}

// Observer receives everything after it was written. Its methods are called
// from several goroutines, those of one step in order, and must not block for long.
type Observer interface {
	Status(step int, u build.Update)
	Output(step int, entries []build.Entry)
	Artifact(step int, a build.Artifact)
	Tests(step int, files []build.TestFile)
	Remark(text string) // what was left out of the workspace
}

// View shows a build from its beginning to its end.
type View interface {
	Observer
	Begin()
	End(result build.Status)
}

// Workspace makes the tree that all steps copy.
type Workspace interface {
	// Take fills dir and returns remarks about omitted files.
	Take(ctx context.Context, dir string) (remarks []string, err error)
}

// Packer writes the workspace into one file.
type Packer interface {
	Pack(ctx context.Context, path string) (workspace.Packed, error)
}

// Config configures a build. Every field but Packer, Resumes, Fault and those after it must be set; with Fault,
// Runner and Workspace are not used.
type Config struct {
	ID        string
	Plan      *build.Plan
	Workspace Workspace
	Remarks   []string // on the files that Workspace takes
	Packer    Packer   // packs the workspace for runners that send it elsewhere; nil: no pack
	Runner    Runner
	Store     *results.Store
	Observer  Observer
	Scratch   string // folder for copies of the workspace, the worker's alone
	Resumes   *Resumed
	Fault     error // why no step can run, as with a file that has faults; nil: steps can run
	Metrics   *obs.Worker
	Tracing   trace.TracerProvider // where spans go; nil: nowhere
	Trace     string               // W3C traceparent of what started the build; "": nothing that is traced
}

// Resumed is an earlier build whose steps need not all run again.
type Resumed struct {
	ID      string
	Results *results.Reader // nil: no step is reused
	build.Reuse
}

// Worker runs one build.
type Worker struct {
	Config
	mask    *mask.Set // the passwords of the plan
	packed  build.Snapshot
	states  build.States
	stopped map[int]build.Ending            // the endings of running steps that were asked to end
	cancels map[int]context.CancelCauseFunc // cancels of the running steps, by number
	ends    chan stepEnd
	spans   spans
}

// stepEnd is the end of one attempt.
type stepEnd struct {
	id   int
	exit build.Exit
	err  error
}

// New prepares a build.
func New(c Config) *Worker {
	secrets := mask.NewSet(c.Plan.Secrets()...)
	c.Metrics.CountMasked(secrets.Marks)
	return &Worker{Config: c, mask: secrets, states: build.States{Steps: map[int]build.StepState{}},
		stopped: map[int]build.Ending{}, cancels: map[int]context.CancelCauseFunc{}, ends: make(chan stepEnd), spans: newSpans(c.Tracing)}
}

// Run runs the build to its end and returns its result, which is on disk by then. When ctx ends, the build is
// canceled: running steps are ended, no step starts, and the result reports it. An error means that the build
// could not be recorded; then it has no final marker.
func (w *Worker) Run(ctx context.Context) (build.Status, error) {
	result, err := w.run(w.spans.build(ctx, w.ID, w.Trace))
	if err != nil {
		w.spans.abandon(err)
	}
	return result, err
}

func (w *Worker) run(ctx context.Context) (build.Status, error) {
	w.states.StartedAt = time.Now()
	if err := w.update(0, build.Update{Status: build.Scheduling}); err != nil {
		return "", err
	}
	if w.Fault != nil {
		return w.endEarly(ctx, w.Fault)
	}
	tree, err := w.takeWorkspace(ctx)
	if err != nil {
		return w.endEarly(ctx, err)
	}
	if err := w.update(0, build.Update{Status: build.Running}); err != nil {
		return "", err
	}
	if err := w.reuse(); err != nil {
		return "", err
	}
	result, err := w.loop(ctx, tree)
	if err != nil {
		w.abandon()
		return "", err
	}
	return result, w.update(0, build.Update{Status: result, Reason: w.reason(result)})
}

// reuse records the steps that completed in the build that is resumed.
func (w *Worker) reuse() error {
	if w.Resumes == nil {
		return nil
	}
	for _, step := range w.Plan.Steps {
		from, ok := w.Resumes.Steps[step.ID]
		if !ok {
			w.note(step.Path() + " " + w.runsAgain(step.ID))
			continue
		}
		reason := "reused from build " + w.Resumes.ID
		w.note(step.Path() + " is " + reason)
		reused, err := w.Store.Reuse(step.ID, w.Resumes.Results, from, build.Update{Timestamp: time.Now(), Reason: reason})
		if err != nil {
			return fmt.Errorf("record build %s: %w", w.ID, err)
		}
		w.states.Steps[step.ID] = build.StepState{Status: build.Reused}
		if len(reused.Tests) > 0 {
			w.Observer.Tests(step.ID, reused.Tests)
		}
		w.Observer.Status(step.ID, reused.Update)
		for _, a := range reused.Artifacts {
			w.Observer.Artifact(step.ID, a)
		}
	}
	return nil
}

// runsAgain reports why a step of a resumed build runs; "" in any other build.
func (w *Worker) runsAgain(id int) string {
	if w.Resumes == nil {
		return ""
	}
	return "runs again: " + w.Resumes.Again[id]
}

// loop carries out decisions until every step has ended.
func (w *Worker) loop(ctx context.Context, tree string) (build.Status, error) {
	canceled := ctx.Done()
	for {
		decision := build.Next(w.Plan, w.states, time.Now())
		if decision.Done {
			return decision.Result, nil
		}
		if err := w.carryOut(ctx, decision, tree); err != nil {
			return "", err
		}
		if len(decision.Start)+len(decision.End) > 0 {
			continue // what began has a deadline; what was ended may make the next stage ready, or be the end
		}
		wake, stop := wakeAt(decision.Wake)
		select {
		case end := <-w.ends:
			delete(w.cancels, end.id)
			if err := w.stepEnded(end); err != nil {
				stop()
				return "", err
			}
		case <-canceled:
			w.states.Canceled, canceled = true, nil
			w.note("the build was canceled")
		case <-wake:
		}
		stop()
	}
}

// wakeAt returns a channel that yields at a time; nil for the zero time.
func wakeAt(at time.Time) (<-chan time.Time, func()) {
	if at.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(at))
	return timer.C, func() { timer.Stop() }
}

// carryOut ends, stops and starts the steps that the decision names.
func (w *Worker) carryOut(ctx context.Context, d build.Decision, tree string) error {
	for _, end := range d.End {
		if err := w.end(end.ID, build.Update{Status: end.Status, Reason: end.Reason}); err != nil {
			return err
		}
	}
	for _, stop := range d.Stop {
		if _, done := w.stopped[stop.ID]; !done {
			w.stopped[stop.ID] = stop
			w.cancels[stop.ID](stop)
		}
	}
	for _, id := range d.Start {
		if err := w.start(ctx, id, tree); err != nil {
			return err
		}
	}
	return nil
}

// start begins the attempt at a step. Its context is its own: the end of the
// build's context cancels the build, and the decision that follows the step.
func (w *Worker) start(ctx context.Context, id int, tree string) error {
	attempt := w.states.Steps[id].Attempt + 1
	scheduled := build.Update{Status: build.Scheduling, Attempt: attempt}
	if attempt == 1 {
		scheduled.Reason = w.runsAgain(id)
	}
	if err := w.update(id, scheduled); err != nil {
		return err
	}
	log, err := w.Store.Log(id)
	if err != nil {
		return err
	}
	w.states.Steps[id] = build.StepState{Status: build.Scheduling, StartedAt: time.Now(), Attempt: attempt}
	stepCtx, cancel := context.WithCancelCause(context.WithoutCancel(w.spans.attempt(ctx, *w.Plan.Step(id), attempt)))
	w.cancels[id] = cancel
	run := build.Run{Build: w.ID, Step: w.Plan.Step(id).Clear(), Environ: w.Plan.Environ(id), Attempt: attempt,
		Needed: w.needed(id), Tree: tree, Snapshot: w.packed, Scratch: w.Scratch, Mask: w.mask, Trace: obs.Traceparent(stepCtx)}
	go func() {
		defer cancel(nil)
		exit, err := w.attempt(stepCtx, run, &sink{worker: w, step: id, attempt: attempt, log: log,
			ended: func() error { return context.Cause(stepCtx) }})
		w.ends <- stepEnd{id, exit, err}
	}()
	return nil
}

// attempt replaces variables in files, runs one attempt, and turns a panic of the runner into its error, so that the build still
// ends.
func (w *Worker) attempt(ctx context.Context, run build.Run, s build.Sink) (exit build.Exit, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a bug in the runner: %v\n%s", p, debug.Stack())
		}
	}()
	replaced, err := w.replaceInFiles(ctx, &run, s)
	defer func() { err = errors.Join(err, os.RemoveAll(replaced)) }()
	if err != nil {
		return build.Exit{}, err
	}
	return w.Runner.Run(ctx, run, s)
}

// stepEnded records the end of an attempt, after which another may follow.
func (w *Worker) stepEnded(e stepEnd) error {
	u, f := w.outcome(e)
	delete(w.stopped, e.id)
	state := w.states.Steps[e.id]
	retry := w.Plan.Step(e.id).Retry
	pause, again := retry.After(state.Attempt, f)
	if !again || errors.Is(e.err, results.ErrLogLimit) || errors.Is(e.err, results.ErrArtifactLimit) || errors.Is(e.err, results.ErrDiskFull) {
		return w.end(e.id, u)
	}
	u.Status, u.Reason = build.Backoff, fmt.Sprintf("%s; attempt %d of %d begins in %s", u.Reason, state.Attempt+1, retry.Attempts, pause)
	if err := w.update(e.id, u); err != nil {
		return err
	}
	state.Status, state.RetryAt = build.Backoff, time.Now().Add(pause)
	w.states.Steps[e.id] = state
	return w.noteIn(e.id, u.Reason)
}

// outcome returns how an attempt ended, and its fault.
func (w *Worker) outcome(e stepEnd) (build.Update, build.Fault) {
	stopped, asked := w.stopped[e.id]
	code := e.exit.Code
	u := build.Update{Attempt: w.states.Steps[e.id].Attempt, Status: build.Completed, ExitCode: &code}
	switch {
	case asked:
		u.Status, u.Reason = stopped.Status, stopped.Reason
		if waited, ok := errors.AsType[*build.WaitError](e.err); ok && u.Status == build.TimedOut {
			u.Reason += "; it waited: " + waited.For
		}
		if e.err != nil {
			u.ExitCode = nil
		}
		return u, stopped.Fault
	case errors.Is(e.err, build.ErrNoTests):
		u.Status, u.Reason = build.Failed, e.err.Error()
		return u, build.Failure
	case isStepError(e.err):
		u.Status, u.Reason, u.ExitCode = build.Failed, e.err.Error(), nil
		return u, build.Failure
	case e.err != nil:
		u.Status, u.Reason, u.ExitCode = build.Failed, e.err.Error(), nil
		return u, build.Infrastructure
	case code != 0:
		u.Status, u.Reason = build.Failed, fmt.Sprintf("exit status %d", code)
		if e.exit.Reason != "" {
			u.Reason += ": " + e.exit.Reason
		}
	default:
		u.Reason = e.exit.Reason
	}
	return u, build.FaultOf(nil, code)
}

func isStepError(err error) bool {
	_, ok := errors.AsType[*build.StepError](err)
	return ok
}

// needed lists the artifacts of the steps that a step names in its needs. Of several with one name the last stays, which is noted.
func (w *Worker) needed(id int) (files []build.Needed) {
	from := map[string]string{}
	for _, need := range w.Plan.Step(id).Needs {
		for _, a := range w.Store.Artifacts(need) {
			if a.Kind != build.KindFile && a.Kind != build.KindArchive {
				continue // a file of test results
			}
			if other := from[a.Name]; other != "" {
				// else the step's first status fails too
				_ = w.noteIn(id, fmt.Sprintf("artifact %s of %s is in the place of that of %s", a.Name, w.Plan.Step(need).Path(), other))
			}
			from[a.Name] = w.Plan.Step(need).Path()
			files = append(files, build.Needed{Name: a.Name, Executable: a.Executable, Archive: a.Kind == build.KindArchive,
				Path: w.Store.ArtifactPath(a), SHA256: a.SHA256})
		}
	}
	return files
}

// end records a step's end, on disk first.
func (w *Worker) end(id int, u build.Update) error {
	if err := w.update(id, u); err != nil {
		return err
	}
	state := w.states.Steps[id]
	state.Status, state.EndedAt = u.Status, time.Now()
	if !state.StartedAt.IsZero() {
		w.Metrics.StepEnded(w.Plan.Step(id).Type, string(u.Status), state.EndedAt.Sub(state.StartedAt))
	}
	w.states.Steps[id] = state
	return nil
}

// update records a status and passes it to the observer.
func (w *Worker) update(id int, u build.Update) error {
	u.Timestamp, u.Reason = time.Now(), w.mask.Text(u.Reason)
	stored, err := w.Store.Update(id, u)
	if err != nil {
		return fmt.Errorf("record build %s: %w", w.ID, err)
	}
	w.spans.changed(id, stored)
	w.Observer.Status(id, stored)
	return nil
}

// takeWorkspace makes the tree that all steps copy.
func (w *Worker) takeWorkspace(ctx context.Context) (string, error) {
	tree := w.Scratch + "/tree"
	began := time.Now()
	remarks, err := w.Workspace.Take(ctx, tree)
	remarks = append(remarks, w.Remarks...)
	if err == nil && w.Packer != nil {
		var packed workspace.Packed
		packed, err = w.pack(ctx)
		remarks = append(remarks, packed.Warnings...)
	}
	w.remark(remarks)
	if err != nil {
		return "", fmt.Errorf("take the workspace: %w", err)
	}
	w.note(fmt.Sprintf("workspace taken in %s", time.Since(began).Round(time.Millisecond)))
	return tree, nil
}

// pack packs the workspace into the results.
func (w *Worker) pack(ctx context.Context) (workspace.Packed, error) {
	packed, err := w.Packer.Pack(ctx, w.Store.SnapshotPath())
	if err != nil {
		return packed, err
	}
	w.packed = build.Snapshot{Path: w.Store.SnapshotPath(), SHA256: packed.Digest}
	w.note(fmt.Sprintf("workspace packed: %d files, folders and links, %d bytes compressed", packed.Files, packed.Size))
	return packed, w.Store.DescribeSnapshot(packed.Digest)
}

// mostRemarks bounds the remarks that are noted about a workspace.
const mostRemarks = 100

// remark notes remarks, each once.
func (w *Worker) remark(remarks []string) {
	slices.Sort(remarks)
	remarks = slices.Compact(remarks)
	if more := len(remarks) - mostRemarks; more > 0 {
		remarks = append(remarks[:mostRemarks], fmt.Sprintf("%d more are left out", more))
	}
	for _, remark := range remarks {
		w.note(remark)
		w.Observer.Remark(w.mask.Text(remark))
	}
}

// endEarly records the end of a build none of whose steps could begin.
func (w *Worker) endEarly(ctx context.Context, cause error) (build.Status, error) {
	result, each := build.Failed, build.Skipped
	if ctx.Err() != nil {
		result, each, cause = build.Canceled, build.Canceled, errors.New("the build was canceled")
	}
	w.note(cause.Error())
	for _, step := range w.Plan.Steps {
		if err := w.end(step.ID, build.Update{Status: each, Reason: cause.Error()}); err != nil {
			return "", err
		}
	}
	return result, w.update(0, build.Update{Status: result, Reason: cause.Error()})
}

// abandon ends running steps after the results could not be written.
func (w *Worker) abandon() {
	for _, cancel := range w.cancels {
		cancel(errors.New("the results cannot be written"))
	}
	for range w.cancels {
		<-w.ends
	}
}

// note writes a remark into the build's own log. One that cannot be written is lost: the next
// status will fail too.
func (w *Worker) note(text string) { _ = w.noteIn(0, text) }

// noteIn writes a remark into the log of a step.
func (w *Worker) noteIn(id int, text string) error {
	log, err := w.Store.Log(id)
	if err != nil {
		return err
	}
	return (&sink{worker: w, step: id, log: log}).Note(text)
}

// reason returns the text of the final marker beside the result.
func (w *Worker) reason(result build.Status) string {
	switch result {
	case build.Canceled:
		return "the build was canceled"
	case build.TimedOut:
		return fmt.Sprintf("the build took longer than %s", w.Plan.Timeout)
	case build.Skipped:
		return "no step had to run"
	}
	for _, step := range w.Plan.Steps {
		if w.states.Status(step.ID).Broken() {
			return step.Path() + " failed"
		}
	}
	return ""
}
