//go:build !services

package step

// ways is empty without the build tag services: not every machine has sshd.
var ways map[string]func(w *world)
