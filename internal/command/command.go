package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Command is a program to run in a session of its own, so that it and all it
// starts can be ended together and no terminal reaches them.
type Command struct {
	Argv   []string // Argv[0] is a path, or looked up in this process's PATH
	Dir    string   // working directory; "" is this process's
	Env    []string // NAME=value, all of it; nil is an empty environment
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Grace  time.Duration // between SIGTERM and SIGKILL once the context has ended; 0: SIGKILL at once
}

// Exit describes the end of a program.
type Exit struct {
	Code   int            // exit status; 128 + signal when a signal ended it, as a shell counts
	Signal syscall.Signal // 0: it exited on its own
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return "ended by signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// outputDelay bounds the time for which the output stays open after the program and its group are gone.
const outputDelay = 2 * time.Second

// Run runs the program to its end and kills the rest of its process group. When ctx ends first, the group gets
// SIGTERM and after Grace SIGKILL. The error is about starting and about reading output; a program that fails is an
// Exit.
func (c Command) Run(ctx context.Context) (Exit, error) {
	if len(c.Argv) == 0 {
		return Exit{}, errors.New("run a program: its argv is empty")
	}
	if err := context.Cause(ctx); err != nil {
		return Exit{}, err
	}
	// The kernel sends the parent-death signal when the thread ends that started
	// the child, so that thread must stay as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd, err := start(c.prepare)
	if err != nil {
		return Exit{}, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.endWith(ctx, cmd.Process.Pid, ended)
	}()
	err = cmd.Wait()
	close(ended)
	<-watched
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually no process is left
	return exitOf(cmd.ProcessState), waitError(err)
}

// prepare returns the program, not started.
func (c Command) prepare() *exec.Cmd {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...) //nolint:noctx // the end of ctx is SIGTERM first: see endWith
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = ownSession()
	return cmd
}

// maxBusy bounds the time for which start waits until the writers of a program file have closed it.
const maxBusy = 2 * time.Second

// start starts the program that prepare returns. A program file that was written a moment ago may still be open in a
// process that was forked in the meantime and has not called exec yet; until it does, the kernel reports that the
// file is busy, and start tries again.
func start(prepare func() *exec.Cmd) (*exec.Cmd, error) {
	for waited, pause := time.Duration(0), time.Millisecond; ; pause *= 2 {
		cmd := prepare()
		err := cmd.Start()
		if err == nil || !errors.Is(err, syscall.ETXTBSY) || waited >= maxBusy {
			return cmd, err
		}
		time.Sleep(pause)
		waited += pause
	}
}

// endWith ends the group when ctx ends before the program does.
func (c Command) endWith(ctx context.Context, pid int, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	if c.Grace > 0 {
		terminate(pid)
		timer := time.NewTimer(c.Grace)
		defer timer.Stop()
		select {
		case <-ended:
			return
		case <-timer.C:
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

// terminate sends SIGTERM to a group, and has processes of it that were stopped continue, since those would not get it. An error means
// that the group has ended, which shows elsewhere.
func terminate(group int) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	_ = syscall.Kill(-group, syscall.SIGCONT)
}

// ownSession has a program run in a session of its own, and killed once the thread that starts it has ended.
func ownSession() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	killWithParent(attributes)
	return attributes
}

func exitOf(state *os.ProcessState) Exit {
	if state == nil {
		return Exit{Code: -1}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

// waitError returns Wait's error unless it only reports an exit status.
func waitError(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok || err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return fmt.Errorf("wait for a program: %w", err)
}
