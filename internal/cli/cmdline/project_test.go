package cmdline_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestAProjectIsFoundFromBelow(t *testing.T) {
	t.Parallel()
	f := clitest.Greeter(t)
	f.Write(t, "cmd/greeter/main.go", "package main\n")
	f.App.Dir = filepath.Join(f.Dir, "cmd", "greeter")
	p, err := f.Project(nil)
	if err != nil || p.Dir != f.Dir || p.Source != clitest.GreeterFile || p.Definition.Pipeline != "greeter" {
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
	f := clitest.Greeter(t)
	p, err := f.Project(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckBuilds(t.Context(), p); err != nil {
		t.Error(err)
	}
	f.Write(t, ".wharf-ci.yml", strings.Replace(clitest.GreeterBuild, "cmds", "commands", 1))
	if err := f.CheckBuilds(t.Context(), p); err == nil || !strings.Contains(err.Error(), ".wharf-ci.yml:4:") {
		t.Errorf("a faulty build file: %v", err)
	}
	clitest.Rename(t, f, ".wharf-ci.yml", ".wharf-ci.yaml")
	clitest.WantFault(t, f.CheckBuilds(t.Context(), p), fault.Invalid, ".wharf-ci.yml not found in ",
		"mv .wharf-ci.yaml .wharf-ci.yml   # only this name is read")
	clitest.Rename(t, f, ".wharf-ci.yaml", "ci.txt")
	if err := f.CheckBuilds(t.Context(), p); !strings.HasPrefix(fault.HintOf(err), "waybill build init   # writes one, such as:") {
		t.Errorf("hint %q", fault.HintOf(err))
	}
}

// TestSecretsStayOutOfRevisions: changing a secret, also behind a link, is not another revision.
func TestSecretsStayOutOfRevisions(t *testing.T) {
	t.Parallel()
	f := clitest.Greeter(t)
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
