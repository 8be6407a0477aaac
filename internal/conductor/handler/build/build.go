// Package build is the handler of actions of kind build: one attempt at
// building a revision from its registered snapshot, or at a build without a deployment.
//
// It decides nothing: a build that failed is a Retry, and the action's policy reports whether there is one. An
// attempt whose result was never recorded is not built again when its results have their final marker. What an
// attempt has reported to the conductor is marked in its results, so that the next one knows it for a new build.
//
// # As a child
//
// It starts this same binary as `waybill run`, which ends with this process, and reads the results folder, which
// is <builds>/<action id>.<attempt>.
//
// # In a worker
//
// With a provisioner, a build is a row of the database with the action's id. The handler creates it with the nonce of
// the worker's token, requests the worker from the provisioner, and waits until an aggregator has stored the build's
// end. The whole request is in the row, the revision and the definition, so a repeated request after a crash gets the
// same worker. The worker outlives this process: an attempt that is given back, or whose conductor died, is
// continued.
//
// # Without a deployment
//
// Such a build always has a worker. Its row was stored with the action, and it is the only build of its action: whatever its end, that is
// the action's. The first attempt stores the commit that the branch is at.
//
// # At another build engine
//
// A build without a deployment may name another build engine. That gets one request to start the build, and reports
// its outcome to the API; the attempt waits for the end in the row. Such a build has no worker, so whatever ends its
// action ends it at once.
package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Name is the handler's name.
const Name = "build"

// Ledger is the part of the log that the handler reads.
type Ledger interface {
	Definition(ctx context.Context, pipeline string, version int) (pipeline.Definition, error)
	Revision(ctx context.Context, pipeline, label string, seq int64) (pipeline.RegisteredRevision, error)
	UploadKey(ctx context.Context) (string, error)
	RegisterArtifact(ctx context.Context, pipeline string, revision int64, a pipeline.RevisionArtifact) error
}

// Blobs is the source of snapshots and the destination of artifacts.
type Blobs interface {
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
	Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error)
	Clear(ctx context.Context, folder string) error
}

// Config configures a Handler. Every field must be set.
type Config struct {
	Builds  string   // folder of the results; the home's builds
	Program []string // argv of this binary, to which run and its flags are appended
	Ledger  Ledger
	Blobs   Blobs
	Workers *Workers
	Log     *slog.Logger
}

// Handler builds revisions.
type Handler struct{ Config }

var _ conductor.Handler = (*Handler)(nil)

// New makes the handler.
func New(c Config) *Handler { return &Handler{c} }

// Parameters are the parameters of a build action. Its Step names the revision and the target.
type Parameters struct {
	Stage string `json:"stage"` // name of the build stage in the definition
}

// Do makes one attempt: build, unless an earlier attempt has, then register the artifacts.
func (h *Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	if id, ok := builds.OfAction(&a.Action); ok {
		done, err := h.alone(ctx, a, id)
		if err != nil {
			return outcome(ctx, err)
		}
		return done
	}
	t, err := h.task(ctx, a)
	if err != nil {
		return outcome(ctx, err)
	}
	attempt := t.asChild
	if h.Workers.Provisioner != nil {
		attempt = t.asWorker
	}
	done, err := attempt(ctx)
	if err != nil {
		return outcome(ctx, err)
	}
	return done
}

// asChild makes the attempt in a child of this process.
func (t *task) asChild(ctx context.Context) (action.Outcome, error) {
	found, err := t.unreported()
	if err == nil && found == nil {
		found, err = t.run(ctx)
	}
	if err != nil {
		return action.Outcome{}, err
	}
	return t.conclude(ctx, folder{found})
}

// asWorker makes the attempt in a worker.
func (t *task) asWorker(ctx context.Context) (action.Outcome, error) {
	found, err := t.inWorker(ctx)
	if err != nil {
		return action.Outcome{}, err
	}
	if found.Status == build.Canceled && !found.CancelRequestedAt.IsZero() { // by a person, who can have the step retried
		t.release(ctx, found.Build)
		t.hasten(ctx, roomAfter)
		return action.Outcome{Kind: action.Fatal, Code: "build_canceled", Error: "the build was canceled", Ref: ref(found)}, found.report(ctx)
	}
	done, err := t.conclude(ctx, found)
	if err == nil {
		t.release(ctx, found.Build)
		t.hasten(ctx, roomAfter)
	}
	return done, err
}

