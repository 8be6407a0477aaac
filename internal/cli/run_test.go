package cli

import (
	"encoding/json"
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
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// run runs a program in a folder.
func run(t *testing.T, dir, name string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, arguments, err, out)
	}
}

// rename renames a file of a folder.
func rename(t *testing.T, f *folder, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(f.dir, from), filepath.Join(f.dir, to)); err != nil {
		t.Fatal(err)
	}
}

// aDryRun returns the flags of `waybill run --dry-run` with their defaults.
func aDryRun() runFlags {
	return runFlags{file: build.FileName, runner: runnerAuto, maxParallel: 2, timeout: time.Hour, grace: time.Second, maxStepLog: 1 << 20, dryRun: dryClient}
}

const twoStages = `lint:
  vet:
    container: {image: alpine, cmds: ["echo vet"]}
test:
  unit:
    container: {image: alpine, cmds: ["echo ${REPO_NAME} ${BUILD_REF}"]}
`

func TestADryRunPrintsThePlan(t *testing.T) {
	t.Parallel()
	f := newFolder(t, map[string]string{".wharf-ci.yml": twoStages})
	f.output = jsonOutput
	for name, c := range map[string]struct {
		flags func(*runFlags)
		want  []string // stage/step of each
	}{
		"all":       {func(*runFlags) {}, []string{"lint/vet", "test/unit"}},
		"one stage": {func(o *runFlags) { o.stages = []string{"test"} }, []string{"test/unit"}},
	} {
		flags := aDryRun()
		flags.resultsDir = filepath.Join(f.dir, "results")
		c.flags(&flags)
		if err := f.runBuild(t.Context(), nil, flags); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan build.Plan
		if err := json.Unmarshal(f.out.Bytes(), &plan); err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, s := range plan.Steps {
			steps = append(steps, s.Stage+"/"+s.Name)
		}
		if diff := cmp.Diff(c.want, steps); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		f.out.Reset()
	}
	if _, err := os.Stat(filepath.Join(f.dir, "results")); err == nil {
		t.Error("a dry run made the folder of results")
	}
}

func TestARunRefusesBeforeItBegins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arguments  []string
		flags      func(*runFlags)
		want, hint string
	}{
		"runner":      {nil, func(o *runFlags) { o.runner = "podman" }, `the runner "podman" is not supported`, "--runner auto, process, docker or kubernetes; else WAYBILL_RUNNER names it"},
		"in place":    {nil, func(o *runFlags) { o.runner, o.inPlace = runnerDocker, true }, "--in-place and --runner docker exclude each other: containers work on copies of the folder", ""},
		"pull":        {nil, func(o *runFlags) { o.pull = "often" }, `--pull "often": want missing, always or never`, ""},
		"parallel":    {nil, func(o *runFlags) { o.maxParallel = 0 }, "--max-parallel 0: at least one step must run", ""},
		"timeout":     {nil, func(o *runFlags) { o.timeout = -time.Second }, "--timeout -1s: want more than zero", ""},
		"id":          {nil, func(o *runFlags) { o.buildID = "../7" }, `--build-id "../7" cannot be the name of a folder`, ""},
		"dots":        {nil, func(o *runFlags) { o.buildID = ".." }, `--build-id ".." cannot be the name of a folder`, ""},
		"outside":     {nil, func(o *runFlags) { o.file = "../.wharf-ci.yml" }, "--file ../.wharf-ci.yml leaves the folder", ""},
		"no folder":   {[]string{"absent"}, func(*runFlags) {}, "absent not found", ""},
		"a file":      {[]string{".wharf-ci.yml"}, func(*runFlags) {}, ".wharf-ci.yml not found", ""},
		"no stage":    {nil, func(o *runFlags) { o.stages = []string{"tset"} }, "tset", ""},
		"environment": {nil, func(o *runFlags) { o.environment = "moon" }, "moon", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, map[string]string{".wharf-ci.yml": twoStages})
			flags := aDryRun()
			flags.resultsDir = filepath.Join(f.dir, "results")
			c.flags(&flags)
			err := f.runBuild(t.Context(), c.arguments, flags)
			wantFault(t, err, fault.Invalid, c.want, c.hint)
			if exitStatus(err) != 2 {
				t.Errorf("exit status %d, want 2", exitStatus(err))
			}
			f.want(t, "", "")
		})
	}
}

