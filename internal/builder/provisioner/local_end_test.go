package provisioner_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/command"
)

func TestAWorkerThatDiesHasEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	s.until("Running")
	if err := s.local.Process(41).Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if ended := s.until("Ended"); !strings.HasPrefix(ended.Reason, "the process ended before the build did") {
		t.Error(ended.Reason)
	}
	if again := s.create(s.request(41)); again.New || again.Worker.Status != "Ended" {
		t.Errorf("the build ran again: %+v", again)
	}
}

func TestADeletedWorkerCancelsAndHandsItsResultsOver(t *testing.T) {
	t.Parallel()
	at := pipe(t)
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['echo begun > %s; exec sleep 600']}}}", at))
	s.create(s.request(41))
	worker := s.until("Running")
	if _, err := os.ReadFile(at); err != nil { // waits for the step
		t.Fatal(err)
	}
	for range 2 { // a second signal would end the worker at once
		if err := s.client.Delete(t.Context(), "local-41", false); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := s.take(worker); status != workerv1.Status_STATUS_CANCELED {
		t.Errorf("%s, want canceled", status)
	}
	s.until("")
}

// TestAWorkerIsAskedToEndOnce: a second SIGTERM would end it before its results are taken.
func TestAWorkerIsAskedToEndOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	worker := childtest.Command(t, os.Args[0])
	worker.Env = append(os.Environ(), signalVariable+"=1")
	out, err := worker.StdoutPipe()
	if err == nil {
		err = worker.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string { lines.Scan(); return lines.Text() }
	process, err := command.InstanceOf(worker.Process.Pid)
	if err != nil || next() != "ready" {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"buildId": 41, "instance": "shop", "process": {"pid": %d, "start": %q}}`, process.PID, process.Start)
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "41"), 0o700),
		os.WriteFile(filepath.Join(s.dir, "41", "worker.json"), []byte(record), 0o600)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		if err := s.client.Delete(t.Context(), "local-41", false); err != nil {
			t.Fatal(err)
		}
		if got == nil {
			got = append(got, next())
		}
	}
	for range 2 { // whatever was sent before is printed before the second one
		if err := process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		got = append(got, next())
	}
	if diff := cmp.Diff([]string{"terminated", "user defined signal 1", "user defined signal 1"}, got); diff != "" {
		t.Error(diff)
	}
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // killed
}

func TestResultsThatWereNotTakenAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	s.until("Running")
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	s.until("")
	s.local.Tidy(time.Now().Add(6 * 24 * time.Hour))
	kept := filepath.Join(s.dir, "41", "results", "build.json")
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	s.local.Tidy(time.Now().Add(8 * 24 * time.Hour))
	if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kept for longer than a week: %v", err)
	}
}

func TestAWorkerThatDoesNotEndIsKilledAfterTheGrace(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	s.until("Running")
	if err := s.client.Delete(t.Context(), "local-41", false); err != nil { // it waits for a reader
		t.Fatal(err)
	}
	if all, err := s.local.List(t.Context()); err != nil || len(all) != 1 || all[0].DeletedAt.IsZero() {
		t.Errorf("it does not say that it was asked to end: %+v, %v", all, err)
	}
	s.local.Tidy(time.Now().Add(10 * time.Minute))
	if alive, err := s.local.Process(41).Alive(); err != nil || !alive {
		t.Errorf("killed within the grace: %v, %v", alive, err)
	}
	s.local.Tidy(time.Now().Add(11 * time.Minute))
	s.until("")
}

func TestWhatARequestLeftIsRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	left := filepath.Join(s.dir, "41", "1.snapshot.tar.zst")
	if err := errors.Join(os.Mkdir(filepath.Dir(left), 0o700), os.WriteFile(left, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if list := s.list(); len(list.Workers) > 0 || !list.Complete {
		t.Errorf("%+v", list)
	}
	s.local.Tidy(time.Now())
	if _, err := os.Stat(left); err != nil {
		t.Errorf("removed at once: %v", err)
	}
	s.local.Tidy(time.Now().Add(8 * 24 * time.Hour))
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kept for longer than a week: %v", err)
	}
}

func TestAProcessWithTheSameNumberIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	other := childtest.Command(t, "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"buildId": 41, "instance": "shop", "process": {"pid": %d, "start": "long ago"}}`, other.Process.Pid)
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "41"), 0o700),
		os.WriteFile(filepath.Join(s.dir, "41", "worker.json"), []byte(record), 0o600)); err != nil {
		t.Fatal(err)
	}
	if w := s.until("Ended"); w.WorkerID != "local-41" {
		t.Errorf("%+v", w)
	}
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	s.local.Tidy(time.Now().Add(time.Hour))
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait() // killed
}
