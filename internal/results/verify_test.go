package results_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
)

// TestVerifyStepSeesWhatWasChanged: a step whose files are not what they were is not reused, and no link or pipe is followed.
func TestVerifyStepSeesWhatWasChanged(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	const log, artifact = "steps/1/output.log", "steps/1/artifacts/1_a_.txt"
	for name, change := range map[string]func(dir string) error{
		"nothing":     func(string) error { return nil },
		"a log":       func(dir string) error { return flip(filepath.Join(dir, log)) },
		"an artifact": func(dir string) error { return flip(filepath.Join(dir, artifact)) },
		"a link":      func(dir string) error { return movedBehindLink(filepath.Join(dir, artifact), outside) },
		"a pipe": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, log)), syscall.Mkfifo(filepath.Join(dir, log), 0o600))
		},
		"test results": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "steps/1/test-results.json"), []byte("{"), 0o600)
		},
		"a missing status": func(dir string) error { return os.Remove(filepath.Join(dir, "steps/1/status.json")) },
	} {
		dir := filepath.Join(t.TempDir(), "1")
		finish(t, create(t, dir, 0))
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir).VerifyStep(1); (err == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func movedBehindLink(path, outside string) error {
	return errors.Join(os.Rename(path, outside), os.Symlink(outside, path))
}

// TestResultsThatAreNotOurs: neither those of others nor those without a plan are taken for a build's.
func TestResultsThatAreNotOurs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "1")
	finish(t, create(t, dir, 0))
	r := open(t, dir)
	if !r.Own() {
		t.Error("a folder of this user is not its own")
	}
	if err := os.Chmod(dir, 0o722); err != nil { //nolint:gosec // that is the fault
		t.Fatal(err)
	}
	if r.Own() {
		t.Error("a folder that others can change is taken for this user's own")
	}
	if err := os.WriteFile(filepath.Join(dir, "build.json"), []byte(`{"plan": null}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Build(); !fault.Is(err, fault.Corrupt) {
		t.Errorf("without a plan: %v", err)
	}
}
