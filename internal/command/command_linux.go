package command

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setParentDeath asks the kernel to signal the child when its parent dies.
func setParentDeath(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}

// becomeSubreaper makes orphans below this process its children instead of init's.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}
