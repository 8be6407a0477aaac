package workspace

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
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
	packed, err := pack(ctx, w, entries, normalise)
	return packed.Digest, packed.Size, err
}

// normalise keeps of a header what the content of a checkout decides.
func normalise(h *tar.Header) {
	h.ModTime = time.Unix(0, 0)
	executable := h.Mode&0o100 != 0
	h.Mode = 0o644
	if executable {
		h.Mode = 0o755
	}
}

// asRead keeps a header as it was read, which has neither owner nor group.
func asRead(*tar.Header) {}

// packBuffer is the number of bytes of the tar that are hashed and compressed at a time.
const packBuffer = 256 << 10

// pack writes entries as they are when they are read, not as they were when they were listed. One goroutine reads, the caller's makes
// the tar and its digest, and others compress.
func pack(ctx context.Context, w io.Writer, entries []entry, shape func(*tar.Header)) (Packed, error) {
	compressed, err := newCompressor(w)
	if err != nil {
		return Packed{}, err
	}
	digest := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(compressed, digest), packBuffer)
	archive := tar.NewWriter(buffered)
	if err := packEntries(ctx, archive, entries, shape); err != nil {
		if failed := compressed.Close(); failed != nil && !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
		return Packed{}, err
	}
	if err := errors.Join(archive.Close(), buffered.Flush(), compressed.Close()); err != nil {
		return Packed{}, fmt.Errorf("pack files: %w", err)
	}
	return Packed{Digest: hex.EncodeToString(digest.Sum(nil)), Size: compressed.out, Files: len(entries)}, nil
}

// WriteTar writes the content below root as a tar. Of each header, path, kind, permissions, target and time are kept,
// which shape may change.
func WriteTar(ctx context.Context, archive *tar.Writer, root string, shape func(*tar.Header)) error {
	entries, _, err := list(root, Selection{})
	if err != nil {
		return err
	}
	return packEntries(ctx, archive, entries, shape)
}

func packEntries(ctx context.Context, archive *tar.Writer, entries []entry, shape func(*tar.Header)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	r := readAhead(ctx, entries)
	defer r.close()
	defer cancel(nil)
	for read := range r.entries {
		if read.err != nil {
			return read.err
		}
		shape(read.header)
		err := add(ctx, archive, read)
		r.reuse(read)
		if err != nil {
			return fmt.Errorf("pack %s: %w", read.header.Name, err)
		}
	}
	return context.Cause(ctx)
}

// add writes one entry.
func add(ctx context.Context, archive *tar.Writer, e readEntry) error {
	if err := archive.WriteHeader(e.header); err != nil {
		return err
	}
	if e.file == nil {
		_, err := archive.Write(e.content)
		return err
	}
	if n, err := io.Copy(archive, untilDone{ctx, io.LimitReader(e.file, e.header.Size-int64(len(e.content)))}); err != nil {
		return err
	} else if n+int64(len(e.content)) < e.header.Size {
		return errShrunk
	}
	_, err := archive.Write(e.content) // what is appended
	return err
}

// PackFile writes a snapshot of what is selected below root, except the home, into a file of this user alone. If a file became shorter
// while it was read, everything is read once more.
func PackFile(ctx context.Context, path, root string, selected Selection) (Packed, error) {
	return packer{root, selected, asRead}.packFile(ctx, path)
}

// packer packs what is selected below root; shape may change the header of each entry.
type packer struct {
	root     string
	selected Selection
	shape    func(*tar.Header)
}

func (p packer) packFile(ctx context.Context, path string) (packed Packed, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return Packed{}, fmt.Errorf("write a snapshot: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	packed, err = p.packTo(ctx, f)
	if errors.Is(err, errShrunk) {
		packed, err = p.packTo(ctx, f)
	}
	return packed, err
}

// packTo writes a snapshot into an open file, instead of what it has.
func (p packer) packTo(ctx context.Context, f *os.File) (Packed, error) {
	entries, warnings, err := list(p.root, p.selected)
	if err != nil {
		return Packed{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Packed{}, fmt.Errorf("write a snapshot: %w", err)
	}
	if err := f.Truncate(0); err != nil {
		return Packed{}, fmt.Errorf("write a snapshot: %w", err)
	}
	packed, err := pack(ctx, f, entries, p.shape)
	packed.Warnings = warnings
	return packed, err
}
