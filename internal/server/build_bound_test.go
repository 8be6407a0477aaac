package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// heldBuilds are builds whose list waits.
type heldBuilds struct {
	*buildview.Folders
	entered, release chan struct{}
}

func (h heldBuilds) Builds(context.Context, buildview.Query) (buildview.List, error) {
	h.entered <- struct{}{}
	<-h.release
	return buildview.List{}, nil
}

// TestSearchesAreFew keeps one user from taking the whole server.
func TestSearchesAreFew(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	held := heldBuilds{buildview.NewFolders(t.TempDir(), nil), make(chan struct{}), make(chan struct{})}
	service := service.New(s.Ledger, s.Blobs, service.Options{Builds: held})
	s.Server = httptest.NewServer(server.New(service, server.Options{Token: homeToken}).Handler())
	defer s.Server.Close()
	release := sync.OnceFunc(func() { close(held.release) })
	defer release()
	answers := make(chan string, 9)
	search := func() {
		status, text, header := s.ask(t, http.MethodGet, "/api/log/search?q=x&project=shop", "", "Authorization", bearer)
		answers <- fmt.Sprint(status, " ", header.Get("Retry-After") != "", " ", text)
	}
	for range 8 {
		go search()
		<-held.entered
	}
	go search()
	select {
	case got := <-answers:
		if got[:8] != "503 true" {
			t.Errorf("the ninth search: %s", got)
		}
	case <-held.entered:
		t.Fatal("a ninth search runs")
	}
	release()
	for range 8 {
		if got := <-answers; got[:9] != "200 false" {
			t.Errorf("a search: %s", got)
		}
	}
}

// TestNoPasswordIsRepeated in the problem about a body that has one in a wrong place.
func TestNoPasswordIsRepeated(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	for _, body := range []string{`{"passwords": "swordfish"}`, `{"passwords": ["swordfish"]}`,
		`{"passwords": {"key": ["swordfish"]}}`, `{"passwords": {"key": {"a": "swordfish"}}}`,
		`{"password": {"key": "swordfish"}}`, `{"password": "swordfish"}`, `{"inputs": ["swordfish"]}`, `["swordfish"]`,
		`"swordfish"`, `{"passwords": {"key": "swordfish"`, `swordfish`} {
		for _, path := range []string{"/api/project/shop/build", "/api/build/1/rerun"} {
			status, text, _ := s.ask(t, http.MethodPost, path, body, "Authorization", bearer, "Content-Type", "application/json")
			if status != http.StatusBadRequest || strings.Contains(text, "swordfish") {
				t.Errorf("%s %s: %d %s", path, body, status, text)
			}
		}
	}
}
