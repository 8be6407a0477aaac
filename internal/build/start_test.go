package build_test

import (
	"fmt"
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
		"images":          {[]string{"go.mod", "Dockerfile", "tools/a.b/Dockerfile", "Dockerfile.dev", "x.Dockerfile", "tools/a-b/Dockerfile", "tools/NULL.Dockerfile", "true.Dockerfile"}, []string{"go", "image", "dev", "tools-NULL", "tools-a-b", "tools-a-b-2", "image-true", "x"}},
		"manifests":       {[]string{"deploy/shop.yml", "deploy/shop.yaml", "deploy/run-if.yml", "deploy/x y.yml", "deploy/sub/x.yml", "other/x.yml"}, []string{"hello", "apply-run-if", "shop", "shop-2"}},
		"names that look": {[]string{"go.mod.bak", "xgo.mod"}, []string{"hello"}},
	} {
		file, problems := build.Parse(tree(t, build.StartingFile(c.names)))
		if problems != nil || file.Advice() != nil {
			t.Errorf("%s: %v, %v", name, problems, file.Advice())
			continue
		}
		if plan, problems := build.MakePlan(file, build.Choice{Environment: environmentOf(file), Variables: build.Variables{build.Texts("git", map[string]string{"REPO_NAME": "shop"})}}); problems != nil || len(plan.Steps) != len(c.steps) {
			t.Errorf("%s: %+v, %v", name, plan, problems)
		}
		var steps []string
		for _, stage := range file.Stages {
			for _, s := range stage.Steps {
				steps = append(steps, s.Name)
			}
		}
		if diff := cmp.Diff(c.steps, steps); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

// environmentOf returns an environment of a file; "" without one.
func environmentOf(file *build.File) string {
	for _, e := range file.Environments {
		return e.Name
	}
	return ""
}

// TestStartingFilesAreBounded: a folder may have very many manifests.
func TestStartingFilesAreBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("deploy/%d.yml", i))
	}
	file, problems := build.Parse(tree(t, build.StartingFile(names)))
	if problems != nil || len(file.Stages[1].Steps) != 20 {
		t.Errorf("%d steps, %v", len(file.Stages[1].Steps), problems)
	}
}

func TestStartingFile(t *testing.T) {
	t.Parallel()
	goldentest.Compare(t, "testdata/start.yml", build.StartingFile([]string{"go.mod", "package.json", "Dockerfile", "tools/Dockerfile", "deploy/shop.yml"}))
}
