package assembly

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// openLedger connects to the database of a session. Only openDriver decides which driver that is.
func (s *Session) openLedger(ctx context.Context, m Mode, planner queue.Successors) (*ledger.Ledger, error) {
	driver, err := s.openDriver(ctx, m)
	if err != nil {
		return nil, err
	}
	return ledger.New(driver, ledger.Options{Successors: planner, PriorityStep: s.Live.Now().PriorityStep}), nil
}

func (s *Session) openDriver(ctx context.Context, m Mode) (ledger.Driver, error) {
	if s.Kind == shared {
		cfg := s.Live.Now().Ledger
		return postgres.Open(ctx, s.URL, postgres.Options{ListenURL: cfg.ListenURL, Partition: postgres.Span(cfg.Partition),
			Log: s.log, Metrics: s.metrics})
	}
	if m == Existing {
		return sqlite.Open(ctx, s.URL, sqlite.ToRead())
	}
	return sqlite.Open(ctx, s.URL)
}

// keeper is a ledger whose maintenance also deletes actions, logs of builds and bundles that are too old, and archives
// the entries of old runs.
type keeper struct {
	*ledger.Ledger
	blobs     blob.Store
	retention time.Duration // 0: everything is kept
	logs      time.Duration // retention of what builds have left; 0: it is kept
}

// Maintain creates the partitions of the next weeks, and deletes data older than its retention.
func (k keeper) Maintain(ctx context.Context) error {
	if err := k.Ledger.Maintain(ctx); err != nil {
		return err
	}
	return errors.Join(k.Retain(ctx, k.retention, k.blobs), k.Builds.Retain(ctx, k.logs, k.blobs), k.Builds.ClearBundles(ctx, k.blobs),
		k.Promotions.Archive(ctx, k.blobs))
}

// Sample measures the ledger, and counts its partitions on PostgreSQL.
func (k keeper) Sample(ctx context.Context) (queue.Sample, error) {
	sample, err := k.Ledger.Sample(ctx)
	if err != nil || k.Embedded() {
		return sample, err
	}
	partitions, err := k.Partitions(ctx, k.retention)
	sample.Partitions = &partitions
	return sample, err
}
