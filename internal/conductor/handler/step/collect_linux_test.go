package step

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// collecting starts the host program's collect in a folder whose service has not printed yet.
func collecting(t *testing.T, shell string) (dir string, c *exec.Cmd) {
	t.Helper()
	dir = t.TempDir()
	program := filepath.Join(dir, "host.sh")
	if err := errors.Join(os.WriteFile(program, []byte(hostProgram), 0o600), os.Mkdir(filepath.Join(dir, ".waybill"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, ".waybill", "out"), 0o600)); err != nil {
		t.Fatal(err)
	}
	c = exec.CommandContext(t.Context(), shell, program, dir, "collect") //nolint:gosec // the test's own program
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return dir, c
}

// TestSIGTERMEndsACollectWithoutAService: one that waits for a service to print must not outlive the supervisor. Once the service
// has printed, collect ends with it instead, and keeps its last lines.
func TestSIGTERMEndsACollectWithoutAService(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			_, c := collecting(t, shell)
			until(t, "it waits for a service", func() bool { return sleeps(c.Process.Pid) })
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait() // its status is that of the signal
			if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM &&
				status.ExitStatus() != 128+int(syscall.SIGTERM) {
				t.Errorf("it ended with %s", c.ProcessState)
			}

			dir, c := collecting(t, shell)
			out, err := os.OpenFile(filepath.Join(dir, ".waybill", "out"), os.O_WRONLY, 0) // waits for the reader
			if err != nil {
				t.Fatal(err)
			}
			printed := func() string {
				text, _ := os.ReadFile(filepath.Join(dir, ".waybill", "log")) // missing at first
				return string(text)
			}
			_, err = out.WriteString("first\n")
			until(t, "the first line is in the log", func() bool { return printed() == "first\n" })
			if err = errors.Join(err, c.Process.Signal(syscall.SIGTERM)); err == nil {
				_, err = out.WriteString("last\n")
			}
			if err := errors.Join(err, out.Close(), c.Wait()); err != nil || printed() != "first\nlast\n" {
				t.Errorf("the log has %q: %v", printed(), err)
			}
		})
	}
}

// sleeps reports whether a process without children waits for something.
func sleeps(pid int) bool {
	at := filepath.Join("/proc", strconv.Itoa(pid))
	stat, _ := os.ReadFile(filepath.Join(at, "stat"))
	children, _ := os.ReadFile(filepath.Join(at, "task", strconv.Itoa(pid), "children"))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "S") && len(children) == 0
}
