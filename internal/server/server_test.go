package server_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
)

func sha256Of(text string) [32]byte { return sha256.Sum256([]byte(text)) }

func asSeq(n int64) string { return strconv.FormatInt(n, 10) }

func TestHomeTokenIsMadeOnceAndForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	first, err := server.HomeToken(path)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := server.HomeToken(path); err != nil || second != first {
		t.Errorf("second start: %q, %v; want the same token", second, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := server.HomeToken(path); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "chmod 600") {
		t.Errorf("a token that all may read: %v (%s)", err, fault.HintOf(err))
	}
}

func TestPortInUseNamesItsProcess(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	first := server.New(w.Service, server.Options{Listen: "127.0.0.1:0", Token: homeToken})
	if err := first.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	second := server.New(w.Service, server.Options{Listen: strings.TrimPrefix(first.URL(), "http://")})
	err := second.Listen(t.Context())
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "waybill, process "+strconv.Itoa(os.Getpid())) ||
		!strings.Contains(fault.HintOf(err), "--listen") {
		t.Errorf("got %v (%s)", err, fault.HintOf(err))
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the end of a server: %v", err)
	}
}

// TestServerEndsWithFollowersConnected: a process that ends does not wait for streams.
func TestServerEndsWithFollowersConnected(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	s := server.New(w.Service, server.Options{Listen: "127.0.0.1:0", Token: homeToken})
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/api/v1/pipelines/greeter/log", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	stop(errors.New("the test stops it"))
	if err := <-ended; err != nil {
		t.Errorf("the end of a server with a follower: %v", err)
	}
}

// loginPath returns the path of a new login address.
func (s *testServer) loginPath(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(s.api.LoginURL("ana"))
	if err != nil {
		t.Fatal(err)
	}
	return u.RequestURI()
}

func TestABrowserLogsInByItsAddressOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	status, _, header := s.ask(t, "GET", "/pipelines/greeter?x=1", "", "Accept", "text/html")
	if status != http.StatusSeeOther || header.Get("Location") != "/login?next=%2Fpipelines%2Fgreeter%3Fx%3D1" {
		t.Errorf("a browser without a login: %d to %s", status, header.Get("Location"))
	}
	login := s.loginPath(t)
	if status, _, _ = s.ask(t, "GET", login, "", "Sec-Purpose", "prefetch"); status != http.StatusNoContent {
		t.Errorf("a browser that looks ahead: %d, want 204 and the code still good", status)
	}
	status, _, header = s.ask(t, "GET", login, "")
	cookie := header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"} {
		if status != http.StatusSeeOther || !strings.Contains(cookie, want) {
			t.Errorf("login answers %d with cookie %q, want %s", status, cookie, want)
		}
	}
	if status, _, _ = s.ask(t, "GET", login, ""); status != 401 {
		t.Errorf("the same address again: %d, want 401", status)
	}
}

func TestASessionLastsUntilTheLogout(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	_, _, header := s.ask(t, "GET", s.loginPath(t), "")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	status, body, _ := s.ask(t, "GET", "/api/v1/pipelines", "", "Cookie", cookie)
	if status != 200 {
		t.Errorf("with the cookie: %d %s", status, body)
	}
	if status, _, _ = s.ask(t, "GET", "/api/v1/pipelines", "", "Cookie", cookie[:len(cookie)-2]+"xx"); status != 401 {
		t.Errorf("with a forged cookie: %d, want 401", status)
	}
	if status, _, _ = s.ask(t, "POST", "/logout", "", "Cookie", cookie, "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("a foreign page logs out: %d, want 403", status)
	}
	status, _, header = s.ask(t, "POST", "/logout", "", "Cookie", cookie)
	if status != http.StatusSeeOther || !strings.Contains(header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logging out: %d with cookie %q, want it deleted", status, header.Get("Set-Cookie"))
	}
	if status, _, _ = s.ask(t, "GET", "/api/v1/pipelines", "", "Cookie", cookie); status != 401 {
		t.Errorf("with the cookie of a browser that has logged out: %d, want 401", status)
	}
}

func TestASessionByATokenHasItsRights(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	storeToken(t, s.Ledger, "reader", "a-reading-token-1", "read")
	form := url.Values{"token": {"a-reading-token-1"}, "next": {"//evil.example/"}}.Encode()
	status, _, header := s.ask(t, "POST", "/login", form, "Content-Type", "application/x-www-form-urlencoded")
	if status != http.StatusSeeOther || header.Get("Location") != "/" {
		t.Errorf("login by a token: %d to %q, want home and not elsewhere", status, header.Get("Location"))
	}
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if status, _, _ = s.ask(t, "POST", "/api/v1/deployments/greeter%239/hold", "", "Cookie", cookie); status != 403 {
		t.Errorf("a reader holds: %d, want 403", status)
	}
	if err := s.Ledger.RevokeToken(t.Context(), "reader"); err != nil {
		t.Fatal(err)
	}
	if status, _, _ = s.ask(t, "GET", "/api/v1/pipelines", "", "Cookie", cookie); status != 401 {
		t.Errorf("a session whose token was revoked: %d, want 401", status)
	}
}

// TestSessionsEndWithTheHomesToken logs in, and then restarts the server with another token on the same log.
func TestSessionsEndWithTheHomesToken(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	_, _, header := s.ask(t, "GET", s.loginPath(t), "")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	for token, want := range map[string]int{homeToken: 200, "wb_another-token-of-the-home": 401} {
		again := server.New(s.Service, server.Options{Listen: "0.0.0.0:7070", Token: token})
		r := httptest.NewRequest(http.MethodGet, "/api/v1/pipelines", nil)
		_, secret, _ := strings.Cut(cookie, "=")
		for _, known := range []string{cookie, cookieNameOf(t, again) + "=" + secret} {
			r.Header.Add("Cookie", known)
		}
		w := httptest.NewRecorder()
		again.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("with token %s: %d, want %d", token, w.Code, want)
		}
	}
}

// cookieNameOf logs in and returns the name of the server's cookie.
func cookieNameOf(t *testing.T, s *server.Server) string {
	t.Helper()
	u, err := url.Parse(s.LoginURL("ana"))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, u.RequestURI(), nil))
	name, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), "=")
	return name
}