// task is one attempt with all that it needs to know.
type task struct {
	*Handler
	attempt  conductor.Attempt
	stage    pipeline.Stage
	revision pipeline.RegisteredRevision
}

// task reads the definition version and the revision that the action names.
func (h *Handler) task(ctx context.Context, a conductor.Attempt) (*task, error) {
	step := a.Action.Step
	if step == nil {
		return nil, fatal("no_step", "a build action belongs to a deployment's step, and this one names none")
	}
	var p Parameters
	if err := json.Unmarshal(a.Action.Parameters, &p); err != nil {
		return nil, fatal(string(fault.InvalidParameters), "read the parameters: %v", err)
	}
	definition, err := h.Ledger.Definition(ctx, step.Pipeline, step.Version)
	if err != nil {
		return nil, fmt.Errorf("read definition %d of %s: %w", step.Version, step.Pipeline, err)
	}
	t := &task{Handler: h, attempt: a}
	if t.stage, err = stageNamed(definition, p.Stage); err != nil {
		return nil, err
	}
	if t.revision, err = h.Ledger.Revision(ctx, step.Pipeline, "", step.Revision); err != nil {
		return nil, fmt.Errorf("read revision %d of %s: %w", step.Revision, step.Pipeline, err)
	}
	if t.revision.Snapshot == "" {
		return nil, fatal("no_snapshot",
			"revision %s was registered without its files and cannot be built; ship it from its folder, or register its artifacts", t.revision.Label)
	}
	return t, nil
}

// stageNamed finds a build stage of a definition.
func stageNamed(d pipeline.Definition, name string) (pipeline.Stage, error) {
	for _, s := range d.Stages {
		if s.Name == name && s.Build != nil {
			return s, nil
		}
	}
	return pipeline.Stage{}, fatal("no_stage", "the definition has no build stage %q", name)
}

// end is an error that is an outcome of its own.
type end struct{ action.Outcome }

func (e end) Error() string { return e.Outcome.Error }

// fatal returns an error that no further attempt can fix.
func fatal(code, format string, args ...any) error {
	return end{action.Outcome{Kind: action.Fatal, Code: code, Error: fmt.Sprintf(format, args...)}}
}

// tookTooLong reports whether a limit of the attempt's time ended its context.
func tookTooLong(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, conductor.ErrAttemptTimeout) || errors.Is(cause, conductor.ErrDeadline)
}

// outcome converts an error to an outcome. The cause with which ctx ended counts more than an error
// that followed from it.
func outcome(ctx context.Context, err error) action.Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, conductor.ErrCanceled):
		return action.Outcome{Kind: action.Stopped, Code: action.CodeCanceled, Error: "the build was canceled"}
	case errors.Is(cause, conductor.ErrShutdown), errors.Is(cause, conductor.ErrLeaseLost):
		return action.Outcome{Kind: action.GivenBack, Error: cause.Error()}
	case tookTooLong(ctx):
		return action.Outcome{Kind: action.Retry, Code: action.CodeAttemptTimeout, Error: cause.Error()}
	}
	if e, ok := errors.AsType[end](err); ok {
		return e.Outcome
	}
	if at, ok := fault.RetryAt(err); ok {
		return action.Outcome{Kind: action.RetryAfter, Code: string(fault.CodeOf(err)), Error: err.Error(), At: at}
	}
	switch code := fault.CodeOf(err); {
	case fault.IsPermanent(err), code == fault.NotFound, code == fault.Conflict, code == fault.Refused, code == fault.Invalid:
		return action.Outcome{Kind: action.Fatal, Code: string(code), Error: err.Error()}
	case code == fault.LedgerUnavailable:
		return action.Outcome{Kind: action.Throttle, Code: string(code), Error: err.Error(), At: time.Now().Add(time.Second)}
	default:
		return action.Outcome{Kind: action.Retry, Code: string(code), Error: err.Error()}
	}
}
