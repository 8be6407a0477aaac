package local

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// buildSource is the source of a build: a folder, or a snapshot that has been unpacked.
type buildSource struct {
	name     string   // name for people
	root     string   // where the files can be read now
	scratch  string   // the worker's own folder
	unpacked bool     // root is scratch/tree already, and not a repository
	taken    bool     // root is scratch/tree already, as a clone
	whole    string   // what links of received files may lead to; "": root
	received bool     // whether it came from a provisioner: nothing above root belongs to the build
	inPlace  bool     // the steps work in root
	skip     []string // folders that are not part of the workspace, full paths
	selected workspace.Selection
	advice   string   // about what could be left out; "": none
	notes    []string // about what the files lack
	origin   string   // URL from which the repository was cloned; "": none
	label    string   // shop @ 3f9c2ab, changed files included
}

// buildSource finds the folder, or unpacks the snapshot.
func (b *Builder) buildSource(ctx context.Context, named string, flags Options) (*buildSource, error) {
	s := &buildSource{root: b.Dir, inPlace: flags.InPlace}
	if named != "" {
		s.root = b.Path(named)
	}
	if info, err := os.Stat(s.root); err != nil || !info.IsDir() {
		return nil, fault.New(fault.Invalid, "folder %s not found", s.root)
	}
	s.name = s.root
	if link, err := os.Lstat(s.root); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		if s.root, err = filepath.EvalSymlinks(s.root); err != nil { // what walks through a folder does not follow a link to it
			return nil, fault.New(fault.Invalid, "folder %s: %w", s.name, err)
		}
	}
	own, err := results.Temporary()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err).WithHint("set TMPDIR to a folder of your own")
	}
	scratch, err := workspace.Scratch(filepath.Join(own, "wharf-cmd", "build"))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err).WithHint("set TMPDIR to a folder with room for copies of the workspace")
	}
	s.scratch = scratch
	for _, own := range []string{scratch, flags.ResultsDir, b.Home} {
		if own != "" {
			s.skip = append(s.skip, b.Path(own))
		}
	}
	if flags.Workspace == "" {
		if err := s.choose(ctx, flags); err != nil {
			return nil, errors.Join(err, workspace.Remove(scratch))
		}
		return s, nil
	}
	s.name, s.root, s.unpacked = b.snapshotName(flags.Workspace), filepath.Join(scratch, "tree"), true
	if _, err := (worker.Snapshot{Path: b.Path(flags.Workspace)}).Take(ctx, s.root); err != nil {
		return nil, errors.Join(fault.Wrap(fault.Unavailable, err), workspace.Remove(scratch))
	}
	return s, nil
}

// snapshotName returns the revision that a deployment builds, which its handler passes in, else the snapshot's path.
func (b *Builder) snapshotName(path string) string {
	name, revision := b.Environment("WHARF_VAR_REPO_NAME"), b.Environment("WHARF_VAR_WAYBILL_REVISION")
	if name == "" || revision == "" {
		return path
	}
	return name + " " + revision
}

// shown returns the name of a file in the source as messages have it: from the working directory, or as in the snapshot.
func (s *buildSource) shown(b *Builder, name string) string {
	if s.unpacked || s.received {
		return name
	}
	return b.Shorten(filepath.Join(s.root, name))
}

// workspace returns the worker's workspace.
func (s *buildSource) workspace() worker.Workspace {
	if s.unpacked || s.taken || s.inPlace {
		return worker.Taken{}
	}
	return worker.Folder{Root: s.root, Selection: s.selected}
}

// packer returns a packer of the same files into the results.
func (s *buildSource) packer() worker.Packer {
	if s.unpacked || s.inPlace {
		return worker.Folder{Root: s.root, Selection: s.selected}
	}
	return worker.Folder{Root: filepath.Join(s.scratch, "tree")} // the copy, since the folder may change in the meantime
}

// manyIgnored is the number of bytes of ignored files above which a build suggests to leave them out.
const manyIgnored = 50 << 20

// choose sets which files of the folder the steps get.
func (s *buildSource) choose(ctx context.Context, flags Options) error {
	s.selected.Skip = s.skip
	folder := git.Open(s.root, s.skip...)
	switch {
	case flags.TrackedOnly:
		files, err := folder.Tracked(ctx)
		if err != nil {
			return fault.New(fault.Invalid, "--tracked-only: %w", err)
		}
		s.selected.Only = setOf(files)
	case flags.NoIgnored:
		paths, err := folder.IgnoredPaths(ctx)
		if err != nil {
			return fault.New(fault.Invalid, "--no-ignored: %w", err)
		}
		s.selected.Leave = setOf(paths)
	case !s.inPlace && !flags.DryRun.On():
		paths, err := folder.IgnoredPaths(ctx)
		if err == nil && largerThan(s.root, paths, manyIgnored) {
			s.advice = "files that git ignores come to more than 50 MiB, and each step copies them; to leave them out: --no-ignored"
		}
	}
	return nil
}

