//go:build linux && services

package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
)

// The project that is shipped: two shell scripts, so that a trip takes seconds
// and most kills land in the middle of something.
var projectFiles = map[string]string{
	"waybill.yaml": `pipeline: hello
service:
  manager: process
  exec: [./serve, "${revision}"]
  shared: [data]
  ready: {for: 100ms, within: 10s}
test:
- {run: [./selftest, "${revision}"]}
retry: {backoff: {retries: 5, initial: 100ms, max: 1s}}
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/hello.tar.gz}
- name: beta
  hosts: ["local://oak"]
- name: prod
  groups:
  - {name: east, hosts: ["local://elm", "local://fir"]}
  - {name: west, hosts: ["local://yew"]}
`,
	".wharf-ci.yml": `package:
  hello:
    artifacts: [dist/hello.tar.gz]
    container:
      image: busybox
      cmds:
        - set -e
        - mkdir -p dist
        - tar -czf dist/hello.tar.gz serve selftest warm change
`,
	// Every start leaves a line, so that needless restarts show.
	"serve": `#!/bin/sh
echo "$1" >> data/starts
exec sleep 3600
`,
	"selftest": `#!/bin/sh
exec grep -q -x "$1" data/starts
`,
	"warm": `#!/bin/sh
exit 0
`,
}

// hosts are the targets of the project's pipeline and the names of their folders in the home.
var hosts = map[string]string{
	"hello/beta/all/oak": "oak", "hello/prod/east/elm": "elm", "hello/prod/east/fir": "fir", "hello/prod/west/yew": "yew",
}

// facts is the number of facts that a whole trip of the project leaves: 13 of work, 23 markers.
const facts = 36

// project is a repository on disk with one commit for each revision.
type project struct {
	dir string
}

func newProject(t *testing.T) *project {
	t.Helper()
	p := &project{dir: t.TempDir()}
	for name, content := range projectFiles {
		mode := os.FileMode(0o644)
		if name == "serve" || name == "selftest" || name == "warm" {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	p.git(t, "init", "-q", "-b", "main")
	return p
}

// commit changes the source and returns the label of the new revision.
func (p *project) commit(t *testing.T, number int) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "change"), fmt.Appendf(nil, "change %d\n", number), 0o644); err != nil {
		t.Fatal(err)
	}
	p.git(t, "add", ".")
	p.git(t, "commit", "-q", "-m", fmt.Sprintf("Change %d", number))
	return p.git(t, "log", "-1", "--format=%h")
}

func (p *project) git(t *testing.T, args ...string) string {
	t.Helper()
	command := childtest.Command(t, "git", append([]string{"-c", "user.name=Ana", "-c", "user.email=ana@example.com"}, args...)...)
	command.Dir = p.dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	if n := len(out); n > 0 && out[n-1] == '\n' {
		out = out[:n-1]
	}
	return string(out)
}
