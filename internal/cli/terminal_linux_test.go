package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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

// TestARunThatNothingReadsIsCanceled: behind head(1) a build has an end, as after Ctrl-C.
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
	if !ok || exit.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit status 130", exit)
	}
	r, err := results.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	if final, err := r.Final(); err != nil || final == nil || final.Status != build.Canceled {
		t.Errorf("the build's end is %+v, %v, want Canceled", final, err)
	}
}
