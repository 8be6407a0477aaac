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
	"time"

	"github.com/klauspost/compress/zstd"
)

// mostWindow is how much of what was unpacked a snapshot may refer back to, in bytes, which all stay in memory: what the program zstd unpacks.
const mostWindow = 128 << 20

// Extract unpacks a snapshot into dir, which is made. Everything goes through an
// os.Root, so that no link leads outside. A snapshot that is torn, or whose tar
// has another digest, is an error; what is in dir then must not be used. An
// empty digest is not compared.
func Extract(ctx context.Context, r io.Reader, dir, digest string) error {
	compressed, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(mostWindow))
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	defer compressed.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("extract a snapshot: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("extract a snapshot: %w", err)
	}
	defer root.Close()

	sum := sha256.New()
	stream := io.TeeReader(untilDone{ctx, compressed}, sum)
	x := &extraction{root: root}
	if err := x.all(ctx, tar.NewReader(stream)); err != nil {
		return fmt.Errorf("extract a snapshot: %w", err)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return fmt.Errorf("extract a snapshot: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); digest != "" && got != digest {
		return fmt.Errorf("extract a snapshot: its digest is %s, want %s", got, digest)
	}
	return x.folders()
}

// Check reads a snapshot to its end. It returns an error if that is torn.
func Check(ctx context.Context, r io.Reader) error {
	compressed, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(mostWindow))
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	defer compressed.Close()
	archive := tar.NewReader(untilDone{ctx, compressed})
	for {
		if _, err := archive.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
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
	dirs []*tar.Header // their modes and times are set last, when nothing is written into them any more
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
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func (x *extraction) one(header *tar.Header, content io.Reader) error {
	name := filepath.FromSlash(path.Clean(header.Name))
	if !filepath.IsLocal(name) {
		return errors.New("it leaves the workspace")
	}
	if err := x.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		x.dirs = append(x.dirs, header)
		return x.root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return x.root.Symlink(filepath.FromSlash(header.Linkname), name)
	case tar.TypeReg:
		return x.file(name, header, content)
	}
	return fmt.Errorf("a snapshot holds no entries of type %q", header.Typeflag)
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
	for _, header := range slices.Backward(x.dirs) {
		name := filepath.FromSlash(path.Clean(header.Name))
		err := errors.Join(x.root.Chmod(name, permissions(header)), x.root.Chtimes(name, time.Time{}, header.ModTime))
		if err != nil {
			return fmt.Errorf("extract a snapshot: %s: %w", header.Name, err)
		}
	}
	return nil
}

func permissions(header *tar.Header) fs.FileMode { return fs.FileMode(header.Mode) & fs.ModePerm }
