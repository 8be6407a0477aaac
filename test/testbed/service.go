package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// service is a program that runs beside the test. It may be killed and started
// again as often as a test likes; its log continues.
type service struct {
	name  string
	argv  []string
	env   []string                        // beyond PATH and HOME
	dir   string                          // its working folder, where its log is too
	out   *os.File                        // its standard output; nil: its log
	ready func(ctx context.Context) error // nil: it shows by what it does
	died  func(error)                     // called when it ends on its own; may be nil

	mutex sync.Mutex
	run   *running // nil while stopped
}

// running is one life of a service.
type running struct {
	kill  context.CancelFunc
	ended chan struct{} // closed after fate is set
	fate  error         // how it ended
	pid   atomic.Int64  // 0: it has not begun
}

// manage starts a service and ends it with the test. A service that ended on its own fails the test, and a test that
// failed shows the end of its log.
func (s *service) manage(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("testbed: %v", err)
		}
		if t.Failed() {
			t.Logf("testbed: the end of %s's log:\n%s", s.name, s.logTail())
		}
	})
	s.start(t)
}

// start starts the service and waits until it is ready.
func (s *service) start(t testing.TB) {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.run != nil {
		t.Fatalf("testbed: %s runs already", s.name)
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatalf("testbed: start %s: %v", s.name, err)
	}
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	s.run = &running{kill: kill, ended: make(chan struct{})}
	go s.live(ctx, s.run, log)
	if err := s.await(t.Context(), s.run); err != nil {
		t.Fatalf("testbed: start %s: %v", s.name, err)
	}
}

// live runs the service to its end. The kernel kills it when the thread ends that
// started it, at the latest with this process, so the thread stays as long as it.
func (s *service) live(ctx context.Context, run *running, log *os.File) {
	defer close(run.ended)
	defer log.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	command := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)
	command.Dir, command.Stdout, command.Stderr = s.dir, log, log
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}, s.env...)
	if s.out != nil {
		command.Stdout = s.out
	}
	// Ctrl-C at a terminal is for this process alone, which ends the others.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if run.fate = command.Start(); run.fate == nil {
		run.pid.Store(int64(command.Process.Pid))
		run.fate = command.Wait()
	}
	if ctx.Err() != nil {
		return
	}
	if run.fate == nil {
		run.fate = errors.New("exit status 0")
	}
	if s.died != nil {
		s.died(fmt.Errorf("%s ended: %w", s.name, run.fate))
	}
}

// await asks until the service answers, and gives up as soon as it has ended.
func (s *service) await(ctx context.Context, run *running) error {
	if s.ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not ready after %s", patience))
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-run.ended:
			return fmt.Errorf("it ended: %w", run.fate)
		case <-ctx.Done():
			return fmt.Errorf("%w; its last answer: %w", context.Cause(ctx), err)
		}
	}
}

// kill kills the service without warning; start starts it again.
func (s *service) kill(t testing.TB) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Fatalf("testbed: %v", err)
	}
}

// stop kills the service and waits until it is gone. It returns an error if the service had ended on its own.
// Stopping a stopped service is allowed.
func (s *service) stop() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	run := s.run
	if run == nil {
		return nil
	}
	s.run = nil
	defer run.kill()
	select {
	case <-run.ended:
		return fmt.Errorf("%s ended before its test did: %w", s.name, run.fate)
	default:
	}
	run.kill()
	<-run.ended
	return nil
}

// processID returns the id of the service's process.
func (s *service) processID() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.run.pid.Load()
}

func (s *service) logPath() string { return filepath.Join(s.dir, s.name+".log") }

// logTail returns the end of the log, enough to see the reason.
func (s *service) logTail() []byte {
	const lines = 40
	content, err := os.ReadFile(s.logPath())
	if err != nil {
		return []byte(err.Error())
	}
	all := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}
