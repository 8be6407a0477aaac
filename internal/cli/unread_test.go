package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
)

// TestOutputThatNothingReadsEndsQuietly: behind head(1) a command ends by SIGPIPE, or with the status that a shell has for that.
func TestOutputThatNothingReadsEndsQuietly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := "a: {b: {container: {image: none, cmds: [echo x]}}}\n"
	if err := os.WriteFile(filepath.Join(dir, ".wharf-ci.yml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	run := childtest.Command(t, "waybill", "run", "--runner", "process", "--results-dir", filepath.Join(dir, "results"), dir)
	run.Env = append(os.Environ(), "TMPDIR="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, arguments := range []string{"build schema", "build lint -o json", "run --dry-run",
		"run --runner process --results-dir ./unread", "build show ./results/", "build log ./results/ --raw a/b",
		"build log ./results/", "build log ./results/ -o json"} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		c := childtest.Command(t, "waybill", strings.Fields(arguments)...)
		c.Dir, c.Stdout, c.Stderr = dir, writer, &text
		c.Env = append(os.Environ(), "TMPDIR="+dir)
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		err = c.Run()
		ended, _ := errors.AsType[*exec.ExitError](err)
		if ended == nil || ended.ExitCode() != fault.ExitUnread &&
			ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || text.Len() > 0 {
			t.Errorf("%s: %v, printed %q", arguments, err, text.String())
		}
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
	}
}
