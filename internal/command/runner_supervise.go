package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Supervise runs one step for a worker: it runs argv in a session of
// its own with this process's directory, environment and streams, and returns
// its exit status only when nothing that argv started is alive any more. It is
// the subreaper of all these processes, so that one that left its session is found too.
//
// It passes SIGTERM and SIGINT to argv's group, and after grace everything is
// killed. When the worker is dead everything is killed at once: nothing reads the output.
func Supervise(argv []string, grace time.Duration) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("supervise a program: its argv is empty")
	}
	if err := becomeSubreaper(); err != nil {
		return 0, fmt.Errorf("become the subreaper of %s: %w", argv[0], err)
	}
	worker := os.Getppid()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	runtime.LockOSThread() // see Command.Run
	defer runtime.UnlockOSThread()
	cmd, err := start(func() *exec.Cmd {
		cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // signals and the worker's death end it, not a context
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = Command{}.attributes()
		return cmd
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		if endWhenAsked(ctx, asked, worker, cmd.Process.Pid, grace) {
			killDescendants(cmd.Process.Pid)
		}
	}()
	_ = cmd.Wait() // the state says it all: the streams are files
	cancel()
	if reap(syscall.WNOHANG) {
		killDescendants(cmd.Process.Pid)
		reap(0)
	}
	return exitOf(cmd.ProcessState).Code, nil
}

// endWhenAsked hands the first signal on to the group, and returns true when everything is to be
// killed: after the grace, or at once when the worker is dead. It returns false when ctx ends
// first.
func endWhenAsked(ctx context.Context, asked <-chan os.Signal, worker, group int, grace time.Duration) bool {
	var over <-chan time.Time // begins with the first signal
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return true
		case <-asked:
		}
		if os.Getppid() != worker {
			return true
		}
		if over == nil {
			terminate(group)
			timer := time.NewTimer(grace)
			defer timer.Stop()
			over = timer.C
		}
	}
}

// killDescendants kills the group and every process below this one. A process
// that is killed leaves its children to this one, so it looks again until none is left.
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

// killMarked kills the processes that have NAME=value in their environment, but not this one. It looks again until it finds none. On systems
// without /proc it finds none.
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

// markedProcesses lists the processes but this one that have NAME=value in their environment. begin reports whether another one has begun to run
// a program and has no environment yet.
func markedProcesses(pair string) (marked []int, begin bool) {
	entries, _ := os.ReadDir("/proc") // without it nothing can be done
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err != nil {
			continue // of another user, or gone
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
