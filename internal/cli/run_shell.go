package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/command"
)

// openShell opens a shell in the folder of the first step that failed.
func (a *app) openShell(ctx context.Context, failed <-chan command.Kept) error {
	terminal, ok := terminalOf(a.in)
	if !ok {
		return nil
	}
	select {
	case kept := <-failed:
		fmt.Fprintf(a.err, "a shell in the folder of %s; exit leaves it, and the folder stays: %s\n", kept.Step, a.Shorten(kept.Dir))
		return kept.Shell(ctx, cmp.Or(a.Environment("SHELL"), "/bin/sh"), terminal, "TERM="+a.Environment("TERM"))
	default:
		return nil
	}
}
