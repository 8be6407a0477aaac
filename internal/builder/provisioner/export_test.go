package provisioner

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/command"
)

// Tidy looks at every worker as Run does, at a time of the test's choice.
func (l *Local) Tidy(now time.Time) { l.runOnce(context.Background(), now) }

// Process returns the recorded process of a build's worker.
func (l *Local) Process(buildID int64) command.Instance {
	r, _, _ := l.read(buildID)
	return r.Process
}