func setOf(paths []string) map[string]bool {
	set := make(map[string]bool, len(paths))
	for _, path := range paths {
		set[path] = true
	}
	return set
}

// largerThan reports whether the files at and below slash-separated paths of a folder come to more than so many bytes, as far as it looks:
// at mostLooked files.
func largerThan(root string, paths []string, limit int64) bool {
	size, looked := int64(0), 0
	for _, path := range paths {
		_ = filepath.WalkDir(filepath.Join(root, filepath.FromSlash(path)), func(_ string, d fs.DirEntry, err error) error {
			looked++
			switch {
			case size > limit || looked > mostLooked:
				return fs.SkipAll
			case err == nil && d.IsDir() && d.Name() == workspace.Home:
				return fs.SkipDir
			case err != nil || !d.Type().IsRegular():
				return nil // what cannot be read is found when it is copied
			}
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
			return nil
		})
	}
	return size > limit
}

// claim keeps other builds from working in the same folder until this process ends.
func (s *buildSource) claim() error {
	folder, err := unix.Open(s.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.New(fault.Invalid, "open %s: %w", s.root, err)
	}
	if err := unix.Flock(folder, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(folder) // only read
		return fault.New(fault.Refused, "another build works in %s", s.root).WithHint("waybill run   # in copies of the folder")
	}
	return nil
}

// close removes the worker's own folder.
func (s *buildSource) close() {
	_ = workspace.Remove(s.scratch) // what stays is removed by the next build
}

// facts returns the variables that git answers for; outside a repository, the folder's name alone.
func (s *buildSource) facts(ctx context.Context) (map[string]string, error) {
	s.label = filepath.Base(s.name)
	if s.unpacked {
		return nil, nil
	}
	folder := git.Open(s.root, append(slices.Clone(s.skip), filepath.Join(s.root, workspace.Home))...) // as for a revision
	facts := map[string]string{"REPO_NAME": filepath.Base(s.root)}
	head, err := folder.Head(ctx)
	if err != nil {
		return nil, err
	}
	s.origin = head.Origin
	if group, name := build.RepositoryOf(head.Origin); name != "" {
		facts["REPO_GROUP"], facts["REPO_NAME"] = group, name
	}
	commit, err := folder.Last(ctx)
	if errors.Is(err, git.ErrNoCommit) {
		return facts, nil
	} else if err != nil {
		return nil, err
	}
	s.label += " @ " + commit.Short
	changed, notes, err := folder.Changed(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case len(notes) > 0:
		s.label += ", some files missing"
	case changed:
		s.label += ", changed files included"
	}
	s.notes = notes
	addCheckout(facts, head)
	maps.Copy(facts, map[string]string{
		"GIT_COMMIT":                commit.Hash,
		"GIT_COMMIT_SHORT":          commit.Short,
		"GIT_COMMIT_SUBJECT":        commit.Subject,
		"GIT_COMMIT_AUTHOR_DATE":    commit.AuthorDate,
		"GIT_COMMIT_COMMITTER_DATE": commit.CommitterDate,
	})
	return facts, nil
}

// addCheckout adds the facts of the checkout. Without a branch its variables have no value, so that other sources may
// give one.
func addCheckout(facts map[string]string, head git.Head) {
	facts["GIT_TAG"] = head.Tag
	if head.Branch != "" {
		facts["GIT_BRANCH"], facts["REPO_BRANCH"] = head.Branch, head.Branch
		facts["GIT_SAFEBRANCH"] = strings.ReplaceAll(head.Branch, "/", "-")
	}
}

// replaceInFiles records which files of the workspace have variables that steps replace. In the folder itself nothing is replaced.
func (s *buildSource) replaceInFiles(ctx context.Context, plan *build.Plan) error {
	var problems fault.Problems
	for i := range plan.Steps {
		step := &plan.Steps[i]
		err := worker.Texts(ctx, s.root, step.Spec.Files, func(t worker.Text) error {
			problems.Add(plan.Replace(step.ID, t.Name, t.Content)...)
			return nil
		})
		if err != nil {
			return fault.New(fault.Invalid, "%s: %s: %w", step.At, step.Path(), err)
		}
		if s.inPlace && len(step.Replaces) > 0 {
			return fault.New(fault.Invalid, "--in-place would replace the variables in %s itself", step.Replaces[0].Path).
				WithHint("waybill run   # in copies of the folder")
		}
	}
	problems.Sort()
	return slices.Compact(problems).Err() // two steps may have a file in common
}
