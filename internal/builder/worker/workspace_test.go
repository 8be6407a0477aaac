package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/workspace"
)

func TestEveryStepHasItsOwnCopy(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	file := script("a", "echo changed > hello.txt; echo new > new.txt") +
		"t: {b: {container: {image: i, cmds: ['cat hello.txt; test ! -e new.txt && test \"$PWD\" = \"$WAYBILL_WORKSPACE\" && " +
		"echo $CI $WAYBILL_STAGE/$WAYBILL_STEP $WAYBILL_BUILD_ID']}}}"
	got, r := s.run(t.Context(), file)
	if got != build.Completed {
		t.Errorf("%s: %v", got, steps(t, r))
	}
	if got, want := string(printed(t, r, 2, false)), "hello\ntrue t/b 7\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if text, _ := os.ReadFile(filepath.Join(s.dir, "hello.txt")); string(text) != "hello\n" {
		t.Error("a step changed the folder that is built")
	}
	if left, _ := filepath.Glob(filepath.Join(s.scratch, "[0-9]*")); left != nil {
		t.Errorf("copies are left: %v", left)
	}
}

func TestAWorkspaceThatCannotBeTakenFailsTheBuild(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	s.source = worker.Snapshot{Path: filepath.Join(s.dir, "missing.tar.zst")}
	got, r := s.run(t.Context(), script("a", "true"))
	if got != build.Failed || !strings.Contains(steps(t, r)[0], "Skipped (take the workspace") {
		t.Errorf("%s: %v", got, steps(t, r))
	}
}

func TestASnapshotIsBuilt(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	path := filepath.Join(t.TempDir(), "w.tar.zst")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := workspace.Pack(t.Context(), f, s.dir, []string{"hello.txt"})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s.source = worker.Snapshot{Path: path, Digest: digest}
	if got, r := s.run(t.Context(), script("a", "test $(cat hello.txt) = hello")); got != build.Completed {
		t.Errorf("%s: %v", got, steps(t, r))
	}
}

// sender is a runner that sends the snapshot elsewhere.
type sender struct {
	*command.Runner
	got build.Snapshot
}

func (s *sender) Run(_ context.Context, run build.Run, sink build.Sink) (build.Exit, error) {
	s.got = run.Snapshot
	return build.Exit{}, errors.Join(sink.Phase(build.Initializing), sink.Phase(build.Running))
}

func TestTheWorkspaceIsPackedIntoTheResults(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	if err := syscall.Mkfifo(filepath.Join(s.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	runner := &sender{}
	got, err := s.runWith(t.Context(), worker.Config{Workspace: worker.Taken{}, Packer: worker.Folder{Root: s.dir},
		Runner: runner, Remarks: []string{"lib is missing"}}, build.PlanStep{})
	if err != nil || got != build.Completed {
		t.Fatal(got, err)
	}
	r, _ := results.Open(s.results)
	b, err := r.Build()
	if err != nil || b.ID != "7" || len(b.Workspace) != 64 || b.Workspace != runner.got.SHA256 {
		t.Errorf("%q %q %v, want the digest that the runner got, %q", b.ID, b.Workspace, err, runner.got.SHA256)
	}
	if _, err := (worker.Snapshot{Path: runner.got.Path, Digest: b.Workspace}).Take(t.Context(),
		filepath.Join(t.TempDir(), "tree")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"lib is missing", "pipe is left out: it is a pipe"}, s.watch.remarks); diff != "" {
		t.Error(diff)
	}
}
