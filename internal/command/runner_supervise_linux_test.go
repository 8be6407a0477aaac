package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Roles of the test's binary, by its first argument.
const (
	superviseArgument = "supervise-for-test"
	workArgument      = "work-for-test" // see work
	hideArgument      = "hide-for-test" // see hide
)

func TestMain(m *testing.M) {
	var err error
	switch argument := append(os.Args, "")[1]; argument {
	case superviseArgument:
		err = Supervise()
	case workArgument:
		err = work()
	case hideArgument:
		err = hide()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(97)
	}
}

// underSupervisors returns a runner whose supervisors are this binary.
func underSupervisors(t *testing.T) *Runner {
	t.Helper()
	r := &Runner{Supervisor: []string{os.Args[0], superviseArgument}, Grace: 200 * time.Millisecond}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// step runs a script as a step until nothing of it is alive, and returns the output.
func step(ctx context.Context, t *testing.T, r *Runner, script string, more ...string) (Exit, string) {
	t.Helper()
	s := begin(ctx, t, r, script, more...)
	text, err := io.ReadAll(s.stdout)
	if err != nil {
		t.Error(err)
	}
	return <-s.ended, string(text)
}

// begun is a script that runs as a step.
type begun struct {
	stdout io.Reader
	ended  chan Exit
}

func begin(ctx context.Context, t *testing.T, r *Runner, script string, more ...string) begun {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := begun{reader, make(chan Exit, 1)}
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() {
		cancel()
		_ = reader.Close()
	})
	go func() {
		exit, err := r.supervise(ctx, order{Argv: []string{"sh", "-c", script}, Dir: "/",
			Env: append([]string{"PATH=" + os.Getenv("PATH")}, more...)},
			[2]*os.File{writer, writer})
		if err != nil {
			t.Error(err)
		}
		_ = writer.Close()
		s.ended <- exit
	}()
	return s
}

// pids reads one line of process ids.
func pids(t *testing.T, from io.Reader) []int {
	t.Helper()
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(from, one); err != nil || one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}
	return pidsIn(t, string(line))
}

func pidsIn(t *testing.T, text string) (pids []int) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("the script printed %q", text)
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

func noneAlive(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}

// gone waits for the end of processes that are being killed.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for range 1000 {
		if !slices.ContainsFunc(pids, alive) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	noneAlive(t, pids)
}

const daemon = `setsid sleep 300 >/dev/null 2>&1 & a=$!; (setsid sleep 300 >/dev/null 2>&1 & echo $! $a); `

func TestAStepLeavesNoDaemon(t *testing.T) {
	t.Parallel()
	r := underSupervisors(t)
	for range 3 {
		exit, text := step(t.Context(), t, r, daemon+"exit 7")
		if exit != (Exit{Code: 7}) {
			t.Errorf("%v, want exit status 7", exit)
		}
		noneAlive(t, pidsIn(t, text))
	}
}

func TestAStepThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := begin(ctx, t, underSupervisors(t), `trap "" TERM; `+daemon+`while :; do sleep 0.05; done`)
	pids := pids(t, s.stdout)
	cancel()
	if exit := <-s.ended; exit.Code != 128+int(syscall.SIGKILL) {
		t.Errorf("%v, want a kill", exit)
	}
	noneAlive(t, pids)
}

func TestAStepGetsSIGTERM(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := underSupervisors(t)
	r.Grace = time.Minute
	s := begin(ctx, t, r, `trap "exit 5" TERM; echo $$; while :; do sleep 0.02; done`)
	pids(t, s.stdout)
	cancel()
	if exit := <-s.ended; exit != (Exit{Code: 5}) {
		t.Errorf("%v, want exit status 5", exit)
	}
	if exit, _ := step(t.Context(), t, r, "exit 3"); exit != (Exit{Code: 3}) {
		t.Errorf("the step after it: %v, want exit status 3", exit)
	}
}

// TestASupervisorKeepsNothingOfAStep for the next one, which it runs too.
func TestASupervisorKeepsNothingOfAStep(t *testing.T) {
	t.Parallel()
	r := underSupervisors(t)
	const ask = `echo $PPID; pwd; env; tr "\0" "\n" </proc/$PPID/environ 2>/dev/null; ls /proc/self/fd | wc -l; `
	const secret = "PASSWORD=open sesame"
	_, first := step(t.Context(), t, r, ask+"cd /tmp; umask 0; ulimit -n 20", secret)
	_, second := step(t.Context(), t, r, ask)
	if !strings.Contains(first, secret+"\n") {
		t.Errorf("the first step printed %q", first)
	}
	if want := strings.ReplaceAll(first, secret+"\n", ""); second != want {
		t.Errorf("the second step printed %q, want %q", second, want)
	}
}

