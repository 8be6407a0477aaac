// Package ledgertest is what every driver of a ledger must do: one suite, run
// against each real database.
package ledgertest

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
)

// Run checks the ledgers that open makes. Each call of open gives a driver on
// a database of its own, closed at the end of the test.
func Run(t *testing.T, open func(t *testing.T) ledger.Driver) {
	for name, check := range map[string]func(*testing.T, setup){
		"DefinesAndRegisters":       definesAndRegisters,
		"PassStartsAndTurnFinishes": passStartsAndTurnFinishes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newSetup(t, open))
		})
	}
}
