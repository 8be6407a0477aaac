package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// How often --watch looks at the folder: every watchEvery, and never for more than a part of watchPart of the time.
const (
	watchEvery = 500 * time.Millisecond
	watchPart  = 10
)

// checkWatch returns an error for flags of --watch that belong to one build alone, or let builds change the folder.
func (f runFlags) checkWatch() error {
	if f.inPlace || f.workspace != "" || f.resume != "" || f.dryRun.on() || f.resultsDir != "" || f.buildID != "" || f.launch.on() || f.serve.on || f.shell {
		return fault.New(fault.Invalid, "--watch excludes --in-place, --workspace, --resume, --dry-run, --results-dir, --build-id, --launch, --serve and --shell")
	}
	return nil
}

// watchBuilds runs a build, and again each time after files of its folder have changed, until ctx ends. What ends a build is printed and
// does not end the command.
func (a *app) watchBuilds(ctx context.Context, arguments []string, flags runFlags, run func(context.Context) error) error {
	ctx, stop := lifecycle.UntilUnread(ctx)
	defer stop()
	if err := flags.checkWatch(); err != nil {
		return err
	}
	look, err := a.lookAt(arguments, flags)
	if err != nil {
		return err
	}
	for {
		before, err := look(ctx)
		if err != nil {
			return err
		}
		err = run(ctx)
		if ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if err != nil {
			a.report(err)
		}
		fmt.Fprintln(a.err, "waits for a change; Ctrl-C ends it")
		if err := awaitChange(ctx, before, look); err != nil {
			return err
		}
	}
}

// lookAt returns a function that returns the stamp of the files that a build of the folder gets; "" while some are removed.
func (a *app) lookAt(arguments []string, flags runFlags) (func(context.Context) (string, error), error) {
	root := a.Dir
	if len(arguments) > 0 {
		root = a.Path(arguments[0])
	}
	given := root
	root, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, fault.New(fault.Invalid, "folder %s not found", given)
	}
	source := &buildSource{root: root, inPlace: true} // without advice about files that could be left out
	if a.Flags.Home != "" {
		source.skip = []string{a.Path(a.Flags.Home)}
	}
	return func(ctx context.Context) (string, error) {
		if err := source.choose(ctx, flags); err != nil {
			return "", err
		}
		stamp, err := workspace.Stamp(root, source.selected)
		if errors.Is(err, fs.ErrNotExist) {
			if _, gone := os.Stat(root); gone == nil {
				return "", nil
			}
		}
		if err != nil {
			return "", fault.Wrap(fault.Unavailable, err)
		}
		return stamp, nil
	}, nil
}

// awaitChange returns once looks differ from the one before, and the last two do not differ: nothing more is written then.
func awaitChange(ctx context.Context, before string, look func(context.Context) (string, error)) error {
	last := before
	for {
		began := time.Now()
		now, err := look(ctx)
		if ctx.Err() == nil && err != nil {
			return err
		}
		if now != before && now == last {
			return nil
		}
		last = now
		if !loop.Pause(ctx, max(watchEvery, watchPart*time.Since(began))) {
			return context.Cause(ctx)
		}
	}
}
