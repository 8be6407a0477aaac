//go:build !linux

package git

// boundMemory does nothing: only Linux bounds a process that runs.
func boundMemory(int, uint64) {}
