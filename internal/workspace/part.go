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

	"golang.org/x/sys/unix"
)

// PackPart writes a snapshot of the content below root and in it, by slash-separated path. Modes and times are kept.
func PackPart(ctx context.Context, w io.Writer, root string, in func(path string) bool) (Packed, error) {
	entries, err := part(root, in)
	if err != nil {
		return Packed{}, err
	}
	return pack(ctx, w, entries, asRead)
}

// RemovePart removes the content below root and in it. Folders that hold something else stay.
func RemovePart(root string, in func(path string) bool) error {
	entries, err := part(root, in)
	if err != nil {
		return err
	}
	opened, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("remove a part of %s: %w", root, err)
	}
	defer opened.Close()
	for _, e := range entries {
		if e.mode.IsDir() {
			_ = opened.Chmod(filepath.FromSlash(e.path), 0o700) // module caches have folders that cannot be written; Remove says what matters
		}
	}
	for _, e := range slices.Backward(entries) { // what is in a folder comes after it
		err := opened.Remove(filepath.FromSlash(e.path))
		inGitFile := errors.Is(err, unix.ENOTDIR) // such a file is listed as the repository that it leads to
		if err != nil && !e.mode.IsDir() && !inGitFile && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a part of %s: %w", root, err)
		}
	}
	return nil
}

func part(root string, in func(path string) bool) (chosen []entry, err error) {
	entries, _, err := list(root, Selection{})
	for _, e := range entries {
		if in(e.path) {
			chosen = append(chosen, e)
		}
	}
	return chosen, err
}
