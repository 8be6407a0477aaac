package cli

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/assembly"
)

// warnPrivateBlobs warns when several processes may share the ledger while this one keeps its blobs in its home.
func (a *app) warnPrivateBlobs(s *assembly.Session) {
	if url := s.PrivateBlobs(); url != "" {
		fmt.Fprintf(a.err, "waybill: blobs are in %s, where processes with another home do not find them; name a store that all of them reach: blob.url in server.yaml\n",
			a.Shorten(url))
	}
}

// warnIfIdle warns when no process does the work of the log.
func (a *app) warnIfIdle(ctx context.Context, s *assembly.Session) {
	if s.IsIdle(ctx) {
		fmt.Fprintln(a.err, "waybill: no process works on this log now: start waybill up, or run waybill ship")
	}
}
