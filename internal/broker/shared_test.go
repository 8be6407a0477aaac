//go:build services

package broker_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
)

// sharedStores are the databases that need a server.
var sharedStores = map[string]opener{"postgres": func(t testing.TB) *ledger.Ledger {
	driver, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	check(t, err)
	l := ledger.New(driver, ledger.Options{})
	check(t, l.Maintain(t.Context()))
	return l
}}
