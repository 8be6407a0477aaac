package cmdline_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// TestShipUntilAStageAsksForTheKeysOfItsHosts: the keys of hosts that the deployment does not reach may be stored later.
func TestShipUntilAStageAsksForTheKeysOfItsHosts(t *testing.T) {
	t.Parallel()
	f := clitest.NewFolder(t, map[string]string{"waybill.yaml": `pipeline: hello
service: {manager: process, exec: [./hello]}
ssh: {user: deploy}
stages:
- {name: build, build: external, artifacts: {any: hello}}
- {name: beta, hosts: ["ssh://elm.example.net"]}
- {name: prod, hosts: ["ssh://fir.example.net"]}
`})
	p, err := f.Project(nil)
	if err != nil {
		t.Fatal(err)
	}
	for until, want := range map[string]string{"build": "", "beta": "elm", "prod": "elm fir", "": "elm fir"} {
		var asked []string
		problems, err := cmdline.UnknownHosts(f.App, p, f.HomeOf(p.Dir), until)
		for _, problem := range problems {
			host, _, _ := strings.Cut(strings.TrimPrefix(problem.Text, "no known key for "), ".")
			asked = append(asked, host)
		}
		if got := strings.Join(asked, " "); got != want || err != nil {
			t.Errorf("until %q: asked for the keys of %q, %v; want %q", until, got, err, want)
		}
	}
}
