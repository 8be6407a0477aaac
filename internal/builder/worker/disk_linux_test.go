//go:build services

package worker_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/results"
)

// onSmallDisk has the results on a file system of 4 MiB.
func onSmallDisk(t *testing.T) *setup {
	t.Helper()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatalf("mount a small file system (needs root, or user namespaces): %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	s := fresh(t)
	s.results = filepath.Join(disk, "results")
	return s
}

// TestAFullDiskFailsWhatFillsIt: the step fails, its earlier output and every status can be read, and the build ends.
func TestAFullDiskFailsWhatFillsIt(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	const endless = "exec yes 'a line that is printed again and again'"
	for name, file := range map[string]string{
		"a log":              script("a", endless),
		"two logs at a time": "s:\n  fail-fast: false\n" + strings.TrimPrefix(script("a", endless, "b", endless), "s:\n"),
		"an artifact":        "s: {a: {artifacts: [big], container: {image: none, cmds: ['head -c 8388608 /dev/urandom >big']}}}",
		"a log beside one": "s: {fail-fast: false, a: {artifacts: [big], container: {image: none, cmds: ['head -c 8388608 " +
			"/dev/urandom >big']}}, b: {container: {image: none, cmds: [\"" + endless + "\"]}}}",
	} {
		t.Run(name, func(t *testing.T) {
			s := onSmallDisk(t)
			got, r := s.run(t.Context(), file)
			if got != build.Failed {
				t.Errorf("the build is %s", got)
			}
			for _, step := range steps(t, r) {
				if !strings.Contains(step, "Failed (") || !strings.Contains(step, "ResultsDiskFull") {
					t.Error(step)
				}
			}
			half, _ := filepath.Glob(filepath.Join(s.results, "steps", "*", "artifacts", "*"))
			if artifacts, err := r.Artifacts(); err != nil || len(artifacts)+len(half) > 0 {
				t.Errorf("of what did not fit, %v is listed and %v is left: %v", artifacts, half, err)
			}
		})
	}
}

// TestASnapshotThatDoesNotFitFailsTheBuild: no half of it is left.
func TestASnapshotThatDoesNotFitFailsTheBuild(t *testing.T) {
	if !childtest.AsRoot(t) {
		return
	}
	s := onSmallDisk(t)
	data := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it never fails
	s.write("big", string(data))
	plan := &build.Plan{Timeout: time.Hour, Stages: []build.PlanStage{{Name: "s", RunsIf: build.Success, Steps: []int{1}}},
		Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}}, MaxParallel: 1}
	store, err := results.Create(s.results, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Describe(results.Build{ID: "7", Plan: plan}); err != nil {
		t.Fatal(err)
	}
	got, err := worker.New(worker.Config{ID: "7", Plan: plan, Workspace: worker.Taken{}, Packer: worker.Folder{Root: s.dir}, Runner: &sender{},
		Store: store, Observer: s.watch, Scratch: s.scratch}).Run(t.Context())
	if err := errors.Join(err, store.Close()); err != nil || got != build.Failed {
		t.Fatal(got, err)
	}
	r, err := results.Open(s.results)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	if got := steps(t, r)[0]; !strings.Contains(got, "no space left on device") {
		t.Error(got)
	}
	if _, err := os.Lstat(store.SnapshotPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part of the snapshot is left: %v", err)
	}
}
