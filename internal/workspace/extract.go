package workspace

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// mostWindow bounds the distance to which a snapshot may refer back in its unpacked bytes, which all stay in memory:
// what the program zstd unpacks.
const mostWindow = 128 << 20

// longestPath is the most bytes of a path: what Linux takes. A deeper folder could not be removed either.
const longestPath = 4095

// room is the remaining bound on the unpacked size of a snapshot. A snapshot of a few hundred bytes can unpack to
// exabytes.
type room struct {
	entries int64 // files, folders and links, with folders that are not listed
	names   int64 // bytes of all paths
	content int64 // bytes of all files, as their headers state them
	tar     int64 // bytes of the archive
}

// wholeRoom returns the bounds of a snapshot.
func wholeRoom() room {
	return room{entries: 2_000_000, names: 256 << 20, content: 256 << 30, tar: 260 << 30}
}

// take counts an entry.
func (r *room) take(h *tar.Header) error {
	r.entries, r.names, r.content = r.entries-1, r.names-int64(len(h.Name)), r.content-h.Size
	switch most := wholeRoom(); {
	case r.entries < 0:
		return fmt.Errorf("the snapshot has more than %d files and folders", most.entries)
	case len(h.Name) > longestPath:
		return fmt.Errorf("its path has %d bytes, and %d are allowed", len(h.Name), longestPath)
	case r.names < 0:
		return fmt.Errorf("the paths in the snapshot have more than %d bytes", most.names)
	case h.Size < 0 || r.content < 0:
		return fmt.Errorf("the snapshot unpacks to more than %d bytes", most.content)
	}
	return nil
}

// within reads what fits into a room.
type within struct {
	in   io.Reader
	left *room
}

func (w within) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	if w.left.tar -= int64(n); w.left.tar < 0 {
		return 0, fmt.Errorf("the snapshot unpacks to an archive of more than %d bytes", wholeRoom().tar)
	}
	return n, err
}

// Extract unpacks a snapshot into dir, which is made. Everything goes through an
// os.Root, so that no link leads outside. A snapshot that is torn, or whose tar
// has another digest, is an error; what is in dir then must not be used. An
// empty digest is not compared.
func Extract(ctx context.Context, r io.Reader, dir, digest string) error {
	got, err := extract(ctx, r, dir, wholeRoom())
	if err == nil && digest != "" && got != digest {
		return fmt.Errorf("extract a snapshot: its digest is %s, want %s", got, digest)
	}
	return err
}

// extract unpacks a snapshot and returns the digest of its tar.
func extract(ctx context.Context, r io.Reader, dir string, most room) (digest string, err error) {
	compressed, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(mostWindow))
	if err != nil {
		return "", fmt.Errorf("read a snapshot: %w", err)
	}
	defer compressed.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("extract a snapshot: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("extract a snapshot: %w", err)
	}
	defer root.Close()

	sum := sha256.New()
	x := &extraction{root: root, left: most}
	stream := io.TeeReader(within{untilDone{ctx, compressed}, &x.left}, sum)
	if err := x.all(ctx, tar.NewReader(stream)); err != nil {
		return "", fmt.Errorf("extract a snapshot: %w", err)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return "", fmt.Errorf("extract a snapshot: %w", err)
	}
	if err := x.folders(); err != nil {
		return "", fmt.Errorf("extract a snapshot: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Check reads a snapshot to its end. It returns an error if that is torn.
func Check(ctx context.Context, r io.Reader) error {
	compressed, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(mostWindow))
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	defer compressed.Close()
	left := wholeRoom()
	archive := tar.NewReader(within{untilDone{ctx, compressed}, &left})
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = left.take(header)
		}
		if err != nil {
			return fmt.Errorf("read a snapshot: %w", err)
		}
	}
}

// untilDone reads until a context ends.
type untilDone struct {
	ctx context.Context //nolint:containedctx // for one call of a function that takes a reader
	in  io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.in.Read(p)
}

// extraction is one snapshot being unpacked.
type extraction struct {
	root *os.Root
	left room
	in   string   // the folder of the entry before, which is there
	dirs []folder // their modes and times are set last, when nothing is written into them any more
}

// folder holds the attributes that a folder gets at the end.
type folder struct {
	name string
	mode fs.FileMode
	at   time.Time
}

func (x *extraction) all(ctx context.Context, archive *tar.Reader) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := x.one(header, archive); err != nil {
			return fmt.Errorf("%.200s: %w", header.Name, err)
		}
	}
}

func (x *extraction) one(header *tar.Header, content io.Reader) error {
	name := filepath.FromSlash(path.Clean(header.Name))
	if !filepath.IsLocal(name) {
		return errors.New("it leaves the workspace")
	}
	if err := x.left.take(header); err != nil {
		return err
	}
	if err := x.enter(filepath.Dir(name)); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		x.dirs = append(x.dirs, folder{name, permissions(header), header.ModTime})
		return x.root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return x.root.Symlink(filepath.FromSlash(header.Linkname), name)
	case tar.TypeReg:
		return x.file(name, header, content)
	}
	return fmt.Errorf("a snapshot holds no entries of type %q", header.Typeflag)
}

// enter makes a folder that no entry has made, and counts it with all that it is in.
func (x *extraction) enter(dir string) error {
	if dir == x.in {
		return nil
	}
	if _, err := x.root.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if x.left.entries -= int64(strings.Count(dir, string(filepath.Separator)) + 1); x.left.entries < 0 {
			return fmt.Errorf("the snapshot has more than %d files and folders", wholeRoom().entries)
		}
		if err := x.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	x.in = dir
	return nil
}

func (x *extraction) file(name string, header *tar.Header, content io.Reader) error {
	if err := writeFile(x.root, name, permissions(header), content); err != nil {
		return err
	}
	return x.root.Chtimes(name, time.Time{}, header.ModTime)
}

// writeFile makes a file, which must not be there.
func writeFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Chmod(mode)
}

// folders sets modes and times, the deepest first.
func (x *extraction) folders() error {
	for _, f := range slices.Backward(x.dirs) {
		if err := errors.Join(x.root.Chmod(f.name, f.mode), x.root.Chtimes(f.name, time.Time{}, f.at)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func permissions(header *tar.Header) fs.FileMode { return fs.FileMode(header.Mode) & fs.ModePerm }
