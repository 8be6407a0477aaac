package cli

import (
	"io"
	"strings"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/fault"
)

// app is what the commands of one invocation share.
type app struct {
	assembly.Place
	in       io.Reader
	out, err io.Writer
	output   string // text or json
	unknown  error  // help was asked for a command that does not exist
}

// Output forms.
const (
	textOutput = "text"
	jsonOutput = "json"
)

func (a *app) json() bool { return a.output == jsonOutput }

// check refuses values of the global flags that mean nothing.
func (a *app) check() error {
	g := a.Flags
	switch {
	case a.output != textOutput && a.output != jsonOutput:
		return fault.New(fault.Invalid, "output form %q not found", a.output).WithHint("-o text or -o json")
	case g.Server != "" && !strings.HasPrefix(g.Server, "http://") && !strings.HasPrefix(g.Server, "https://"):
		return fault.New(fault.Invalid, "--server %s is not a URL", g.Server).WithHint("--server http://127.0.0.1:7070")
	case g.Server != "" && g.Store != "":
		return fault.New(fault.Invalid, "--server and --store exclude each other: the server knows its own store")
	}
	return nil
}
