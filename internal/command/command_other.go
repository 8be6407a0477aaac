//go:build unix && !linux

package command

import "syscall"

// Only Linux signals a child whose parent dies, and only it has subreapers.

func killWithParent(*syscall.SysProcAttr) {}

func becomeSubreaper() error { return nil }

// Hide does nothing: what other processes of a user may read here is the system's to say.
func Hide() error { return nil }
