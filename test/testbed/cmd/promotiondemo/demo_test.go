//go:build services

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/test/testbed"
)

var product testbed.Product

func TestMain(m *testing.M) {
	status := m.Run()
	if product.Remove() != nil {
		status = max(status, 1)
	}
	os.Exit(status)
}

// demonstrate returns the script as a visitor runs it, and its folder for temporary files.
func demonstrate(t *testing.T) (script *exec.Cmd, folder string) {
	t.Helper()
	folder = t.TempDir()
	script = childtest.Command(t, "../../../../scripts/demo-promotion")
	script.Env = append(os.Environ(), "TMPDIR="+folder, childtest.ProgramVariable+"="+product.Path(t, "../../../.."))
	return script, folder
}

func TestDemonstrationEndsWithoutAVisitor(t *testing.T) {
	t.Parallel()
	script, folder := demonstrate(t)
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("the demonstration: %v\n%s", err, out)
	}
	for _, want := range []string{"/login?code=", "staging is merged", "prod waits for a person", "prod runs it", "the run is finished",
		"6.6.0 (was 6.5.4)", "Ctrl-C ends everything"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demonstration printed\n%s\nwant it to contain %q", out, want)
		}
	}
	mustBeEmpty(t, folder)
}

func TestDemonstrationEndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	script, folder := demonstrate(t)
	if _, err := script.StdinPipe(); err != nil { // a visitor who does not press Enter
		t.Fatal(err)
	}
	script.Stderr = os.Stderr
	out, err := script.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(out); !lines.Scan() {
		t.Fatalf("the demonstration printed nothing: %v", lines.Err())
	}
	if err := script.Process.Signal(os.Interrupt); err != nil { // systems are being started
		t.Fatal(err)
	}
	if err := script.Wait(); err != nil {
		t.Errorf("an interrupted demonstration: %v", err)
	}
	mustBeEmpty(t, folder)
}

// mustBeEmpty fails the test if something is left in the folder for temporary files.
func mustBeEmpty(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v (%v)", folder, left, err)
	}
}
