//go:build services

package postgres_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/pgtest"
)

// TestHistoryIsNotTruncated: TRUNCATE passes by what refuses the deletion of rows, and is refused on its own.
func TestHistoryIsNotTruncated(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	open(t, url)
	db := connect(t, url)
	for _, table := range []string{"entry", "action", "event", "thread", "thread_done", "pipeline", "revision_artifact"} {
		if _, err := db.Exec(t.Context(), "TRUNCATE "+table+" CASCADE"); err == nil {
			t.Errorf("TRUNCATE %s was not refused", table)
		}
	}
}
