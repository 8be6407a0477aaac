//go:build services

package conductor_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
)

// sharedDrivers open a ledger on a database that needs a server.
var sharedDrivers = map[string]func(*testing.T) (ledger.Driver, error){
	"postgres": func(t *testing.T) (ledger.Driver, error) {
		return postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	},
}
