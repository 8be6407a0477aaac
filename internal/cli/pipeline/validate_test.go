package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestValidateSumsAPipelineUp(t *testing.T) {
	t.Parallel()
	f := clitest.Greeter(t, "secrets")
	p, err := f.Project(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{nil, {"waybill.yaml"}, {"."}} {
		if err := validate(t.Context(), f.App, arguments, false); err != nil {
			t.Fatal(err)
		}
		f.Want(t, "waybill.yaml is valid: "+show.Summary(p.Definition)+"\n", "")
	}
}

func TestValidateWarnsOfSecretsInTheFolder(t *testing.T) {
	t.Parallel()
	f := clitest.Greeter(t)
	if err := validate(t.Context(), f.App, nil, false); err != nil {
		t.Fatal(err)
	}
	if text := f.Warned.String(); !strings.Contains(text,
		"the secret file secrets/key is in the project's folder and git does not ignore it") {
		t.Errorf("standard error %q", text)
	}
	f.Printed.Reset()
	f.Output = cmdline.JSONOutput
	if err := validate(t.Context(), f.App, nil, false); err != nil {
		t.Fatal(err)
	}
	var got validDocument
	if err := json.Unmarshal(f.Printed.Bytes(), &got); err != nil || !got.Valid || got.File != "waybill.yaml" ||
		len(got.Problems) != 1 || !got.Problems[0].Warning {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestValidateReportsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*testing.T, *clitest.Folder)
		want   string
		hint   string
	}{
		"two faults": {func(t *testing.T, f *clitest.Folder) { f.Write(t, "waybill.yaml", "pipelin: x\nstages: 7\n") }, "waybill.yaml:1:1", ""},
		"no file": {func(t *testing.T, f *clitest.Folder) { clitest.Rename(t, f, "waybill.yaml", "other.yaml") },
			"waybill.yaml not found in ", cmdline.Starter},
		"git ignores": {func(t *testing.T, f *clitest.Folder) { f.Write(t, ".gitignore", ".wharf-ci.yml\nsecrets\n") },
			"git ignores .wharf-ci.yml, so no revision has it", "git add -f .wharf-ci.yml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clitest.Greeter(t, "secrets")
			c.change(t, f)
			err := validate(t.Context(), f.App, nil, false)
			clitest.WantFault(t, err, fault.Invalid, c.want, c.hint)
			if cmdline.ExitStatus(err) != 2 {
				t.Errorf("exit status %d, want 2", cmdline.ExitStatus(err))
			}
			f.Want(t, "", "")
		})
	}
	f := clitest.NewFolder(t, map[string]string{"waybill.yaml": "pipelin: x\nstages: 7\n"})
	f.Output = cmdline.JSONOutput
	err := validate(t.Context(), f.App, nil, false)
	var got validDocument
	if json.Unmarshal(f.Printed.Bytes(), &got) != nil || got.Valid || len(got.Problems) < 2 || !clitest.IsShown(err) {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
}
