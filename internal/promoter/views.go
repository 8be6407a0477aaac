package promoter

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// views stores the views of pipelines, those of many pipelines in one transaction: each transaction waits for the disk.
type views struct {
	*term
	more chan struct{} // has room for one

	saving  sync.Mutex // held while views are stored
	mu      sync.Mutex
	waiting map[string]promotions.View // by pipeline
}

// mergeViews is the time for which views are collected. Those of a look that follows soon are stored once.
const mergeViews = 20 * time.Millisecond

// mostViews bounds the views of a transaction.
const mostViews = 200

func newViews(t *term) *views {
	return &views{term: t, more: make(chan struct{}, 1), waiting: map[string]promotions.View{}}
}

// put has a view stored.
func (v *views) put(one promotions.View) {
	v.mu.Lock()
	v.waiting[one.Pipeline] = one
	v.mu.Unlock()
	loop.Poke(v.more)
}

// forget drops the view of a pipeline that is gone. The caller deletes the stored one then.
func (v *views) forget(pipeline string) {
	v.saving.Lock() // so that it is not stored after it was deleted
	defer v.saving.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.waiting, pipeline)
}

// run stores views until ctx ends.
func (v *views) run(ctx context.Context) {
	retry := loop.Backoff{First: firstRetry, Most: time.Minute}
	for ctx.Err() == nil {
		select {
		case <-v.more:
		case <-ctx.Done():
			return
		}
		loop.Pause(ctx, mergeViews)
		for ctx.Err() == nil {
			more, err := v.store(ctx)
			if err == nil && !more {
				break
			}
			if err == nil {
				retry.Reset()
			} else if ctx.Err() == nil {
				again := retry.Next()
				v.log.Warn("views not stored", obs.Error(err), obs.KeyRetryIn, again.String())
				loop.Pause(ctx, again)
			}
		}
	}
}

// store stores some of the views. It reports whether there were views to store.
func (v *views) store(ctx context.Context) (found bool, err error) {
	v.saving.Lock()
	defer v.saving.Unlock()
	some := v.take()
	if len(some) == 0 {
		return false, nil
	}
	if err = v.promotions.SaveViews(ctx, some); err != nil {
		v.untake(some)
	}
	return true, err
}

// take returns views to store, by name.
func (v *views) take() []promotions.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	var some []promotions.View
	for name, one := range v.waiting {
		if len(some) == mostViews {
			break
		}
		some = append(some, one)
		delete(v.waiting, name)
	}
	slices.SortFunc(some, func(a, b promotions.View) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return some
}

// untake takes back views that were not stored, unless there are newer ones.
func (v *views) untake(some []promotions.View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range some {
		if _, newer := v.waiting[one.Pipeline]; !newer {
			v.waiting[one.Pipeline] = one
		}
	}
}
