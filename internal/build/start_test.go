package build_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// TestStartingFilesAreSound: the file for a folder has neither faults nor warnings.
func TestStartingFilesAreSound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ names, steps []string }{
		"nothing":     {nil, []string{"hello"}},
		"go":          {[]string{"README.md", "go.mod", "Makefile"}, []string{"go"}},
		"node and go": {[]string{"package.json", "go.mod"}, []string{"go", "node"}},
		"rust":        {[]string{"Cargo.toml"}, []string{"rust"}},
		"python":      {[]string{"requirements.txt", "setup.py"}, []string{"python"}},
		"maven":       {[]string{"pom.xml"}, []string{"maven"}},
		"gradle":      {[]string{"build.gradle.kts"}, []string{"gradle"}},
		"dotnet":      {[]string{"shop.sln"}, []string{"dotnet"}},
		"make":        {[]string{"Makefile"}, []string{"make"}},
		"images": {[]string{"go.mod", "Dockerfile", "tools/a.b/Dockerfile", "Dockerfile.dev", "x.Dockerfile",
			"tools/a-b/Dockerfile", "tools/NULL.Dockerfile", "true.Dockerfile"},
			[]string{"go", "image", "dev", "tools-NULL", "tools-a-b", "tools-a-b-2", "image-true", "x"}},
		"manifests": {[]string{"deploy/shop.yml", "deploy/shop.yaml", "deploy/run-if.yml", "deploy/x y.yml",
			"deploy/sub/x.yml", "other/x.yml"}, []string{"hello", "apply-run-if", "shop", "shop-2"}},
		"names that look": {[]string{"go.mod.bak", "xgo.mod"}, []string{"hello"}},
	} {
		file, problems := build.Parse(tree(t, build.StartingFile(named(c.names...))))
		if problems != nil || file.Advice() != nil {
			t.Errorf("%s: %v, %v", name, problems, file.Advice())
			continue
		}
		if plan, problems := build.MakePlan(file, build.Choice{Environment: environmentOf(file), Variables: build.Variables{
			build.Texts("git", map[string]string{"REPO_NAME": "shop"})}}); problems != nil || len(plan.Steps) != len(c.steps) {
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

// named returns files without texts.
func named(names ...string) map[string]string {
	files := map[string]string{}
	for _, name := range names {
		files[name] = ""
	}
	return files
}

// TestStartingFilesRunTheTestsThatAreThere: the commands follow from lock files, from the test program that the project
// names, and from targets.
func TestStartingFilesRunTheTestsThatAreThere(t *testing.T) {
	t.Parallel()
	venv := []string{"python3 -m venv --clear .venv", ". .venv/bin/activate"}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"npm with a lock": {map[string]string{"package.json": `{"scripts": {"test": "node --test"}}`,
			"package-lock.json": ""}, []string{"npm ci", "npm test"}},
		"npm without a lock": {map[string]string{"package.json": `{"scripts": {"test": "node --test", "build": "tsc"}}`},
			[]string{"npm install", "npm run build", "npm test"}},
		"npm without tests": {map[string]string{
			"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`}, []string{"npm install"}},
		"npm unreadable": {map[string]string{"package.json": `{`}, []string{"npm install", "npm test"}},
		"yarn": {map[string]string{"package.json": `{"scripts": {"test": "x"}}`, "yarn.lock": ""},
			[]string{"corepack yarn install --frozen-lockfile", "corepack yarn test"}},
		"pnpm": {map[string]string{"package.json": `{"scripts": {"test": "x"}}`, "pnpm-lock.yaml": ""},
			[]string{"corepack pnpm install --frozen-lockfile", "corepack pnpm test"}},
		"pytest in pyproject": {map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\n"},
			append(venv, "pip install pytest", "python -m pytest")},
		"pytest required": {map[string]string{"requirements.txt": "flask\n", "requirements-dev.txt": "pytest==8\n"},
			append(venv, "pip install -r requirements-dev.txt", "pip install -r requirements.txt", "python -m pytest")},
		"pytest in setup.cfg": {map[string]string{"setup.cfg": "[tool:pytest]\n", "setup.py": ""},
			append(venv, "pip install .", "pip install pytest", "python -m pytest")},
		"pytest in tests": {map[string]string{"pyproject.toml": "[project]\nname = 'x'\n",
			"tests/test_x.py": "import x\n\ndef test_one():\n    pass\n"}, append(venv, "pip install .", "pip install pytest", "python -m pytest")},
		"unittest": {map[string]string{"setup.py": "",
			"test_x.py": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\n"},
			append(venv, "pip install .", "python -m unittest discover")},
		"unittest in a folder": {map[string]string{"requirements.txt": "", "tests/test_x.py": "import unittest\n"},
			append(venv, "pip install -r requirements.txt", "python -m unittest discover -s tests")},
		"unittest in a package": {map[string]string{"setup.py": "", "tests/__init__.py": "",
			"tests/test_x.py": "import unittest\n"}, append(venv, "pip install .", "python -m unittest")},
		"make": {map[string]string{"Makefile": "CHECK := x\ncheck := y\nall:\n\tcc x.c\ntested: all\n"}, []string{"make"}},
		"make test": {map[string]string{
			"Makefile": "all:\n\tcc x.c\n.PHONY: test\ncheck: all\ntest: all\n\t./x\n"}, []string{"make", "make test"}},
		"make check": {map[string]string{"makefile": "all check::\n\t./x\n", "Makefile": "test:\n"}, []string{"make", "make check"}},
	} {
		file, problems := build.Parse(tree(t, build.StartingFile(c.files)))
		if problems != nil {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		plan, problems := build.MakePlan(file, build.Choice{})
		if problems != nil {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		argv := plan.Steps[0].Spec.Argv
		if diff := cmp.Diff("set -e\n"+strings.Join(c.want, "\n"), argv[len(argv)-1]); diff != "" {
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
	file, problems := build.Parse(tree(t, build.StartingFile(named(names...))))
	if problems != nil || len(file.Stages[1].Steps) != 20 {
		t.Errorf("%d steps, %v", len(file.Stages[1].Steps), problems)
	}
}

func TestStartingFile(t *testing.T) {
	t.Parallel()
	goldentest.Compare(t, "testdata/start.yml",
		build.StartingFile(named("go.mod", "package.json", "package-lock.json", "Dockerfile", "tools/Dockerfile", "deploy/shop.yml")))
}
