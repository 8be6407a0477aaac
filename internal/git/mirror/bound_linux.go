package mirror

import "golang.org/x/sys/unix"

// boundFiles bounds each file that a process, and those that it starts, can write. A system that forbids that sets none.
func boundFiles(pid int, most uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: most}, nil)
}
