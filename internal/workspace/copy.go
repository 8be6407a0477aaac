package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Copy makes dir and copies what is selected below root into it, except the
// home. The file system shares the bytes where it can. Returned are warnings
// about what was left out.
func Copy(ctx context.Context, root, dir string, selected Selection) (warnings []string, err error) {
	entries, warnings, err := list(root, selected)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("copy the workspace: %w", err)
	}
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := copyEntry(dir, e); err != nil {
			return nil, fmt.Errorf("copy the workspace: %w", err)
		}
	}
	return warnings, copyFolders(dir, entries)
}

func copyEntry(dir string, e entry) error {
	to := filepath.Join(dir, filepath.FromSlash(e.path))
	switch {
	case e.mode.IsDir():
		return os.Mkdir(to, 0o755)
	case e.mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(e.from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	err := copyFile(e, to)
	if errors.Is(err, errShrunk) {
		err = errors.Join(os.Remove(to), copyFile(e, to))
	}
	return err
}

func copyFile(e entry, to string) (err error) {
	in, info, err := openFile(e.from)
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if n, err := io.Copy(out, in); err != nil {
		return err
	} else if n < info.Size() {
		return fmt.Errorf("%s: %w", e.from, errShrunk)
	}
	if _, err := out.WriteString(e.more); err != nil {
		return err
	}
	return errors.Join(out.Chmod(info.Mode().Perm()), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// copyFolders sets modes and times of folders, the deepest first, once nothing is written into them
// any more.
func copyFolders(dir string, entries []entry) error {
	for _, e := range slices.Backward(entries) {
		if !e.mode.IsDir() {
			continue
		}
		info, err := os.Lstat(e.from)
		if err != nil {
			return fmt.Errorf("copy the workspace: %w", err)
		}
		to := filepath.Join(dir, filepath.FromSlash(e.path))
		if err := errors.Join(os.Chmod(to, info.Mode().Perm()), os.Chtimes(to, info.ModTime(), info.ModTime())); err != nil {
			return fmt.Errorf("copy the workspace: %w", err)
		}
	}
	return nil
}

// Remove deletes a copy, folders without write permission included.
func Remove(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // the removal below says what is still in the way
		}
		return nil
	})
	return os.RemoveAll(dir)
}
