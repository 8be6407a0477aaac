//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Target is the server that actions call. It counts visits, and answers as the test wants.
type Target struct {
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc
	ended    chan struct{}

	mu       sync.Mutex
	arrivals map[action.ID][]int // attempts that came, in their order
	answer   Answer
	crowd    Crowd
	gentle   int // visits of Gentle that have no answer yet
}

// Crowd is the visits from the lane of Gentle.
type Crowd struct {
	Visits []time.Time // in their order
	Most   int         // at the same time
}

// Answer returns the answer to a visit; it may wait. An answer of 0 is none: the connection is cut.
type Answer func(ctx context.Context, id action.ID, attempt int) (status int)

// OK answers everything well, at once.
func OK(context.Context, action.ID, int) int { return http.StatusNoContent }

// Hold delays all visits until release is called; then they succeed.
func (t *Target) Hold() (release func()) {
	open := make(chan struct{})
	t.Answers(func(ctx context.Context, _ action.ID, _ int) int {
		select {
		case <-open:
		case <-ctx.Done():
		}
		return http.StatusNoContent
	})
	return func() { close(open) }
}

func newTarget(ctx context.Context) (*Target, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &Target{listener: listener, ended: make(chan struct{}), arrivals: map[action.ID][]int{}, answer: OK}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.server = &http.Server{Handler: t, BaseContext: func(net.Listener) context.Context { return base }}
	go func() {
		defer close(t.ended)
		_ = t.server.Serve(listener) // it ends by Close
	}()
	return t, nil
}

// Address returns host:port.
func (t *Target) Address() string { return t.listener.Addr().String() }

// Answers changes how visits are answered from now on.
func (t *Target) Answers(a Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer = a
}

// Arrivals returns the attempts of an action that came, in their order.
func (t *Target) Arrivals(id action.ID) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]int(nil), t.arrivals[id]...)
}

// Visits returns the number of all visits.
func (t *Target) Visits() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, attempts := range t.arrivals {
		n += len(attempts)
	}
	return n
}

// Crowd returns the visits from the lane of Gentle so far.
func (t *Target) Crowd() Crowd {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Crowd{slices.Clone(t.crowd.Visits), t.crowd.Most}
}

// Close ends the target, and visits that wait for an answer.
func (t *Target) Close() error {
	t.stop()
	err := t.server.Close()
	<-t.ended
	return err
}

// ServeHTTP takes a visit at /ID/ATTEMPT, or at /ID/ATTEMPT?gentle.
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, attempt, err := visit(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	t.arrivals[id] = append(t.arrivals[id], attempt)
	answer := t.answer
	if r.URL.RawQuery == Gentle {
		t.gentle++
		t.crowd.Visits, t.crowd.Most = append(t.crowd.Visits, time.Now()), max(t.crowd.Most, t.gentle)
		defer t.leave()
	}
	t.mu.Unlock()
	status := answer(r.Context(), id, attempt)
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
}

// leave takes a visit of Gentle out of the count.
func (t *Target) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gentle--
}

func visit(path string) (id action.ID, attempt int, err error) {
	first, second, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if id, err = action.ParseID(first); err != nil {
		return id, 0, err
	}
	if attempt, err = strconv.Atoi(second); err != nil {
		return id, 0, fmt.Errorf("attempt %q: %w", second, err)
	}
	return id, attempt, nil
}
