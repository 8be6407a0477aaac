package promotion

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed"
)

// Waybill promotes in the world, on a home of its own.
type Waybill struct {
	*testbed.Process
	Home string
	URL  string // the address of its API and pages

	program string
}

// Roles returns the arguments of a Waybill that only promotes.
func Roles() []string { return []string{"serve", "api", "conductor", "promoter"} }

// Waybill starts a Waybill program with arguments such as Roles, once Install has been called. out is its standard output; nil: its log.
func (w *World) Waybill(t testing.TB, program string, arguments []string, out *os.File) *Waybill {
	t.Helper()
	return waybill(t, w.Management, program, arguments, out)
}

func waybill(t testing.TB, management *testbed.Cluster, program string, arguments []string, out *os.File) *Waybill {
	t.Helper()
	address := testbed.FreeAddress(t)
	c := &Waybill{Home: t.TempDir(), URL: "http://" + address, program: program}
	server := fmt.Sprintf("promoter: {kubeconfig: %q, allowNetworks: [127.0.0.0/8], plainHTTP: true, proposalInterval: 1s}\n", management.Kubeconfig)
	if err := os.WriteFile(filepath.Join(c.Home, "server.yaml"), []byte(server), 0o600); err != nil {
		t.Fatalf("start waybill: %v", err)
	}
	c.Process = testbed.RunProgram(t, testbed.Program{
		Name:  "waybill",
		Argv:  append(append([]string{program}, arguments...), "--home", c.Home, "--listen", address),
		Out:   out,
		Ready: c.ready,
	})
	return c
}

func (c *Waybill) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s", response.Status)
	}
	return nil
}

// Command returns a command of the program on its home, such as pipeline show.
func (c *Waybill) Command(t testing.TB, arguments ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), c.program, append(arguments, "--home", c.Home)...)
}
