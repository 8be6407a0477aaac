package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Event is a CloudEvent in binary mode.
type Event struct {
	ID, Source, Type string
	Header           http.Header // further headers, such as extensions; a received event has all
	Data             string      // JSON
}

// Expose makes a Service for which a handler answers, and returns its URL. Knative's programs reach it by that URL and by reference.
func (k *Eventing) Expose(t testing.TB, namespace, name string, handler http.Handler) (address string) {
	t.Helper()
	k.cluster.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s}, spec: {ports: [{port: 80}]}}",
		namespace, name))
	host := serviceHost(namespace, name)
	k.proxy.expose(host, handler)
	return "http://" + host
}

// Forward makes a Service for which a server of this computer answers, and returns its URL. target is the server's URL.
func (k *Eventing) Forward(t testing.TB, namespace, name, target string) (address string) {
	t.Helper()
	parsed, err := url.Parse(target)
	if err != nil {
		t.Fatalf("testbed: forward to %s: %v", target, err)
	}
	return k.Expose(t, namespace, name, forwardTo(parsed, nil))
}

// Client returns a client that reaches the addresses of Knative objects and Services.
func (k *Eventing) Client(t testing.TB) *http.Client {
	t.Helper()
	proxy, err := url.Parse(k.Proxy)
	if err != nil {
		t.Fatalf("testbed: reach Knative: %v", err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Send sends an event to an address, such as that in the status of a Broker. It sends again while the answer is an error of the server,
// as a dispatcher that was started again gives until it has seen its channels.
func (k *Eventing) Send(t testing.TB, address string, event Event) {
	t.Helper()
	client := k.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		status, answer, err := event.post(ctx, client, address)
		if err != nil {
			t.Fatalf("testbed: send event %s: %v", event.ID, err)
		}
		if status/100 == 2 {
			return
		}
		if status/100 != 5 {
			t.Fatalf("testbed: send event %s to %s: status %d: %s", event.ID, address, status, answer)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("testbed: send event %s to %s: still status %d after %s: %s", event.ID, address, status, patience, answer)
		}
	}
}

// post sends the event once and returns the answer.
func (e Event) post(ctx context.Context, client *http.Client, address string) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(e.Data))
	if err != nil {
		return 0, nil, err
	}
	for name, values := range e.Header {
		request.Header[name] = values
	}
	for name, value := range map[string]string{"Ce-Specversion": "1.0", "Ce-Id": e.ID, "Ce-Source": e.Source, "Ce-Type": e.Type,
		"Content-Type": "application/json"} {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 4096))
	return response.StatusCode, answer, err
}

// Sink is a Service that accepts events and keeps them.
type Sink struct {
	URL string

	mutex   sync.Mutex
	events  []Event
	arrived chan struct{} // closed and replaced when an event arrives
}

// Sink makes a sink as a Service.
func (k *Eventing) Sink(t testing.TB, namespace, name string) *Sink {
	t.Helper()
	s := &Sink{arrived: make(chan struct{})}
	s.URL = k.Expose(t, namespace, name, http.HandlerFunc(s.receive))
	return s
}

func (s *Sink) receive(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.events = append(s.events, Event{ID: r.Header.Get("Ce-Id"), Source: r.Header.Get("Ce-Source"), Type: r.Header.Get("Ce-Type"),
		Header: r.Header, Data: string(data)})
	close(s.arrived)
	s.arrived = make(chan struct{})
	w.WriteHeader(http.StatusAccepted)
}

// Events returns the events that have arrived.
func (s *Sink) Events() []Event {
	events, _ := s.seen()
	return events
}

func (s *Sink) seen() ([]Event, <-chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.events), s.arrived
}

// Count returns how often the event with an id has arrived.
func (s *Sink) Count(id string) (n int) {
	for _, event := range s.Events() {
		if event.ID == id {
			n++
		}
	}
	return n
}

// Await waits until the event with an id has arrived, and returns it.
func (s *Sink) Await(t testing.TB, id string) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		events, more := s.seen()
		if i := slices.IndexFunc(events, func(e Event) bool { return e.ID == id }); i >= 0 {
			return events[i]
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("testbed: event %s has not arrived at %s; %d events have", id, s.URL, len(events))
		}
	}
}
