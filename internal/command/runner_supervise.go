package command

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Supervise runs the steps that a worker hands over through the socket at standard input, one at a time, until the worker closes
// its end or is dead. It is the subreaper of all that a step starts, so that a process that left its session is found too, and reports
// a step's exit status only when nothing of the step is alive any more.
//
// SIGTERM, SIGINT and SIGHUP reach the step's group as SIGTERM. When the worker has closed its end everything is killed at once.
func Supervise() error {
	worker, err := workerConn()
	if err != nil {
		return err
	}
	defer func() { _ = worker.Close() }() // nothing is read or written any more
	if err := errors.Join(Hide(), becomeSubreaper()); err != nil {
		return fmt.Errorf("become a supervisor: %w", err)
	}
	steps, closed := make(chan handover), make(chan struct{})
	go func() {
		defer close(steps)
		defer close(closed)
		for { // the next step comes once the worker has read how the one before it ended
			step, err := receive(worker)
			if err != nil {
				return
			}
			steps <- step
		}
	}()
	runtime.LockOSThread() // see Command.Run
	defer runtime.UnlockOSThread()
	for step := range steps {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) // without a step they end this process
		_, _ = worker.Write([]byte{step.run(asked, closed)})                  // an error means that the worker is dead, which ends the loop
		signal.Stop(asked)
	}
	return nil
}

// workerConn returns the socket at standard input.
func workerConn() (*net.UnixConn, error) {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("supervise steps: standard input: %w", err)
	}
	worker, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("supervise steps: standard input is not the socket of a worker"), conn.Close())
	}
	return worker, nil
}

// run runs the step's program in a session of its own, ends all that it started, and returns the exit status. Why the program
// cannot be started is in the step's output.
func (h handover) run(asked <-chan os.Signal, closed <-chan struct{}) (status byte) {
	stdout, stderr := h.outputs[0], h.outputs[1]
	defer func() { _, _ = stdout.Close(), stderr.Close() }() // pipes
	cmd, err := h.start()
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "waybill: start %s: %v\n", h.Argv[0], err)
		return fault.ExitUnavailable
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		endWhenAsked(cmd.Process.Pid, asked, closed, ended)
	}()
	_ = cmd.Wait() // the state is complete: the streams are files
	close(ended)
	<-watched
	if reap(syscall.WNOHANG) {
		killDescendants(cmd.Process.Pid)
		reap(0)
	}
	return byte(exitOf(cmd.ProcessState).Code) //nolint:gosec // a status, or 128 and a signal
}

func (h handover) start() (*exec.Cmd, error) {
	path, err := lookPath(h.Argv[0], h.Env)
	if err != nil {
		return nil, err
	}
	return start(func() *exec.Cmd {
		return &exec.Cmd{Path: path, Args: h.Argv, Dir: h.Dir, Env: h.Env, Stdout: h.outputs[0], Stderr: h.outputs[1],
			SysProcAttr: ownSession()}
	})
}

// endWhenAsked hands the first signal on to the group, and kills everything when the worker has closed its end, until the step's
// program has ended.
func endWhenAsked(group int, asked <-chan os.Signal, closed, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-closed:
			killDescendants(group)
			return
		case <-asked:
			terminate(group)
			asked = nil
		}
	}
}

// killDescendants kills the group and every process below this one. A killed process leaves its children to this one,
// so killDescendants looks again until none is left.
func killDescendants(group int) {
	_ = syscall.Kill(-group, syscall.SIGKILL)
	for range 100 { // bounded: a fork bomb may start processes as fast as they are killed
		below := descendants(os.Getpid())
		if len(below) == 0 {
			return
		}
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// killMarked kills the processes that have NAME=value in their environment, but not this one. It looks again until it
// finds none. On systems without /proc it finds none.
func killMarked(pair string) {
	for range 100 { // bounded, as above
		marked, begin := markedProcesses(pair)
		for _, pid := range marked {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(marked) == 0 && !begin {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// markedProcesses lists the processes but this one that have NAME=value in their environment. begin reports whether a
// further process has begun to run a program and has no environment yet.
func markedProcesses(pair string) (marked []int, begin bool) {
	entries, _ := os.ReadDir("/proc") // without it nothing can be done
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err != nil {
			continue // the process belongs to another user, or is gone
		}
		if slices.Contains(strings.Split(string(environ), "\x00"), pair) {
			marked = append(marked, pid)
		} else if len(environ) == 0 {
			_, err := os.Readlink("/proc/" + entry.Name() + "/exe") // threads of the kernel and zombies have none
			begin = begin || err == nil
		}
	}
	return marked, begin
}

// reap collects children that have ended, with WNOHANG only those, and reports
// whether there may be more. The program itself must have been waited for.
func reap(options int) bool {
	for {
		pid, err := syscall.Wait4(-1, nil, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return false // ECHILD: none left
		case pid == 0:
			return true // all are alive
		}
	}
}

// descendants lists the living processes below pid, without zombies; nil on systems without /proc.
func descendants(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, alive := parentOf(child); alive {
			children[parent] = append(children[parent], child)
		}
	}
	var below []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		below = append(below, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return below
}

// parentOf reads /proc/PID/stat: the state and the parent follow the name, which is in
// parentheses and may hold anything.
func parentOf(pid int) (parent int, alive bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, err == nil
}
