package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/git"
)

// cloneTimeout bounds the clone of a repository.
const cloneTimeout = 30 * time.Minute

// receive gets the files that a provisioner wants built: it unpacks the snapshot, once that has come, or clones the repository.
func (s *buildSource) receive(ctx context.Context, launch LaunchOptions, in *inbox) error {
	if !launch.On() {
		return nil
	}
	tree := filepath.Join(s.scratch, "tree")
	s.received = true
	r := launch.Repository
	if r == nil {
		s.name, s.root, s.unpacked = launch.Snapshot, tree, true
		if launch.Revision != "" {
			s.name = launch.Revision
		}
		if in == nil {
			_, err := worker.Snapshot{Path: launch.SnapshotFile}.Take(ctx, tree)
			return err
		}
		return s.unpack(ctx, in, tree)
	}
	s.name, s.root, s.taken = r.URL, tree, r.Subdirectory == ""
	if !s.taken {
		tree = filepath.Join(s.scratch, "clone")
		s.root = filepath.Join(tree, filepath.FromSlash(r.Subdirectory))
	}
	s.whole = tree
	if err := getClone(ctx, launch.Launch, tree); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	root, err := filepath.EvalSymlinks(s.root)
	if err != nil {
		return fault.New(fault.Invalid, "folder %s not found in commit %s of %s", r.Subdirectory, r.Commit, r.URL)
	}
	if inside, err := filepath.EvalSymlinks(tree); err != nil ||
		root != inside && !strings.HasPrefix(root, inside+string(filepath.Separator)) {
		return fault.New(fault.Invalid, "folder %s of commit %s leaves the repository", r.Subdirectory, r.Commit)
	}
	s.root = root
	return nil
}

// unpack unpacks the snapshot that a provisioner sends.
func (s *buildSource) unpack(ctx context.Context, in *inbox, tree string) error {
	if err := in.await(ctx); err != nil {
		return fault.New(fault.Unavailable, "wait for the files of the build: %w", err)
	}
	path := filepath.Join(s.scratch, inboxFile)
	_, err := worker.Snapshot{Path: path}.Take(ctx, tree)
	return errors.Join(err, os.Remove(path))
}

// getClone clones the repository into a folder, or moves a clone there that was made before.
func getClone(ctx context.Context, launch provisionerv1.Launch, to string) error {
	if launch.Clone == "" {
		ctx, cancel := context.WithTimeoutCause(ctx, cloneTimeout, fmt.Errorf("the clone took longer than %s", cloneTimeout))
		defer cancel()
		r := launch.Repository
		return git.Clone{URL: r.URL, Commit: r.Commit, Branch: r.Branch, Credentials: launch.Credentials}.Into(ctx, to)
	}
	reason, err := file.ReadRegular(launch.Clone+shimv1.CloneError, shimv1.MostCloneError)
	if err == nil {
		return errors.New(build.VisibleText(reason))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(launch.Clone, to)
}

// stays returns an error if a file that others have written is a link to outside: a file that this process can read
// may be a token, and faults of a file quote it.
func (s *buildSource) stays(path string) error {
	if !s.unpacked && !s.received {
		return nil
	}
	if !isBelow(s.root, path) {
		return nil // the user's or the machine's own end
	}
	led, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // its reader reports that it is missing
	}
	whole, err := filepath.EvalSymlinks(cmp.Or(s.whole, s.root))
	if err != nil {
		return fmt.Errorf("find the files that are built: %w", err)
	}
	if !isBelow(whole, led) {
		return fault.New(fault.Invalid, "%s is a link that leads outside of the files that are built", filepath.Base(path))
	}
	return nil
}

// isBelow reports whether a path is in a folder, or the folder itself, by the names alone.
func isBelow(folder, path string) bool {
	rest, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rest)
}

// checkReceived returns an error if what a provisioner had built has no build file. It says where that was looked for, since the folder
// means nothing to who asked for the build.
func (s *buildSource) checkReceived(flags Options) error {
	if !s.received {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(s.root, filepath.FromSlash(flags.File))); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r := flags.Launch.Repository
	if r == nil {
		return fault.New(fault.Invalid, "%s not found in the files of %s", flags.File, s.name)
	}
	where := "commit " + r.Commit
	if r.Branch != "" {
		where += " of branch " + r.Branch
	}
	if r.Subdirectory != "" {
		where = "the folder " + r.Subdirectory + " of " + where
	}
	missing := fault.New(fault.Invalid, "%s not found in %s of %s", flags.File, where, r.URL)
	if other := strings.TrimSuffix(build.FileName, ".yml") + ".yaml"; flags.File == build.FileName {
		if _, err := os.Lstat(filepath.Join(s.root, other)); err == nil {
			return missing.WithHint("rename %s there: only %s is read", other, build.FileName)
		}
	}
	return missing.WithHint("waybill build init   # writes one, to be committed there")
}
