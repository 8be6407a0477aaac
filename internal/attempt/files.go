package attempt

import (
	"context"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
)

// Files is what one attempt at a step gets into its workspace beside the files of the build, and what is kept of it. A runner
// that runs steps elsewhere uses it on folders of this computer: on a copy of the workspace before, and on copies of the files after.
type Files struct {
	run    build.Run
	shelf  *buildcache.Shelf
	caches []Cached
	tests  *Tests
}

// PrepareFiles puts the artifacts that the step needs and what earlier builds left into the workspace repo, and remembers the files of
// test results that are there. Without a shelf no caches are used. The caller closes the result.
func PrepareFiles(ctx context.Context, run build.Run, shelf *buildcache.Shelf, repo string, sink build.Sink) (*Files, error) {
	f := &Files{run: run, shelf: shelf}
	if err := Place(ctx, run.Needed, repo); err != nil {
		return nil, err
	}
	rules := run.Step.Cache
	if shelf == nil {
		rules = nil
	}
	var err error
	if f.caches, err = RestoreCaches(ctx, shelf, rules, repo, sink); err != nil {
		return nil, err
	}
	if f.tests, err = WatchTests(run.Step.Tests, repo); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close releases the workspace.
func (f *Files) Close() { f.tests.Close() }

// Wanted says which files of a workspace Keep looks for.
type Wanted struct {
	Globs []string // of artifacts and test results
	Parts []string // of caches: see build.CacheRule
}

// Wanted returns what Keep looks for after an attempt that ended with an exit status; ctx is that of the attempt.
func (f *Files) Wanted(ctx context.Context, exit build.Exit) (wanted Wanted) {
	if f.again(ctx, exit) {
		return wanted
	}
	for _, rule := range f.run.Step.Artifacts {
		wanted.Globs = append(wanted.Globs, rule.Path)
	}
	wanted.Globs = append(wanted.Globs, f.run.Step.Tests.Globs()...)
	for _, c := range f.caches {
		if !c.hit && exit.Code == 0 && ctx.Err() == nil {
			wanted.Parts = append(wanted.Parts, c.Paths...)
		}
	}
	return wanted
}

// again reports whether another attempt follows: the files of the last one are kept.
func (f *Files) again(ctx context.Context, exit build.Exit) bool {
	_, again := f.run.Step.Retry.After(f.run.Attempt, build.FaultOf(context.Cause(ctx), exit.Code))
	return again
}

// Kept says where the files of an attempt are.
type Kept struct {
	Repo   string // those of artifacts and test results
	Caches string // those of caches
	Named  string // the workspace as the step's programs name it
}

// Keep keeps caches, artifacts and test results, when no other attempt follows.
func (f *Files) Keep(ctx context.Context, exit build.Exit, at Kept, sink build.Sink) error {
	if f.again(ctx, exit) {
		return nil
	}
	succeeded := exit.Code == 0 && ctx.Err() == nil
	if succeeded {
		if err := SaveCaches(ctx, f.shelf, f.caches, at.Caches, sink); err != nil {
			return err
		}
	}
	if err := f.tests.Move(at.Repo, at.Named); err != nil {
		return err
	}
	return Keep(context.WithoutCancel(ctx), f.run.Step, f.tests, succeeded, sink)
}
