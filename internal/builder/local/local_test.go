package local

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// newBuilder returns a builder in a new folder with files, by their names.
func newBuilder(t *testing.T, files map[string]string) (b *Builder, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		write(t, dir, name, content)
	}
	none := func(string) string { return "" }
	return &Builder{Files: assembly.Place{Dir: dir, Environment: none}, Environment: none, Dir: dir, Err: io.Discard}, dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// wantInvalid checks the text and the hint of an error; "" is any hint.
func wantInvalid(t *testing.T, err error, text, hint string) {
	t.Helper()
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), text) || hint != "" && fault.HintOf(err) != hint {
		t.Errorf("got %v, hint %q, want %q, %q", err, fault.HintOf(err), text, hint)
	}
}

// runGit runs git in a folder.
func runGit(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", arguments...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", arguments, err, out)
	}
}

// TestVariablesOfABuildInTheirOrder: the command line wins over the environment, and that over git.
func TestVariablesOfABuildInTheirOrder(t *testing.T) {
	t.Parallel()
	c := Options{Environment: "stage", ProjectID: "42", Stages: []string{"test"}, MaxParallel: 3, Timeout: time.Minute}.
		choice(map[string]string{"REPO_NAME": "shop"}, "7", []string{"WHARF_VAR_WHO=ana", "WHO=bob", "WHARF_VAR_EMPTY="},
			build.Variables{build.Texts("near", map[string]string{"WHO": "eve", "WHARF_INSTANCE": "dev", "PROJECT_ID": "1"})})
	var sources []string
	values := map[string]string{}
	for _, layer := range c.Variables {
		sources = append(sources, layer.Name)
		for name, value := range layer.Values {
			if _, ok := values[name]; !ok {
				values[name] = value.Text
			}
		}
	}
	if diff := cmp.Diff([]string{"--build-id", "--project-id", "WHARF_VAR_… of the environment", "near",
		"the configuration", "git"}, sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	want := map[string]string{"BUILD_REF": "7", "PROJECT_ID": "42", "WHARF_PROJECT_ID": "42", "WHO": "ana", "EMPTY": "",
		"WHARF_INSTANCE": "dev", "REPO_NAME": "shop"}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if c.Environment != "stage" || c.MaxParallel != 3 || c.Timeout != time.Minute || len(c.Stages) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestWhatABuildIsOf(t *testing.T) {
	t.Parallel()
	b, dir := newBuilder(t, map[string]string{"shop/.wharf-ci.yml": "test: {unit: {container: {image: alpine, cmds: [echo]}}}"})
	flags := Options{File: build.FileName, DryRun: DryClient}
	facts := func() (*buildSource, map[string]string) {
		t.Helper()
		s, err := b.buildSource(t.Context(), "shop", flags)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.close)
		facts, err := s.facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s, facts
	}
	if s, got := facts(); s.label != "shop" || got["REPO_NAME"] != "shop" || got["GIT_COMMIT"] != "" {
		t.Errorf("outside of git: %q, %v", s.label, got)
	}
	dir = filepath.Join(dir, "shop")
	runGit(t, dir, "init", "-q")
	runGit(t, dir, "remote", "add", "origin", "git@example.net:team/early.git")
	if _, got := facts(); got["REPO_GROUP"] != "team" || got["REPO_NAME"] != "early" {
		t.Errorf("before the first commit: %v", got)
	}
	runGit(t, dir, "remote", "remove", "origin")
	runGit(t, dir, "add", ".")
	runGit(t, dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first: a shop")
	s, got := facts()
	if len(got["GIT_COMMIT"]) != 40 || got["GIT_COMMIT_SUBJECT"] != "first: a shop" || s.label != "shop @ "+got["GIT_COMMIT_SHORT"] {
		t.Errorf("at a commit: %q, %v", s.label, got)
	}
	if got["GIT_TAG"] != "" || got["REPO_NAME"] != "shop" || got["REPO_GROUP"] != "" {
		t.Errorf("without a tag and an origin: %v", got)
	}
	runGit(t, dir, "checkout", "-qb", "fix/42")
	runGit(t, dir, "tag", "v1")
	runGit(t, dir, "remote", "add", "origin", "git@example.net:team/web.git")
	_, got = facts()
	for name, want := range map[string]string{"GIT_BRANCH": "fix/42", "REPO_BRANCH": "fix/42", "GIT_SAFEBRANCH": "fix-42", "GIT_TAG": "v1",
		"REPO_GROUP": "team", "REPO_NAME": "web"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"GIT_COMMIT_AUTHOR_DATE", "GIT_COMMIT_COMMITTER_DATE"} {
		if _, err := time.Parse(time.RFC3339, got[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	runGit(t, dir, "checkout", "-q", "--detach")
	if _, got := facts(); got["GIT_BRANCH"] != "" {
		t.Errorf("with a detached HEAD the branch is %q", got["GIT_BRANCH"])
	}
	write(t, dir, ".waybill/known_hosts", "")
	if s, _ := facts(); s.label != "shop @ "+got["GIT_COMMIT_SHORT"] {
		t.Errorf("beside a home with host keys: %q", s.label)
	}
	write(t, dir, "new", "x")
	if s, _ := facts(); !strings.HasSuffix(s.label, ", changed files included") {
		t.Errorf("after a change: %q", s.label)
	}
	runGit(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+got["GIT_COMMIT"]+",vendor/lib")
	runGit(t, dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "add a submodule")
	s, _ = facts()
	if !strings.HasSuffix(s.label, ", some files missing") || len(s.notes) != 1 ||
		!strings.HasPrefix(s.notes[0], "the submodule vendor/lib is not checked out, so its files are missing") {
		t.Errorf("with a submodule: %q, %q", s.label, s.notes)
	}
	if name := s.shown(b, ".wharf-ci.yml"); name != filepath.Join("shop", ".wharf-ci.yml") {
		t.Errorf("the file is shown as %q", name)
	}
}

func TestInputValues(t *testing.T) {
	t.Parallel()
	got, err := ReadInputs([]string{"a=1", "b=x=y", "a=", "c= z"})
	if diff := cmp.Diff(map[string]string{"a": "", "b": "x=y", "c": " z"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, wrong := range []string{"hunter2", "=hunter2", ""} {
		_, err := ReadInputs([]string{"a=1", wrong})
		wantInvalid(t, err, "--input wants a name and a value", "--input name=value")
	}
}

// TestVariablesOfAnotherUserAreIgnored gives a file away as root does; another user can only see that its own is read.
func TestVariablesOfAnotherUserAreIgnored(t *testing.T) {
	t.Parallel()
	b, dir := newBuilder(t, map[string]string{".wharf-vars.yml": "vars: {a: 1}", "shop/.wharf-vars.yml": "vars: {b: 2}"})
	s := buildSource{root: filepath.Join(dir, "shop")}
	paths := s.variableFiles(build.FileName)[:2]
	found, problems := b.readVariables(paths)
	if len(found) != 2 || found[0].Values["b"].Text != "2" || found[1].Values["a"].Text != "1" || problems != nil {
		t.Fatalf("found %+v, %v", found, problems)
	}
	if os.Getuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chown(paths[1], 12345, 12345); err != nil {
		t.Fatal(err)
	}
	found, problems = b.readVariables(paths)
	if len(found) != 1 || problems.Err() != nil ||
		!strings.HasSuffix(problems.Error(), ".wharf-vars.yml: warning: the file belongs to another user, so its variables are not used") {
		t.Errorf("found %+v, %v", found, problems)
	}
}

func TestWhereVariablesMayBe(t *testing.T) {
	t.Parallel()
	s := buildSource{root: "/srv/work/shop"}
	got := s.variableFiles("ci/.wharf-ci.yml")
	want := []string{"/srv/work/shop/ci", "/srv/work/shop", "/srv/work", "/srv", "/"}
	for i, dir := range want {
		if got[i] != filepath.Join(dir, ".wharf-vars.yml") {
			t.Errorf("place %d is %s, want %s", i, got[i], dir)
		}
	}
	if last := got[len(got)-1]; last != "/etc/iver-wharf/wharf-cmd/wharf-vars.yml" {
		t.Errorf("the last place is %s", last)
	}
	s.unpacked = true
	if above := s.variableFiles("ci/.wharf-ci.yml")[2]; strings.HasPrefix(above, "/srv") {
		t.Errorf("above a snapshot, %s is read", above)
	}
}

// TestAWorkerWhoseAddressCannotBeStoredEnds, though it serves where its files came: it waited for the end of that API twice.
func TestAWorkerWhoseAddressCannotBeStoredEnds(t *testing.T) {
	t.Parallel()
	b, dir, ctx := &Builder{Err: io.Discard}, t.TempDir(), t.Context()
	store, err := results.Create(filepath.Join(dir, "results"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	plan := &build.Plan{}
	if err := errors.Join(store.Describe(results.Build{ID: "7", Plan: plan}),
		os.Mkdir(filepath.Join(store.Dir(), results.WorkerFile), 0o700)); err != nil {
		t.Fatal(err)
	}
	flags := Options{Serve: ServeOptions{On: true, Listen: AnyLoopbackPort, given: strings.Repeat("t", 40)}}
	flags.Launch.Push = &provisionerv1.Push{Size: 1, SHA256: strings.Repeat("0", 64)}
	in, err := b.openInbox(ctx, &buildSource{scratch: dir}, flags)
	if err != nil {
		t.Fatal(err)
	}
	j := job{plan: plan, flags: flags, inbox: in, token: flags.Serve.given}
	if _, err := b.serveBuild(ctx, j, store, obs.NewRegistry()); err == nil {
		t.Error("the address was stored in a folder")
	}
	closed := make(chan error, 1)
	go func() { closed <- in.close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the worker waits for an API that has ended")
	}
}

func TestRunFlags(t *testing.T) {
	t.Parallel()
	good := Options{Runner: RunnerAuto, MaxParallel: 1, Timeout: time.Minute}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for text, wrong := range map[string]func(*Options){
		`the runner "podman" is not supported`:            func(f *Options) { f.Runner = "podman" },
		"--max-parallel 0: at least one step must run":    func(f *Options) { f.MaxParallel = 0 },
		`--project-id "4x" is not a number`:               func(f *Options) { f.ProjectID = "4x" },
		"--in-place and --workspace exclude each other":   func(f *Options) { f.InPlace, f.Workspace = true, "x.tar.zst" },
		"--timeout 0s: want more than zero":               func(f *Options) { f.Timeout = 0 },
		`--build-id "a/b" cannot be the name of a folder`: func(f *Options) { f.BuildID = "a/b" },
		`--build-id ".." cannot be the name of a folder`:  func(f *Options) { f.BuildID = ".." },
	} {
		f := good
		wrong(&f)
		wantInvalid(t, f.check(), text, "")
	}
}

func TestVariablesOfABuildHaveAnOrder(t *testing.T) {
	t.Parallel()
	c := Options{Environment: "stage", Stages: []string{"test"}}.choice(map[string]string{"GIT_COMMIT": "abc"}, "7",
		[]string{"WHARF_VAR_TEAM=web=2", "HOME=/root"}, nil)
	if c.Environment != "stage" || len(c.Stages) != 1 || len(c.Variables) != 5 {
		t.Errorf("choice %+v", c)
	}
}
