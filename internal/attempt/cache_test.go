package attempt_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
)

// cachedStep is a step with two caches, of which the first has a key that depends on files.
var cachedStep = build.PlanStep{Cache: []build.CacheRule{
	{Key: "mod-${hash:*.sum}", Paths: []string{"mod"}, Restore: []string{"mod-"}}, {Key: "fixed", Paths: []string{"obj/**"}}}}

var (
	sizes   = regexp.MustCompile(`\d+ B`)
	digests = regexp.MustCompile(`[0-9a-f]{64}`)
)

// work runs one build of a step: it gets a workspace, changes it, and ends. It returns the notes, with sizes and
// digests left out, and the reason of the exit.
func work(t *testing.T, shelf *buildcache.Shelf, repo string, code int, change map[string]string) (notes []string, reason string) {
	t.Helper()
	var sink kept
	files := prepare(t, build.Run{Step: cachedStep}, shelf, repo, &sink)
	for name, content := range change {
		path := filepath.Join(repo, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	exit, err := files.Keep(t.Context(), build.Exit{Code: code})
	if err != nil || exit.Code != code {
		t.Fatalf("%+v, %v", exit, err)
	}
	for _, note := range sink.notes {
		notes = append(notes, digests.ReplaceAllString(sizes.ReplaceAllString(note, "N"), "H"))
	}
	return notes, sizes.ReplaceAllString(exit.Reason, "N")
}

func TestCachesGoFromBuildToBuild(t *testing.T) {
	t.Parallel()
	shelf := buildcache.Open(t.TempDir(), 1<<20).Of("shop")
	for _, build := range []struct {
		name   string
		files  map[string]string // files of the workspace
		code   int
		change map[string]string
		notes  []string
		reason string
		after  map[string]string
	}{
		{name: "a step that fails leaves nothing", files: map[string]string{"a.sum": "1"}, code: 1, change: map[string]string{"mod/m": "broken"},
			notes: []string{"cache mod-H: nothing yet", "cache fixed: nothing yet"}, after: map[string]string{"a.sum": "1", "mod/m": "broken"}},
		{name: "the first", files: map[string]string{"a.sum": "1"}, change: map[string]string{"mod/m": "one", "else": "x"},
			notes:  []string{"cache mod-H: nothing yet", "cache fixed: nothing yet", "cache mod-H: saved, N"},
			reason: "1 of 2 caches stored, N", after: map[string]string{"a.sum": "1", "mod/m": "one", "else": "x"}},
		{name: "with the same key", files: map[string]string{"a.sum": "1", "mod/own": "of the workspace"},
			change: map[string]string{"mod/m": "changed", "obj/o": "o"},
			notes:  []string{"cache mod-H: restored, N", "cache fixed: nothing yet", "cache fixed: saved, N"},
			reason: "1 of 2 caches found, N; 1 of 2 caches stored, N", after: map[string]string{"a.sum": "1", "mod/m": "changed", "obj/o": "o"}},
		{name: "with another key", files: map[string]string{"a.sum": "2"},
			notes:  []string{"cache mod-H: restored, N", "cache fixed: restored, N", "cache mod-H: saved, N"},
			reason: "2 of 2 caches found, N; 1 of 2 caches stored, N", after: map[string]string{"a.sum": "2", "mod/m": "one", "obj/o": "o"}},
		{name: "with another name of the same content", files: map[string]string{"b.sum": "2"}, code: 1,
			notes: []string{"cache mod-H: restored, N", "cache fixed: restored, N"},
			after: map[string]string{"b.sum": "2", "mod/m": "one", "obj/o": "o"}},
	} {
		repo := folder(t, build.files)
		notes, reason := work(t, shelf, repo, build.code, build.change)
		if diff := cmp.Diff(build.notes, notes); diff != "" {
			t.Errorf("%s: %s", build.name, diff)
		}
		if reason != build.reason {
			t.Errorf("%s: the reason is %q, want %q", build.name, reason, build.reason)
		}
		if diff := cmp.Diff(build.after, contents(t, repo)); diff != "" {
			t.Errorf("%s: the workspace: %s", build.name, diff)
		}
	}
}

// TestKeysOfCachesDependOnContents: of two files whose contents and names are cut elsewhere, too.
func TestKeysOfCachesDependOnContents(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for name, files := range map[string]map[string]string{
		"one": {"a.sum": "1"}, "changed": {"a.sum": "2"}, "renamed": {"b.sum": "1"}, "two": {"a.sum": "1", "b.sum": ""},
		"cut elsewhere": {"a.sum": "", "b.sum": "1"}, "none": {},
	} {
		var sink kept
		prepare(t, build.Run{Step: cachedStep}, buildcache.Open(t.TempDir(), 1<<20).Of("shop"), folder(t, files), &sink)
		if other, ok := keys[sink.notes[0]]; ok {
			t.Errorf("%s has the key of %s: %s", name, other, sink.notes[0])
		}
		keys[sink.notes[0]] = name
	}
	var sink kept
	prepare(t, build.Run{Step: cachedStep}, buildcache.Open(t.TempDir(), 1<<20).Of("shop"),
		folder(t, map[string]string{"a.sum": "1", "other": "x"}), &sink)
	if keys[sink.notes[0]] != "one" {
		t.Error("a file that does not match the glob changes the key")
	}
}

// TestAStepRunsWithoutACacheThatCannotBeUsed: it is a remark of its log.
func TestAStepRunsWithoutACacheThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	repo := folder(t, nil)
	notes, reason := work(t, buildcache.Open(dir, 1<<20).Of("shop"), repo, 0, map[string]string{"mod/m": "one", "obj/o": "o"})
	if len(notes) != 4 || reason != "" {
		t.Errorf("%q, reason %q", notes, reason)
	}
	for _, note := range notes {
		if !strings.Contains(note, "not a directory") || !strings.HasPrefix(note, "cache ") {
			t.Errorf("noted %q", note)
		}
	}
	if diff := cmp.Diff(map[string]string{"mod/m": "one", "obj/o": "o"}, contents(t, repo)); diff != "" {
		t.Error(diff)
	}
}

// TestCachesAreOnlyOfStepsThatRan to their end, and are not stored again.
func TestCachesAreOnlyOfStepsThatRan(t *testing.T) {
	t.Parallel()
	shelf := buildcache.Open(t.TempDir(), 1<<20).Of("shop")
	change := map[string]string{"mod/m": "one", "obj/o": "o"}
	var sink kept
	repo := folder(t, change)
	files := prepare(t, build.Run{Step: cachedStep}, shelf, repo, &sink)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if wanted := files.Wanted(canceled, build.Exit{}); len(wanted.Parts) != 0 {
		t.Errorf("a canceled step's caches are wanted: %+v", wanted)
	}
	if wanted := files.Wanted(t.Context(), build.Exit{Code: 1}); len(wanted.Parts) != 0 {
		t.Errorf("a failed step's caches are wanted: %+v", wanted)
	}
	if wanted := files.Wanted(t.Context(), build.Exit{}); !wanted.In("mod/m") || !wanted.In("obj/o") || wanted.In("else") {
		t.Errorf("wanted are %+v", wanted)
	}
	if _, err := files.Keep(canceled, build.Exit{}); err != nil || len(sink.notes) != 2 {
		t.Errorf("a canceled step noted %q, %v", sink.notes, err)
	}
	work(t, shelf, repo, 0, change)
	if wanted := prepare(t, build.Run{Step: cachedStep}, shelf, repo, &sink).Wanted(t.Context(), build.Exit{}); len(wanted.Parts) != 0 {
		t.Errorf("caches that were restored are wanted: %+v", wanted)
	}
}

// TestAReasonOfTheProgramOutweighsCaches: people search for why the step ended.
func TestAReasonOfTheProgramOutweighsCaches(t *testing.T) {
	t.Parallel()
	var sink kept
	files := prepare(t, build.Run{Step: cachedStep}, buildcache.Open(t.TempDir(), 1<<20).Of("shop"),
		folder(t, map[string]string{"mod/m": "one"}), &sink)
	if exit, err := files.Keep(t.Context(), build.Exit{Reason: "its own"}); exit.Reason != "its own" || err != nil {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestRestoringEndsWithTheAttempt: an attempt that is over does not begin.
func TestRestoringEndsWithTheAttempt(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	shelf := buildcache.Open(t.TempDir(), 1<<20).Of("shop")
	work(t, shelf, folder(t, map[string]string{"mod/m": "one"}), 0, nil)
	over, cancel := context.WithCancelCause(t.Context())
	cancel(full)
	for name, test := range map[string]struct {
		ctx  context.Context
		sink kept
	}{"ended": {over, kept{}}, "a sink that fails": {t.Context(), kept{broken: full}}} {
		files := attempt.Files{Run: build.Run{Step: cachedStep}, Shelf: shelf, Sink: &test.sink}
		if err := files.Prepare(test.ctx, folder(t, nil)); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
