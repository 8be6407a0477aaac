package workspace

import (
	"archive/tar"
	"compress/gzip"
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
)

// Placed is a file that is put into a workspace.
type Placed struct {
	Name       string // slash-separated path in the workspace
	Executable bool
	Archive    bool   // it is a .tar.gz of files, which are put in its place
	SHA256     string // of its bytes, 64 hex digits
}

// Place puts a file, read from r, into the workspace dir, in place of one that is there. Names and links that lead outside, and bytes
// with another digest, are errors; what is in dir then must not be used.
func Place(ctx context.Context, dir string, p Placed, r io.Reader) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("place %s: %w", p.Name, err)
	}
	defer root.Close()
	sum := sha256.New()
	content := io.TeeReader(untilDone{ctx, r}, sum)
	if p.Archive {
		err = placeArchive(ctx, root, content)
	} else {
		mode := fs.FileMode(0o644)
		if p.Executable {
			mode = 0o755
		}
		err = placeFile(root, p.Name, mode, content)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, content)
	}
	if err != nil {
		return fmt.Errorf("place %s: %w", p.Name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != p.SHA256 {
		return fmt.Errorf("place %s: its digest is %s, want %s", p.Name, got, p.SHA256)
	}
	return nil
}

func placeArchive(ctx context.Context, root *os.Root, r io.Reader) error {
	plain, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	archive := tar.NewReader(plain)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s: it is not a file", header.Name)
		}
		if err := placeFile(root, header.Name, permissions(header), archive); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func placeFile(root *os.Root, slashed string, mode fs.FileMode, r io.Reader) error {
	name := filepath.FromSlash(path.Clean(slashed))
	if !filepath.IsLocal(name) {
		return errors.New("it leaves the workspace")
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeFile(root, name, mode, r)
}
