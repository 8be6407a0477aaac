//go:build unix && !linux

package command

import "syscall"

// Only Linux signals a child whose parent dies, and only it has subreapers.

func killWithParent(*syscall.SysProcAttr) {}

func becomeSubreaper() error { return nil }

// Hide does nothing: the access of a user's other processes here is decided by the system.
func Hide() error { return nil }
