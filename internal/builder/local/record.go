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

// record runs a build on results of its own, and serves them if that is asked for. Of config, it is given the runner or the
// fault. Without a result the build could not be recorded.
func (b *Builder) record(ctx context.Context, j job, view worker.View, config worker.Config) (build.Status, error) {
	var err error
	if j.token, err = j.flags.Serve.token(b.Path); err != nil {
		return "", err
	}
	store, err := results.Create(j.place.dir, j.flags.MaxStepLog)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err).WithHint("name another folder with --results-dir")
	}
	described := results.Build{ID: j.id, Plan: j.plan, Source: j.source.name, Branch: b.given(j.facts, "GIT_BRANCH"),
		Commit:  b.given(j.facts, "GIT_COMMIT"),
		Subject: b.given(j.facts, "GIT_COMMIT_SUBJECT"),
		Runner:  j.runner, Version: b.Version, StartedAt: time.Now().UTC(), Given: j.given, RerunOf: j.flags.RerunOf}
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
	served, err := b.serveBuild(ctx, j, store, metrics)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	view.Begin()
	config.ID, config.Plan, config.Observer, config.Store = j.id, j.plan, view, store
	config.Workspace, config.Remarks, config.Scratch = j.source.workspace(), j.source.notes, j.source.scratch
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

// given describes a folder by its repository, and a snapshot by the values that the caller of the build passed.
func (b *Builder) given(facts map[string]string, name string) string {
	return cmp.Or(facts[name], b.Environment("WHARF_VAR_"+name))
}
