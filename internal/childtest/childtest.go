// Package childtest starts programs for tests, none of which can keep its test waiting.
package childtest

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// Bounds of a program: how long it runs, and how long its output is read after its end, which its children may hold
// open.
const (
	Limit  = 10 * time.Minute
	Linger = 10 * time.Second
)

// ErrLimit is the cause with which a program is killed that has not ended in time.
var ErrLimit = errors.New("the program did not end within its test's limit")

// Context returns a context that ends after Limit, and at the end of the test at the latest. It may
// be made in a cleanup.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(t.Context()), Limit, ErrLimit)
	t.Cleanup(cancel)
	return ctx
}

// Command returns a program that is killed when the test's Context ends.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(Context(t), name, args...)
	command.WaitDelay = Linger
	return command
}
