package worker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/results"
)

// TestAKilledWorkerLeavesNoChild kills a worker while a step has descendants of every kind.
func TestAKilledWorkerLeavesNoChild(t *testing.T) {
	t.Parallel()
	killWorker(t, false)
}

// TestASecondSignalLeavesNoChild kills a worker that is canceling its build already: the step's
// supervisor is waiting for a step that does not end.
func TestASecondSignalLeavesNoChild(t *testing.T) {
	t.Parallel()
	killWorker(t, true)
}

func killWorker(t *testing.T, cancelFirst bool) {
	t.Helper()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "src"), 0o755), os.Mkdir(filepath.Join(dir, "scratch"), 0o755),
		syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := childtest.Command(t, os.Args[0])
	cmd.Env = append(os.Environ(), "WAYBILL_TEST_WORKER="+dir, "WAYBILL_TEST_PIPE="+pipe)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(pipe) // blocks until the step has started everything
	if err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(filepath.Join(dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the step has no log", func() bool {
		entries, _, err := r.Tail(1, 5)
		return err == nil && len(entries) > 0
	})
	if cancelFirst {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(pipe); err != nil { // the step was asked to end, and does not
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		gone(t, pid)
	}
	if final, err := r.Final(); final != nil || err != nil || r.Alive() {
		t.Errorf("final marker %v, %v, alive %t: the build was killed", final, err, r.Alive())
	}
	if entries, _, err := r.Tail(1, 5); err != nil || len(entries) != 1 || string(entries[0].Text) != "printed before the end" {
		t.Errorf("the log: %v, %v", entries, err)
	}
}

// gone waits for the end of a process that is being killed by another.
func gone(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	until(t, "process "+strconv.Itoa(pid)+" is alive", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
	})
}

// until waits for another process.
func until(t *testing.T, otherwise string, done func() bool) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for ctx := childtest.Context(t); !done(); {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatal(otherwise)
		}
	}
}
