package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/results"
)

// openTerminal returns the two ends of a terminal. Closing ours hangs up on theirs.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// Closing the terminal in which `waybill up` runs ends it as Ctrl-C does: the lock is free, and nothing was cut off.
func TestClosingTheTerminalEndsUp(t *testing.T) {
	t.Parallel()
	port, err := childtest.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	log, err := os.Create(filepath.Join(home, "log.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ours, theirs := openTerminal(t)
	// A child inherits an ignored SIGHUP, as under nohup, but not one that this process handles.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	up := childtest.Command(t, "waybill", "up", "--home", filepath.Join(home, "home"), "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	up.Stdin, up.Stdout, up.Stderr = theirs, theirs, log
	up.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	for lines := bufio.NewScanner(ours); lines.Scan() && !strings.Contains(lines.Text(), "/login?code="); {
	}
	ours.Close()
	exit, ok := errors.AsType[*exec.ExitError](up.Wait())
	if !ok || exit.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit status 130", exit)
	}
	if said, err := os.ReadFile(log.Name()); err != nil || strings.Contains(string(said), "panic") {
		t.Errorf("%v: %s", err, said)
	}
}

// A password that was not given is requested on a terminal, which does not show it, and again when the build is
// resumed. Ctrl-C at the prompt ends the command and leaves the terminal as it was.
func TestAPasswordIsAskedForOnATerminal(t *testing.T) {
	t.Parallel()
	dir, temporary := t.TempDir(), t.TempDir()
	const file = "inputs: [{name: token, type: password}]\nwork:\n" +
		"  a: {container: {image: i, cmds: ['test \"${token}\" = hunter22 && echo got \"${token}\"; exit 1']}}\n"
	if err := os.WriteFile(filepath.Join(dir, ".wharf-ci.yml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		arguments []string
		typed     string
		exit      int
	}{
		{[]string{"run", "--runner", "process"}, "hunter22\n", 1},
		{[]string{"run", "--runner", "process", "--resume"}, "hunter22\n", 1},
		{[]string{"run", "--runner", "process"}, "\x03", 130},
	} {
		ours, theirs := openTerminal(t)
		echo, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		run := childtest.Command(t, "waybill", test.arguments...)
		run.Dir, run.Env = dir, append(os.Environ(), "TMPDIR="+temporary, "TERM=dumb")
		run.Stdin, run.Stdout, run.Stderr = theirs, theirs, theirs
		run.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(ours)
		question, err := reader.ReadString(':')
		if err != nil || question != "Password token:" {
			t.Errorf("%v: asked %q, %v", test.arguments, question, err)
		}
		awaitNoEcho(t, theirs)
		if _, err := ours.WriteString(test.typed); err != nil {
			t.Fatal(err)
		}
		said := make(chan string, 1)
		go func() {
			rest, _ := io.ReadAll(reader) // the end of a terminal is an error
			said <- string(rest)
		}()
		exit, _ := errors.AsType[*exec.ExitError](run.Wait())
		after, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
		if err != nil || after.Lflag != echo.Lflag {
			t.Errorf("%v: the terminal has the flags %x, and had %x: %v", test.arguments, after.Lflag, echo.Lflag, err)
		}
		theirs.Close()
		printed := <-said
		if exit == nil || exit.ExitCode() != test.exit || strings.Contains(printed, "hunter22") ||
			test.exit == 1 && !strings.Contains(printed, "got ***") {
			t.Errorf("%v: %v, and printed:\n%s", test.arguments, exit, printed)
		}
	}
}

// --shell opens a shell in the folder of the step that failed, with its variables.
func TestAShellOpensInTheFolderOfAFailedStep(t *testing.T) {
	t.Parallel()
	dir, temporary := t.TempDir(), t.TempDir()
	const file = "inputs: [{name: level, type: string, default: deep}]\nwork:\n" +
		"  a: {container: {image: i, cmds: ['echo left behind >made; exit 1']}}\n"
	if err := os.WriteFile(filepath.Join(dir, ".wharf-ci.yml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	ours, theirs := openTerminal(t)
	run := childtest.Command(t, "waybill", "run", "--runner", "process", "--shell")
	run.Dir, run.Env = dir, append(os.Environ(), "TMPDIR="+temporary, "TERM=dumb", "SHELL=/bin/sh")
	run.Stdin, run.Stdout, run.Stderr = theirs, theirs, theirs
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.WriteString("cat made; echo $TERM is $WAYBILL_INPUT_LEVEL; exit 7\n"); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(ours) // the end of a terminal is an error
		said <- string(all)
	}()
	exit, _ := errors.AsType[*exec.ExitError](run.Wait())
	theirs.Close()
	printed := <-said
	if exit == nil || exit.ExitCode() != 1 || !strings.Contains(printed, "left behind\r") || !strings.Contains(printed, "dumb is deep\r") {
		t.Errorf("%v, and printed:\n%s", exit, printed)
	}
}

// awaitNoEcho waits until a terminal no longer shows typed text.
func awaitNoEcho(t *testing.T, terminal *os.File) {
	t.Helper()
	for t.Context().Err() == nil {
		flags, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if flags.Lflag&unix.ECHO == 0 {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestARunThatNothingReadsIsCanceled: piped into head(1), a build ends.
func TestARunThatNothingReadsIsCanceled(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "results")
	const file = `{s: {talker: {container: {image: x, cmds: ["while :; do echo line; done"]}}}}`
	if err := os.WriteFile(filepath.Join(dir, ".wharf-ci.yml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	run := childtest.Command(t, "waybill", "run", "--runner", "process", "--results-dir", kept, dir)
	run.Stdout = theirs
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	for lines := bufio.NewScanner(ours); lines.Scan() && !strings.HasSuffix(lines.Text(), "| line"); {
	}
	ours.Close()
	exit, ok := errors.AsType[*exec.ExitError](run.Wait())
	if !ok || exit.ExitCode() != 141 {
		t.Errorf("ended with %v, want exit status 141", exit)
	}
	r, err := results.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	if final, err := r.Final(); err != nil || final == nil || final.Status != build.Canceled {
		t.Errorf("the build's end is %+v, %v, want Canceled", final, err)
	}
}
