package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
)

// TestStreamsOfOneClientAreBounded: one more is refused, another client's is not, and one that ends makes room.
func TestStreamsOfOneClientAreBounded(t *testing.T) {
	t.Parallel()
	s := &streams{most: 150, by: map[string]int{}}
	var leaves []func()
	for range mostClientStreams {
		leave, err := s.enter("a")
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	if _, err := s.enter("a"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one more of the same client: %v", err)
	}
	for range 50 {
		if _, err := s.enter("b"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.enter("c"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one more than all may have: %v", err)
	}
	leaves[0]()
	if _, err := s.enter("a"); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// TestAClientIsCountedByItsToken: what else it sends, such as one more cookie, makes no other client of it.
func TestAClientIsCountedByItsToken(t *testing.T) {
	t.Parallel()
	clients := map[string]bool{}
	a := newAccess("home", nil, "127.0.0.1:0", nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		clients[clientOf(r)] = true
	}))
	for _, cookie := range []string{"a=1", "a=2"} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/events", nil)
		r.Header.Set("Authorization", "Bearer home")
		r.Header.Set("Cookie", cookie)
		a.ServeHTTP(httptest.NewRecorder(), r)
	}
	if len(clients) != 1 {
		t.Errorf("one client counts as %v", clients)
	}
}

// TestAStreamTooManyIsRefused: the answer is a problem, with the time of the next try.
func TestAStreamTooManyIsRefused(t *testing.T) {
	t.Parallel()
	a := newAccess("token", nil, "127.0.0.1:0", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ServeEvents(w, r, nil)
	}))
	a.streams.most = 0
	answer := httptest.NewRecorder()
	a.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/events", nil))
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, %v", answer.Code, answer.Header())
	}
}
