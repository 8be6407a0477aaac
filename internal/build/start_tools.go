package build

import (
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// tool builds one kind of project.
type tool struct {
	step, image string
	files       []string // globs; a folder with such a file uses the tool
	commands    func(startingFiles) []string
}

// startingFiles is the files of a folder by slash-separated path, with the texts of those that StartingText names.
type startingFiles map[string]string

// tools returns the tools that StartingFile knows.
func tools() []tool {
	return []tool{
		{"go", "golang:1.26", []string{"go.mod"}, always("go vet ./...", "go test ./...")},
		{"node", "node:24", []string{"package.json"}, nodeCommands},
		{"rust", "rust:1", []string{"Cargo.toml"}, always("cargo test")},
		{"python", "python:3", []string{"pyproject.toml", "setup.py", "requirements.txt"}, pythonCommands},
		{"maven", "maven:3", []string{"pom.xml"}, always("mvn --batch-mode verify")},
		{"gradle", "gradle:9", []string{"build.gradle", "build.gradle.kts"}, always("gradle build")},
		{"dotnet", "mcr.microsoft.com/dotnet/sdk:10.0", []string{"*.sln", "*.slnx", "*.csproj", "*.fsproj"}, always("dotnet test")},
	}
}

// makefile returns the tool of a folder that no other tool knows.
func makefile() tool { return tool{"make", "gcc:15", makefiles(), makeCommands} }

func makefiles() []string { return []string{"GNUmakefile", "makefile", "Makefile"} } // as make prefers them

func always(commands ...string) func(startingFiles) []string {
	return func(startingFiles) []string { return commands }
}

// StartingText reports whether StartingFile looks into a file, by slash-separated path.
func StartingText(name string) bool {
	if path.Dir(name) == "." && isRequirements(name) {
		return true
	}
	return slices.Contains([]string{"package.json", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini"}, name) ||
		slices.Contains(makefiles(), name) || IsPythonTest(name)
}

// IsPythonTest reports whether a file has tests in Python by its name, or helps those of pytest.
func IsPythonTest(name string) bool {
	base := path.Base(name)
	return path.Ext(base) == ".py" && (strings.HasPrefix(base, "test") || strings.HasSuffix(base, "_test.py")) || base == "conftest.py"
}

func isRequirements(name string) bool {
	return strings.HasPrefix(name, "requirements") && path.Ext(name) == ".txt"
}

func (f startingFiles) has(name string) bool {
	_, ok := f[name]
	return ok
}

func (f startingFiles) sorted() []string { return slices.Sorted(maps.Keys(f)) }

// nodeCommands installs with the program whose lock file is there, and runs the tests if the package has any.
func nodeCommands(f startingFiles) []string {
	program, install := "npm", "npm install"
	switch {
	case f.has("package-lock.json"), f.has("npm-shrinkwrap.json"):
		install = "npm ci"
	case f.has("pnpm-lock.yaml"):
		program, install = "corepack pnpm", "corepack pnpm install --frozen-lockfile"
	case f.has("yarn.lock"):
		program, install = "corepack yarn", "corepack yarn install --frozen-lockfile"
	}
	var described struct{ Scripts map[string]string }
	if err := json.Unmarshal([]byte(f["package.json"]), &described); err != nil {
		return []string{install, program + " test"}
	}
	commands := []string{install}
	if described.Scripts["build"] != "" {
		commands = append(commands, program+" run build")
	}
	if test := described.Scripts["test"]; test != "" && !strings.Contains(test, "no test specified") { // npm init writes this text
		commands = append(commands, program+" test")
	}
	return commands
}

var (
	// pytest matches the files of a project that name the program, and tests that only it can read.
	pytest = regexp.MustCompile(`(?m)\bpytest\b|^(async )?def test`)
	// packaged is in a pyproject.toml that describes a package.
	packaged = regexp.MustCompile(`(?m)^\[(project|build-system|tool\.poetry)\]`)
)

// pythonCommands installs the project into an environment of its own, and runs its tests.
func pythonCommands(f startingFiles) []string {
	commands := []string{"python3 -m venv --clear .venv", ". .venv/bin/activate"}
	installed := false
	for _, name := range f.sorted() {
		if path.Dir(name) == "." && isRequirements(name) && plainPath.MatchString(name) {
			commands = append(commands, "pip install -r "+name)
			installed = installed || strings.Contains(f[name], "pytest")
		}
	}
	if f.has("setup.py") || packaged.MatchString(f["pyproject.toml"]) {
		commands = append(commands, "pip install .")
	}
	switch {
	case f.usesPytest() && installed:
		return append(commands, "python -m pytest")
	case f.usesPytest():
		return append(commands, "pip install pytest", "python -m pytest")
	case f.has("tests/__init__.py"), !slices.ContainsFunc(f.sorted(), IsPythonTest):
		return append(commands, "python -m unittest")
	}
	return append(commands, "python -m unittest discover"+f.testFolder())
}

// usesPytest reports whether the files name pytest, or have code that only pytest reads.
func (f startingFiles) usesPytest() bool {
	return f.has("pytest.ini") || slices.ContainsFunc(f.sorted(), func(name string) bool {
		return StartingText(name) && pytest.MatchString(f[name]) || path.Base(name) == "conftest.py"
	})
}

// testFolder returns the option for the folder that has the tests of unittest, which looks only into packages on its
// own.
func (f startingFiles) testFolder() string {
	for _, name := range f.sorted() {
		if IsPythonTest(name) && path.Dir(name) != "." && !f.has(path.Dir(name)+"/__init__.py") && plainPath.MatchString(name) {
			return " -s " + path.Dir(name)
		}
	}
	return ""
}

// checking is the targets of a makefile that run tests.
var checking = regexp.MustCompile(`(?m)^(?:[A-Za-z0-9_. -]+ )?(test|check)(?: [A-Za-z0-9_. -]+)?[ \t]*::?(?:[^:=]|$)`)

// makeCommands builds, and runs the tests if the makefile has a target for them.
func makeCommands(f startingFiles) []string {
	for _, name := range makefiles() {
		if text, ok := f[name]; ok {
			var targets []string
			for _, match := range checking.FindAllStringSubmatch(text, -1) {
				targets = append(targets, match[1])
			}
			for _, target := range []string{"test", "check"} {
				if slices.Contains(targets, target) {
					return []string{"make", "make " + target}
				}
			}
			break
		}
	}
	return []string{"make"}
}
