package cmdline

import (
	"io"
	"strings"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/fault"
)

// App is the state that the commands of one invocation share.
type App struct {
	assembly.Place
	In       io.Reader
	Out, Err io.Writer
	Output   string // text or json
	Unknown  error  // help for a command that does not exist
}

// Output forms.
const (
	TextOutput = "text"
	JSONOutput = "json"
)

func (a *App) JSON() bool { return a.Output == JSONOutput }

// Check refuses values of the global flags that mean nothing.
func (a *App) Check() error {
	g := a.Flags
	switch {
	case a.Output != TextOutput && a.Output != JSONOutput:
		return fault.New(fault.Invalid, "output form %q not found", a.Output).WithHint("-o text or -o json")
	case g.Server != "" && !strings.HasPrefix(g.Server, "http://") && !strings.HasPrefix(g.Server, "https://"):
		return fault.New(fault.Invalid, "--server %s is not a URL", g.Server).WithHint("--server http://127.0.0.1:7070")
	case g.Server != "" && g.Store != "":
		return fault.New(fault.Invalid, "--server and --store exclude each other: the server knows its own store")
	}
	return nil
}
