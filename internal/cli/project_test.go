package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

const greeterFile = `pipeline: greeter
service: {manager: process, exec: [./greeter], secrets: {KEY: {file: secrets/key}}}
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/greeter}
- name: beta
  hosts: ["local://oak"]
  test: [{run: [./selftest]}]
`

const greeterBuild = `build:
  binary:
    artifacts: [dist/*]
    container: {image: alpine, cmds: [make]}
`

// greeter makes a folder with a pipeline and its build, in a git repository that ignores the lines of ignored.
func greeter(t *testing.T, ignored ...string) *clitest.Folder {
	t.Helper()
	f := clitest.NewFolder(t, map[string]string{"waybill.yaml": greeterFile, ".wharf-ci.yml": greeterBuild, "secrets/key": "x", ".gitignore": strings.Join(ignored, "\n") + "\n"})
	clitest.Run(t, f.Dir, "git", "init", "-q")
	return f
}

func TestValidateSumsAPipelineUp(t *testing.T) {
	t.Parallel()
	f := greeter(t, "secrets")
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
	f := greeter(t)
	if err := validate(t.Context(), f.App, nil, false); err != nil {
		t.Fatal(err)
	}
	if text := f.Warned.String(); !strings.Contains(text, "the secret file secrets/key is in the project's folder and git does not ignore it") {
		t.Errorf("standard error %q", text)
	}
	f.Printed.Reset()
	f.Output = cmdline.JSONOutput
	if err := validate(t.Context(), f.App, nil, false); err != nil {
		t.Fatal(err)
	}
	var got validDocument
	if err := json.Unmarshal(f.Printed.Bytes(), &got); err != nil || !got.Valid || got.File != "waybill.yaml" || len(got.Problems) != 1 || !got.Problems[0].Warning {
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
		"two faults":  {func(t *testing.T, f *clitest.Folder) { f.Write(t, "waybill.yaml", "pipelin: x\nstages: 7\n") }, "waybill.yaml:1:1", ""},
		"no file":     {func(t *testing.T, f *clitest.Folder) { clitest.Rename(t, f, "waybill.yaml", "other.yaml") }, "waybill.yaml not found in ", cmdline.Starter},
		"git ignores": {func(t *testing.T, f *clitest.Folder) { f.Write(t, ".gitignore", ".wharf-ci.yml\nsecrets\n") }, "git ignores .wharf-ci.yml, so no revision has it", "git add -f .wharf-ci.yml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := greeter(t, "secrets")
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

func TestAProjectIsFoundFromBelow(t *testing.T) {
	t.Parallel()
	f := greeter(t)
	f.Write(t, "cmd/greeter/main.go", "package main\n")
	f.App.Dir = filepath.Join(f.Dir, "cmd", "greeter")
	p, err := f.Project(nil)
	if err != nil || p.Dir != f.Dir || p.Source != greeterFile || p.Definition.Pipeline != "greeter" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := f.Project([]string{"main.go"}); !strings.Contains(err.Error(), "main.go is a file: name the folder it is in") {
		t.Errorf("a file as an argument: %v", err)
	}
	if _, err := f.Project([]string{"absent"}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "read the folder absent: ") {
		t.Errorf("an absent folder: %v", err)
	}
	if _, err := f.Project([]string{"."}); !strings.Contains(err.Error(), "waybill.yaml not found in") {
		t.Errorf("a folder that is named is not left: %v", err)
	}
}

func TestBuildFilesAreCheckedFirst(t *testing.T) {
	t.Parallel()
	f := greeter(t)
	p, err := f.Project(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckBuilds(t.Context(), p); err != nil {
		t.Error(err)
	}
	f.Write(t, ".wharf-ci.yml", strings.Replace(greeterBuild, "cmds", "commands", 1))
	if err := f.CheckBuilds(t.Context(), p); err == nil || !strings.Contains(err.Error(), ".wharf-ci.yml:4:") {
		t.Errorf("a faulty build file: %v", err)
	}
	clitest.Rename(t, f, ".wharf-ci.yml", ".wharf-ci.yaml")
	clitest.WantFault(t, f.CheckBuilds(t.Context(), p), fault.Invalid, ".wharf-ci.yml not found in ", "mv .wharf-ci.yaml .wharf-ci.yml   # only this name is read")
	clitest.Rename(t, f, ".wharf-ci.yaml", "ci.txt")
	if err := f.CheckBuilds(t.Context(), p); !strings.HasPrefix(fault.HintOf(err), "waybill build init   # writes one, such as:") {
		t.Errorf("hint %q", fault.HintOf(err))
	}
}

// TestSecretsStayOutOfRevisions: changing a secret, also behind a link, is not another revision.
func TestSecretsStayOutOfRevisions(t *testing.T) {
	t.Parallel()
	f := greeter(t)
	f.Write(t, "vault/real", "1")
	clitest.Run(t, f.Dir, "ln", "-sf", "../vault/real", "secrets/key")
	label := func() string {
		t.Helper()
		p, err := f.Project(nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"vault/real"}, p.SecretFiles()); diff != "" {
			t.Fatalf("secret files (-want +got):\n%s", diff)
		}
		tree, err := p.Tree(t.Context(), assembly.Home{Dir: filepath.Join(f.Dir, ".waybill")})
		if err != nil {
			t.Fatal(err)
		}
		return tree.Label
	}
	before := label()
	f.Write(t, "vault/real", "2")
	f.Write(t, ".waybill/waybill.db", "not of the project")
	if after := label(); after != before {
		t.Errorf("label %s, then %s", before, after)
	}
	f.Write(t, "main.go", "package main\n")
	if after := label(); after == before {
		t.Errorf("label %s before and after a change", before)
	}
}

// TestLintTakesAFolderOrAFile: like the other commands that check a file.
func TestLintTakesAFolderOrAFile(t *testing.T) {
	t.Parallel()
	f := clitest.NewFolder(t, map[string]string{"ci/.wharf-ci.yml": greeterBuild, "ci/bad.yml": "build: 7\n"})
	for argument, want := range map[string]string{"ci": ".wharf-ci.yml is sound: 1 stage\n", "ci/.wharf-ci.yml": ".wharf-ci.yml is sound: 1 stage\n"} {
		if status := runLine(t.Context(), f.App, []string{"build", "lint", argument}); status != 0 {
			t.Errorf("%s: exit status %d", argument, status)
		}
		f.Want(t, want, "")
	}
	if status := runLine(t.Context(), f.App, []string{"build", "lint", "ci/bad.yml"}); status != 2 || !strings.HasPrefix(f.Warned.String(), "ci/bad.yml:1:8: ") {
		t.Errorf("exit status %d, standard error %q", status, f.Warned.String())
	}
}
