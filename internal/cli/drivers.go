package cli

import (
	"context"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/postgres"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
)

// openLedger connects to the database of a session; which one it is, is decided here alone.
func openLedger(ctx context.Context, kind sessionKind, url string) (*ledger.Ledger, error) {
	driver, err := openDriver(ctx, kind, url)
	if err != nil {
		return nil, err
	}
	return ledger.New(driver), nil
}

func openDriver(ctx context.Context, kind sessionKind, url string) (ledger.Driver, error) {
	if kind == shared {
		return postgres.Open(ctx, url)
	}
	return sqlite.Open(ctx, url)
}
