package clitest

import (
	"strings"
	"testing"
)

// GreeterFile is the waybill.yaml of the tests' pipeline.
const GreeterFile = `pipeline: greeter
service: {manager: process, exec: [./greeter], secrets: {KEY: {file: secrets/key}}}
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/greeter}
- name: beta
  hosts: ["local://oak"]
  test: [{run: [./selftest]}]
`

// GreeterBuild is the .wharf-ci.yml of the tests' pipeline.
const GreeterBuild = `build:
  binary:
    artifacts: [dist/*]
    container: {image: alpine, cmds: [make]}
`

// Greeter makes a folder with a pipeline and its build, in a git repository that ignores the lines of ignored.
func Greeter(t *testing.T, ignored ...string) *Folder {
	t.Helper()
	f := NewFolder(t, map[string]string{"waybill.yaml": GreeterFile, ".wharf-ci.yml": GreeterBuild, "secrets/key": "x",
		".gitignore": strings.Join(ignored, "\n") + "\n"})
	Run(t, f.Dir, "git", "init", "-q")
	return f
}
