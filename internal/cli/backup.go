package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the log of a home into FILE, also while it is in use",
		Long: `Copies the log of a home into a new file, while instances work, and checks the copy. Blobs, server.yaml
and the home's token are not in it: copy the blobs after the log (see docs/operate.md). A log on
PostgreSQL is backed up with pg_dump; the command is printed.`,
		Example: examples("waybill backup waybill-$(date +%F).db"),
		Args:    arguments(1, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.backup(c.Context(), a.path(arguments[0]))
		},
	}
}

func (a *app) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the log of a home by a backup, and keep the old one beside it",
		Long: `Checks a file that waybill backup wrote and puts it in the place of the home's log, which is kept beside it. No
instance may run in the home. Actions are in the state of the backup: those that ended since then run
again, with the same ids. A log on PostgreSQL is restored with pg_restore; the command is printed.`,
		Example: examples("waybill restore waybill-2026-11-22.db", "waybill restore waybill-2026-11-22.db --home /srv/waybill"),
		Args:    arguments(1, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.restore(c.Context(), a.path(arguments[0]))
		},
	}
}

// backedUp is `waybill backup -o json`.
type backedUp struct {
	Log     string  `json:"log"`
	File    string  `json:"file"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

func (a *app) backup(ctx context.Context, file string) error {
	s, err := a.fileLog("backup", "pg_dump --format=custom --file=FILE URL")
	if err != nil {
		return err
	}
	if err := needLog(s.url); err != nil {
		return err
	}
	began := time.Now()
	if err := sqlite.Backup(ctx, s.url, file); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if a.json() {
		return a.printer().Document(backedUp{Log: s.url, File: file, Bytes: info.Size(), Seconds: took.Seconds()})
	}
	_, err = fmt.Fprintf(a.out, "backed up %s to %s: %s in %s\n", s.url, file, server.Size(info.Size()), took.Round(time.Millisecond))
	return err
}

// restored is `waybill restore -o json`.
type restored struct {
	Log  string `json:"log"`
	File string `json:"file"`
	Kept string `json:"kept,omitempty"` // the old log; none: there was none
}

func (a *app) restore(ctx context.Context, file string) error {
	s, err := a.fileLog("restore", "pg_restore --clean --if-exists --dbname=URL FILE")
	if err != nil {
		return err
	}
	if err := s.home.create(); err != nil {
		return err
	}
	lock, err := lifecycle.Lock(s.home.dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // it ends with this process at the latest
	kept := fmt.Sprintf("%s.before-%s", s.url, time.Now().UTC().Format("20060102T150405Z"))
	if err := sqlite.Restore(ctx, file, s.url, kept); err != nil {
		return err
	}
	answer := restored{Log: s.url, File: file}
	if _, err := os.Stat(kept); err == nil {
		answer.Kept = kept
	}
	if a.json() {
		return a.printer().Document(answer)
	}
	fmt.Fprintf(a.out, "restored %s from %s\n", s.url, file)
	if answer.Kept != "" {
		fmt.Fprintf(a.out, "  the old log is kept as %s\n", filepath.Base(kept))
	}
	fmt.Fprintln(a.out, "  actions that ended since the backup run again")
	return nil
}

// fileLog finds the log that a command copies as a file; for one on PostgreSQL the error names what does it there.
func (a *app) fileLog(doing, instead string) (*session, error) {
	s, err := a.locate(a.dir)
	if err != nil {
		return nil, err
	}
	switch s.kind {
	case remote:
		return nil, fault.New(fault.Invalid, "%s works on a log, not through a server", doing).WithHint("run it where the log is: --home")
	case shared:
		return nil, fault.New(fault.Invalid, "a log on PostgreSQL is copied by PostgreSQL's own programs").WithHint("%s", instead)
	}
	return s, nil
}
