package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/server"
)

func operations(listen string, ready func() error) *server.Operations {
	return server.NewOperations(server.OperationsOptions{Listen: listen, Version: "1.2.3", Gatherer: obs.NewRegistry(), Ready: ready,
		Log: slog.New(slog.DiscardHandler)})
}

func TestOperationsAnswerWithoutALog(t *testing.T) {
	t.Parallel()
	ready, away := func() error { return nil }, func() error { return errors.New("the caches are empty") }
	for _, c := range []struct {
		listen, host, path string
		ready              func() error
		status             int
		text               string
	}{
		{"0.0.0.0:7070", "10.0.0.7:7070", "/healthz", away, http.StatusOK, `"version":"1.2.3"`},
		{"0.0.0.0:7070", "10.0.0.7:7070", "/readyz", ready, http.StatusOK, `"program":"waybill"`},
		{"0.0.0.0:7070", "10.0.0.7:7070", "/readyz", away, http.StatusServiceUnavailable, "the caches are empty"},
		{"0.0.0.0:7070", "10.0.0.7:7070", "/metrics", ready, http.StatusOK, "go_goroutines"},
		{"0.0.0.0:7070", "10.0.0.7:7070", "/api/v1/flows", ready, http.StatusNotFound, "does not have the role api"},
		{"127.0.0.1:7070", "localhost:7070", "/metrics", ready, http.StatusOK, "go_goroutines"},
		{"127.0.0.1:7070", "example.org", "/metrics", ready, http.StatusForbidden, "does not answer for the host"},
		{"127.0.0.1:7070", "example.org", "/healthz", ready, http.StatusOK, `"program":"waybill"`},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
		request.Host = c.host
		answer := httptest.NewRecorder()
		operations(c.listen, c.ready).Handler().ServeHTTP(answer, request)
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.text) {
			t.Errorf("%s of %s: got %d %.200s, want %d with %s", c.path, c.host, answer.Code, answer.Body, c.status, c.text)
		}
	}
}

func TestOperationsListenUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	o := operations("127.0.0.1:0", func() error { return nil })
	if o.URL() != "" {
		t.Errorf("the address is %s before it listens", o.URL())
	}
	if err := o.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.URL()+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("got %s %s, %v", response.Status, body, err)
	}
	second := operations(strings.TrimPrefix(o.URL(), "http://"), nil)
	if err := second.Listen(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "in use by waybill") {
		t.Errorf("got %v, want a port in use", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
