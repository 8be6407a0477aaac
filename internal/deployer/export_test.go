package deployer

import "maps"

// When a deployer looks for deployments to archive.
const (
	ArchiveFirst = archiveFirst
	ArchiveEvery = archiveEvery
	ArchiveRetry = archiveRetry
	ArchivePause = archivePause
)

// Parallel is how many passes may be under way at a time.
const Parallel = parallel

// Stopped returns the pipelines whose decisions stopped at a broken invariant, with the reasons.
func (d *Deployer) Stopped() map[string]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.stopped)
}
