//go:build services

package postgres_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/builds/buildstest"
	"github.com/waybill-dev/waybill/internal/journal/journaltest"
	"github.com/waybill-dev/waybill/internal/ledger/ledgertest"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/promotions/promotionstest"
	"github.com/waybill-dev/waybill/internal/queue/queuetest"
	"github.com/waybill-dev/waybill/internal/services/servicestest"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	migrated := pgtest.URL(t)
	d, err := postgres.Open(t.Context(), migrated, postgres.Options{})
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	database := func(t *testing.T) storetest.Database {
		url := pgtest.Copy(t, migrated)
		return storetest.Database{
			Open: func(t *testing.T) store.Driver {
				d, err := postgres.Open(t.Context(), url, postgres.Options{})
				if err != nil {
					t.Fatal(err)
				}
				d.ClaimFromTheStart()
				return d
			},
			Exec: func(statement string) error {
				_, err := connect(t, url).Exec(t.Context(), statement)
				return err
			},
			Past: func(t *testing.T, from, to time.Time) { past(t, url, from, to) },
			Hold: func(t *testing.T) (release func()) {
				reader := connect(t, url)
				if _, err := reader.Exec(t.Context(), "BEGIN; SELECT count(*) FROM action"); err != nil {
					t.Fatal(err)
				}
				return func() {
					if _, err := reader.Exec(t.Context(), "COMMIT"); err != nil {
						t.Fatal(err)
					}
				}
			},
			Cut: func() error {
				_, err := connect(t, url).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid()`)
				return err
			},
		}
	}
	queuetest.Run(t, database)
	journaltest.Run(t, database)
	buildstest.Run(t, database)
	promotionstest.Run(t, database)
	servicestest.Run(t, database)
	ledgertest.Run(t, database)
}
