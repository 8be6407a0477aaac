package attempt

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Files puts an attempt's own files into its workspace, beside the files of the build, and keeps its results. A
// runner that runs steps elsewhere uses it on folders of this computer: on a copy of the workspace before, and on
// copies of the files after.
type Files struct {
	Run   build.Run
	Shelf *buildcache.Shelf // nil: no caches are used
	Sink  build.Sink

	repo   string
	caches []cached
	tests  *watchedTests
}

// Prepare puts the artifacts that the step needs and the files of earlier builds into the workspace repo, and remembers
// the files of test results that are there. After a success the caller closes f.
func (f *Files) Prepare(ctx context.Context, repo string) (err error) {
	f.repo = repo
	if err := placeNeeded(ctx, f.Run.Needed, repo); err != nil {
		return err
	}
	if err := f.restoreCaches(ctx); err != nil {
		return err
	}
	f.tests, err = watchTests(f.Run.Step.Tests, repo)
	return err
}

// Stage does the same for a workspace that is sent elsewhere: Run.Tree itself, or a copy in dir if anything is put into it.
func (f *Files) Stage(ctx context.Context, dir string) error {
	if len(f.Run.Needed) == 0 && (f.Shelf == nil || len(f.Run.Step.Cache) == 0) {
		return f.Prepare(ctx, f.Run.Tree)
	}
	if _, err := workspace.Copy(ctx, f.Run.Tree, dir, workspace.Selection{}); err != nil {
		return err
	}
	return f.Prepare(ctx, dir)
}

// Repo returns the folder that has the workspace.
func (f *Files) Repo() string { return f.repo }

// Close releases the workspace.
func (f *Files) Close() { f.tests.close() }

// Wanted selects the kept files of a workspace.
type Wanted struct {
	Globs []string // patterns of artifacts and test results
	Parts []string // parts of caches: see build.CacheRule
}

// In reports whether a file or folder, by slash-separated path, is wanted.
func (w Wanted) In(file string) bool {
	return slices.ContainsFunc(w.Globs, func(glob string) bool { return build.MatchGlob(glob, file) }) ||
		build.CacheRule{Paths: w.Parts}.In(file)
}

// Wanted returns the patterns that Keep and KeepCopies search for after an attempt that ended with an exit status;
// ctx is that of the attempt.
func (f *Files) Wanted(ctx context.Context, exit build.Exit) (wanted Wanted) {
	if f.again(ctx, exit) {
		return wanted
	}
	for _, rule := range f.Run.Step.Artifacts {
		wanted.Globs = append(wanted.Globs, rule.Glob())
	}
	wanted.Globs = append(wanted.Globs, f.Run.Step.Tests.Globs()...)
	for _, c := range f.caches {
		if !c.hit && exit.Code == 0 && ctx.Err() == nil {
			wanted.Parts = append(wanted.Parts, c.Paths...)
		}
	}
	return wanted
}

// again reports whether another attempt follows: the files of the last one are kept.
func (f *Files) again(ctx context.Context, exit build.Exit) bool {
	_, again := f.Run.Step.Retry.After(f.Run.Attempt, build.FaultOf(context.Cause(ctx), exit.Code))
	return again
}

// Keep keeps caches, artifacts and test results of the workspace, when no other attempt follows; ctx is that of the
// attempt, after whose end files are kept too. It returns the exit, which also describes the caches.
func (f *Files) Keep(ctx context.Context, exit build.Exit) (build.Exit, error) {
	if f.again(ctx, exit) {
		return exit, nil
	}
	return f.keep(ctx, exit, f.repo)
}

// Copies returns the places of the copies of an attempt's files.
type Copies struct {
	Repo   string // those of artifacts and test results
	Caches string // those of caches
	Named  string // the workspace as the step's programs name it
}

// KeepCopies does the same with files that were copied from where the step has worked, with times in whole seconds.
func (f *Files) KeepCopies(ctx context.Context, exit build.Exit, of Copies) (build.Exit, error) {
	if f.again(ctx, exit) {
		return exit, nil
	}
	if err := f.tests.move(of.Repo, of.Named); err != nil {
		return exit, err
	}
	return f.keep(ctx, exit, of.Caches)
}

func (f *Files) keep(ctx context.Context, exit build.Exit, caches string) (build.Exit, error) {
	succeeded := exit.Code == 0 && ctx.Err() == nil
	if succeeded {
		if err := f.saveCaches(ctx, caches); err != nil {
			return exit, err
		}
		exit.Reason = cmp.Or(exit.Reason, cacheText(f.caches))
	}
	return exit, f.keepOutputs(context.WithoutCancel(ctx), succeeded)
}

// CountingReader adds to N the bytes that are read, so that a runner knows how far a copy of files came.
type CountingReader struct {
	io.ReadCloser
	N *int64
}

// Read reads and counts.
func (r CountingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	*r.N += int64(n)
	return n, err
}
