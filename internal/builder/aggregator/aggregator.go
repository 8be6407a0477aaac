package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Worker is the address at which the worker of a build serves its results.
type Worker struct {
	Build   builds.ID
	ID      string // id of the worker, for people
	Address string // such as http://10.1.2.3:5010
	Token   string // token that the worker requires
	// Dial connects to the worker, such as through a forwarded port. nil: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Status build.WorkerStatus // "": Running
	Reason string             // why it is not running
	Age    time.Duration      // since it was requested
	Began  bool               // something of it has run
	// LastLines returns the last lines that its process printed. nil: they cannot be read.
	LastLines func(ctx context.Context) (string, error)
}

// Workers lists the workers.
type Workers interface {
	// Workers lists every worker that exists, until it is deleted. On an error the list before is kept.
	Workers(ctx context.Context) ([]Worker, error)
}

// Store keeps workers' records; see the methods of builds.Builds.
type Store interface {
	Progress(ctx context.Context, id builds.ID) (builds.Progress, error)
	Ingest(ctx context.Context, id builds.ID, batch builds.Batch) (builds.Ingested, error)
	Record(ctx context.Context, id builds.ID, e builds.Event) (builds.Event, error)
	Acknowledged(ctx context.Context, id builds.ID) error
}

// Config configures an aggregator. Workers, Store and Blobs must be set.
type Config struct {
	Workers Workers
	Store   Store
	Ends    Ends // nil: workers that do not start, or end too early, are not judged
	Blobs   blob.Store
	Wake    <-chan struct{} // has the workers listed at once; nil: only time does
	Every   time.Duration   // between lists; 0: 5 s
	Silence time.Duration   // silence of a stream after which its connection is dead; 0: 30 s
	// StartLimit bounds the start of a worker, after which its build is ended; 0: 10 min.
	StartLimit time.Duration
	Log        *slog.Logger    // nil: none
	Metrics    *obs.Aggregator // nil: unregistered
}

const (
	listEvery   = 5 * time.Second
	listLimit   = time.Minute
	listSoon    = 50 * time.Millisecond // while a worker starts; later after a quarter of its age
	silence     = 30 * time.Second
	startLimit  = 10 * time.Minute
	ackAgain    = 30 * time.Second // after which a worker that is still listed gets the final acknowledgement again
	mostOfAll   = 64 << 20         // bytes that are not stored yet, of all workers
	mostOfOne   = 4 << 20          // bytes of one worker
	firstDelay  = 200 * time.Millisecond
	longDelay   = 30 * time.Second
	writeEvery  = 200 * time.Millisecond // between the beginnings of two transactions of one worker, unless one is full
	writeSoon   = 100 * time.Millisecond // the same when a whole block waits
	mostAtOnce  = 1 << 20                // bytes of one transaction
	renewEvery  = 10 * time.Second       // interval of the lease's renewals while a worker sends only signs of life
	packAlready = builds.BlockSize / 2   // bytes of a batch that no other is joined to
)

// Aggregator follows workers. Make it with New, run it once.
type Aggregator struct {
	Config
	memory *semaphore.Weighted // bytes that are not stored yet
	delay  time.Duration       // after the first failure with a worker; it doubles
	most   time.Duration       // bound of the doubling

	judging  chan struct{}            // holds one token: what was listed is judged once at a time
	followed map[builds.ID]*following // by the goroutine of Run alone
	ended    chan *following
	running  sync.WaitGroup
}

// following is a worker that is or was followed.
type following struct {
	worker Worker
	stop   context.CancelFunc // nil: everything of it is stored
	again  time.Time          // time of the next acknowledgement, if it is listed
}

// New makes an aggregator.
func New(c Config) *Aggregator {
	c.Every, c.Silence, c.StartLimit = cmp.Or(c.Every, listEvery), cmp.Or(c.Silence, silence), cmp.Or(c.StartLimit, startLimit)
	c.Log = obs.Component(c.Log, "aggregator")
	if c.Metrics == nil {
		c.Metrics = obs.NewAggregator(nil)
	}
	return &Aggregator{Config: c, memory: semaphore.NewWeighted(mostOfAll), delay: firstDelay, most: longDelay,
		judging: make(chan struct{}, 1), followed: map[builds.ID]*following{}, ended: make(chan *following)}
}

