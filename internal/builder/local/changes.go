package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// How often --watch looks at the folder: every watchEvery, and never for more than a part of watchPart of the time.
const (
	watchEvery = 500 * time.Millisecond
	watchPart  = 10
)

// Stamps returns a function that returns the stamp of the files that a build of the folder gets; "" while some are removed.
func (b *Builder) Stamps(folder string, flags Options) (func(context.Context) (string, error), error) {
	root := b.Dir
	if folder != "" {
		root = b.Path(folder)
	}
	given := root
	root, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, fault.New(fault.Invalid, "folder %s not found", given)
	}
	source := &buildSource{root: root, inPlace: true} // without advice about files that could be left out
	if b.Home != "" {
		source.skip = []string{b.Path(b.Home)}
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

// AwaitChange returns once looks differ from the one before, and the last two do not differ: nothing more is written then.
func AwaitChange(ctx context.Context, before string, look func(context.Context) (string, error)) error {
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
