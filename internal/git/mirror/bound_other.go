//go:build !linux

package mirror

// boundFiles does nothing: only Linux bounds a process that runs.
func boundFiles(int, uint64) {}
