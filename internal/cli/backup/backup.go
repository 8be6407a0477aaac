// Package backup has the commands that copy a log and bring it back: waybill backup and waybill restore.
package backup

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Command returns `waybill backup`.
func Command(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the log of a home into FILE, also while it is in use",
		Long: `Copies the log of a home into a new file, while instances work, and checks the copy. Blobs,
server.yaml and the home's token are not in it: copy the blobs after the log (see docs/operate.md).
A log on PostgreSQL is backed up with pg_dump; the command is printed.`,
		Example: cmdline.Examples("waybill backup waybill-$(date +%F).db"),
		Args:    cmdline.Arguments(1, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			made, err := a.Backup(c.Context(), a.Path(arguments[0]))
			if err != nil {
				return err
			}
			took := time.Duration(made.Seconds * float64(time.Second)).Round(time.Millisecond)
			return a.Printer().Answer(made, fmt.Sprintf("backed up %s to %s: %s in %s", made.Log, made.File, service.Size(made.Bytes), took))
		},
	}
}

// RestoreCommand returns `waybill restore`.
func RestoreCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the log of a home by a backup, and keep the old one beside it",
		Long: `Checks a file that waybill backup wrote and puts it in the place of the home's log, which is kept
beside it. No instance may run in the home. Actions are in the state of the backup: those that ended
since then run again, with the same ids. A log on PostgreSQL is restored with pg_restore; the
command is printed.`,
		Example: cmdline.Examples("waybill restore waybill-2026-11-22.db", "waybill restore waybill-2026-11-22.db --home /srv/waybill"),
		Args:    cmdline.Arguments(1, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			made, err := a.Restore(c.Context(), a.Path(arguments[0]))
			if err != nil {
				return err
			}
			return a.Printer().Answer(made, restoredLines(made)...)
		},
	}
}

// restoredLines returns the effect of a restore, and the consequences of it.
func restoredLines(made assembly.Restored) []string {
	lines := []string{fmt.Sprintf("restored %s from %s", made.Log, made.File)}
	if made.Kept != "" {
		lines = append(lines, "  the old log is kept as "+filepath.Base(made.Kept))
	}
	return append(lines, "  actions that ended since the backup run again")
}
