package attempt_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
)

// kept is a sink that records its input as lines.
type kept struct {
	build.Sink

	notes, artifacts, tests []string
	broken                  error // error of every call, if not nil
	testsBroken             error // error of Tests
}

func (k *kept) Note(text string) error {
	k.notes = append(k.notes, text)
	return k.broken
}

func (k *kept) Artifact(name, kind string, executable bool, r io.Reader) error {
	if k.broken != nil {
		return k.broken
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if kind == "archive" {
		content = []byte(strings.Join(unpacked(content), ","))
	}
	text := fmt.Sprintf("%s %s %s", kind, name, content)
	if executable {
		text += " x"
	}
	k.artifacts = append(k.artifacts, text)
	return nil
}

func (k *kept) Tests(workspace string, files []build.TestSource) error {
	for _, f := range files {
		k.tests = append(k.tests, workspace+" "+f.Name)
	}
	return errors.Join(k.broken, k.testsBroken)
}

// unpacked lists a .tar.gz: name=content, or name->target of a link.
func unpacked(packed []byte) (entries []string) {
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return []string{err.Error()}
	}
	archive := tar.NewReader(plain)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			return append(entries, err.Error())
		}
		content, err := io.ReadAll(archive)
		switch {
		case err != nil:
			return append(entries, err.Error())
		case h.Typeflag == tar.TypeSymlink:
			entries = append(entries, h.Name+"->"+h.Linkname)
		default:
			entries = append(entries, h.Name+"="+string(content))
		}
	}
}

