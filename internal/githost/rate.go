package githost

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// rate is the number of requests that a host allows, as it reports it.
type rate struct {
	limit, remaining int64
	reset            time.Time // zero: unknown
}

// readRate returns the rate in the headers of an answer, in the spellings of GitHub, GitLab and Azure DevOps.
func readRate(header http.Header) (rate, bool) {
	number := func(name string) (int64, error) {
		return strconv.ParseInt(cmp.Or(header.Get("X-RateLimit-"+name), header.Get("RateLimit-"+name)), 10, 64)
	}
	limit, err := number("Limit")
	remaining, err2 := number("Remaining")
	if err != nil || err2 != nil || limit <= 0 {
		return rate{}, false
	}
	r := rate{limit: limit, remaining: max(0, remaining)}
	if reset, err := number("Reset"); err == nil && reset > 0 {
		r.reset = time.Unix(reset, 0)
	}
	return r, true
}

// watchShare is the part of a host's budget that watching proposals may use: one in so many.
const watchShare = 5

// pace keeps one credential's requests apart: one at a time, and a pause between two writes. Safe for concurrent use.
type pace struct {
	slot  chan struct{} // holds a value while a request is running
	pause time.Duration

	mu        sync.Mutex
	lastWrite time.Time
	notBefore time.Time // the host refuses requests until then
	rate      rate
	watched   int64 // requests for watching in the present window
}

func newPace(pause time.Duration) *pace { return &pace{slot: make(chan struct{}, 1), pause: pause} }

// enter waits for the turn of a request. Its caller calls leave.
func (p *pace) enter(ctx context.Context, write bool) error {
	select {
	case p.slot <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !write {
		return nil
	}
	p.mu.Lock()
	wait := time.Until(p.lastWrite.Add(p.pause))
	p.mu.Unlock()
	if err := sleep(ctx, wait); err != nil {
		<-p.slot
		return err
	}
	return nil
}

// leave ends the turn of a request.
func (p *pace) leave(write bool) {
	if write {
		p.mu.Lock()
		p.lastWrite = time.Now()
		p.mu.Unlock()
	}
	<-p.slot
}

// refused returns the time before which the host accepts no request; zero: it does now.
func (p *pace) refused(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notBefore.After(now) {
		return p.notBefore
	}
	return time.Time{}
}

// refuse remembers that the host accepts no request before a time.
func (p *pace) refuse(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.notBefore) {
		p.notBefore = until
	}
}

// learn remembers the rate that a host reports.
func (p *pace) learn(r rate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !r.reset.Equal(p.rate.reset) {
		p.watched = 0
	}
	p.rate = r
}

// watch counts a request for watching. If the share of watching is used up, it returns the time of the next window.
func (p *pace) watch(now time.Time) (until time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate.limit > 0 && p.rate.reset.After(now) && p.watched >= p.rate.limit/watchShare {
		return p.rate.reset, false
	}
	p.watched++
	return time.Time{}, true
}

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
