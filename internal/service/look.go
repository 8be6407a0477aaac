package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Bounds of looking at services, since each look runs a program.
const (
	mostLooks   = 100             // hosts of one request
	looksAtOnce = 8               // hosts of all requests together
	lookLasts   = 3 * time.Second // other requests reuse a look for this long
	lookTakes   = 5 * time.Second // time limit of one look
)

var (
	errUnseen     = fmt.Errorf("not seen within %s", lookTakes)
	errLookFailed = errors.New("the look at it failed")
)

// looks holds the recent looks at services and those in progress, by host and service.
type looks struct {
	mu    sync.Mutex
	all   map[string]*look
	slots chan struct{} // one for each program that runs
}

// look is one look at a service. done is closed once seen is set.
type look struct {
	done chan struct{}
	seen sight
}

// sight is a host's answer about a service.
type sight struct {
	state step.State
	known bool      // false: nothing was ever deployed there, or the host is out of this process's reach
	err   error     // why the host did not answer
	at    time.Time // time of the answer
}

// inspectServices fills in what hosts report of their services: what was observed, else what at most mostLooks hosts answer.
func (s *Service) inspectServices(ctx context.Context, views []HostView) {
	s.lookAtServices(ctx, views, s.observed.lastObserved)
}

// lookAtServices fills in what hosts report of their services: what is known already, else what at most mostLooks hosts answer.
func (s *Service) lookAtServices(ctx context.Context, views []HostView, known func(*HostView) (sight, bool)) {
	if s.Inspect == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTakes, errUnseen)
	defer cancel()
	var wait sync.WaitGroup
	left := mostLooks
	for i := range views {
		view := &views[i]
		if !view.isLookedAt() {
			continue
		}
		if seen, found := known(view); found {
			view.see(seen)
			continue
		}
		if left == 0 {
			view.skipped = true
			continue
		}
		left--
		wait.Go(func() { view.see(s.lookAtService(ctx, view)) })
	}
	wait.Wait()
}

// lookAtService returns what a host reports of a service, from a recent look or from a new one. Requests that ask at the same
// time share one look. A look that takes too long is reported as an error of the sight.
func (s *Service) lookAtService(ctx context.Context, host *HostView) sight {
	l, mine := s.looks.joinLook(host.lookKey())
	if mine {
		// Other requests may wait for this look, so the end of this request does not cut it short.
		whole, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lookTakes, errUnseen)
		defer cancel()
		l.seen = sight{err: errLookFailed} // stays if inspectService panics
		defer func() {
			l.seen.at = time.Now()
			close(l.done)
		}()
		l.seen = s.inspectService(whole, host.place, host.service.Name)
		return l.seen
	}
	select {
	case <-l.done:
		return l.seen
	case <-ctx.Done():
		return sight{err: context.Cause(ctx)}
	}
}

// joinLook returns a recent look at a service, or one in progress. mine reports that the caller must make the look.
func (k *looks) joinLook(key string) (l *look, mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.all, func(_ string, l *look) bool {
		select {
		case <-l.done:
			return time.Since(l.seen.at) >= lookLasts
		default:
			return false
		}
	})
	if l = k.all[key]; l != nil {
		return l, false
	}
	l = &look{done: make(chan struct{})}
	k.all[key] = l
	return l, true
}

// inspectService runs the program that looks at a service.
func (s *Service) inspectService(ctx context.Context, at pipeline.Place, service string) (seen sight) {
	select {
	case s.looks.slots <- struct{}{}:
		defer func() { <-s.looks.slots }()
	case <-ctx.Done():
		return sight{err: context.Cause(ctx)}
	}
	seen.state, seen.known, seen.err = s.Inspect(ctx, at, service)
	return seen
}
