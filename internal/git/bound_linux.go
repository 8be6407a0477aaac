package git

import "golang.org/x/sys/unix"

// boundMemory bounds the address space of a process, and of those that it starts from now on. Where the system forbids
// that, it has no bound.
func boundMemory(pid int, most uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}, nil)
}
