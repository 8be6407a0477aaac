package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// staleAfter is the age at which a temporary file belongs to a writer that is surely gone.
const staleAfter = 24 * time.Hour

// Dir is a store in a folder: every object is written to a temporary name, synced and renamed.
// Safe for concurrent use, also by several processes.
type Dir struct{ root string }

// OpenDir makes or opens the store at location: file:/DIR or a plain path.
// A folder that cannot be made or entered is fault.Unavailable.
func OpenDir(location string) (*Dir, error) {
	root, err := folder(location)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root}
	if err := os.MkdirAll(d.temporary(), 0o700); err != nil {
		return nil, explain(fmt.Errorf("open blob store: %w", err), root)
	}
	if err := d.sweep(time.Now().Add(-staleAfter)); err != nil {
		return nil, explain(fmt.Errorf("open blob store: %w", err), root)
	}
	return d, nil
}

// Put stores what r yields under key and returns its SHA-256 as 64 hex digits and its size in
// bytes. A key that ends in a slash is completed by the digest. Nothing is visible under the key
// before all of it is there, and what was there before stays when Put fails. A full or forbidden
// disk is fault.Unavailable.
func (d *Dir) Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error) {
	if err := CheckKey(strings.TrimSuffix(key, "/")); err != nil {
		return "", "", 0, err
	}
	temp, digest, size, err := d.receive(ctx, r)
	if err != nil {
		return "", "", 0, explain(fmt.Errorf("store blob %s: %w", key, err), d.root)
	}
	key = complete(key, digest)
	if err := d.publish(temp, key); err != nil {
		return "", "", 0, explain(fmt.Errorf("store blob %s: %w", key, errors.Join(err, os.Remove(temp))), d.root)
	}
	return key, digest, size, nil
}

// Get opens an object and returns its size in bytes; fault.NotFound when there is none. The caller
// closes it.
func (d *Dir) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, 0, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, 0, err
	}
	f, info, err := file.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, file.ErrKind) { // as Has answers, too
		return nil, 0, fault.New(fault.NotFound, "blob %s not found", key)
	}
	if err != nil {
		return nil, 0, explain(fmt.Errorf("read blob %s: %w", key, err), d.root)
	}
	return f, info.Size(), nil
}

// Has reports whether an object is there.
func (d *Dir) Has(ctx context.Context, key string) (bool, error) {
	path, err := d.path(key)
	if err != nil {
		return false, err
	}
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, explain(fmt.Errorf("look for blob %s: %w", key, err), d.root)
	}
	return info.Mode().IsRegular(), nil
}

// Folders lists the names right below a folder that have objects below them, in order.
func (d *Dir) Folders(ctx context.Context, folder string) ([]string, error) {
	path, err := d.path(folder)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(fmt.Errorf("list blobs %s: %w", folder, err), d.root)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Clear deletes every object below a folder.
func (d *Dir) Clear(ctx context.Context, folder string) error {
	path, err := d.path(folder)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return explain(fmt.Errorf("delete blobs %s: %w", folder, err), d.root)
	}
	return nil
}

// folder returns the absolute path that a location names.
func folder(location string) (string, error) {
	if !strings.HasPrefix(location, "file:") {
		if location == "" || strings.Contains(location, "://") {
			return "", fault.New(fault.Invalid, "blob store %q: want file:/DIR, a path or s3://BUCKET/PREFIX", location)
		}
		return filepath.Abs(location)
	}
	u, err := url.Parse(location)
	if err != nil || u.Path == "" || (u.Host != "" && u.Host != "localhost") {
		return "", fault.New(fault.Invalid, "blob store %q: want file:/DIR or a path", location)
	}
	return filepath.Clean(u.Path), nil
}

func (d *Dir) temporary() string { return filepath.Join(d.root, "tmp") }

// path returns the file of a key. Keys are slash-separated names; none leaves the store or meets
// its temporary files.
func (d *Dir) path(key string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

// receive copies r into a synced temporary file, which it removes again on an error.
func (d *Dir) receive(ctx context.Context, r io.Reader) (path, digest string, size int64, err error) {
	file, err := os.CreateTemp(d.temporary(), "put-*")
	if err != nil {
		return "", "", 0, err
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(file, sum), &reader{ctx, r})
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", "", 0, errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), hex.EncodeToString(sum.Sum(nil)), size, nil
}

// publish gives a temporary file its name and makes the name durable.
func (d *Dir) publish(temp, key string) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	if err := d.makeParents(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return file.SyncFolder(filepath.Dir(path))
}

// makeParents makes the folders of a key; each new name is synced, or a crash could lose the object
// under it.
func (d *Dir) makeParents(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if dir != d.root {
		if err := d.makeParents(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return file.SyncFolder(filepath.Dir(dir))
}

// sweep removes the files of writers that were killed before the given time.
func (d *Dir) sweep(before time.Time) error {
	entries, err := os.ReadDir(d.temporary())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.ModTime().Before(before) {
			continue // gone in the meantime, or in use
		}
		err = os.Remove(filepath.Join(d.temporary(), entry.Name()))
		if errors.Is(err, syscall.EROFS) {
			return nil // what is there can still be read
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// reader ends with the context's cause.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// explain gives errors of the disk a code and adds the remedy.
func explain(err error, root string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(fault.Unavailable, err).WithHint("make room on the disk of %s, then try again", root)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.Wrap(fault.Unavailable, err).WithHint("let this user write to %s", root)
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.Unavailable, err).WithHint("look at the disk of %s", root)
	}
	return err
}
