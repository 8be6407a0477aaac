package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/ledgertest"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Driver { return open(t, filepath.Join(t.TempDir(), "waybill.db")) })
}

func open(t *testing.T, path string) *sqlite.Driver {
	t.Helper()
	d, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
