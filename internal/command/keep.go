package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/build"
)

// keepFailed moves the workspace of an attempt that failed into a folder of its own in KeepFailed, unless another attempt follows, and notes
// where it is. fault is the runner's own.
func (r *Runner) keepFailed(ctx context.Context, run build.Run, repo string, exit build.Exit, fault error, sink build.Sink) error {
	why := build.FaultOf(context.Cause(ctx), exit.Code)
	if why == "" && fault != nil && ctx.Err() == nil { // such as required test results that are missing
		why = build.Failure
	}
	if _, again := run.Step.Retry.After(run.Attempt, why); why == "" || again {
		return nil
	}
	if _, err := os.Stat(repo); err != nil {
		return nil //nolint:nilerr // the attempt ended before it had a workspace
	}
	if err := os.MkdirAll(r.KeepFailed, 0o700); err != nil {
		return fmt.Errorf("keep the step's folder: %w", err)
	}
	own, err := os.MkdirTemp(r.KeepFailed, fmt.Sprintf("%s-%d-", run.Build, run.Step.ID))
	if err != nil {
		return fmt.Errorf("keep the step's folder: %w", err)
	}
	kept := filepath.Join(own, filepath.Base(repo))
	if err := os.Rename(repo, kept); err != nil {
		return fmt.Errorf("keep the step's folder: %w", err)
	}
	return sink.Note("the step's folder is kept: " + kept)
}
