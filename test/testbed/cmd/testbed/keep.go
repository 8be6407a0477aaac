package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/test/testbed/controlgroup"
)

// grace bounds the end of an interrupted command.
const grace = 10 * time.Second

// keep runs the command, cleans up after it and returns the exit status.
func keep(argv []string) int {
	// A process below this one that loses its parent becomes this one's child, so
	// none can escape.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "testbed: adopt orphans:", err)
		return 3
	}
	folder, err := os.MkdirTemp("", "waybill-e2e-")
	if err == nil {
		err = os.Chmod(folder, 0o711) // a database server runs as another user and must pass through
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed: make a temporary folder:", err)
		return 3
	}
	status, interrupted := attend(argv, folder)
	left := endDescendants(interrupted)
	if len(left) > 0 && !interrupted {
		fmt.Fprintln(os.Stderr, "testbed: ended what the command left running:", strings.Join(left, ", "))
		status = max(status, 1)
	}
	if err := controlgroup.Remove(controlgroup.Prefix + filepath.Base(folder)); err != nil {
		fmt.Fprintln(os.Stderr, "testbed: remove what the command left:", err)
		status = max(status, 1)
	}
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, "testbed: remove what the command left:", err)
		status = max(status, 1)
	}
	return status
}

// attend runs the command in a process group of its own and passes interrupts on:
// the first as SIGINT, the second, or the end of the grace, as SIGKILL.
func attend(argv []string, folder string) (status int, interrupted bool) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	command := exec.CommandContext(context.Background(), argv[0], argv[1:]...) // signals end it, in steps
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "TMPDIR="+folder)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		return 2, false
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var late <-chan time.Time
	for {
		select {
		case err := <-ended:
			if interrupted {
				return 130, true
			}
			return statusOf(err), false
		case <-late:
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // an error means that it has ended, which Wait reports
		case <-signals:
			if interrupted {
				_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
				continue
			}
			interrupted, late = true, time.After(grace)
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGINT)
		}
	}
}

func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "testbed:", err)
	return 1
}
