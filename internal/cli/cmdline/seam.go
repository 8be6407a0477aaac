package cmdline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// The seam between a command and the log: a command has a struct of options, with an interface for exactly the operations
// that it uses, and a function that does the work. RunE fills the options from a session; tests fill them with fakes. The
// interfaces here are those that several commands share.
type (
	EntryReader interface {
		operation.Caller
		Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error
	}
)

// WithSession opens the log that exists, or the server, for the time of one command.
func (a *App) WithSession(c *cobra.Command, do func(ctx context.Context, s *assembly.Session) error) error {
	return a.InSession(c, a.Dir, assembly.Existing, do)
}

// CreateSession is WithSession for a command that makes the log when it is missing.
func (a *App) CreateSession(c *cobra.Command, do func(ctx context.Context, s *assembly.Session) error) error {
	return a.InSession(c, a.Dir, assembly.Create, do)
}

func (a *App) InSession(c *cobra.Command, dir string, m assembly.Mode, do func(ctx context.Context, s *assembly.Session) error) error {
	s, err := a.Open(c.Context(), dir, m)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(c.Context(), s)
}

// Optional returns the argument with an index, or "".
func Optional(arguments []string, i int) string {
	if i < len(arguments) {
		return arguments[i]
	}
	return ""
}

// WarnPrivateBlobs warns that other processes on the ledger do not find the blobs, which are at url; "": no warning.
func (a *App) WarnPrivateBlobs(url string) {
	if url != "" {
		a.Printer().Warn(
			"waybill: blobs are in %s, where processes with another home do not find them; name a store that all of them reach: "+
				"blob.url in server.yaml",
			a.Shorten(url))
	}
}

// WarnIfIdle warns when no process does the work of the log.
func WarnIfIdle(ctx context.Context, out show.Printer, idle func(context.Context) bool) {
	if idle(ctx) {
		out.Warn("waybill: no process works on this log now: start waybill up, or run waybill ship")
	}
}
