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
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Packed is a snapshot that was written.
type Packed struct {
	Digest   string   // SHA-256 of the tar, 64 hex digits
	Size     int64    // bytes written, compressed
	Files    int      // files, folders and links
	Warnings []string // what was left out
}

// Pack writes a snapshot of the named files (slash-separated, below root). The
// same content gives the same bytes wherever and whenever it was checked out:
// times are fixed, and of the mode only whether the file may be executed stays.
// The digest is that of the tar, the size that of what was written.
func Pack(ctx context.Context, w io.Writer, root string, files []string) (digest string, size int64, err error) {
	entries, err := named(root, files)
	if err != nil {
		return "", 0, err
	}
	packed, err := pack(ctx, w, root, entries, normalise)
	return packed.Digest, packed.Size, err
}

// normalise keeps of a header what the content of a checkout decides.
func normalise(h *tar.Header) {
	dropOwner(h)
	h.ModTime = time.Unix(0, 0)
	executable := h.Mode&0o100 != 0
	h.Mode = 0o644
	if executable {
		h.Mode = 0o755
	}
}

// dropOwner keeps path, kind, permissions, target and time of change.
func dropOwner(h *tar.Header) {
	*h = tar.Header{Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o777,
		ModTime: h.ModTime, Format: tar.FormatPAX}
}

// counter counts what passes.
type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

func pack(ctx context.Context, w io.Writer, root string, entries []entry, shape func(*tar.Header)) (Packed, error) {
	out := &counter{Writer: w}
	compressed, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return Packed{}, fmt.Errorf("pack %s: %w", root, err)
	}
	digest := sha256.New()
	archive := tar.NewWriter(io.MultiWriter(compressed, digest))
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return Packed{}, errors.Join(err, compressed.Close())
		}
		if err := add(ctx, archive, root, e, shape); err != nil {
			return Packed{}, errors.Join(fmt.Errorf("pack %s: %w", e.path, err), compressed.Close())
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return Packed{}, fmt.Errorf("pack %s: %w", root, err)
	}
	return Packed{Digest: hex.EncodeToString(digest.Sum(nil)), Size: out.n, Files: len(entries)}, nil
}

// WriteTar writes what is below root as a tar, with the entries below the folder at. Of each header, path, kind, permissions, target and
// time are kept, which shape may change.
func WriteTar(ctx context.Context, archive *tar.Writer, root, at string, shape func(*tar.Header)) error {
	entries, _, err := list(root, nil)
	if err != nil {
		return err
	}
	within := func(h *tar.Header) {
		dropOwner(h)
		h.Name = at + "/" + h.Name
		shape(h)
	}
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := add(ctx, archive, root, e, within); err != nil {
			return fmt.Errorf("pack %s: %w", e.path, err)
		}
	}
	return nil
}

// add writes one entry. What it is when it is opened counts, not what it was when it was listed.
func add(ctx context.Context, archive *tar.Writer, root string, e entry, shape func(*tar.Header)) error {
	path := filepath.Join(root, filepath.FromSlash(e.path))
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	target, content := "", (*os.File)(nil)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		if content, err = os.Open(path); err != nil {
			return err
		}
		defer content.Close()
		if info, err = content.Stat(); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, filepath.ToSlash(target))
	if err != nil {
		return err
	}
	header.Name = e.path
	if info.IsDir() {
		header.Name += "/"
	}
	shape(header)
	if err := archive.WriteHeader(header); err != nil || content == nil {
		return err
	}
	if n, err := io.Copy(archive, untilDone{ctx, io.LimitReader(content, header.Size)}); err != nil {
		return err
	} else if n < header.Size {
		return errShrunk
	}
	return nil
}
