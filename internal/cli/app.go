package cli

import (
	"io"
	"log/slog"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// app is what the commands of one invocation share.
type app struct {
	in          io.Reader
	out, err    io.Writer
	dir         string              // the working directory
	environment func(string) string // such as os.Getenv
	flags       globals
	log         *slog.Logger // of a process that serves; nil: nothing is logged
}

// globals are the flags that every command has.
type globals struct {
	home   string // the folder that holds the embedded log; "": found
	config string // server.yaml; "": the home's
	store  string // the ledger's URL; "": the configuration's, else waybill.db in the home
	server string // URL of a running `waybill up` or `waybill serve api`; "": work on the log itself
	output string // text or json
}

// Output forms.
const (
	textOutput = "text"
	jsonOutput = "json"
)

func (a *app) json() bool { return a.flags.output == jsonOutput }

// check refuses values of the global flags that mean nothing.
func (g globals) check() error {
	switch {
	case g.output != textOutput && g.output != jsonOutput:
		return fault.New(fault.Invalid, "there is no output form %q", g.output).WithHint("-o text or -o json")
	case g.server != "" && !strings.HasPrefix(g.server, "http://") && !strings.HasPrefix(g.server, "https://"):
		return fault.New(fault.Invalid, "--server %s is no URL", g.server).WithHint("--server http://127.0.0.1:7070")
	case g.server != "" && g.store != "":
		return fault.New(fault.Invalid, "--server and --store exclude each other: the server knows its own store")
	}
	return nil
}

// path makes a path that a person wrote absolute, counting from the working directory.
func (a *app) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(a.dir, name)
}

// user is who acts, for the log.
func (a *app) user() string {
	for _, name := range []string{"USER", "LOGNAME"} {
		if value := a.environment(name); value != "" {
			return value
		}
	}
	if account, err := user.Current(); err == nil {
		return account.Username
	}
	return "unknown"
}
