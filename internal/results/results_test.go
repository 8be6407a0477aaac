package results_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// onePlan has two steps.
func onePlan() *build.Plan {
	return &build.Plan{File: ".wharf-ci.yml", Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}, {ID: 2, Stage: "s", Name: "b"}}}
}

func create(t *testing.T, dir string, limit int64) *results.Store {
	t.Helper()
	store, err := results.Create(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Describe(results.Build{ID: "1", Plan: onePlan()}); err != nil {
		t.Fatal(err)
	}
	return store
}

func open(t *testing.T, dir string) *results.Reader {
	t.Helper()
	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func update(t *testing.T, s *results.Store, step int, status build.Status) build.Update {
	t.Helper()
	u, err := s.Update(step, build.Update{Status: status, Timestamp: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func line(text string) build.Entry {
	return build.Entry{At: time.Now().UTC(), Text: []byte(text)}
}

// finish writes a whole small build.
func finish(t *testing.T, s *results.Store) {
	t.Helper()
	update(t, s, 0, build.Running)
	for _, step := range []int{1, 2} {
		log, err := s.Log(step)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Append(line("one"), line("two")); err != nil {
			t.Fatal(err)
		}
		update(t, s, step, build.Running)
		if _, err := s.AddArtifact(build.Artifact{Step: step, Name: "dist/../a\xff.txt", Kind: build.KindFile},
			strings.NewReader("bytes")); err != nil {
			t.Fatal(err)
		}
		update(t, s, step, build.Completed)
	}
	update(t, s, 0, build.Completed)
}

// TestStepsAreReused: the log and the artifacts of an earlier build are those of the new one, also when the earlier one is removed.
func TestStepsAreReused(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")
	finish(t, create(t, first, 0))
	store := create(t, second, 0)
	update(t, store, 0, build.Running)
	for id, from := range map[int]int{1: 2, 2: 1} {
		reused, err := store.Reuse(id, open(t, first), from, build.Update{Timestamp: time.Now(), Reason: "reused"})
		if err != nil || reused.Update.Status != build.Reused || len(reused.Artifacts) != 1 || reused.Artifacts[0].Step != id {
			t.Fatalf("%+v, %v", reused, err)
		}
	}
	update(t, store, 0, build.Completed)
	if err := os.RemoveAll(first); err != nil {
		t.Fatal(err)
	}
	r := open(t, second)
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	artifacts, err := r.Artifacts()
	if err != nil || len(artifacts) != 2 || artifacts[0].ID == artifacts[1].ID {
		t.Fatalf("%+v, %v", artifacts, err)
	}
	for _, a := range artifacts {
		f, err := r.OpenArtifact(a)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || string(text) != "bytes" {
			t.Errorf("artifact %d has %q, %v", a.ID, text, err)
		}
		_ = f.Close()
	}
}

// TestOnlyAReusedStepIsRead: the files of other steps are not read again for each one, nor do they matter.
func TestOnlyAReusedStepIsRead(t *testing.T) {
	t.Parallel()
	first := filepath.Join(t.TempDir(), "1")
	finish(t, create(t, first, 0))
	for _, name := range []string{"artifacts.json", "test-results.json"} {
		if err := os.WriteFile(filepath.Join(first, "steps", "2", name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := create(t, filepath.Join(t.TempDir(), "2"), 0)
	if reused, err := store.Reuse(1, open(t, first), 1, build.Update{Timestamp: time.Now()}); err != nil || len(reused.Artifacts) != 1 {
		t.Errorf("%+v, %v", reused, err)
	}
}

func TestResultsProveThemselves(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	store := create(t, dir, 0)
	r := open(t, dir)
	if err := r.Verify(); !fault.Is(err, fault.Corrupt) {
		t.Errorf("%v, want corrupt: the final marker is missing", err)
	}
	if !r.Alive() {
		t.Error("the store is open and the build counts as dead")
	}
	finish(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if r.Alive() {
		t.Error("the store is closed and the build counts as alive")
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	final, err := r.Final()
	if err != nil || final == nil {
		t.Fatal(final, err)
	}
	if diff := cmp.Diff(&build.Final{Steps: 2, Events: 6, Artifacts: 2}, final.Final); diff != "" {
		t.Error(diff)
	}
	artifacts, err := r.Artifacts()
	if err != nil || len(artifacts) != 2 || artifacts[1].Name != `dist/../a\xff.txt` || artifacts[1].Path != "artifacts/2_a_.txt" {
		t.Errorf("%+v, %v", artifacts, err)
	}
	f, err := r.OpenArtifact(artifacts[1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, _ := io.ReadAll(f); string(text) != "bytes" {
		t.Errorf("the artifact holds %q", text)
	}
}

func TestVerifySeesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"log cut":           func(dir string) error { return os.Truncate(filepath.Join(dir, "steps/1/output.log"), 10) },
		"log changed":       func(dir string) error { return flip(filepath.Join(dir, "steps/2/output.log")) },
		"log gone":          func(dir string) error { return os.Remove(filepath.Join(dir, "steps/1/output.log")) },
		"statuses gone":     func(dir string) error { return os.Remove(filepath.Join(dir, "steps/2/status.json")) },
		"artifacts gone":    func(dir string) error { return os.Remove(filepath.Join(dir, "steps/2/artifacts.json")) },
		"status torn":       func(dir string) error { return os.Truncate(filepath.Join(dir, "steps/1/status.json"), 20) },
		"final marker gone": func(dir string) error { return os.Remove(filepath.Join(dir, "steps/0/status.json")) },
	} {
		dir := filepath.Join(t.TempDir(), "b")
		store := create(t, dir, 0)
		finish(t, store)
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir).Verify(); err == nil {
			t.Errorf("%s: nothing is seen", name)
		}
	}
}

// flip changes the last byte but one of a file.
func flip(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text[len(text)-2] ^= 1
	return os.WriteFile(path, text, 0o600)
}

func TestUpdatesFollowTheStateMachine(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "b"), 0)
	if got := update(t, store, 1, build.Scheduling).ID; got != 1 {
		t.Errorf("first update has id %d", got)
	}
	if got := update(t, store, 2, build.Scheduling).ID; got != 2 {
		t.Errorf("ids count over the whole build, got %d", got)
	}
	update(t, store, 1, build.Running)
	if u := update(t, store, 1, build.Completed); u.Trailer == nil || u.Trailer.Entries != 0 {
		t.Errorf("an end without its trailer: %+v", u)
	}
	if _, err := store.Update(1, build.Update{Status: build.Failed}); err == nil {
		t.Error("an ended step failed")
	}
}

func TestTheLogOfAStepThatEndedIsClosed(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "1"), 0)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	update(t, store, 1, build.Running)
	if err := log.Append(line("one")); err != nil {
		t.Fatal(err)
	}
	update(t, store, 1, build.Completed)
	if err := log.Append(line("late")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("an entry after the end: %v, want %v", err, os.ErrClosed)
	}
	_, err = store.Update(1, build.Update{Status: build.Failed, Timestamp: time.Now()})
	if err == nil || errors.Is(err, os.ErrClosed) {
		t.Errorf("another end: %v, want that of a change that is not allowed", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestCreateRefusesUsedAndForeignFolders(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	store := create(t, dir, 0)
	if _, err := results.Create(dir, 0); err == nil {
		t.Error("two builds share a folder")
	}
	_ = store.Close()
	if _, err := results.Create(dir, 0); err == nil {
		t.Error("a second build overwrites the first")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := results.Create(link, 0); err == nil {
		t.Error("a link was taken for a folder")
	}
}

func TestCreateRefusesAFolderThatAnotherWorkerHolds(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	store, err := results.Create(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := results.Create(dir, 0); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "lock")+": another worker holds it") {
		t.Errorf("got %v", err)
	}
}

func TestTimesNeverGoBack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	store := create(t, dir, 0)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	late, early := time.Unix(200, 0).UTC(), time.Unix(100, 0).UTC()
	if err := log.Append(build.Entry{At: late}, build.Entry{At: early}); err != nil {
		t.Fatal(err)
	}
	entries, total, err := open(t, dir).Tail(1, 5)
	if err != nil || total != 2 || !entries[1].At.Equal(late) {
		t.Errorf("%v, %d, %v", entries, total, err)
	}
}

func TestReadersDoNotSeeATornTail(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	store := create(t, dir, 0)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(line("whole"), line("torn")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "steps/1/output.log")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(text, '\n') + 1
	for cut := first; cut < len(text); cut++ { // a crash may leave any prefix
		if err := os.Truncate(path, int64(cut)); err != nil {
			t.Fatal(err)
		}
		entries, total, err := open(t, dir).Tail(1, 5)
		if err != nil || total != 1 || string(entries[0].Text) != "whole" {
			t.Fatalf("cut at %d: %v, %d, %v", cut, entries, total, err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFollowersSeeEveryEntryOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	store := create(t, dir, 0)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 200
	var readers, writing sync.WaitGroup
	for range 3 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			var next int64
			err := open(t, dir).Log(t.Context(), 1, true, func(e build.Line) error {
				if next++; e.ID != next {
					return fmt.Errorf("entry %d after %d", e.ID, next-1)
				}
				return nil
			})
			if err != nil || next != writers*each {
				t.Errorf("%d entries, %v", next, err)
			}
		}()
	}
	for w := range writers {
		writing.Add(1)
		go func() {
			defer writing.Done()
			for i := range each {
				if err := log.Append(line(fmt.Sprintf("%d of writer %d", i, w))); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	writing.Wait()
	update(t, store, 1, build.Running)
	update(t, store, 1, build.Completed)
	readers.Wait()
}

func TestLogLimitFailsTheStep(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "b"), 100)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(line("short")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := log.Append(line(strings.Repeat("x", 100))); !errors.Is(err, results.ErrLogLimit) {
			t.Errorf("%v, want the limit", err)
		}
	}
	if u := update(t, store, 1, build.Failed); u.Trailer.Entries != 1 {
		t.Errorf("%d entries, want the one that was written", u.Trailer.Entries)
	}
}

// TestTheLogEndsAtItsLimit: what crosses it is kept as far as there is room for whole entries.
func TestTheLogEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	store := create(t, filepath.Join(t.TempDir(), "b"), 300)
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	var many []build.Entry
	for range 20 {
		many = append(many, line("0123456789"))
	}
	if err := log.Append(many...); !errors.Is(err, results.ErrLogLimit) {
		t.Errorf("%v, want the limit", err)
	}
	u := update(t, store, 1, build.Failed)
	if u.Trailer.Entries < 5 || u.Trailer.Entries >= 20 || u.Trailer.Bytes > 300 || u.Trailer.Bytes < 250 {
		t.Errorf("%d entries of %d bytes are kept", u.Trailer.Entries, u.Trailer.Bytes)
	}
}

func TestNumbersAreNeverSharedNorUsedAgain(t *testing.T) {
	t.Parallel()
	root := results.RootAt(t.TempDir())
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			id, err := root.NextID()
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[id] {
				t.Errorf("%s, %v", id, err)
			}
			seen[id] = true
		}()
	}
	all.Wait()
	if !seen["1"] || !seen["20"] {
		t.Errorf("numbers %v", seen)
	}
}

func TestPruneKeepsTheYoungAndTheLastTwenty(t *testing.T) {
	t.Parallel()
	root := results.RootAt(t.TempDir())
	now := time.Now()
	for i := range 25 {
		dir := root.Dir(fmt.Sprint(i))
		store, err := results.Create(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.Describe(results.Build{Plan: onePlan()}), store.Close()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "snapshot"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := now.Add(-time.Duration(25-i) * 24 * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "build.json"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.Prune(now); err != nil {
		t.Fatal(err)
	}
	if got := root.IDs(); len(got) != 20 || got[0] != "24" || got[19] != "5" {
		t.Errorf("left are %v", got)
	}
	if _, err := os.Lstat(root.Dir("4")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of an old build: %v", err)
	}
}

// TestAKilledWriterLeavesReadableResults lets another process write and kills it.
func TestAKilledWriterLeavesReadableResults(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "b")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WAYBILL_TEST_WRITE="+dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) { // it may have come to its end, which it does not record
		t.Fatal(err)
	}
	_ = cmd.Wait()
	r := open(t, dir)
	if r.Alive() {
		t.Error("a dead writer counts as alive")
	}
	if final, err := r.Final(); final != nil || err != nil {
		t.Errorf("%v, %v: the final marker is missing", final, err)
	}
	var next int64
	err = r.Log(t.Context(), 1, true, func(e build.Line) error {
		if next++; e.ID != next || e.At.IsZero() || string(e.Text) != strings.Repeat("x", 100) {
			return fmt.Errorf("entry %d: %q", e.ID, e.Text)
		}
		return nil
	})
	if err != nil || next == 0 {
		t.Errorf("%d entries, %v", next, err)
	}
}

func TestMain(m *testing.M) {
	if dir := os.Getenv("WAYBILL_TEST_WRITE"); dir != "" {
		writeForEver(dir)
	}
	os.Exit(m.Run())
}

// writeForEver runs in the process that is killed.
func writeForEver(dir string) {
	store, err := results.Create(dir, 0)
	if err == nil {
		err = store.Describe(results.Build{ID: "1", Plan: onePlan()})
	}
	log, logErr := store.Log(1)
	for i := 0; errors.Join(err, logErr) == nil && i < 1_000_000; i++ {
		err = log.Append(line(strings.Repeat("x", 100)), line(strings.Repeat("x", 100)))
		if i == 100 {
			fmt.Print(".")
		}
	}
	os.Exit(1)
}
