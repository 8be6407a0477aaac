package deployer

import (
	"context"
	"maps"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/journal"
)

// When a deployer searches for deployments to archive.
const (
	ArchiveFirst = archiveFirst
	ArchiveEvery = archiveEvery
	ArchiveRetry = archiveRetry
	ArchivePause = archivePause
)

// Parallel is the number of passes that run at a time.
const Parallel = parallel

// SetArchiveMost bounds the entries of deployments that are archived together.
func (d *Deployer) SetArchiveMost(entries int64) { d.archiveMost = entries }

// Stopped returns the pipelines whose decisions stopped at a broken invariant, with the reasons.
func (d *Deployer) Stopped() map[string]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.stopped)
}

// StoreBounded stores the entries of a deployment if they have fewer bytes than most.
func StoreBounded(ctx context.Context, l Ledger, blobs blob.Putter, name string, number, most int64) (key string, err error) {
	a := archiving{ledger: l, pipeline: name, maxEntries: archiveMost, maxBytes: most, got: journal.ArchivedDeployment{Number: number}}
	err = a.store(ctx, blobs)
	return a.got.Key, err
}

// ErrTooLarge is errTooLarge.
var ErrTooLarge = errTooLarge

// ArchivedEntry is archivedEntry.
type ArchivedEntry = archivedEntry
