package assembly

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// Trust refuses files and folders that belong to neither this user nor root: the owner of a waybill.yaml, a
// server.yaml or a home has this user's processes run commands. A missing file is trusted. Links are judged by their
// owner, and by their target's.
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

// ReadTrusted reads a file, and at most one byte more than limit. It returns file.ErrForeign when Trust would refuse
// the file, which it judges by what it has opened: its owner cannot exchange it in the meantime.
func (p Place) ReadTrusted(path string, limit int64) (data []byte, err error) {
	link, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if _, foreign := p.foreign(link); foreign {
		return nil, file.ErrForeign
	}
	return file.ReadChecked(path, limit, func(info fs.FileInfo) error {
		if _, foreign := p.foreign(info); foreign {
			return file.ErrForeign
		}
		return nil
	})
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
