package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/file"
)

// Bounds of reading ahead: so many entries, and of each so many bytes. What is larger is read when it is written.
const (
	aheadEntries = 64
	aheadBytes   = 128 << 10
)

// readEntry is an entry that has been read, or whose file is open if it is large.
type readEntry struct {
	header  *tar.Header
	content []byte   // all of it, else what follows the file
	file    *os.File // nil: content is all
	err     error
}

// reader reads entries ahead of the caller.
type reader struct {
	entries chan readEntry
	buffers chan []byte // free buffers
}

// readAhead begins to read entries in their order. It ends after the last one, after an error, and with ctx.
func readAhead(ctx context.Context, entries []entry) *reader {
	r := &reader{entries: make(chan readEntry, aheadEntries), buffers: make(chan []byte, aheadEntries)}
	go func() {
		defer close(r.entries)
		for _, e := range entries {
			read, err := r.read(e)
			if err != nil {
				read.err = fmt.Errorf("pack %s: %w", e.path, err)
			}
			select {
			case r.entries <- read:
			case <-ctx.Done():
				read.close()
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return r
}

// close waits for the end of reading, after ctx has ended.
func (r *reader) close() {
	for read := range r.entries {
		read.close()
	}
}

// reuse takes back what a written entry holds.
func (r *reader) reuse(read readEntry) {
	read.close()
	if cap(read.content) < aheadBytes {
		return
	}
	select {
	case r.buffers <- read.content[:0]:
	default:
	}
}

func (e readEntry) close() {
	if e.file != nil {
		_ = e.file.Close() // only read
	}
}

// buffer returns an empty buffer with room for a file that is read ahead.
func (r *reader) buffer() []byte {
	select {
	case b := <-r.buffers:
		return b
	default:
		return make([]byte, 0, aheadBytes)
	}
}

// read reads one entry, once more if it became shorter in the meantime.
func (r *reader) read(e entry) (readEntry, error) {
	read, err := r.once(e)
	if errors.Is(err, errShrunk) {
		return r.once(e)
	}
	return read, err
}

func (r *reader) once(e entry) (readEntry, error) {
	if e.mode.IsRegular() {
		if read, err := r.file(e); !errors.Is(err, errNotFile) {
			return read, err
		}
	}
	info, err := os.Lstat(e.from)
	if err != nil {
		return readEntry{}, err
	}
	header := headerOf(e, info)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(e.from)
		header.Linkname = filepath.ToSlash(target)
		return readEntry{header: header}, err
	case info.IsDir():
		return readEntry{header: header}, nil
	}
	return readEntry{}, errNotFile
}

// errNotFile reports that a file has become something else.
var errNotFile = errors.New("it became something else while it was read")

// openFile opens a file; it neither follows a link nor waits for a pipe, which may be in its place by now.
func openFile(path string) (*os.File, fs.FileInfo, error) {
	f, info, err := file.OpenUnlinked(path)
	if errors.Is(err, file.ErrKind) {
		err = errNotFile
	}
	return f, info, err
}

// file reads a file, or opens it if it is large.
func (r *reader) file(e entry) (readEntry, error) {
	f, info, err := openFile(e.from)
	if err != nil {
		return readEntry{}, err
	}
	read := readEntry{header: headerOf(e, info)}
	if read.header.Size > aheadBytes {
		read.file, read.content = f, []byte(e.more)
		return read, nil
	}
	content := r.buffer()[:info.Size()]
	_, err = io.ReadFull(f, content)
	_ = f.Close() // only read
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errShrunk
	}
	read.content = append(content, e.more...)
	return read, err
}

// headerOf keeps of what is on disk the kind, the permissions and the time of change.
func headerOf(e entry, info fs.FileInfo) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: e.path, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, e.path+"/"
	default:
		h.Size = info.Size() + int64(len(e.more))
	}
	return h
}
