package build

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

// checkWatch returns an error for flags of --watch that belong to one build alone, or let builds change the folder.
func checkWatch(f local.Options) error {
	if f.InPlace || f.Workspace != "" || f.Resume != "" || f.DryRun.On() || f.ResultsDir != "" || f.BuildID != "" ||
		f.Launch.On() || f.Serve.On || f.Shell {
		return fault.New(fault.Invalid,
			"--watch excludes --in-place, --workspace, --resume, --dry-run, --results-dir, --build-id, --launch, --serve and --shell")
	}
	return nil
}

// watch runs the build, and again each time after files of its folder have changed, until ctx ends. The reason of a
// build's end is printed and does not end the command.
func (r *localRun) watch(ctx context.Context) error {
	ctx, stop := lifecycle.UntilUnread(ctx)
	defer stop()
	if err := checkWatch(r.flags); err != nil {
		return err
	}
	look, err := builder(r.app).Stamps(r.folder, r.flags)
	if err != nil {
		return err
	}
	for {
		before, err := look(ctx)
		if err != nil {
			return err
		}
		err = r.once(ctx)
		if ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if err != nil {
			r.app.Report(err)
		}
		fmt.Fprintln(r.app.Err, "waits for a change; Ctrl-C ends it")
		if err := local.AwaitChange(ctx, before, look); err != nil {
			return err
		}
	}
}
