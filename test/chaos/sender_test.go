//go:build linux && services

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/test/chaos"
)

// senders send CloudEvents to processes that are killed. They repeat each request until it is answered with 202.
type senders struct {
	world     *chaos.World
	addresses []string
	client    http.Client
	stopped   chan struct{}
	running   sync.WaitGroup
	next      atomic.Int64 // number of the next request

	mu       sync.Mutex
	answers  map[string]map[action.ID]int // by id of the event, how often an answer named which action
	answered int                          // requests
	repeated int                          // requests that were not answered with 202, and sent again
	alarms   []alarm
}

// alarm is closed when so many requests have been answered.
type alarm struct {
	answered int
	reached  chan struct{}
}

// send starts senders, which end with the test at the latest.
func send(t *testing.T, w *chaos.World, addresses ...string) *senders {
	t.Helper()
	s := &senders{world: w, addresses: addresses, stopped: make(chan struct{}), answers: map[string]map[action.ID]int{}}
	s.client = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 30 * time.Second}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errors.New("the events were not answered in time"))
	for range 16 {
		s.running.Go(func() {
			for !s.isStopped() {
				if err := s.untilAnswered(ctx, int(s.next.Add(1)-1)); err != nil {
					t.Error(err)
					return
				}
				pause(ctx, rand.N(10*time.Millisecond))
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		s.running.Wait()
		s.client.CloseIdleConnections()
	})
	return s
}

func (s *senders) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// stop waits until the requests that the senders have begun are answered.
func (s *senders) stop() {
	close(s.stopped)
	s.running.Wait()
}

// request makes a request: an even one has the event of its number, an odd one has a batch of that event and both its neighbours. So
// several requests have the same event at the same time.
func request(n int) (ids []string, media, body string) {
	event := func(n int) string {
		ids = append(ids, strconv.Itoa(n))
		return fmt.Sprintf(`{"specversion": "1.0", "id": "%d", "source": "/chaos", "type": "counted"}`, n)
	}
	if n%2 == 0 {
		body = event(n)
		return ids, "application/cloudevents+json", body
	}
	body = "[" + event(n+1) + "," + event(n-1) + "," + event(n) + "]"
	return ids, "application/cloudevents-batch+json", body
}

// untilAnswered sends a request to one process after the other.
func (s *senders) untilAnswered(ctx context.Context, n int) error {
	ids, media, body := request(n)
	for try := n / 2; ; try++ {
		actions, err := s.post(ctx, s.addresses[try%len(s.addresses)], media, body)
		if err == nil {
			return s.record(ids, actions)
		}
		if ctx.Err() != nil || errors.Is(err, errRefused) {
			return fmt.Errorf("request %d: %w: %w", n, err, context.Cause(ctx))
		}
		s.mu.Lock()
		s.repeated++
		s.mu.Unlock()
		pause(ctx, 20*time.Millisecond)
	}
}

// errRefused reports an answer that repeating does not change.
var errRefused = errors.New("the request is refused")

// post sends a request once, and returns the actions of the answer.
func (s *senders) post(ctx context.Context, address, media, body string) (actions string, err error) {
	url := "http://" + address + "/api/v1/events/" + chaos.Events
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", media)
	r.Header.Set("Authorization", "Bearer "+chaos.EventKey)
	response, err := s.client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	switch {
	case response.StatusCode == http.StatusAccepted:
		return response.Header.Get("Waybill-Action"), nil
	case response.StatusCode == http.StatusServiceUnavailable:
		return "", errors.New(response.Status)
	default:
		return "", fmt.Errorf("%w: %s: %s %w", errRefused, response.Status, said, err)
	}
}

// record keeps the answer to a request.
func (s *senders) record(ids []string, answer string) error {
	actions := strings.Split(answer, ",")
	if len(actions) != len(ids) {
		return fmt.Errorf("the events %v have the answer %q", ids, answer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, text := range actions {
		id, err := action.ParseID(text)
		if err != nil {
			return fmt.Errorf("the events %v have the answer %q: %w", ids, answer, err)
		}
		if s.answers[ids[i]] == nil {
			s.answers[ids[i]] = map[action.ID]int{}
		}
		s.answers[ids[i]][id]++
		s.world.Answered(id)
	}
	s.answered++
	for _, a := range s.alarms {
		if a.answered == s.answered {
			close(a.reached)
		}
	}
	return nil
}

// moment waits until up to 100 more requests are answered, and a few milliseconds longer. Others are on their way then.
func (s *senders) moment(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	a := alarm{s.answered + 1 + rand.IntN(100), make(chan struct{})}
	s.alarms = append(s.alarms, a)
	s.mu.Unlock()
	select {
	case <-a.reached:
		pause(t.Context(), rand.N(5*time.Millisecond))
	case <-time.After(2 * time.Minute):
		t.Fatal("no events are answered")
	}
}
