package cmdline_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestResolveFindsADeploymentByEachOfItsNames(t *testing.T) {
	t.Parallel()
	id := clitest.AnAction(t)
	f := &clitest.Log{Recent: []journal.Deployment{{ID: id, Pipeline: "greeter", Number: 7}, {Pipeline: "notes", Number: 2}}}
	for name, want := range map[string]string{"greeter": "greeter#7", "notes": "notes#2", "greeter#3": "greeter#3",
		"greeter/3": "greeter#3", id.String(): "greeter#7"} {
		if got, err := cmdline.Resolve(t.Context(), f, name); err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
	_, err := cmdline.Resolve(t.Context(), f, "other")
	clitest.WantFault(t, err, fault.NotFound, "other has no deployment yet", "waybill ship")
	_, err = cmdline.Resolve(t.Context(), f, "01a1f866-0d10-7c55-9d3e-5b0c7c1a2f70")
	clitest.WantFault(t, err, fault.NotFound, "deployment 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f70 not found", "waybill deployment list")
	_, err = cmdline.Resolve(t.Context(), &clitest.Log{Err: clitest.ErrAway}, id.String())
	clitest.WantFault(t, err, fault.LedgerUnavailable, "does not answer", "")
	_, err = cmdline.Resolve(t.Context(), f, "greeter#x")
	if err == nil {
		t.Error("greeter#x names a deployment")
	}
}

func TestNearestHint(t *testing.T) {
	t.Parallel()
	known := []string{"active", "failed"}
	for name, want := range map[string]string{"activ": "--status active", "faild": "--status failed", "nothing": "--status of the list"} {
		if got := cmdline.NearestHint(name, known, "--status %s", "--status of the list"); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestCompletionWords(t *testing.T) {
	t.Parallel()
	view := service.DeploymentView{Stages: []service.StageRun{{Name: "build"},
		{Name: "prod", Groups: []service.GroupRun{{
			Hosts: []service.HostRun{{Run: service.Run{Target: "greeter/prod/east/elm"}, Steps: []service.StepRun{{Name: "deploy"}}}}}}}}}
	f := &clitest.Log{
		Pipelines: []service.PipelineView{{Name: "greeter", Hosts: []service.HostView{{Target: "greeter/beta/all/oak"}}}},
		Recent:    []journal.Deployment{{Pipeline: "greeter", Number: 7, Label: "3f2c9a1", Status: pipeline.StatusActive}},
		Views:     map[string]service.DeploymentView{"greeter#7": view},
		Revisions: []pipeline.RegisteredRevision{{Label: "3f2c9a1", Subject: "Greet"}},
	}
	clitest.WantWords(t, map[string]clitest.Words{
		"pipelines": {Of: func() ([]string, error) { return cmdline.PipelineNames(t.Context(), f) }, Want: []string{"greeter"}},
		"deployments": {Of: func() ([]string, error) { return cmdline.DeploymentNames(t.Context(), f) },
			Want: []string{"greeter#7\tactive 3f2c9a1"}},
		"targets": {Of: func() ([]string, error) { return cmdline.TargetNames(t.Context(), f, "greeter") },
			Want: []string{"build", "prod", "prod/east/elm"}},
		"revisions": {Of: func() ([]string, error) { return cmdline.RevisionLabels(t.Context(), f, "greeter") },
			Want: []string{"3f2c9a1\tGreet"}},
		"hosts": {Of: func() ([]string, error) { return cmdline.HostNames(t.Context(), f, "greeter") }, Want: []string{"beta/all/oak"}},
	})
}

func TestReadAt(t *testing.T) {
	t.Parallel()
	now := clitest.Noon().UTC()
	for text, want := range map[string]time.Time{"": {}, "0s": now, "2h": now.Add(2 * time.Hour),
		"7d": now.Add(7 * 24 * time.Hour), "2026-12-01T03:00:00Z": time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)} {
		if got, err := cmdline.ReadAt("--at", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-2h", "2026-12-01"} {
		_, err := cmdline.ReadAt("--at", text, now)
		clitest.WantFault(t, err, fault.Invalid, "--at "+text+": want a time such as", "")
	}
}
