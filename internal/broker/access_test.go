package broker_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/bubbletest"
)

var fetchCatalog = request{method: http.MethodGet, path: "/v2/catalog"}

func TestUsersAndPasswords(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	for _, c := range []struct {
		user, password string
		status         int
	}{
		{user, password, 200},
		{otherUser, "former", 200},
		{otherUser, otherPassword, 200},
		{user, otherPassword, 401},
		{otherUser, password, 401},
		{user, "", 401},
		{user, password + " ", 401},
		{"stranger", "", 401},
		{"Platform", password, 401},
	} {
		if a := w.send(fetchCatalog.as(c.user, c.password)); a.status != c.status {
			t.Errorf("%q with %q: %s, want %d", c.user, c.password, a, c.status)
		}
	}
	for _, header := range []string{"", "Basic", "Basic x", "Basic cGxhdGZvcm0=", "Bearer secret", "Basic cGxhdGZvcm06c2VjcmV0 x"} {
		if a := w.send(fetchCatalog.heading("Authorization", header)); a.status != 401 {
			t.Errorf("Authorization %q: %s", header, a)
		}
	}
}

// TestOnlyTheCatalogIsKept: a platform compares it by its tag, and keeps no other answer.
func TestOnlyTheCatalogIsKept(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	tag := w.send(fetchCatalog).header.Get("ETag")
	for _, c := range []struct {
		request request
		want    string
	}{{fetchCatalog, "no-cache"}, {fetchCatalog.heading("If-None-Match", tag), "no-cache"}, {get("demo"), "no-store"},
		{fetchCatalog.as(user, "wrong"), "no-store"}} {
		if a := w.send(c.request); a.header.Get("Cache-Control") != c.want {
			t.Errorf("%s: Cache-Control %q, want %q", a, a.header.Get("Cache-Control"), c.want)
		}
	}
}

// TestFailedLoginsAreLimited, and no right password is refused for them, whether it comes from the same source or another.
func TestFailedLoginsAreLimited(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	statuses := map[int]int{}
	for range 80 {
		a := w.send(fetchCatalog.as(user, "wrong"))
		statuses[a.status]++
		wait, challenge := a.header.Get("Retry-After"), a.header.Get("WWW-Authenticate")
		if a.status == http.StatusTooManyRequests && (wait == "" || a.code() != "TooManyRequests") || a.status == http.StatusUnauthorized && challenge == "" {
			t.Errorf("%s, %v", a, a.header)
		}
	}
	if statuses[401] < 50 || statuses[429] == 0 || len(statuses) != 2 {
		t.Errorf("statuses %v: want at least 50 times 401, then 429", statuses)
	}
	w.send(fetchCatalog).want(200, "")
	w.send(fetchCatalog.other()).want(200, "")
	b := broker.New(broker.Config{Users: func() map[string]broker.User { return nil }, Log: slog.New(slog.DiscardHandler)})
	for n := range 80 {
		r := httptest.NewRequest(http.MethodGet, "/v2/catalog", nil)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", n)
		answer := httptest.NewRecorder()
		if b.ServeHTTP(answer, r); answer.Code != http.StatusUnauthorized {
			t.Errorf("the first failure of source %d is %d", n, answer.Code)
		}
	}
}

// TestPasswordsRotate without a restart: the new one is added, and later the old one removed.
func TestPasswordsRotate(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	w.reach("ready", "demo")
	old, renewed := get("demo"), get("demo").as(user, "newer")
	for _, c := range []struct {
		passwords    [][sha256.Size]byte
		old, renewed int
	}{
		{[][sha256.Size]byte{digest(password)}, 200, 401},
		{[][sha256.Size]byte{digest(password), digest("newer")}, 200, 200},
		{[][sha256.Size]byte{digest("newer")}, 401, 200},
		{nil, 401, 401},
	} {
		w.users.Store(&map[string]broker.User{user: {Passwords: c.passwords}})
		if a, b := w.send(old), w.send(renewed); a.status != c.old || b.status != c.renewed {
			t.Errorf("with %d passwords: %s and %s, want %d and %d", len(c.passwords), a, b, c.old, c.renewed)
		}
	}
	w.users.Store(&map[string]broker.User{})
	w.send(old).want(401, "Unauthorized")
}

// TestRequestsDoNotWriteToTheListOfPasswords, which they share: not after its end either.
func TestRequestsDoNotWriteToTheListOfPasswords(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	passwords := [][sha256.Size]byte{digest(password), digest("behind the end")}
	w.users.Store(&map[string]broker.User{user: {Passwords: passwords[:1]}})
	w.send(fetchCatalog).want(200, "")
	w.send(fetchCatalog.as(user, "wrong")).want(401, "Unauthorized")
	w.send(fetchCatalog.as(user, "behind the end")).want(401, "Unauthorized")
	if passwords[0] != digest(password) || passwords[1] != digest("behind the end") {
		t.Error("a request has written to the list")
	}
}

// answered has a broker without users serve a connection, on which a sender writes a request, and returns the answer with its body.
func answered(t *testing.T, request string) (response *http.Response, body []byte) {
	t.Helper()
	l := bubbletest.Listen()
	b := broker.New(broker.Config{Users: func() map[string]broker.User { return nil }, Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, l) }()
	conn := l.Dial()
	go io.WriteString(conn, request)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(t, err)
	body, err = io.ReadAll(response.Body)
	check(t, err)
	check(t, conn.Close())
	stop()
	check(t, <-served)
	return response, body
}

// TestSlowBodiesAreGivenUp: a body that stops arrives no more after half a minute, from any sender.
func TestSlowBodiesAreGivenUp(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		response, body := answered(t, "PUT /v2/service_instances/a HTTP/1.1\r\nHost: a\r\nX-Broker-API-Request-Identity: r\r\nContent-Length: 9\r\n\r\n{")
		if response.StatusCode != http.StatusRequestTimeout || response.Header.Get(identityHeader) != "r" || len(body) == 0 {
			t.Errorf("%s %v %s", response.Status, response.Header, body)
		}
	})
}

// TestBrokenBodies: one whose framing is wrong did arrive, and is the sender's fault.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		response, body := answered(t, "PUT /v2/service_instances/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s", response.Status, body)
		}
	})
}
