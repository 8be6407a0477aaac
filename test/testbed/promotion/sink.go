package promotion

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/waybill-dev/waybill/internal/webhook"
)

// SinkSecret signs the notifications of a Sink.
const SinkSecret = "whsec_c2VjcmV0IG9mIGEgc2luayBpbiBhIHRlc3Q="

// Sink receives notifications of pipelines. It refuses requests that are not signed with SinkSecret.
type Sink struct {
	URL string

	mutex    sync.Mutex
	received map[string]map[string]int // counts by revision, and by occasion with environment
	seen     map[string]bool           // ids
}

// StartSink starts a sink for the test.
func StartSink(t testing.TB) *Sink {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the sink: %v", err)
	}
	s := &Sink{URL: "http://" + listener.Addr().String() + "/", received: map[string]map[string]int{}, seen: map[string]bool{}}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(listener) }() // it always ends with an error
	t.Cleanup(func() { _ = server.Close() })   // nothing is left to do
	return s
}

// ServeHTTP receives a notification.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !signed(r.Header, string(body)) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var event struct {
		ID, Type string
		Data     struct{ Revision, Environment string }
	}
	if json.Unmarshal(body, &event) != nil || event.ID != r.Header.Get("webhook-id") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	name := strings.TrimSuffix(strings.TrimPrefix(event.Type, "waybill.promotion."), ".v1")
	if event.Data.Environment != "" {
		name += " " + event.Data.Environment
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.seen[event.ID] {
		return // a repetition, whose first answer was lost
	}
	s.seen[event.ID] = true
	if s.received[event.Data.Revision] == nil {
		s.received[event.Data.Revision] = map[string]int{}
	}
	s.received[event.Data.Revision][name]++
}

// signed reports whether a request has the signature of Standard Webhooks.
func signed(header http.Header, body string) bool {
	key, err := standard.ParseKey(SinkSecret)
	if err != nil {
		return false
	}
	seconds, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil {
		return false
	}
	want := standard.Sign([]standard.Key{key}, header.Get("webhook-id"), time.Unix(seconds, 0), body)
	return want.Get("webhook-signature") == header.Get("webhook-signature")
}

// Received counts the notifications about a revision, such as "promoted staging".
func (s *Sink) Received(revision string) map[string]int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return maps.Clone(s.received[revision])
}
