package assembly

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// ErrForeign reports a file that belongs to neither this user nor root.
var ErrForeign = errors.New("it belongs to another user")

// Trust refuses files and folders that belong to neither this user nor root: the owner of a waybill.yaml, a server.yaml or a
// home has this user's processes run commands. What is not there is trusted. Links are judged by their owner, and by their target's.
func (p Place) Trust(paths ...string) error {
	for _, path := range paths {
		for _, look := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} {
			info, err := look(path)
			if err != nil {
				continue
			}
			if owner, foreign := p.foreign(info); foreign {
				return fault.New(fault.Invalid, "%s belongs to another user (%d), who could have this account run commands", path, owner).
					WithHint("if you trust what is in it: sudo chown -R %d %s", os.Getuid(), path)
			}
		}
	}
	return nil
}

// TrustFound is Trust for a file of a folder in which the command runs or, found by a search, of one above it. The owner of a
// folder above could put any file there, so that is judged too, as Git does.
func (p Place) TrustFound(path string) error {
	dir := filepath.Dir(path)
	if below, err := filepath.Rel(dir, p.Dir); err == nil && below != "." && filepath.IsLocal(below) {
		if _, err := os.Lstat(path); err == nil {
			return p.Trust(path, dir)
		}
	}
	return p.Trust(path)
}

// ReadTrusted reads a file, and at most one byte more than limit. It returns ErrForeign when Trust would refuse the file,
// which it judges by what it has opened: its owner cannot exchange it meanwhile.
func (p Place) ReadTrusted(path string, limit int64) (data []byte, err error) {
	link, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if _, foreign := p.foreign(link); foreign {
		return nil, ErrForeign
	}
	return readRegular(path, limit, func(info fs.FileInfo) error {
		if _, foreign := p.foreign(info); foreign {
			return ErrForeign
		}
		return nil
	})
}

// ReadRegular reads a regular file or a link to one, of any user, up to one byte beyond the limit.
func ReadRegular(path string, limit int64) ([]byte, error) {
	return readRegular(path, limit, func(fs.FileInfo) error { return nil })
}

// OthersMayUse reports whether users other than this process's may read or change a file. A file of another user that this process reads
// by its group is what Kubernetes mounts of a Secret.
func OthersMayUse(info fs.FileInfo) bool {
	others := fs.FileMode(0o077)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		others = 0o037
	}
	return info.Mode().Perm()&others != 0
}

func readRegular(path string, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	f, info, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := check(info); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// foreign returns the owner of a file, and whether it is another user than those that are trusted.
func (p Place) foreign(info os.FileInfo) (owner int, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	owner = int(stat.Uid)
	return owner, isForeign(owner, os.Getuid(), p.Environment("SUDO_UID"))
}

// isForeign reports whether a file's owner is neither the user, nor root, nor who became root by sudo.
func isForeign(owner, self int, sudo string) bool {
	if owner == 0 || owner == self {
		return false
	}
	behind, err := strconv.Atoi(sudo)
	return self != 0 || err != nil || owner != behind
}
