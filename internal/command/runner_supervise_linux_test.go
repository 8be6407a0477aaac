package command_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/command"
)

// superviseArgument makes the test binary act as `waybill supervise`.
const superviseArgument = "supervise-for-test"

// hideArgument makes it wait, hidden.
const hideArgument = "hide-for-test"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == hideArgument {
		os.Exit(hide())
	}
	if len(os.Args) > 2 && os.Args[1] == superviseArgument {
		code, err := command.Supervise(os.Args[2:], 200*time.Millisecond)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 97
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// started is a supervised shell whose script prints the ids of processes that must not survive.
type started struct {
	cmd    *exec.Cmd
	stdout io.Reader
}

func start(t *testing.T, script string) started {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := childtest.Command(t, self, superviseArgument, "/bin/sh", "-c", script)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return started{cmd, stdout}
}

// pids reads one line of process ids.
func (s started) pids(t *testing.T) []int {
	t.Helper()
	var pids []int
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(s.stdout, one); err != nil || one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}
	for _, word := range strings.Fields(string(line)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("the script printed %q", line)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		t.Fatal("the script printed no ids")
	}
	return pids
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

const daemon = `setsid sleep 300 >/dev/null 2>&1 & a=$!; (setsid sleep 300 >/dev/null 2>&1 & echo $! $a); `

func TestSuperviseLeavesNoDaemonAfterTheProgramEnds(t *testing.T) {
	t.Parallel()
	s := start(t, daemon+"exit 7")
	pids := s.pids(t)
	err := s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit status %d (%v), want 7", got, err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

func TestSuperviseKillsWhatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	s := start(t, `trap "" TERM; `+daemon+`while :; do sleep 0.05; done`)
	pids := s.pids(t)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	if got, want := s.cmd.ProcessState.ExitCode(), 128+int(syscall.SIGKILL); got != want {
		t.Errorf("exit status %d, want %d", got, want)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

func TestSuperviseHandsSIGTERMOn(t *testing.T) {
	t.Parallel()
	s := start(t, `trap "exit 5" TERM; echo $$; while :; do sleep 0.02; done`)
	s.pids(t)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != 5 {
		t.Errorf("exit status %d, want 5", got)
	}
}

func TestRunReportsSignalsAndStatuses(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]command.Exit{
		"exit 0":      {},
		"exit 3":      {Code: 3},
		"kill -9 $$":  {Code: 137, Signal: syscall.SIGKILL},
		"kill -15 $$": {Code: 143, Signal: syscall.SIGTERM},
	} {
		got, err := command.Command{Argv: []string{"/bin/sh", "-c", script}}.Run(t.Context())
		if err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", script, got, err, want)
		}
	}
}

func TestRunEndsTheGroupWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	s := started{stdout: reader}
	done := make(chan command.Exit, 1)
	go func() {
		exit, _ := command.Command{Argv: []string{"/bin/sh", "-c", `trap "" TERM; sleep 300 & echo $! $$; wait; while :; do sleep 0.05; done`},
			Env: os.Environ(), Stdout: writer, Grace: 50 * time.Millisecond}.Run(ctx)
		done <- exit
	}()
	pids := s.pids(t)
	cancel()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if exit := <-done; exit.Signal != syscall.SIGKILL {
		t.Errorf("%v, want a kill", exit)
	}
	for _, pid := range pids {
		for range 1000 { // killed, and perhaps not yet gone
			if !alive(pid) {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

// TestAStoppedProgramIsEndedBySIGTERM, which it gets only once it continues.
func TestAStoppedProgramIsEndedBySIGTERM(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	s := started{stdout: reader}
	done := make(chan command.Exit, 1)
	go func() {
		exit, _ := command.Command{Argv: []string{"/bin/sh", "-c", `echo $$; kill -STOP $$; while :; do sleep 0.05; done`},
			Env: os.Environ(), Stdout: writer, Grace: time.Minute}.Run(ctx)
		done <- exit
	}()
	pid := s.pids(t)[0]
	for stopped := false; !stopped; {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		stopped = strings.Contains(string(stat), ") T ")
		<-time.After(5 * time.Millisecond)
	}
	cancel()
	if exit := <-done; exit.Signal != syscall.SIGTERM {
		t.Errorf("%v, want SIGTERM", exit)
	}
}
