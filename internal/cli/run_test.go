package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
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
		if err := f.runBuild(t.Context(), "", flags); err != nil {
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
		folder     string
		flags      func(*runFlags)
		want, hint string
	}{
		"runner":      {"", func(o *runFlags) { o.runner = "podman" }, `the runner "podman" is not supported`, "--runner auto, process, docker or kubernetes; else WAYBILL_RUNNER names it"},
		"in place":    {"", func(o *runFlags) { o.runner, o.inPlace = runnerDocker, true }, "--in-place and --runner docker exclude each other: containers work on copies of the folder", ""},
		"pull":        {"", func(o *runFlags) { o.pull = "often" }, `--pull "often": want missing, always or never`, ""},
		"parallel":    {"", func(o *runFlags) { o.maxParallel = 0 }, "--max-parallel 0: at least one step must run", ""},
		"timeout":     {"", func(o *runFlags) { o.timeout = -time.Second }, "--timeout -1s: want more than zero", ""},
		"id":          {"", func(o *runFlags) { o.buildID = "../7" }, `--build-id "../7" cannot be the name of a folder`, ""},
		"dots":        {"", func(o *runFlags) { o.buildID = ".." }, `--build-id ".." cannot be the name of a folder`, ""},
		"outside":     {"", func(o *runFlags) { o.file = "../.wharf-ci.yml" }, "--file ../.wharf-ci.yml leaves the folder", ""},
		"no folder":   {"absent", func(*runFlags) {}, "absent not found", ""},
		"a file":      {".wharf-ci.yml", func(*runFlags) {}, ".wharf-ci.yml not found", ""},
		"no stage":    {"", func(o *runFlags) { o.stages = []string{"tset"} }, "tset", ""},
		"environment": {"", func(o *runFlags) { o.environment = "moon" }, "moon", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, map[string]string{".wharf-ci.yml": twoStages})
			flags := aDryRun()
			flags.resultsDir = filepath.Join(f.dir, "results")
			c.flags(&flags)
			err := f.runBuild(t.Context(), c.folder, flags)
			wantFault(t, err, fault.Invalid, c.want, c.hint)
			if exitStatus(err) != 2 {
				t.Errorf("exit status %d, want 2", exitStatus(err))
			}
			f.want(t, "", "")
		})
	}
}
