package local

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
)

// workUnplanned runs a build that has no plan: a program that reads the results learns the same as a person here.
func (b *Builder) workUnplanned(ctx context.Context, j job, cause error) (err error) {
	if j.id, j.place, err = b.buildPlace(j.flags); err != nil {
		return errors.Join(cause, err)
	}
	j.plan = &build.Plan{
		File:        j.flags.File,
		Environment: j.flags.Environment,
		Stages:      []build.PlanStage{},
		Steps:       []build.PlanStep{},
		Timeout:     j.flags.Timeout,
	}
	return b.failServed(ctx, j, cause)
}

// failServed records and serves a build none of whose steps can run, and returns the cause.
func (b *Builder) failServed(ctx context.Context, j job, cause error) error {
	_, err := b.record(ctx, j, unwatched{}, worker.Config{Fault: cause})
	return errors.Join(cause, err)
}

// unwatched shows nothing of a build.
type unwatched struct{}

func (unwatched) Begin()                       {}
func (unwatched) End(build.Status)             {}
func (unwatched) Status(int, build.Update)     {}
func (unwatched) Output(int, []build.Entry)    {}
func (unwatched) Artifact(int, build.Artifact) {}
func (unwatched) Tests(int, []build.TestFile)  {}
func (unwatched) Remark(string)                {}
