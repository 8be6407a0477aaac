package mirror

import "golang.org/x/sys/unix"

// boundFiles bounds each file that a process, and those that it starts, can write. A system that forbids that sets none.
func boundFiles(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: mostWritten, Max: mostWritten}, nil)
}
