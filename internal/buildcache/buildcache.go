package buildcache

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Store is a folder with entries. Safe for concurrent use, also by several processes.
type Store struct {
	dir string
	max int64
}

// Open returns the store in a folder, which is made when it is needed. max is how many bytes of entries are kept.
func Open(dir string, max int64) *Store { return &Store{dir, max} }

// Of returns the part of the store that a project has: others neither see nor change it.
func (s *Store) Of(project string) *Shelf {
	sum := sha256.Sum256([]byte(project))
	return &Shelf{store: s, dir: filepath.Join(s.dir, hex.EncodeToString(sum[:8]))}
}

// Shelf is the entries of a project.
type Shelf struct {
	store *Store
	dir   string
}

// Restored is the entry that was found.
type Restored struct {
	Key   string // "": none
	Exact bool   // it is the one that was requested
	Size  int64  // compressed
}

// Restore puts the files of an entry into the folder root, instead of the files that in reports: that of the key,
// else the newest whose key begins with the first of the prefixes that any key begins with. After an error those
// files are gone.
func (s *Shelf) Restore(ctx context.Context, key string, prefixes []string, root string, in func(path string) bool) (Restored, error) {
	entries, err := s.entries()
	if err != nil {
		return Restored{}, err
	}
	found, ok := choose(entries, key, prefixes)
	if !ok {
		return Restored{}, nil
	}
	path := filepath.Join(s.dir, found.file)
	f, _, err := file.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Restored{}, nil // it was removed just now
	} else if err != nil {
		return Restored{}, fmt.Errorf("restore %s: %w", found.key, err)
	}
	defer f.Close()
	if err := workspace.RemovePart(root, in); err != nil {
		return Restored{}, err
	}
	if err := workspace.Extract(ctx, f, root, ""); err != nil {
		err = errors.Join(fmt.Errorf("restore %s: %w", found.key, err), workspace.RemovePart(root, in))
		if context.Cause(ctx) == nil && damaged(ctx, path) {
			err = errors.Join(err, os.Remove(path))
		}
		return Restored{}, err
	}
	_ = os.Chtimes(path, time.Now(), found.stored) // the time of the last use
	return Restored{Key: found.key, Exact: found.key == name(key), Size: found.size}, nil
}

// damaged reports whether an entry cannot be read to its end. Else what kept it from being restored is in the workspace, or the disk.
func damaged(ctx context.Context, path string) bool {
	f, _, err := file.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return workspace.Check(ctx, f) != nil && context.Cause(ctx) == nil
}

// choose finds the entry of a key, else the newest of the first prefix that has any.
func choose(entries []entry, key string, prefixes []string) (entry, bool) {
	if i := slices.IndexFunc(entries, func(e entry) bool { return e.key == name(key) }); i >= 0 {
		return entries[i], true
	}
	for _, prefix := range prefixes {
		var newest entry
		for _, e := range entries {
			if strings.HasPrefix(e.key, prefix) && (newest.file == "" || e.stored.After(newest.stored)) {
				newest = e
			}
		}
		if newest.file != "" {
			return newest, true
		}
	}
	return entry{}, false
}

// Save stores the content below root and in it under a key, unless the key has an entry or the store is too small. It
// returns the size of a new entry, compressed; 0 if there is none.
func (s *Shelf) Save(ctx context.Context, key, root string, in func(path string) bool) (size int64, err error) {
	path := filepath.Join(s.dir, fileOf(key))
	if _, err := os.Lstat(path); err == nil {
		return 0, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return 0, fmt.Errorf("save %s: %w", key, err)
	}
	f, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return 0, fmt.Errorf("save %s: %w", key, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has another name by then, or is not wanted
	packed, err := workspace.PackPart(ctx, &bounded{f, s.store.max}, root, in)
	if errors.Is(err, errTooLarge) {
		return 0, f.Close()
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, fmt.Errorf("save %s: %w", key, err)
	}
	if packed.Files == 0 {
		return 0, nil
	}
	if err := os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("save %s: %w", key, err)
	}
	return packed.Size, s.store.evict()
}

// errTooLarge means that an entry alone is larger than the store.
var errTooLarge = errors.New("the entry is larger than the store")

// bounded writes at most so many bytes.
type bounded struct {
	io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errTooLarge
	}
	return b.Writer.Write(p)
}

// entry is one stored archive.
type entry struct {
	key, file string
	stored    time.Time
	size      int64
}

const extension = ".tar.zst"

// mostOfKey bounds the bytes of a key that stay; a longer one ends in a digest.
const mostOfKey = 180

// name returns a key as it is compared.
func name(key string) string {
	if len(key) <= mostOfKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return key[:mostOfKey-2*len(sum)] + hex.EncodeToString(sum[:])
}

func fileOf(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(name(key))) + extension
}

// entries lists the entries of the shelf.
func (s *Shelf) entries() ([]entry, error) {
	files, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the cache: %w", err)
	}
	var out []entry
	for _, file := range files {
		encoded, ok := strings.CutSuffix(file.Name(), extension)
		key, err := base64.RawURLEncoding.DecodeString(encoded)
		info, infoErr := file.Info()
		if ok && err == nil && infoErr == nil {
			out = append(out, entry{string(key), file.Name(), info.ModTime(), info.Size()})
		}
	}
	return out, nil
}

// used is an entry of any project, with the time of its last use.
type used struct {
	path string
	at   time.Time
	size int64
}

// abandoned is the age at which a file is removed whose process died while it was written.
const abandoned = 24 * time.Hour

// evict removes the entries that were used longest ago until the rest fits, and files that were never finished.
func (s *Store) evict() error {
	var all []used
	total := int64(0)
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // another process removes entries too
		}
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			return nil //nolint:nilerr // likewise
		}
		if !strings.HasSuffix(path, extension) {
			if time.Since(time.Unix(st.Mtim.Unix())) > abandoned {
				return remove(path)
			}
			return nil // it is being written, or has just got its name
		}
		all = append(all, used{path, time.Unix(st.Atim.Unix()), st.Size})
		total += st.Size
		return nil
	})
	slices.SortFunc(all, func(a, b used) int { return a.at.Compare(b.at) })
	for _, e := range all {
		if total <= s.max {
			break
		}
		err = errors.Join(err, remove(e.path))
		total -= e.size
	}
	return err
}

// remove removes a file that another process may have removed just before.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
