package provisioner

import (
	"context"
	"fmt"
	"sync"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds of how workers are started. A platform that does not answer one request may answer the next.
const (
	mostStarts = 32               // requests at a time, each with a body and a start at the platform
	startLimit = 10 * time.Minute // bounds one start: an image may have to be pulled, or a snapshot copied
	listLimit  = time.Minute      // bounds counting the workers
)

// buildKey names the build of a worker.
type buildKey struct {
	instance string
	id       int64
}

// starts are the requests for workers that are being answered. They take turns only to see whether there is room, in
// the order in which they came: a worker that is being started counts as one that runs, until a list that was begun
// after its start has the truth.
type starts struct {
	room chan struct{} // holds a token for each request
	turn chan struct{} // holds a token for the one that decides

	mu    sync.Mutex
	lists int // number of lists that were begun
	of    map[buildKey]*start
}

// start is one worker that is being started, or was just now.
type start struct {
	project string
	done    chan struct{} // closed at its end
	ended   int           // lists that had been begun by then
}

func newStarts() *starts {
	return &starts{room: make(chan struct{}, mostStarts), turn: make(chan struct{}, 1), of: map[buildKey]*start{}}
}

// enter takes a place among the requests, or returns fault.Unavailable.
func (s *starts) enter() (leave func(), err error) {
	select {
	case s.room <- struct{}{}:
		return func() { <-s.room }, nil
	default:
		return nil, fault.New(fault.Unavailable, "%d requests for workers are being answered, which are as many as may be", mostStarts)
	}
}

// take waits for its turn and for an earlier request of the same build, and returns the start of its worker, unless
// that has to wait for room.
func (s *starts) take(ctx context.Context, request provisionerv1.CreateWorker, list func(context.Context) ([]provisionerv1.Worker, error),
	full func([]provisionerv1.Worker) *provisionerv1.Waiting) (begun *start, waiting *provisionerv1.Waiting, err error) {
	key := buildKey{request.Instance, request.BuildID}
	for {
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		earlier := s.runs(key)
		if earlier == nil {
			break
		}
		<-s.turn
		select {
		case <-earlier:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	defer func() { <-s.turn }()
	workers, err := s.count(ctx, list)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "workers cannot be counted: %w", err)
	}
	if waiting = full(workers); waiting != nil {
		return nil, waiting, nil
	}
	begun = &start{project: request.Project, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key] = begun
	return begun, nil, nil
}

// runs returns a channel that is closed when the start of a build's worker ends; nil if none runs.
func (s *starts) runs(key buildKey) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.of[key]; one != nil && !one.hasEnded() {
		return one.done
	}
	return nil
}

func (o *start) hasEnded() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// count lists the workers, with those that are being started.
func (s *starts) count(ctx context.Context, list func(context.Context) ([]provisionerv1.Worker, error)) ([]provisionerv1.Worker, error) {
	s.mu.Lock()
	s.lists++
	this := s.lists
	s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, listLimit, fmt.Errorf("the platform did not list them within %s", listLimit))
	defer cancel()
	workers, err := list(ctx)
	if err != nil {
		return nil, err
	}
	listed := map[buildKey]bool{}
	for i := range workers {
		listed[buildKey{workers[i].Instance, workers[i].BuildID}] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, one := range s.of {
		switch {
		case one.hasEnded() && one.ended < this:
			delete(s.of, key)
		case !listed[key]:
			workers = append(workers, provisionerv1.Worker{BuildID: key.id, Instance: key.instance, Project: one.project,
				Status: string(build.WorkerPending)})
		}
	}
	return workers, nil
}

// end ends a start.
func (s *starts) end(one *start) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.ended = s.lists
	close(one.done)
}