// TestVariablesOfABuildInTheirOrder: what the command line says wins over the environment, and that over git.
func TestVariablesOfABuildInTheirOrder(t *testing.T) {
	t.Parallel()
	c := runFlags{environment: "stage", projectID: "42", stages: []string{"test"}, maxParallel: 3, timeout: time.Minute}.
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
	if diff := cmp.Diff([]string{"--build-id", "--project-id", "WHARF_VAR_… of the environment", "near", "the configuration", "git"}, sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	want := map[string]string{"BUILD_REF": "7", "PROJECT_ID": "42", "WHARF_PROJECT_ID": "42", "WHO": "ana", "EMPTY": "", "WHARF_INSTANCE": "dev", "REPO_NAME": "shop"}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if c.Environment != "stage" || c.MaxParallel != 3 || c.Timeout != time.Minute || len(c.Stages) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestWhatABuildIsOf(t *testing.T) {
	t.Parallel()
	f := newFolder(t, map[string]string{"shop/.wharf-ci.yml": twoStages})
	flags := aDryRun()
	facts := func() (*buildSource, map[string]string) {
		t.Helper()
		s, err := f.buildSource(t.Context(), []string{"shop"}, flags)
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
	dir := filepath.Join(f.dir, "shop")
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "remote", "add", "origin", "git@example.net:team/early.git")
	if _, got := facts(); got["REPO_GROUP"] != "team" || got["REPO_NAME"] != "early" {
		t.Errorf("before the first commit: %v", got)
	}
	run(t, dir, "git", "remote", "remove", "origin")
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first: a shop")
	s, got := facts()
	if len(got["GIT_COMMIT"]) != 40 || got["GIT_COMMIT_SUBJECT"] != "first: a shop" || s.label != "shop @ "+got["GIT_COMMIT_SHORT"] {
		t.Errorf("at a commit: %q, %v", s.label, got)
	}
	if got["GIT_TAG"] != "" || got["REPO_NAME"] != "shop" || got["REPO_GROUP"] != "" {
		t.Errorf("without a tag and an origin: %v", got)
	}
	run(t, dir, "git", "checkout", "-qb", "fix/42")
	run(t, dir, "git", "tag", "v1")
	run(t, dir, "git", "remote", "add", "origin", "git@example.net:team/web.git")
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
	run(t, dir, "git", "checkout", "-q", "--detach")
	if _, got := facts(); got["GIT_BRANCH"] != "" {
		t.Errorf("with a detached HEAD the branch is %q", got["GIT_BRANCH"])
	}
	f.write(t, "shop/.waybill/known_hosts", "")
	if s, _ := facts(); s.label != "shop @ "+got["GIT_COMMIT_SHORT"] {
		t.Errorf("beside a home with host keys: %q", s.label)
	}
	f.write(t, "shop/new", "x")
	if s, _ := facts(); !strings.HasSuffix(s.label, ", changed files included") {
		t.Errorf("after a change: %q", s.label)
	}
	run(t, dir, "git", "update-index", "--add", "--cacheinfo", "160000,"+got["GIT_COMMIT"]+",vendor/lib")
	run(t, dir, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "add a submodule")
	s, _ = facts()
	if !strings.HasSuffix(s.label, ", some files missing") || len(s.notes) != 1 || !strings.HasPrefix(s.notes[0], "the submodule vendor/lib is not checked out, so its files are missing") {
		t.Errorf("with a submodule: %q, %q", s.label, s.notes)
	}
	if name := s.shown(f.app, ".wharf-ci.yml"); name != filepath.Join("shop", ".wharf-ci.yml") {
		t.Errorf("the file is shown as %q", name)
	}
}

func TestInputValues(t *testing.T) {
	t.Parallel()
	got, err := inputValues([]string{"a=1", "b=x=y", "a=", "c= z"})
	if diff := cmp.Diff(map[string]string{"a": "", "b": "x=y", "c": " z"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, wrong := range []string{"hunter2", "=hunter2", ""} {
		_, err := inputValues([]string{"a=1", wrong})
		wantFault(t, err, fault.Invalid, "--input wants a name and a value", "--input name=value")
	}
}

// TestVariablesOfAnotherUserAreIgnored gives a file away as root does; another user can only see that its own is read.
func TestVariablesOfAnotherUserAreIgnored(t *testing.T) {
	t.Parallel()
	f := newFolder(t, map[string]string{".wharf-vars.yml": "vars: {a: 1}", "shop/.wharf-vars.yml": "vars: {b: 2}"})
	s := buildSource{root: filepath.Join(f.dir, "shop")}
	paths := s.variableFiles(build.FileName)[:2]
	found, problems := f.readVariables(paths)
	if len(found) != 2 || found[0].Values["b"].Text != "2" || found[1].Values["a"].Text != "1" || problems != nil {
		t.Fatalf("found %+v, %v", found, problems)
	}
	if os.Getuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chown(paths[1], 12345, 12345); err != nil {
		t.Fatal(err)
	}
	found, problems = f.readVariables(paths)
	if len(found) != 1 || problems.Err() != nil || !strings.HasSuffix(problems.Error(), ".wharf-vars.yml: warning: the file belongs to another user, so its variables are not used") {
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
	a, dir, ctx := &app{err: io.Discard}, t.TempDir(), t.Context()
	store, err := results.Create(filepath.Join(dir, "results"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	plan := &build.Plan{}
	if err := errors.Join(store.Describe(results.Build{ID: "7", Plan: plan}), os.Mkdir(filepath.Join(store.Dir(), results.WorkerFile), 0o700)); err != nil {
		t.Fatal(err)
	}
	flags := runFlags{serve: serveBuildFlags{on: true, listen: anyLoopbackPort, given: strings.Repeat("t", 40)}}
	flags.launch.Push = &provisionerv1.Push{Size: 1, SHA256: strings.Repeat("0", 64)}
	in, err := a.openInbox(ctx, &buildSource{scratch: dir}, flags)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.serveBuild(ctx, job{plan: plan, flags: flags, inbox: in}, store, flags.serve.given, obs.NewRegistry()); err == nil {
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
