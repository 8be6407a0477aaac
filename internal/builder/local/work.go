package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// job is one build that is about to run.
type job struct {
	id     string
	place  resultsPlace
	plan   *build.Plan
	source *buildSource
	facts  map[string]string
	flags  Options
	given  results.Given
	runner string // its name; "": none could be made
	inbox  *inbox // through which the files came; nil: not through the worker API

	missing fault.Problems // secrets without a value
	resumes *resumption    // nil: no build
}

// ended is the result of a build.
type ended struct {
	ID     string
	Status build.Status // "": it did not run, or could not be recorded
}

// Run plans a build and runs it. Results that are served have the errors of a build without a plan too.
func (b *Builder) Run(ctx context.Context, folder string, flags Options) (e ended, err error) {
	j, end, err := b.prepare(ctx, folder, flags)
	if err != nil {
		return ended{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	return b.work(ctx, j)
}

// prepare plans a build. The plan's end has to be called, unless there is an error.
func (b *Builder) prepare(ctx context.Context, folder string, flags Options) (j job, end func() error, err error) {
	if err := b.readLaunch(folder, &flags); err != nil {
		return job{}, nil, err
	}
	if err := flags.check(); err != nil {
		return job{}, nil, err
	}
	source, err := b.buildSource(ctx, folder, flags)
	if err != nil {
		return job{}, nil, err
	}
	in, err := b.openInbox(ctx, source, flags)
	if err != nil {
		source.close()
		return job{}, nil, err
	}
	end = func() error {
		defer source.close()
		return in.close()
	}
	j, err = b.planBuild(ctx, source, flags, in)
	if err != nil && flags.Serve.On && !flags.DryRun.On() {
		err = b.workUnplanned(ctx, job{source: source, flags: flags, inbox: in}, err)
	}
	if err != nil {
		return job{}, nil, errors.Join(err, end())
	}
	j.inbox = in
	return j, end, nil
}

// work runs a plan and shows it.
func (b *Builder) work(ctx context.Context, j job) (e ended, err error) {
	runner, err := b.runnerOf(ctx, j)
	if err == nil {
		defer func() { err = errors.Join(err, runner.close()) }()
		problems := append(j.missing, runner.Check(ctx, j.plan.Steps)...)
		problems.Sort()
		b.Problems(problems.Warnings())
		err = problems.Err()
	}
	if err != nil {
		if j.flags.Serve.On {
			return ended{}, b.failServed(ctx, j, err)
		}
		return ended{}, errors.Join(err, j.place.giveBack(j.id))
	}
	j.runner = runner.name
	result, err := b.record(ctx, j, b.View(j.head(runner.word)), worker.Config{Runner: runner.Runner})
	if result != "" && j.flags.Shell && ctx.Err() == nil {
		select {
		case kept := <-runner.kept:
			err = errors.Join(err, b.Shell(ctx, kept))
		default: // no step has failed
		}
	}
	return ended{j.id, result}, err
}

// given describes a folder by its repository, and a snapshot by what the caller of the build passed.
func (b *Builder) given(facts map[string]string, name string) string {
	return cmp.Or(facts[name], b.Environment("WHARF_VAR_"+name))
}

// record runs a build on results of its own, and serves them if that is asked for. Of config, it is given the runner or the
// fault. Without a result the build could not be recorded.
func (b *Builder) record(ctx context.Context, j job, view worker.View, config worker.Config) (build.Status, error) {
	token, err := j.flags.Serve.token(b.Path)
	if err != nil {
		return "", err
	}
	store, err := results.Create(j.place.dir, j.flags.MaxStepLog)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err).WithHint("name another folder with --results-dir")
	}
	described := results.Build{
		ID:        j.id,
		Plan:      j.plan,
		Source:    j.source.name,
		Branch:    b.given(j.facts, "GIT_BRANCH"),
		Commit:    b.given(j.facts, "GIT_COMMIT"),
		Subject:   b.given(j.facts, "GIT_COMMIT_SUBJECT"),
		Runner:    j.runner,
		Version:   b.Version,
		StartedAt: time.Now().UTC(),
		Given:     j.given,
		RerunOf:   j.flags.RerunOf,
	}
	if self, err := command.InstanceOf(os.Getpid()); err == nil && !j.flags.Launch.On() { // else it is canceled where it runs
		described.Process = results.Process(self)
	}
	if j.resumes != nil {
		described.RerunOf, config.Resumes = j.resumes.before.ID, &j.resumes.Resumed
	}
	if err := store.Describe(described); err != nil {
		return "", errors.Join(err, store.Close())
	}
	metrics := obs.NewRegistry()
	served, err := b.serveBuild(ctx, j, store, token, metrics)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	view.Begin()
	config.ID, config.Plan, config.Observer, config.Workspace, config.Remarks, config.Store, config.Scratch = j.id, j.plan, view, j.source.workspace(), j.source.notes, store, j.source.scratch
	if j.flags.KeepWorkspace {
		config.Packer = j.source.packer()
	}
	config.Metrics = obs.NewWorker(metrics)
	tracing, flush := b.Trace(ctx, b.errorLog())
	defer func() { _ = flush(context.WithoutCancel(ctx)) }() // a collector that does not answer loses the last spans
	config.Tracing, config.Trace = tracing, cmp.Or(j.flags.Launch.Trace, b.Environment("TRACEPARENT"))
	result, err := worker.New(config).Run(ctx)
	view.End(result)
	if err := errors.Join(err, served.stay(ctx, err), store.Close()); err != nil {
		return "", fault.Wrap(fault.Unavailable, err).WithHint("look at the disk that holds %s", j.place.dir)
	}
	if j.place.root != (results.Root{}) {
		if err := j.place.root.Prune(time.Now()); err != nil {
			fmt.Fprintf(b.Err, "waybill: old builds cannot be removed: %v\n", err)
		}
	}
	return result, nil
}
