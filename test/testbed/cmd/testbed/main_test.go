//go:build services

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test's own executable act as the command.
func TestMain(m *testing.M) {
	if os.Getenv("TESTBED_KEEP") != "" {
		os.Exit(keep(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// Bounds of a command: how long it runs, and how long its output is read after its end.
const (
	limit  = 3 * time.Minute
	linger = 10 * time.Second
)

// kept is the command running a shell script.
type kept struct {
	command *exec.Cmd
	out     *bufio.Reader
	errors  bytes.Buffer
}

func start(t *testing.T, script string) *kept {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	k := &kept{command: exec.CommandContext(ctx, self, "sh", "-c", script)}
	k.command.WaitDelay = linger
	k.command.Env = append(os.Environ(), "TESTBED_KEEP=1")
	k.command.Stderr = &k.errors
	out, err := k.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	k.out = bufio.NewReader(out)
	if err := k.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.command.Process.Kill() })
	return k
}

// line returns the next line that the script printed.
func (k *kept) line(t *testing.T) string {
	t.Helper()
	line, err := k.out.ReadString('\n')
	if err != nil {
		t.Fatalf("read the script's output: %v; %s", err, &k.errors)
	}
	return strings.TrimSpace(line)
}

func (k *kept) wait(t *testing.T) int {
	t.Helper()
	err := k.command.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

func TestExitsWithTheStatusOfTheCommand(t *testing.T) {
	t.Parallel()
	k := start(t, `touch "$TMPDIR/file"; echo "$TMPDIR"; exit 7`)
	folder := k.line(t)
	if got := k.wait(t); got != 7 {
		t.Errorf("exit status: got %d, want 7; %s", got, &k.errors)
	}
	mustNotExist(t, folder)
}

func TestEndsAndReportsWhatTheCommandLeftRunning(t *testing.T) {
	t.Parallel()
	k := start(t, `echo "$TMPDIR"; setsid sleep 1000 >/dev/null & echo $!`)
	folder, pid := k.line(t), k.line(t)
	if got := k.wait(t); got != 1 {
		t.Errorf("exit status: got %d, want 1; %s", got, &k.errors)
	}
	if want := "sleep (" + pid + ")"; !strings.Contains(k.errors.String(), want) {
		t.Errorf("standard error: got %q, want it to name %q", &k.errors, want)
	}
	mustBeGone(t, pid)
	mustNotExist(t, folder)
}

func TestInterruptEndsTheCommandAndWhatItStarted(t *testing.T) {
	t.Parallel()
	k := start(t, `setsid sleep 1000 >/dev/null & echo "$TMPDIR"; echo $!; wait`)
	folder, pid := k.line(t), k.line(t)
	interrupt(t, k, syscall.SIGTERM)
	if got := k.wait(t); got != 130 {
		t.Errorf("exit status: got %d, want 130; %s", got, &k.errors)
	}
	mustBeGone(t, pid)
	mustNotExist(t, folder)
}

func TestSecondInterruptEndsACommandThatIgnoresTheFirst(t *testing.T) {
	t.Parallel()
	k := start(t, `trap 'echo ignored' INT; setsid sleep 1000 >/dev/null & echo $!; while :; do wait; done`)
	pid := k.line(t)
	interrupt(t, k, os.Interrupt)
	if got, want := k.line(t), "ignored"; got != want {
		t.Errorf("the script's output: got %q, want %q", got, want)
	}
	interrupt(t, k, os.Interrupt)
	if got := k.wait(t); got != 130 {
		t.Errorf("exit status: got %d, want 130; %s", got, &k.errors)
	}
	mustBeGone(t, pid)
}

func interrupt(t *testing.T, k *kept, signal os.Signal) {
	t.Helper()
	if err := k.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func mustBeGone(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(number, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %s: got %v, want it gone", pid, err)
	}
}

func mustNotExist(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: got %v, want it removed", path, err)
	}
}
