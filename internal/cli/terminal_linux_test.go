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

	"github.com/waybill-dev/waybill/internal/childtest"
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
