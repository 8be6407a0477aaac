package promotion

import (
	"net"
	"net/http"
	"sync"
	"testing"
)

// Probe answers the gate of staging. It answers 200 until Answer changes that.
type Probe struct {
	URL string

	mutex    sync.Mutex
	status   int
	requests int
}

// StartProbe starts a probe for the test.
func StartProbe(t testing.TB) *Probe {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the probe: %v", err)
	}
	p := &Probe{URL: "http://" + listener.Addr().String() + "/readyz", status: http.StatusOK}
	server := &http.Server{Handler: p}
	go func() { _ = server.Serve(listener) }() // it always ends with an error
	t.Cleanup(func() { _ = server.Close() })   // nothing is left to do
	return p
}

// ServeHTTP answers the gate.
func (p *Probe) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.requests++
	w.WriteHeader(p.status)
}

// Answer sets the status of the following answers.
func (p *Probe) Answer(status int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.status = status
}

// Requests returns the number of requests so far.
func (p *Probe) Requests() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.requests
}
