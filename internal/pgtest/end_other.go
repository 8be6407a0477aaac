//go:build !linux

package pgtest

import "syscall"

// endWithParent does nothing where the kernel cannot end a process with its parent: only Stop or Kill ends the server.
func endWithParent(*syscall.SysProcAttr) {}
