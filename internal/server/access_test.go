package server_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/token"
)

// TestFollowersEndWithTheirAccess: a stream ends when its token is revoked or expires, or its session ends. Streams of other
// clients continue.
func TestFollowersEndWithTheirAccess(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	s.builds(t)
	storeToken(t, s.Ledger, "revoked", "a-reading-token-1", "read")
	storeToken(t, s.Ledger, "kept", "a-reading-token-2", "read")
	_, _, header := s.ask(t, "GET", s.loginPath(t), "")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	kept, leave := s.follow(t, "/api/v1/events", "Authorization", "Bearer a-reading-token-2")
	var ending []<-chan error
	follow := func(name, value string) {
		t.Helper()
		for _, path := range []string{"/api/v1/events", "/api/build/7.1/stream"} {
			ended, _ := s.follow(t, path, name, value)
			ending = append(ending, ended)
		}
	}
	follow("Authorization", "Bearer a-reading-token-1")
	follow("Cookie", cookie)
	expires := token.Token{Hash: sha256Of("a-reading-token-3"), Name: "expires", Scopes: []string{"read"},
		ExpiresAt: time.Now().Add(20 * time.Second)}
	if err := s.Ledger.CreateToken(t.Context(), expires); err != nil {
		t.Fatal(err)
	}
	follow("Authorization", "Bearer a-reading-token-3") // at once, before it has expired on a busy machine
	if err := s.Ledger.RevokeToken(t.Context(), "revoked"); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := s.ask(t, "POST", "/logout", "", "Cookie", cookie); status != http.StatusSeeOther {
		t.Fatalf("logging out: %d", status)
	}
	for i, ended := range ending {
		if err := <-ended; err != nil {
			t.Errorf("follower %d did not end with its access: %v", i, err)
		}
	}
	select {
	case err := <-kept:
		t.Errorf("another client's stream ended, too: %v", err)
	default:
	}
	leave()
	<-kept
}

// builds stores a build whose only step is running and has printed a line.
func (s *testServer) builds(t *testing.T) {
	t.Helper()
	store, err := results.Create(filepath.Join(s.Builds, "7.1"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Describe(results.Build{ID: "7.1",
		Plan: &build.Plan{File: ".wharf-ci.yml", Steps: []build.PlanStep{{ID: 1, Stage: "s", Name: "a"}}}}); err != nil {
		t.Fatal(err)
	}
	log, err := store.Log(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(build.Entry{At: time.Now(), Text: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Update(1, build.Update{Status: build.Running, Timestamp: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

// follow requests an endless answer. ended receives its error when it ends; nil: the server ended it.
func (s *testServer) follow(t *testing.T, path, header, value string) (ended <-chan error, leave func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, value)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s with %s: %s", path, header, response.Status)
	}
	if _, err := response.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() {
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body) // reading a plain-text log ends with an error
		end <- ctx.Err()
	}()
	return end, cancel
}
