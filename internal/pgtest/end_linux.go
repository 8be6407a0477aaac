package pgtest

import "syscall"

// endWithParent has the kernel end the server when the thread that started it ends.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGQUIT }
