package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/cli/show"
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
	flags  runFlags
	given  results.Given
	runner string // its name; "": none could be made
	inbox  *inbox // through which the files came; nil: not through the worker API

	missing fault.Problems // secrets without a value
	resumes *resumption    // nil: no build
}

// work runs a plan and shows it.
func (a *app) work(ctx context.Context, j job) (err error) {
	runner, err := a.runnerOf(ctx, j)
	if err == nil {
		defer func() { err = errors.Join(err, runner.close()) }()
		problems := append(j.missing, runner.Check(ctx, j.plan.Steps)...)
		problems.Sort()
		a.printProblems(problems.Warnings())
		err = problems.Err()
	}
	if err != nil {
		if j.flags.serve.on {
			return a.failServed(ctx, j, err)
		}
		return errors.Join(err, j.place.giveBack(j.id))
	}
	j.runner = runner.name
	head := show.BuildHead{ID: j.id, Name: a.buildName(j), Label: j.source.label, Results: j.place.dir, Log: a.readLogWith(j), Resume: a.resumeWith(j), Plan: j.plan, Runner: runner.word, Advice: j.source.advice}
	if j.resumes != nil {
		head.Resumes = j.resumes.text
	}
	view := show.NewBuildView(a.printer(), head)
	result, err := a.record(ctx, j, view, worker.Config{Runner: runner.Runner})
	if result == "" {
		return err
	}
	if j.flags.shell && ctx.Err() == nil {
		err = errors.Join(err, a.openShell(ctx, runner.kept))
	}
	if result == build.Canceled && ctx.Err() != nil { // by a signal, which has a status of its own
		return errors.Join(shown{fault.New(fault.Interrupted, "build %s was canceled", j.id)}, err)
	}
	return errors.Join(outcomeOf(j.id, result), err)
}

// given describes a folder by its repository, and a snapshot by what the caller of the build passed.
func (a *app) given(facts map[string]string, name string) string {
	return cmp.Or(facts[name], a.Environment("WHARF_VAR_"+name))
}

// record runs a build on results of its own, and serves them if that is asked for. Of config, it is given the runner or the
// fault. Without a result the build could not be recorded.
func (a *app) record(ctx context.Context, j job, view show.BuildView, config worker.Config) (build.Status, error) {
	token, err := j.flags.serve.token(a.Path)
	if err != nil {
		return "", err
	}
	store, err := results.Create(j.place.dir, j.flags.maxStepLog)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err).WithHint("name another folder with --results-dir")
	}
	described := results.Build{ID: j.id, Plan: j.plan, Source: j.source.name, Branch: a.given(j.facts, "GIT_BRANCH"), Commit: a.given(j.facts, "GIT_COMMIT"),
		Subject: a.given(j.facts, "GIT_COMMIT_SUBJECT"),
		Runner:  j.runner, Version: a.Version, StartedAt: time.Now().UTC(), Given: j.given, RerunOf: j.flags.rerunOf}
	if self, err := command.InstanceOf(os.Getpid()); err == nil && !j.flags.launch.on() { // else it is canceled where it runs
		described.Process = results.Process(self)
	}
	if j.resumes != nil {
		described.RerunOf, config.Resumes = j.resumes.before.ID, &j.resumes.Resumed
	}
	if err := store.Describe(described); err != nil {
		return "", errors.Join(err, store.Close())
	}
	metrics := obs.NewRegistry()
	served, err := a.serveBuild(ctx, j, store, token, metrics)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	view.Begin()
	config.ID, config.Plan, config.Observer, config.Workspace, config.Remarks, config.Store, config.Scratch = j.id, j.plan, view, j.source.workspace(), j.source.notes, store, j.source.scratch
	if j.flags.keepWorkspace {
		config.Packer = j.source.packer()
	}
	config.Metrics = obs.NewWorker(metrics)
	tracing := a.traceBuild(ctx)
	defer func() { _ = tracing.Close(context.WithoutCancel(ctx)) }() // a collector that does not answer loses the last spans
	config.Tracing, config.Trace = tracing, cmp.Or(j.flags.launch.Trace, a.Environment("TRACEPARENT"))
	result, err := worker.New(config).Run(ctx)
	view.End(result)
	if err := errors.Join(err, served.stay(ctx, err), store.Close()); err != nil {
		return "", fault.Wrap(fault.Unavailable, err).WithHint("look at the disk that holds %s", j.place.dir)
	}
	if j.place.root != (results.Root{}) {
		if err := j.place.root.Prune(time.Now()); err != nil {
			fmt.Fprintf(a.err, "waybill: old builds cannot be removed: %v\n", err)
		}
	}
	return result, nil
}

// outcomeOf returns the error for the end of a build, which has been printed.
func outcomeOf(id string, result build.Status) error {
	switch result {
	case build.Completed, build.Skipped:
		return nil
	case build.Canceled:
		return shown{fault.New(fault.Canceled, "build %s was canceled", id)}
	}
	return shown{fault.New(fault.Failed, "build %s failed", id)}
}