// Run follows the listed workers until ctx ends, then returns nil. It needs no drain: unstored data is still with the
// worker.
func (a *Aggregator) Run(ctx context.Context) error {
	defer a.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	away := loop.Backoff{First: firstDelay, Most: longDelay}
	for ctx.Err() == nil {
		pause := loop.Jitter(a.Every)
		workers, err := a.list(ctx)
		switch {
		case err == nil:
			away.Reset()
			serving, rest := divide(workers)
			a.follow(ctx, serving)
			a.judge(ctx, rest)
			pause = min(pause, untilStarted(rest))
		case ctx.Err() == nil:
			pause = away.Next()
			a.Log.Warn("listing workers failed", obs.Error(err), obs.KeyRetryIn, pause.String())
		}
		a.wait(ctx, pause)
	}
	return nil
}

// list lists the workers. A provisioner on a connection that is dead does not answer.
func (a *Aggregator) list(ctx context.Context) ([]Worker, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listLimit, fmt.Errorf("the workers were not listed within %s", listLimit))
	defer cancel()
	return a.Workers.Workers(ctx)
}

// wait returns when it is time to list the workers again.
func (a *Aggregator) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case f := <-a.ended:
			f.stop()
			f.stop, f.again = nil, time.Now().Add(ackAgain)
		case <-a.Wake:
			return
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// follow begins to follow workers that are new or elsewhere, and ends it with those that are not listed any more.
func (a *Aggregator) follow(ctx context.Context, workers []Worker) {
	listed := map[builds.ID]bool{}
	for _, w := range workers {
		listed[w.Build] = true
		f := a.followed[w.Build]
		if f != nil && f.worker.same(w) && (f.stop != nil || time.Now().Before(f.again)) {
			continue
		}
		if f != nil && f.stop != nil {
			f.stop()
		}
		a.begin(ctx, w)
	}
	unacknowledged := 0
	for id, f := range a.followed {
		if f.stop != nil && listed[id] {
			unacknowledged++
		}
		if !listed[id] {
			if f.stop != nil {
				f.stop()
			}
			delete(a.followed, id)
		}
	}
	a.Metrics.Unacknowledged(unacknowledged)
}

// serves reports whether a worker serves its results.
func (w Worker) serves() bool {
	return (w.Status == "" || w.Status == build.WorkerRunning) && w.Address != ""
}

// divide returns the workers that serve their results, and the rest.
func divide(workers []Worker) (serving, rest []Worker) {
	for _, w := range workers {
		if w.serves() {
			serving = append(serving, w)
		} else {
			rest = append(rest, w)
		}
	}
	return serving, rest
}

// untilStarted returns how long the workers need not be listed because of those that are starting: a quarter of the age of the
// youngest, so that a follower of a build waits for little longer than for its worker.
func untilStarted(workers []Worker) time.Duration {
	pause := time.Duration(math.MaxInt64)
	for _, w := range workers {
		if w.Status == "" || w.Status == build.WorkerPending || w.Status == build.WorkerRunning {
			pause = min(pause, max(listSoon, w.Age/4))
		}
	}
	return pause
}

// same reports whether both are the same worker at the same place.
func (w Worker) same(o Worker) bool {
	return w.ID == o.ID && w.Address == o.Address && w.Token == o.Token
}

// begin follows a worker.
func (a *Aggregator) begin(ctx context.Context, w Worker) {
	ctx, stop := context.WithCancel(ctx)
	f := &following{worker: w, stop: stop}
	a.followed[w.Build] = f
	a.running.Go(func() {
		(&follower{Aggregator: a, worker: w, log: a.Log.With(obs.KeyBuildID, int64(w.Build), obs.KeyWorkerID, w.ID)}).run(ctx)
		select {
		case a.ended <- f:
		case <-ctx.Done():
		}
	})
}
