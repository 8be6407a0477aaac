package attempt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// cached is a rule for a cache with its keys, as the files of a workspace make them.
type cached struct {
	build.CacheRule
	hit      bool  // the entry of the key was restored
	restored int64 // bytes of the entry that was restored; 0: none was
	stored   int64 // bytes that were stored; 0: nothing was
}

// restoreCaches puts what earlier builds left into the workspace. A cache that cannot be read is noted: the step runs without it.
func (f *Files) restoreCaches(ctx context.Context) error {
	if f.Shelf == nil {
		return nil
	}
	for _, rule := range f.Run.Step.Cache {
		c, err := expandCache(rule, f.repo)
		if err != nil {
			return err
		}
		got, err := f.Shelf.Restore(ctx, c.Key, c.Restore, f.repo, rule.In)
		c.hit, c.restored = got.Exact, got.Size
		text := fmt.Sprintf("cache %s: nothing yet", c.Key)
		switch {
		case err != nil:
			text = fmt.Sprintf("cache %s: %v", c.Key, err)
		case got.Key != "":
			text = fmt.Sprintf("cache %s: restored, %s", got.Key, humanize.IBytes(uint64(got.Size))) //nolint:gosec // a size
		}
		if err := errors.Join(context.Cause(ctx), f.Sink.Note(text)); err != nil {
			return err
		}
		f.caches = append(f.caches, c)
	}
	return nil
}

// saveCaches leaves files below repo for later builds.
func (f *Files) saveCaches(ctx context.Context, repo string) error {
	for i := range f.caches {
		c := &f.caches[i]
		if c.hit {
			continue
		}
		var text string
		size, err := f.Shelf.Save(ctx, c.Key, repo, c.In)
		switch c.stored = size; {
		case err != nil:
			text = fmt.Sprintf("cache %s: %v", c.Key, err)
		case size > 0:
			text = fmt.Sprintf("cache %s: saved, %s", c.Key, humanize.IBytes(uint64(size))) //nolint:gosec // a size
		default:
			continue
		}
		if err := f.Sink.Note(text); err != nil {
			return err
		}
	}
	return nil
}

// cacheText describes the caches that a step found and stored, such as "cache found, 12 MiB". It returns "" for neither.
func cacheText(caches []cached) string {
	var found, stored int
	var read, written int64
	for _, c := range caches {
		if c.restored > 0 {
			found, read = found+1, read+c.restored
		}
		if c.stored > 0 {
			stored, written = stored+1, written+c.stored
		}
	}
	subject := func(n int) string {
		if len(caches) == 1 {
			return "cache"
		}
		return fmt.Sprintf("%d of %d caches", n, len(caches))
	}
	var parts []string
	if found > 0 {
		parts = append(parts, fmt.Sprintf("%s found, %s", subject(found), humanize.IBytes(uint64(read)))) //nolint:gosec // a size
	}
	if stored > 0 {
		parts = append(parts, fmt.Sprintf("%s stored, %s", subject(stored), humanize.IBytes(uint64(written)))) //nolint:gosec // a size
	}
	return strings.Join(parts, "; ")
}

// expandCache replaces the ${hash:GLOB} of a rule's keys.
func expandCache(rule build.CacheRule, repo string) (cached, error) {
	c := cached{CacheRule: rule}
	var err error
	if c.Key, err = expandKey(rule.Key, repo); err != nil {
		return c, err
	}
	c.Restore = slices.Clone(rule.Restore)
	for i, prefix := range c.Restore {
		if c.Restore[i], err = expandKey(prefix, repo); err != nil {
			return c, err
		}
	}
	return c, nil
}

func expandKey(key, repo string) (string, error) {
	return build.ExpandHashes(key, func(glob string) (string, error) {
		root, err := os.OpenRoot(repo)
		if err != nil {
			return "", fmt.Errorf("make the key of a cache: %w", err)
		}
		defer root.Close()
		files, _, err := workspace.Files(root, repo)
		if err != nil {
			return "", fmt.Errorf("make the key of a cache: %w", err)
		}
		sum := sha256.New()
		for _, file := range files { // in lexical order
			if !build.MatchGlob(glob, file) {
				continue
			}
			if err := hashFile(sum, root, file); err != nil {
				return "", fmt.Errorf("make the key of a cache: %w", err)
			}
		}
		return hex.EncodeToString(sum.Sum(nil)), nil
	})
}

// hashFile adds the name, the size and the bytes of a file.
func hashFile(sum io.Writer, root *os.Root, path string) error {
	f, info, err := file.OpenIn(root, filepath.FromSlash(path))
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(sum, "%s\x00%d\x00", path, info.Size())
	_, err = io.Copy(sum, f)
	return err
}
