package local

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/fault"
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
	token  string // token of the build's API

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
