package assembly

import (
	"os"
	"strconv"
	"syscall"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Trust refuses files and folders that belong to neither this user nor root: the owner of a waybill.yaml, a server.yaml or a
// home has this user's processes run commands. What is not there is trusted. Links are judged by their owner, and by their target's.
func (p Place) Trust(paths ...string) error {
	for _, path := range paths {
		for _, look := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} {
			info, err := look(path)
			if err != nil {
				continue
			}
			stat, ok := info.Sys().(*syscall.Stat_t)
			if ok && isForeign(int(stat.Uid), os.Getuid(), p.Environment("SUDO_UID")) {
				return fault.New(fault.Invalid, "%s belongs to another user (%d), who could have this account run commands", path, stat.Uid).
					WithHint("if you trust what is in it: sudo chown -R %d %s", os.Getuid(), path)
			}
		}
	}
	return nil
}

// isForeign reports whether a file's owner is neither the user, nor root, nor who became root by sudo.
func isForeign(owner, self int, sudo string) bool {
	if owner == 0 || owner == self {
		return false
	}
	behind, err := strconv.Atoi(sudo)
	return self != 0 || err != nil || owner != behind
}