// folder makes a folder with files, by name and content.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// contents returns the files of a folder, by name and content.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// prepare prepares a workspace for a run.
func prepare(t *testing.T, run build.Run, shelf *buildcache.Shelf, repo string, sink build.Sink) *attempt.Files {
	t.Helper()
	files := &attempt.Files{Run: run, Shelf: shelf, Sink: sink}
	if err := files.Prepare(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(files.Close)
	return files
}

// workspace makes a folder with files, and with links to a file of it, to a folder, to nothing and to a file outside.
func workspace(t *testing.T) string {
	t.Helper()
	repo := folder(t, map[string]string{"out/a.txt": "a", "out/b.sh": "b", "out/deep/c.txt": "c", "other/d.txt": "d"})
	secret := filepath.Join(folder(t, map[string]string{"secret": "secret"}), "secret")
	err := errors.Join(os.Chmod(filepath.Join(repo, "out/b.sh"), 0o700),
		os.Symlink("a.txt", filepath.Join(repo, "out/inside")), os.Symlink("../other/d.txt", filepath.Join(repo, "out/elsewhere")),
		os.Symlink("../other", filepath.Join(repo, "out/folder")), os.Symlink("nothing", filepath.Join(repo, "out/broken")),
		os.Symlink(secret, filepath.Join(repo, "out/outside")))
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func TestArtifactsAreKept(t *testing.T) {
	t.Parallel()
	const left = "artifacts: links left out of out/**, since they lead to no file: 3, such as out/broken, out/folder, out/outside"
	for name, test := range map[string]struct {
		rules            []build.ArtifactRule
		failed           bool
		artifacts, notes []string
	}{
		"a file":            {rules: []build.ArtifactRule{{Path: "out/a.txt"}}, artifacts: []string{"file out/a.txt a"}},
		"a file, renamed":   {rules: []build.ArtifactRule{{Path: "out/b.*", Name: "program"}}, artifacts: []string{"file program b x"}},
		"a folder":          {rules: []build.ArtifactRule{{Path: "out/deep"}}, artifacts: []string{"file out/deep/c.txt c"}},
		"nothing":           {rules: []build.ArtifactRule{{Path: "out/*.zip"}}, notes: []string{"artifacts: out/*.zip matches no file"}},
		"an empty archive":  {rules: []build.ArtifactRule{{Path: "no/**", Archive: true}}, notes: []string{"artifacts: no/** matches no file"}},
		"not after success": {rules: []build.ArtifactRule{{Path: "out/a.txt", When: build.Fail}}},
		"not after failure": {rules: []build.ArtifactRule{{Path: "out/a.txt", When: build.Success}}, failed: true},
		"only after failure": {rules: []build.ArtifactRule{{Path: "out/a.txt", When: build.Fail}}, failed: true,
			artifacts: []string{"file out/a.txt a"}},
		"always": {rules: []build.ArtifactRule{{Path: "out/a.txt", When: build.Always}}, failed: true,
			artifacts: []string{"file out/a.txt a"}},
		"names of many": {rules: []build.ArtifactRule{{Path: "**/*.txt", Name: "one"}},
			artifacts: []string{"file other/d.txt d", "file out/a.txt a", "file out/deep/c.txt c"},
			notes:     []string{"artifacts: **/*.txt matches 3 files, so they keep their own names"}},
		"the first rule counts": {rules: []build.ArtifactRule{{Path: "out/a.txt", Name: "first"}, {Path: "out/a.txt", Name: "second"}},
			artifacts: []string{"file first a"}, notes: []string{"artifacts: an earlier rule keeps all files that match out/a.txt"}},
		"links": {rules: []build.ArtifactRule{{Path: "out/**"}},
			artifacts: []string{"file out/a.txt a", "file out/b.sh b x", "file out/deep/c.txt c", "file out/elsewhere d", "file out/inside a"},
			notes:     []string{left, "artifacts: links kept as the files that they lead to: 2 of out/**; with archive: true they stay links"}},
		"an archive": {rules: []build.ArtifactRule{{Path: "out/**", Archive: true}},
			artifacts: []string{"archive pack.tar.gz out/a.txt=a,out/b.sh=b,out/deep/c.txt=c,out/elsewhere=d,out/inside->a.txt"},
			notes: []string{
				"artifacts: links left out of pack.tar.gz, since they lead to nothing in it: 3, such as out/broken, out/folder, out/outside"}},
		"an archive with a folder behind a link": {rules: []build.ArtifactRule{{Path: "**", Archive: true, Name: "all"}},
			artifacts: []string{
				"archive all other/d.txt=d,out/a.txt=a,out/b.sh=b,out/deep/c.txt=c,out/elsewhere->../other/d.txt,out/inside->a.txt,out/folder->../other"},
			notes: []string{"artifacts: links left out of all, since they lead to nothing in it: 2, such as out/broken, out/outside"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sink kept
			run := build.Run{Attempt: 1, Step: build.PlanStep{Name: "pack", Artifacts: test.rules}}
			for i := range test.rules {
				if test.rules[i].When == "" {
					test.rules[i].When = build.Always
				}
			}
			exit := build.Exit{}
			if test.failed {
				exit.Code = 3
			}
			got, err := prepare(t, run, nil, workspace(t), &sink).Keep(t.Context(), exit)
			if err != nil || got != exit {
				t.Errorf("%+v, %v", got, err)
			}
			if diff := cmp.Diff([][]string{test.artifacts, test.notes}, [][]string{sink.artifacts, sink.notes}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestASinkThatFailsEndsTheKeeping: nothing waits for an archive that nothing reads.
func TestASinkThatFailsEndsTheKeeping(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for name, step := range map[string]build.PlanStep{
		"file":    {Artifacts: []build.ArtifactRule{{Path: "out/a.txt", When: build.Always}}},
		"archive": {Artifacts: []build.ArtifactRule{{Path: "**", Archive: true, When: build.Always}}},
		"note":    {Artifacts: []build.ArtifactRule{{Path: "nothing", When: build.Always}}},
		"tests":   {Tests: &build.TestRules{JUnit: []string{"*.xml"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := kept{broken: full}
			if _, err := prepare(t, build.Run{Step: step}, nil, workspace(t), &sink).Keep(t.Context(), build.Exit{}); !errors.Is(err, full) {
				t.Error(err)
			}
		})
	}
}

// TestAStepWithoutItsTestResultsHasFailed: what is kept of it is what is kept of failed steps.
func TestAStepWithoutItsTestResultsHasFailed(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	run := build.Run{Step: build.PlanStep{Tests: &build.TestRules{JUnit: []string{"*.xml"}, Required: true},
		Artifacts: []build.ArtifactRule{{Path: "out/a.txt", When: build.Success}, {Path: "other", When: build.Fail}}}}
	for name, test := range map[string]struct {
		code      int
		writes    string
		sink      kept
		want      error
		artifacts []string
	}{
		"none":                {want: build.ErrNoTests, artifacts: []string{"file other/d.txt d"}},
		"none, after 1":       {code: 1, artifacts: []string{"file other/d.txt d"}},
		"some":                {writes: "r.xml", artifacts: []string{"file out/a.txt a"}},
		"a sink that refuses": {writes: "r.xml", sink: kept{testsBroken: full}, want: full, artifacts: []string{"file out/a.txt a"}},
	} {
		repo := workspace(t)
		files := prepare(t, run, nil, repo, &test.sink)
		if test.writes != "" {
			if err := os.WriteFile(filepath.Join(repo, test.writes), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := files.Keep(t.Context(), build.Exit{Code: test.code}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.artifacts, test.sink.artifacts); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestFilesAreKeptOfAStepThatWasStopped: its context has ended, and its files explain why.
func TestFilesAreKeptOfAStepThatWasStopped(t *testing.T) {
	t.Parallel()
	var sink kept
	run := build.Run{Step: build.PlanStep{Artifacts: []build.ArtifactRule{{Path: "**/a.txt", When: build.Fail},
		{Path: "**/d.txt", When: build.Success}}}}
	files := prepare(t, run, nil, workspace(t), &sink)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(build.Ending{Reason: "the build was canceled"})
	if _, err := files.Keep(ctx, build.Exit{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"file out/a.txt a"}, sink.artifacts); diff != "" {
		t.Error(diff)
	}
}

// TestOnlyTheLastAttemptIsKept: files of an attempt that another follows are of no use.
func TestOnlyTheLastAttemptIsKept(t *testing.T) {
	t.Parallel()
	step := build.PlanStep{Retry: &build.Retry{Attempts: 2, On: []build.Fault{build.Failure}}, Tests: &build.TestRules{TRX: []string{"*.trx"}},
		Artifacts: []build.ArtifactRule{{Path: "out/a.txt", When: build.Always}}}
	for number, want := range map[int][]string{1: nil, 2: {"file out/a.txt a"}} {
		var sink kept
		files := prepare(t, build.Run{Attempt: number, Step: step}, nil, workspace(t), &sink)
		wanted := files.Wanted(t.Context(), build.Exit{Code: 1})
		if got := wanted.In("out/a.txt") && wanted.In("x.trx"); got != (want != nil) || wanted.In("out/b.sh") {
			t.Errorf("attempt %d wants %+v", number, wanted)
		}
		if _, err := files.Keep(t.Context(), build.Exit{Code: 1}); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, sink.artifacts); diff != "" {
			t.Errorf("attempt %d: %s", number, diff)
		}
	}
}

// needed stores a file as an earlier step left it.
func needed(t *testing.T, name, content string) build.Needed {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stored")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	return build.Needed{Name: name, Path: path, SHA256: hex.EncodeToString(sum[:])}
}

func TestArtifactsOfOtherStepsArePlaced(t *testing.T) {
	t.Parallel()
	repo, program := folder(t, map[string]string{"lib/a": "old"}), needed(t, "bin/run", "program")
	program.Executable = true
	prepare(t, build.Run{Needed: []build.Needed{needed(t, "lib/a", "first"), program, needed(t, "lib/a", "new")}}, nil, repo, &kept{})
	if diff := cmp.Diff(map[string]string{"lib/a": "new", "bin/run": "program"}, contents(t, repo)); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]fs.FileMode{"lib/a": 0, "bin/run": 0o100} {
		if info, err := os.Stat(filepath.Join(repo, name)); err != nil || info.Mode()&0o100 != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAnArtifactThatCannotBePlacedFailsTheAttempt(t *testing.T) {
	t.Parallel()
	changed, gone, pipe, outside, archive := needed(t, "a", "x"), needed(t, "a", "x"), needed(t, "a", "x"), needed(t,
		"../a", "x"), needed(t, "a", strings.Repeat("x", 100))
	changed.SHA256 = strings.Repeat("0", 64)
	archive.Archive = true
	if err := errors.Join(os.Remove(gone.Path), os.Remove(pipe.Path), syscall.Mkfifo(pipe.Path, 0o600)); err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]build.Needed{"its digest is": changed, "no such file": gone, "regular": pipe,
		"leaves the workspace": outside, "gzip: invalid header": archive} {
		repo := folder(t, nil)
		err := (&attempt.Files{Run: build.Run{Needed: []build.Needed{n}}, Sink: &kept{}}).Prepare(t.Context(), repo)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "place "+n.Name) {
			t.Errorf("want %s: %v", want, err)
		}
	}
}

// TestATreeIsCopiedOnlyWhereItChanges: other steps read it at the same time.
func TestATreeIsCopiedOnlyWhereItChanges(t *testing.T) {
	t.Parallel()
	rules := []build.CacheRule{{Key: "k", Paths: []string{"cache"}}}
	shelf := buildcache.Open(t.TempDir(), 1<<20).Of("shop")
	for name, test := range map[string]struct {
		run    build.Run
		shelf  *buildcache.Shelf
		copied bool
	}{
		"nothing":                {},
		"caches without a shelf": {run: build.Run{Step: build.PlanStep{Cache: rules}}},
		"caches":                 {run: build.Run{Step: build.PlanStep{Cache: rules}}, shelf: shelf, copied: true},
		"artifacts":              {run: build.Run{Needed: []build.Needed{needed(t, "b", "placed")}}, copied: true},
	} {
		tree, dir := folder(t, map[string]string{"a": "tree"}), filepath.Join(t.TempDir(), "copy")
		test.run.Tree = tree
		files := attempt.Files{Run: test.run, Shelf: test.shelf, Sink: &kept{}}
		if err := files.Stage(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		files.Close()
		if got := files.Repo() == dir; got != test.copied || files.Repo() != dir && files.Repo() != tree {
			t.Errorf("%s: in %s", name, files.Repo())
		}
		if diff := cmp.Diff(map[string]string{"a": "tree"}, contents(t, tree)); diff != "" {
			t.Errorf("%s: the tree has changed: %s", name, diff)
		}
		if got := contents(t, files.Repo()); got["a"] != "tree" || len(test.run.Needed) > 0 && got["b"] != "placed" {
			t.Errorf("%s: the step gets %v", name, got)
		}
	}
	missing := build.Run{Tree: filepath.Join(t.TempDir(), "gone"), Needed: []build.Needed{needed(t, "b", "x")}}
	if err := (&attempt.Files{Run: missing, Sink: &kept{}}).Stage(t.Context(), t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tree that is gone: %v", err)
	}
}

// TestFilesThatWereCopiedBackAreKept: artifacts from one folder, caches from another, and paths of test results as the
// step's programs saw them.
func TestFilesThatWereCopiedBackAreKept(t *testing.T) {
	t.Parallel()
	shelf := buildcache.Open(t.TempDir(), 1<<20).Of("shop")
	step := build.PlanStep{Artifacts: []build.ArtifactRule{{Path: "a", When: build.Always}}, Tests: &build.TestRules{JUnit: []string{"*.xml"}},
		Cache: []build.CacheRule{{Key: "k", Paths: []string{"cache"}}}}
	var sink kept
	files := prepare(t, build.Run{Step: step}, shelf, folder(t, map[string]string{"a": "before"}), &sink)
	back := attempt.Copies{Repo: folder(t, map[string]string{"a": "after", "r.xml": "<x/>"}),
		Caches: folder(t, map[string]string{"cache/f": "cached"}), Named: "/mnt/repo"}
	if _, err := files.KeepCopies(t.Context(), build.Exit{}, back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"file a after"}, {"/mnt/repo r.xml"}}, [][]string{sink.artifacts, sink.tests}); diff != "" {
		t.Error(diff)
	}
	next := folder(t, nil)
	prepare(t, build.Run{Step: step}, shelf, next, &sink)
	if diff := cmp.Diff(map[string]string{"cache/f": "cached"}, contents(t, next)); diff != "" {
		t.Error(diff)
	}
	back.Repo = filepath.Join(t.TempDir(), "gone")
	if _, err := prepare(t, build.Run{Step: step}, nil, next, &sink).
		KeepCopies(t.Context(), build.Exit{}, back); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("copies that are gone: %v", err)
	}
}