func TestAKilledSupervisorFailsItsStepAlone(t *testing.T) {
	t.Parallel()
	r := underSupervisors(t)
	_, first := step(t.Context(), t, r, "echo $PPID")
	exit, second := step(t.Context(), t, r, "echo $PPID; kill -9 $PPID; while :; do :; done")
	if exit != (Exit{Code: 137, Signal: syscall.SIGKILL}) || second != first {
		t.Errorf("%v under %q, want a kill under %q", exit, second, first)
	}
	exit, third := step(t.Context(), t, r, "echo $PPID")
	if exit != (Exit{}) || third == first {
		t.Errorf("the step after it: %v under %q", exit, third)
	}
	idle := pidsIn(t, third)
	if err := syscall.Kill(idle[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-r.supervisors.idle[0].ended
	if exit, fourth := step(t.Context(), t, r, "echo $PPID"); exit != (Exit{}) || fourth == third {
		t.Errorf("after one that had no step was killed: %v under %q", exit, fourth)
	}
}

func TestStepsSideBySideHaveSupervisorsOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := underSupervisors(t)
	const sideBySide, each = 8, 10
	var all sync.WaitGroup
	for i := range sideBySide {
		all.Go(func() {
			for j := range each {
				exit, text := step(t.Context(), t, r, daemon+`test "$MINE" = `+strconv.Itoa(i*each+j)+" && exit "+strconv.Itoa(i),
					"MINE="+strconv.Itoa(i*each+j))
				if exit != (Exit{Code: i}) {
					t.Errorf("%v, want exit status %d", exit, i)
				}
				noneAlive(t, pidsIn(t, text))
			}
		})
	}
	all.Wait()
	if n := len(r.supervisors.idle); n < 1 || n > sideBySide {
		t.Errorf("%d supervisors wait", n)
	}
}

// TestADeadWorkerLeavesNothing: neither a step under a supervisor that has had others, nor a supervisor without one.
func TestADeadWorkerLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd := childtest.Command(t, os.Args[0], workArgument)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var started []int
	for range 4 {
		started = append(started, pids(t, stdout)...)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, started)
	_ = cmd.Wait() // killed
}

// work runs two steps side by side, and then one that does not end. Each names its supervisor, the last one daemons and itself too.
func work() error {
	r := &Runner{Supervisor: []string{os.Args[0], superviseArgument}}
	run := func(script string) error {
		_, err := r.supervise(context.Background(),
			order{Argv: []string{"sh", "-c", script}, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}},
			[2]*os.File{os.Stdout, os.Stderr})
		return err
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	met := filepath.Join(dir, "met")
	if err := syscall.Mkfifo(met, 0o600); err != nil {
		return err
	}
	other := make(chan error, 1)
	go func() { other <- run("echo $PPID; echo >" + met) }()
	if err := errors.Join(run("echo $PPID; read x <"+met), <-other, os.RemoveAll(dir)); err != nil {
		return err
	}
	return run(`trap "" TERM HUP; ` + daemon + "echo $$ $PPID; while :; do sleep 1; done")
}

func TestAStepThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	r := underSupervisors(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	exit, err := r.supervise(t.Context(), order{Argv: []string{"no-such-program"}, Dir: "/",
		Env: []string{"PATH=/bin", "PATH=/usr/bin"}}, [2]*os.File{writer, writer})
	_ = writer.Close()
	line, _ := bufio.NewReader(reader).ReadString('\n')
	if exit.Code != fault.ExitUnavailable || err != nil || !strings.Contains(line, "find no-such-program in PATH") {
		t.Errorf("%v, %v: %q", exit, err, line)
	}
}

// TestALargeEnvironmentReachesAStep: it takes many reads of the socket, and its last PATH counts.
func TestALargeEnvironmentReachesAStep(t *testing.T) {
	t.Parallel()
	var large []string
	for i := range 16 {
		large = append(large, fmt.Sprintf("LARGE%d=%s\xff", i, strings.Repeat("x", 100<<10)))
	}
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "mine"), []byte("#!/bin/sh\nexit 4\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	exit, text := step(t.Context(), t, underSupervisors(t), `env | grep -a -c "^LARGE.*xxx"; mine`,
		append(large, "PATH="+os.Getenv("PATH")+":"+own)...)
	if exit != (Exit{Code: 4}) || text != "16\n" {
		t.Errorf("%v: %q", exit, text)
	}
}

func TestASupervisorWantsAWorker(t *testing.T) {
	t.Parallel()
	cmd := childtest.Command(t, os.Args[0], superviseArgument)
	text, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(text), "supervise steps: standard input") {
		t.Errorf("%v: %q", err, text)
	}
}

func TestRunReportsSignalsAndStatuses(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]Exit{
		"exit 0":      {},
		"exit 3":      {Code: 3},
		"kill -9 $$":  {Code: 137, Signal: syscall.SIGKILL},
		"kill -15 $$": {Code: 143, Signal: syscall.SIGTERM},
	} {
		got, err := Command{Argv: []string{"/bin/sh", "-c", script}}.Run(t.Context())
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
	done := make(chan Exit, 1)
	go func() {
		exit, _ := Command{Argv: []string{"/bin/sh", "-c", `trap "" TERM; sleep 300 & echo $! $$; wait; while :; do sleep 0.05; done`},
			Env: os.Environ(), Stdout: writer, Grace: 50 * time.Millisecond}.Run(ctx)
		done <- exit
	}()
	pids := pids(t, reader)
	cancel()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if exit := <-done; exit.Signal != syscall.SIGKILL {
		t.Errorf("%v, want a kill", exit)
	}
	gone(t, pids) // killed, and perhaps not yet gone
}

// TestAStoppedProgramIsEndedBySIGTERM, which it gets only once it continues.
func TestAStoppedProgramIsEndedBySIGTERM(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan Exit, 1)
	go func() {
		exit, _ := Command{Argv: []string{"/bin/sh", "-c", `echo $$; kill -STOP $$; while :; do sleep 0.05; done`},
			Env: os.Environ(), Stdout: writer, Grace: time.Minute}.Run(ctx)
		done <- exit
	}()
	pid := pids(t, reader)[0]
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
