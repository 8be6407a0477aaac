package assembly

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/store"
)

// TestANewWorkerWakesTheAggregator at once.
func TestANewWorkerWakesTheAggregator(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	wake, waits := make(chan struct{}, 1), make(chan store.Topic)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wakeUp(ctx, func(ctx context.Context, topic store.Topic, _ time.Time) error {
			select {
			case waits <- topic:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, wake)
	}()
	if topic := <-waits; topic != store.TopicWorker {
		t.Errorf("it waits for %q", topic)
	}
	<-wake
	cancel()
	<-ended
}
