package build

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

// aDryRun returns the flags of `waybill run --dry-run` with their defaults.
func aDryRun() local.Options {
	return local.Options{File: build.FileName, Runner: local.RunnerAuto, MaxParallel: 2, Timeout: time.Hour,
		Grace: time.Second, MaxStepLog: 1 << 20, DryRun: local.DryClient}
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
	f := clitest.NewFolder(t, map[string]string{".wharf-ci.yml": twoStages})
	f.Output = cmdline.JSONOutput
	for name, c := range map[string]struct {
		flags func(*local.Options)
		want  []string // stage/step of each
	}{
		"all":       {func(*local.Options) {}, []string{"lint/vet", "test/unit"}},
		"one stage": {func(o *local.Options) { o.Stages = []string{"test"} }, []string{"test/unit"}},
	} {
		flags := aDryRun()
		flags.ResultsDir = filepath.Join(f.Dir, "results")
		c.flags(&flags)
		if err := runBuild(t.Context(), f.App, "", flags); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan build.Plan
		if err := json.Unmarshal(f.Printed.Bytes(), &plan); err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, s := range plan.Steps {
			steps = append(steps, s.Stage+"/"+s.Name)
		}
		if diff := cmp.Diff(c.want, steps); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		f.Printed.Reset()
	}
	if _, err := os.Stat(filepath.Join(f.Dir, "results")); err == nil {
		t.Error("a dry run made the folder of results")
	}
}

func TestARunRefusesBeforeItBegins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		folder     string
		flags      func(*local.Options)
		want, hint string
	}{
		"runner": {"", func(o *local.Options) { o.Runner = "podman" }, `the runner "podman" is not supported`,
			"--runner auto, process, docker or kubernetes; else WAYBILL_RUNNER names it"},
		"in place": {"", func(o *local.Options) { o.Runner, o.InPlace = local.RunnerDocker, true },
			"--in-place and --runner docker exclude each other: containers work on copies of the folder", ""},
		"pull":        {"", func(o *local.Options) { o.Pull = "often" }, `--pull "often": want missing, always or never`, ""},
		"parallel":    {"", func(o *local.Options) { o.MaxParallel = 0 }, "--max-parallel 0: at least one step must run", ""},
		"timeout":     {"", func(o *local.Options) { o.Timeout = -time.Second }, "--timeout -1s: want more than zero", ""},
		"id":          {"", func(o *local.Options) { o.BuildID = "../7" }, `--build-id "../7" cannot be the name of a folder`, ""},
		"dots":        {"", func(o *local.Options) { o.BuildID = ".." }, `--build-id ".." cannot be the name of a folder`, ""},
		"outside":     {"", func(o *local.Options) { o.File = "../.wharf-ci.yml" }, "--file ../.wharf-ci.yml leaves the folder", ""},
		"no folder":   {"absent", func(*local.Options) {}, "absent not found", ""},
		"a file":      {".wharf-ci.yml", func(*local.Options) {}, ".wharf-ci.yml not found", ""},
		"no stage":    {"", func(o *local.Options) { o.Stages = []string{"tset"} }, "tset", ""},
		"environment": {"", func(o *local.Options) { o.Environment = "moon" }, "moon", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clitest.NewFolder(t, map[string]string{".wharf-ci.yml": twoStages})
			flags := aDryRun()
			flags.ResultsDir = filepath.Join(f.Dir, "results")
			c.flags(&flags)
			err := runBuild(t.Context(), f.App, c.folder, flags)
			clitest.WantFault(t, err, fault.Invalid, c.want, c.hint)
			if cmdline.ExitStatus(err) != 2 {
				t.Errorf("exit status %d, want 2", cmdline.ExitStatus(err))
			}
			f.Want(t, "", "")
		})
	}
}
