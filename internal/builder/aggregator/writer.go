package aggregator

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/obs"
)

// item is something that was received: an empty one only proves that the worker lives.
type item struct {
	log      *builds.LogBatch
	artifact *builds.Artifact
	events   []builds.Event
	tests    []build.TestFile
	size     int64 // bytes that the budget was charged with
}

// budget bounds the data of one worker in memory.
type budget struct {
	all, own *semaphore.Weighted
	held     atomic.Int64
	metrics  *obs.Aggregator
}

// take waits until there is room for so many bytes.
func (b *budget) take(ctx context.Context, n int64) error {
	if err := b.own.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	if err := b.all.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	b.held.Add(n)
	b.metrics.Behind(n)
	return nil
}

// give gives room back.
func (b *budget) give(n int64) {
	b.held.Add(-n)
	b.metrics.Behind(-n)
	b.own.Release(n)
	b.all.Release(n)
}

// close gives back the rest of its share. The budget is not used any more.
func (b *budget) close() {
	rest := b.held.Swap(0)
	b.all.Release(rest)
	b.metrics.Behind(-rest)
}

// newest returns the time of the newest entry of batches; zero without one that has a time.
func newest(logs []*builds.LogBatch) (at time.Time) {
	for _, l := range logs {
		data := bytes.TrimSuffix(l.Data, []byte("\n"))
		if entry := build.ParseEntry(data[bytes.LastIndexByte(data, '\n')+1:]); entry.At.After(at) {
			at = entry.At
		}
	}
	return at
}

// writer stores the readers' items.
type writer struct {
	*follower
	items  chan item
	budget *budget
	began  time.Time   // beginning of the last transaction
	moved  bool        // something new was stored
	known  atomic.Bool // what came last was stored already: another aggregator is ahead
}

func newWriter(f *follower) *writer {
	return &writer{follower: f, items: make(chan item, mostOfOne/builds.BlockSize),
		budget: &budget{all: f.memory, own: semaphore.NewWeighted(mostOfOne), metrics: f.Metrics}}
}

// put hands something over, which the budget was charged with.
func (w *writer) put(ctx context.Context, i item, size int64) error {
	i.size = size
	select {
	case w.items <- i:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run stores items until there will be none.
func (w *writer) run(ctx context.Context) error {
	for {
		select {
		case first, open := <-w.items:
			if !open {
				return nil
			}
			var p pending
			p.add(first)
			w.gather(ctx, &p)
			if err := w.flush(ctx, p); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pending is the content of the next transaction.
type pending struct {
	batch builds.Batch
	size  int64 // bytes of logs
	full  bool
}

// add takes one more item.
func (p *pending) add(i item) {
	if l := i.log; l != nil {
		if n := len(p.batch.Logs); n == 0 || !p.batch.Logs[n-1].Join(l) {
			p.batch.Logs = append(p.batch.Logs, l)
		}
	}
	if i.artifact != nil {
		p.batch.Artifacts = append(p.batch.Artifacts, *i.artifact)
	}
	p.batch.Events, p.batch.Tests = append(p.batch.Events, i.events...), append(p.batch.Tests, i.tests...)
	p.size += i.size
	p.full = p.size >= mostAtOnce || len(i.tests) > 0
}

// gather adds the items that are there, and those that come until the next transaction may begin.
func (w *writer) gather(ctx context.Context, p *pending) {
	timer := time.NewTimer(w.until(p))
	defer timer.Stop()
	for over := false; !p.full; {
		select {
		case i, open := <-w.items:
			if !open {
				return
			}
			p.add(i)
			continue
		default:
		}
		if over {
			return
		}
		timer.Reset(w.until(p))
		select {
		case i, open := <-w.items:
			if !open {
				return
			}
			p.add(i)
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return
		}
	}
}

// until returns how long pending items wait for more.
func (w *writer) until(p *pending) time.Duration {
	pause := writeEvery
	if p.size >= builds.BlockSize {
		pause = writeSoon
	}
	return time.Until(w.began.Add(pause))
}

// flush stores the pending items, or only renews the lease, if it is time for that.
func (w *writer) flush(ctx context.Context, p pending) error {
	b := p.batch
	if len(b.Logs)+len(b.Artifacts)+len(b.Events)+len(b.Tests) == 0 && time.Since(w.began) < renewEvery {
		return nil
	}
	for _, l := range b.Logs {
		w.pack(l)
	}
	if err := w.store(ctx, b); err != nil {
		return err
	}
	w.budget.give(p.size)
	return nil
}

// pack compresses a batch ahead of its transaction, unless it is probably not stored.
func (w *writer) pack(l *builds.LogBatch) {
	if !w.known.Load() {
		l.Pack()
	}
}

// store stores a batch in one transaction.
func (w *writer) store(ctx context.Context, b builds.Batch) error {
	w.began = time.Now()
	b.Again = w.known.Load()
	done, err := w.Store.Ingest(ctx, w.worker.Build, b)
	if err != nil {
		return err
	}
	w.known.Store(len(b.Logs) > 0 && done.Entries == 0)
	w.moved = w.moved || done != (builds.Ingested{})
	w.Metrics.Ingested(done.Entries, done.Bytes, done.Refused)
	if newest := newest(b.Logs); done.Entries > 0 && !newest.IsZero() {
		w.Metrics.Stored(time.Since(newest))
	}
	return nil
}
