package testbed

import (
	"context"
	"os"
	"syscall"
	"testing"
)

// Program describes a program that a test runs beside itself.
type Program struct {
	Name  string
	Argv  []string
	Env   []string                    // beyond PATH and HOME
	Out   *os.File                    // its standard output; nil: its log
	Ready func(context.Context) error // nil: it is ready when it has started
}

// Process is a program that runs. It ends with the test, however the test ends, and fails the test when it ends on its own.
type Process struct{ run *service }

// RunProgram runs a program for the test, in a temporary folder.
func RunProgram(t testing.TB, p Program) *Process {
	t.Helper()
	run := &service{name: p.Name, argv: p.Argv, env: p.Env, dir: t.TempDir(), out: p.Out, ready: p.Ready}
	run.manage(t)
	return &Process{run}
}

// Kill kills the process with SIGKILL.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.run.kill(t)
}

// Start starts the program again after Kill, and waits until it is ready. Its log continues.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	p.run.start(t)
}

// Signal sends a signal to the process, such as SIGSTOP.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.PID(), signal); err != nil {
		t.Fatalf("testbed: signal %s: %v", p.run.name, err)
	}
}

// PID returns the id of the process; 0: it does not run.
func (p *Process) PID() int {
	p.run.mutex.Lock()
	defer p.run.mutex.Unlock()
	if p.run.run == nil {
		return 0
	}
	return int(p.run.run.pid.Load())
}

// LogTail returns the end of the output of all its lives.
func (p *Process) LogTail() string { return string(p.run.logTail()) }

// FreeAddress returns a loopback address at which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return addresses(t, 1)[0]
}
