//go:build services

package migrate_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
)

// TestRowsAreThoseOfTheBrokerOnPostgreSQL repeats TestRowsAreThoseOfTheBroker with the other driver.
func TestRowsAreThoseOfTheBrokerOnPostgreSQL(t *testing.T) {
	t.Parallel()
	driver, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rowsAreThoseOfTheBroker(t, driver)
}
