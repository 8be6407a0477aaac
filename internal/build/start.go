package build

import (
	"path"
	"slices"
	"strings"
)

// tool is what builds one kind of project.
type tool struct {
	step, image string
	files       []string // globs; a folder with such a file uses the tool
	commands    []string
}

// tools returns the tools that StartingFile knows.
func tools() []tool {
	return []tool{
		{"go", "golang:1.26", []string{"go.mod"}, []string{"go vet ./...", "go test ./..."}},
		{"node", "node:24", []string{"package.json"}, []string{"npm ci", "npm test"}},
		{"rust", "rust:1", []string{"Cargo.toml"}, []string{"cargo test"}},
		{"python", "python:3", []string{"pyproject.toml", "setup.py", "requirements.txt"}, []string{"python -m unittest"}},
		{"maven", "maven:3", []string{"pom.xml"}, []string{"mvn --batch-mode verify"}},
		{"gradle", "gradle:9", []string{"build.gradle", "build.gradle.kts"}, []string{"gradle build"}},
		{"dotnet", "mcr.microsoft.com/dotnet/sdk:10.0", []string{"*.sln", "*.slnx", "*.csproj", "*.fsproj"}, []string{"dotnet test"}},
	}
}

// makefile returns the tool of a folder that no other tool knows.
func makefile() tool { return tool{"make", "gcc:15", []string{"Makefile"}, []string{"make"}} }

// StartingFile returns a commented build file for a folder with files of these names. It is sound.
func StartingFile(names []string) string {
	var used []tool
	for _, t := range append(tools(), makefile()) {
		if t.usedIn(names) && (t.step != makefile().step || len(used) == 0) {
			used = append(used, t)
		}
	}
	if len(used) == 0 {
		used = []tool{{"hello", "alpine:3", nil, []string{"echo replace this by what tests ${REPO_NAME}"}}}
	}
	var b strings.Builder
	b.WriteString(`# The build of this project. waybill run runs it here; waybill build lint checks it.
# Stages run one after another, the steps of a stage side by side.

# inputs:             # asked for when a build starts: waybill run -i level=debug
#   - {name: level, type: choice, values: [info, debug], default: info}
# environments:       # variables, chosen by --environment
#   prod: {namespace: shop}

test:                 # a stage: any name but inputs and environments
`)
	for _, t := range used {
		t.write(&b)
	}
	return b.String()
}

// usedIn reports whether a folder with these names has a file of the tool.
func (t tool) usedIn(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(t.files, func(glob string) bool {
			matched, _ := path.Match(glob, name) // the globs are sound
			return matched
		})
	})
}

// write writes the step of the tool.
func (t tool) write(b *strings.Builder) {
	b.WriteString("  " + t.step + ":\n" +
		"    # timeout: 10m\n" +
		"    # artifacts: [\"dist/**\"]      # files to keep\n" +
		"    container:\n" +
		"      image: " + t.image + "      # ignored where steps run as processes of this computer\n" +
		"      cmds:\n" +
		"        - set -e               # a command that fails ends the step\n")
	for _, command := range t.commands {
		b.WriteString("        - " + command + "\n")
	}
}
