package provisioner

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/command"
)

// Options describes the container of a worker.
func (d *Docker) Options(l Launch) client.ContainerCreateOptions { return d.options(l) }

// Files returns the files of a worker's container.
func (d *Docker) Files(ctx context.Context, l Launch) (map[string][]byte, error) {
	return d.prepare(ctx, l)
}

// DeletedAt returns when the deletion of the container of a name was requested.
func DeletedAt(name string) time.Time {
	return (&workerContainer{container.InspectResponse{Name: name}}).deletedAt()
}

// Tidy looks at every worker as Run does, at a time of the test's choice.
func (l *Local) Tidy(now time.Time) { l.runOnce(context.Background(), now) }

// Process returns the recorded process of a build's worker.
func (l *Local) Process(buildID int64) command.Instance {
	r, _, _ := l.read(buildID)
	return r.Process
}
