package promotion

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	return launch{management: w.Management, program: program, arguments: arguments, out: out}.start(t)
}

// launch describes a Waybill process.
type launch struct {
	management *testbed.Cluster
	program    string
	arguments  []string
	settings   string // further keys of the section promoter
	sections   string // further sections of server.yaml
	out        *os.File
}

func (l launch) start(t testing.TB) *Waybill {
	t.Helper()
	address := testbed.FreeAddress(t)
	c := &Waybill{Home: t.TempDir(), URL: "http://" + address, program: l.program}
	if !strings.Contains(l.settings, "proposalInterval:") {
		l.settings += ", proposalInterval: 1s"
	}
	server := fmt.Sprintf("promoter: {kubeconfig: %q, allowNetworks: [127.0.0.0/8], plainHTTP: true%s}\n%s",
		l.management.Kubeconfig, l.settings, l.sections)
	if err := os.WriteFile(filepath.Join(c.Home, "server.yaml"), []byte(server), 0o600); err != nil {
		t.Fatalf("start waybill: %v", err)
	}
	c.Process = testbed.RunProgram(t, testbed.Program{
		Name:  "waybill",
		Argv:  append(append([]string{l.program}, l.arguments...), "--home", c.Home, "--listen", address),
		Out:   l.out,
		Ready: Ready(c.URL),
	})
	return c
}

// Ready returns a function that reports whether the program at a URL is ready.
func Ready(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
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
}

// Command returns a command of the program on its home, such as pipeline show.
func (c *Waybill) Command(t testing.TB, arguments ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), c.program, append(arguments, "--home", c.Home)...)
}

// LoseLog kills Waybill, removes its log and starts it again with a new one.
func (c *Waybill) LoseLog(t testing.TB) {
	t.Helper()
	c.Kill(t)
	files, err := filepath.Glob(filepath.Join(c.Home, "waybill.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("remove the log: no files in %s (%v)", c.Home, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatalf("remove the log: %v", err)
		}
	}
	c.Start(t)
}
