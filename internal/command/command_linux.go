package command

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// killWithParent asks the kernel to kill the child when its parent dies.
func killWithParent(attributes *syscall.SysProcAttr) {
	attributes.Pdeathsig = syscall.SIGKILL
}

// Hide keeps other processes of this user, such as the steps of builds, from reading this one's memory and environment. A program that
// it starts is not hidden.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide this process's memory and environment: %w", err)
	}
	return nil
}

// becomeSubreaper makes orphans below this process its children instead of init's.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}
