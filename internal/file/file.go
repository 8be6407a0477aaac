// Package file opens files of which others decide what they are: those of a checkout, of a home, or named on a
// command line. Only a regular file is opened; a pipe is not waited for, and a device is not read. Reading a whole
// file has a bound.
package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrKind reports that a path leads to something else than a regular file.
var ErrKind = errors.New("not a regular file")

// ErrSize reports that a file has more bytes than its bound.
var ErrSize = errors.New("the file is too large")

// Most is the bound of files that people write: definitions and configurations, in bytes.
const Most = 8 << 20

// Open opens a regular file, or a link to one, for reading. The error is an *fs.PathError, around ErrKind if it is something else.
func Open(path string) (*os.File, fs.FileInfo, error) { return open(path, 0) }

// OpenUnlinked opens a regular file for reading. A link is not followed, and is ErrKind too.
func OpenUnlinked(path string) (*os.File, fs.FileInfo, error) { return open(path, unix.O_NOFOLLOW) }

// OpenIn opens a regular file below a root for reading, or the one that a link leads to.
func OpenIn(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, flags, 0)
	return regular(f, err, name)
}

// flags open nothing that is waited for, and no terminal of this process.
const flags = os.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

func open(path string, more int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flags|more, 0)
	if more&unix.O_NOFOLLOW != 0 && errors.Is(err, unix.ELOOP) {
		err = unix.ENXIO
	}
	return regular(f, err, path)
}

// regular closes a file that is not regular. ENXIO is the error of opening a socket.
func regular(f *os.File, err error, path string) (*os.File, fs.FileInfo, error) {
	kind := &fs.PathError{Op: "open", Path: path, Err: ErrKind}
	switch {
	case errors.Is(err, unix.ENXIO):
		return nil, nil, kind
	case err != nil:
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = kind
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// Read reads a regular file, or the target of a link to one, of at most so many bytes.
func Read(path string, most int64) ([]byte, error) { return read(path, most, 0) }

// ReadUnlinked works like Read, but does not follow a link, which is ErrKind too.
func ReadUnlinked(path string, most int64) ([]byte, error) { return read(path, most, unix.O_NOFOLLOW) }

func read(path string, most int64, more int) ([]byte, error) {
	f, _, err := open(path, more)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: it has more than %d bytes", ErrSize, most)}
	}
	return data, err
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
