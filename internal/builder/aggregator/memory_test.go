package aggregator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/semaphore"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
)

// stuck is a store whose transactions do not end.
type stuck struct{ Store }

func (stuck) Ingest(ctx context.Context, _ builds.ID, _ builds.Batch) (builds.Ingested, error) {
	<-ctx.Done()
	return builds.Ingested{}, context.Cause(ctx)
}

// TestReadingStopsWhileNothingIsStored: a worker's results take at most 4 MiB, and those of all workers 64 MiB. The
// share taken is given back when the connection ends.
func TestReadingStopsWhileNothingIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		all  int64
		want int64
	}{"of one worker": {mostOfAll, mostOfOne}, "of all workers": {1 << 20, 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				a := New(Config{Store: stuck{}})
				a.memory = semaphore.NewWeighted(c.all)
				w := newWriter(&follower{Aggregator: a})
				w.known.Store(true) // the compressor has channels from outside the bubble
				ctx, stop := context.WithCancelCause(t.Context())
				ended := make(chan error, 2)
				go func() { ended <- w.run(ctx) }()
				var taken int64
				go func() {
					for first := int64(1); ; first++ {
						data := make([]byte, builds.BlockSize)
						if err := w.budget.take(ctx, builds.BlockSize); err != nil {
							ended <- err
							return
						}
						taken += builds.BlockSize
						if err := w.put(ctx,
							item{log: &builds.LogBatch{Step: 1, Begin: build.Position{ID: first - 1}, Entries: 1, Data: data}}, builds.BlockSize); err != nil {
							ended <- err
							return
						}
					}
				}()
				synctest.Wait()
				if taken != c.want {
					t.Errorf("%d bytes were taken, want %d", taken, c.want)
				}
				gone := errors.New("the connection has ended")
				stop(gone)
				for range 2 {
					if err := <-ended; !errors.Is(err, gone) {
						t.Errorf("got %v", err)
					}
				}
				w.budget.close()
				if !a.memory.TryAcquire(c.all) {
					t.Error("what was taken was not given back")
				}
			})
		})
	}
}
