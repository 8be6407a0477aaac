package revision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// builtElsewhere is a definition whose artifacts come from outside, and the build stage of one whose do not.
func builtElsewhere(external bool) journal.Version {
	build := pipeline.Build{External: external, Artifacts: []pipeline.Artifact{{Label: "amd64"}, {Label: "arm64"}}}
	return journal.Version{Definition: pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "build", Build: &build}}}}
}

// registering returns the input that registers a revision of greeter.
func registering(label string) operation.RevisionInput {
	return operation.RevisionInput{PipelinePath: operation.PipelinePath{Pipeline: "greeter"}, Body: operation.RevisionBody{Label: label}}
}

func TestRegisterRevision(t *testing.T) {
	t.Parallel()
	r := pipeline.RegisteredRevision{Pipeline: "greeter", Label: "v1", Artifacts: []pipeline.RevisionArtifact{{Label: "amd64"}}}
	f, o := &clitest.Log{Version: builtElsewhere(true), Revisions: []pipeline.RegisteredRevision{r}}, clitest.NewOutput(clitest.AsText)
	options := registerRevisionOptions{Log: f, Revision: registering("v1"), Idle: clitest.Idle, Out: o.Printer}
	if err := runRegisterRevision(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Version greeter 0", "Register v1  true")
	o.Want(t, "greeter#1  revision v1  waits for artifact arm64\n", clitest.IdleWarning)
	o = clitest.NewOutput(clitest.AsJSON)
	options.Out = o.Printer
	if err := runRegisterRevision(t.Context(), options); err != nil || o.Warned.Len() > 0 ||
		!strings.Contains(o.Printed.String(), `"created": true`) {
		t.Errorf("%v, printed %q and %q", err, o.Printed.String(), o.Warned.String())
	}
}

// TestRegisterRefusesWhatWaybillBuilds, since the revision would have no files to build from.
func TestRegisterRefusesWhatWaybillBuilds(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{Version: builtElsewhere(false)}, clitest.NewOutput(clitest.AsText)
	err := runRegisterRevision(t.Context(), registerRevisionOptions{Log: f, Revision: registering("v1"), Out: o.Printer})
	clitest.WantFault(t, err, fault.Refused, `stage "build" of greeter builds from a revision's files`, "")
	f.WantCalls(t, "Version greeter 0")
}

func TestPutArtifact(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "greeter.tar.gz")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, o := &clitest.Log{}, clitest.NewOutput(clitest.AsText)
	options := putArtifactOptions{Artifacts: f, Pipeline: "greeter", Label: "v1", Artifact: "arm64", File: path, Out: o.Printer}
	if err := runPutArtifact(t.Context(), options); err != nil || f.Files != "content" {
		t.Fatalf("%v, uploaded %q", err, f.Files)
	}
	f.WantCalls(t, "PutArtifact greeter v1 arm64 greeter.tar.gz 7")
	o.Want(t, "greeter  revision v1  artifact arm64  7 B sha256:ed7002b4\n", "")

	f.Artifact.Digest = "88d0e17"
	clitest.WantFault(t, runPutArtifact(t.Context(), options), fault.Internal, "was stored with SHA-256 88d0e17, not ed7002b4", "")
	for _, file := range []string{path + ".gone", filepath.Dir(path), os.DevNull} {
		options.File = file
		clitest.WantFault(t, runPutArtifact(t.Context(), options), fault.Invalid, file, "")
	}
}

func TestArtifactLabelsAreThoseFromOutside(t *testing.T) {
	t.Parallel()
	for external, want := range map[bool]string{true: "amd64 arm64", false: ""} {
		labels, err := artifactLabels(t.Context(), &clitest.Log{Version: builtElsewhere(external)}, "greeter")
		if got := strings.Join(labels, " "); got != want || err != nil {
			t.Errorf("external %v: %q, %v", external, got, err)
		}
	}
}
