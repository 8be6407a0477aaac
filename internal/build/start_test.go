package build_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// TestStartingFilesAreSound: what is written for a folder has neither faults nor warnings.
func TestStartingFilesAreSound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ names, steps []string }{
		"nothing":         {nil, []string{"hello"}},
		"go":              {[]string{"README.md", "go.mod", "Makefile"}, []string{"go"}},
		"node and go":     {[]string{"package.json", "go.mod"}, []string{"go", "node"}},
		"rust":            {[]string{"Cargo.toml"}, []string{"rust"}},
		"python":          {[]string{"requirements.txt", "setup.py"}, []string{"python"}},
		"maven":           {[]string{"pom.xml"}, []string{"maven"}},
		"gradle":          {[]string{"build.gradle.kts"}, []string{"gradle"}},
		"dotnet":          {[]string{"shop.sln"}, []string{"dotnet"}},
		"make":            {[]string{"Makefile"}, []string{"make"}},
		"names that look": {[]string{"go.mod.bak", "xgo.mod"}, []string{"hello"}},
	} {
		file, problems := build.Parse(tree(t, build.StartingFile(c.names)))
		if problems != nil || file.Advice() != nil {
			t.Errorf("%s: %v, %v", name, problems, file.Advice())
			continue
		}
		if plan, problems := build.MakePlan(file, build.Choice{Variables: build.Variables{build.Texts("git", map[string]string{"REPO_NAME": "shop"})}}); problems != nil || len(plan.Images()) != len(c.steps) {
			t.Errorf("%s: images %v, %v", name, plan.Images(), problems)
		}
		var steps []string
		for _, s := range file.Stages[0].Steps {
			steps = append(steps, s.Name)
		}
		if diff := cmp.Diff(c.steps, steps); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

func TestStartingFile(t *testing.T) {
	t.Parallel()
	goldentest.Compare(t, "testdata/start.yml", build.StartingFile([]string{"go.mod", "package.json"}))
}
