package cli

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/postgres"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
)

// openLedger connects to the database of a session; which one it is, is decided here alone.
func openLedger(ctx context.Context, kind sessionKind, url string, cfg catalog.Ledger) (*ledger.Ledger, error) {
	driver, err := openDriver(ctx, kind, url, cfg)
	if err != nil {
		return nil, err
	}
	return ledger.New(driver), nil
}

func openDriver(ctx context.Context, kind sessionKind, url string, cfg catalog.Ledger) (ledger.Driver, error) {
	if kind == shared {
		return postgres.OpenWith(ctx, url, postgres.Options{ListenURL: cfg.ListenURL, Partition: postgres.Span(cfg.Partition)})
	}
	return sqlite.Open(ctx, url)
}

// keeper is a ledger that, whenever it is maintained, also lets go of what is no longer retained.
type keeper struct {
	*ledger.Ledger
	blobs     blob.Store
	retention time.Duration // 0: everything is kept
}

// Maintain makes ahead what the next weeks need, and deletes what is too old.
func (k keeper) Maintain(ctx context.Context) error {
	if err := k.Ledger.Maintain(ctx); err != nil {
		return err
	}
	return k.Retain(ctx, k.retention, k.blobs)
}
