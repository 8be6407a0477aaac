package watch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/waybill-dev/waybill/internal/loop"
)

// QueueConfig configures a Queue of names, or of other keys.
type QueueConfig[K comparable] struct {
	Workers int          // number of names that are handled at a time
	Retry   loop.Backoff // delays after failures of a name in a row

	// Handle does the work for a name. again is the time until a failed name is handled again; 0:
	// the next delay of Retry. A panic is an error, too.
	Handle func(ctx context.Context, name K) (again time.Duration, err error)
	// Failed receives each failure with the time until the name is handled again.
	Failed func(name K, err error, again time.Duration)
}

// Queue hands names to workers. One worker at a time has a name; a name that is added while a
// worker has it is handled once more. A name that has failed waits for its time, however often it
// is added. Make it with NewQueue, run it once.
type Queue[K comparable] struct {
	config QueueConfig[K]
	names  workqueue.TypedDelayingInterface[K]

	mutex  sync.Mutex
	failed map[K]*failed // names whose last try failed
}

// failed is a name that is handled again later.
type failed struct {
	delays loop.Backoff
	until  time.Time
}

// NewQueue returns an empty queue.
func NewQueue[K comparable](c QueueConfig[K]) *Queue[K] {
	return &Queue[K]{config: c, names: workqueue.NewTypedDelayingQueue[K](), failed: map[K]*failed{}}
}

// Add puts a name in line, once.
func (q *Queue[K]) Add(name K) { q.names.Add(name) }

// AddAfter puts a name in line once d has passed. Of several times the earliest counts, and a later one is not forgotten.
func (q *Queue[K]) AddAfter(name K, d time.Duration) { q.names.AddAfter(name, d) }

// Forget drops the failures of a name, whose object is gone.
func (q *Queue[K]) Forget(name K) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	delete(q.failed, name)
}

// Run handles names until ctx ends.
func (q *Queue[K]) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range q.config.Workers {
		workers.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	q.names.ShutDown()
	workers.Wait()
}

// next handles one name. It returns false when the queue is closed.
func (q *Queue[K]) next(ctx context.Context) bool {
	name, over := q.names.Get()
	if over {
		return false
	}
	defer q.names.Done(name)
	if ctx.Err() != nil {
		return true
	}
	if left := q.waits(name); left > 0 {
		q.names.AddAfter(name, left) // it may be in line for an earlier time, by a failure that was forgotten
		return true
	}
	again, err := q.handle(ctx, name)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		again = q.fail(name, again)
		q.config.Failed(name, err, again)
		q.names.AddAfter(name, again)
	default:
		q.Forget(name)
	}
	return true
}

// handle calls Handle. Its panic is an error: a bad object must not end the process, and with it the work for all others.
func (q *Queue[K]) handle(ctx context.Context, name K) (again time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			again, err = 0, fmt.Errorf("panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return q.config.Handle(ctx, name)
}

// waits returns how long a name that has failed still waits.
func (q *Queue[K]) waits(name K) time.Duration {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if f := q.failed[name]; f != nil {
		return time.Until(f.until)
	}
	return 0
}

// fail counts a failure, and returns the time until the name is handled again.
func (q *Queue[K]) fail(name K, again time.Duration) time.Duration {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	f := q.failed[name]
	if f == nil {
		f = &failed{delays: q.config.Retry}
		q.failed[name] = f
	}
	if delay := f.delays.Next(); again == 0 {
		again = delay
	}
	f.until = time.Now().Add(again)
	return again
}
