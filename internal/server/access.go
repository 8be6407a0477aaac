package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/token"
)

// access enforces the access rules. Requests from this machine may read, and all other requests need a token. Every change
// needs a token with the right scope. Requests from another site's page are refused.
type access struct {
	token    string            // the home's token
	stored   tokens            // all other tokens
	proofs   proofs            // other proofs of who approves; set by New
	sources  *listener.Sources // senders of hooks and proofs
	senders  *listener.Sources // senders of events without a valid token
	site     site
	sessions sessions
	streams  *streams
	origin   *http.CrossOriginProtection
	next     http.Handler

	mu    sync.Mutex
	codes map[string]loginCode
}

// tokens is the part of the ledger that access uses.
type tokens interface {
	TokenByHash(ctx context.Context, hash [32]byte) (token.Token, error)
	NewWaiter() *ledger.Ledger
	sessionStore
}

// newAccess returns a handler that enforces the rules before next. public is where clients reach the server; nil: where it
// listens.
func newAccess(token string, stored tokens, listen string, public *url.URL, next http.Handler) *access {
	a := &access{
		token: token, stored: stored, sessions: newSessions(token, stored), next: next, sources: listener.NewSources(), senders: listener.NewSources(),
		streams: newStreams(), origin: http.NewCrossOriginProtection(), codes: map[string]loginCode{},
	}
	a.site = site{loopback: isLoopback(listen), own: a.sessions.name + ".localhost", public: public}
	return a
}

func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := limitBodyTime(w, r)
	defer func() { body.abandon(r.Header.Get("Expect") != "") }()
	w = retryAfterWriter{w}
	nameRequest(w.Header())
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store") // answers that may be cached override this
	a.site.setScheme(r)
	if isHealth(r.URL.Path) {
		a.prove(w, r)
		a.next.ServeHTTP(w, r)
		return
	}
	if err := refuseNotText(r.URL); err != nil {
		WriteProblem(w, r, err)
		return
	}
	if isHook(r.URL.EscapedPath()) { // as the routes are chosen
		a.next.ServeHTTP(w, r)
		return
	}
	identity, err := a.authorize(r)
	if err != nil {
		a.writeRefusal(w, r, err)
		return
	}
	switch r.URL.Path {
	case "/login":
		a.serveLogin(w, r)
	case "/logout":
		a.serveLogout(w, r)
	default:
		a.serveAs(w, r, identity)
	}
}

// A long request, such as a stream, ends when its credentials become invalid: at once if a token is revoked or a session
// ended, and within accessAge if one expires.
const (
	lasting   = time.Second // age from which a request counts as long
	accessAge = 10 * time.Second
)

var errAccessEnded = fault.New(fault.Unauthorized, "the token was revoked or has expired, or the session has ended")

// serveAs serves a request with its identity, and watches its credentials if it lasts.
func (a *access) serveAs(w http.ResponseWriter, r *http.Request, identity service.Identity) {
	ctx, cancel := context.WithCancelCause(context.WithValue(service.WithIdentity(r.Context(), identity), streamsKey{}, a.streams))
	defer cancel(nil)
	if identity.Known() && identity.Proof == "" {
		credentials := &http.Request{Host: r.Host, Header: http.Header{"Authorization": r.Header["Authorization"], "Cookie": r.Header["Cookie"]}}
		watch := time.AfterFunc(lasting, func() { a.watchCredentials(ctx, cancel, credentials.WithContext(ctx)) })
		defer watch.Stop()
	}
	a.next.ServeHTTP(w, r.WithContext(ctx))
}

// watchCredentials cancels a request when its credentials become invalid. A ledger that does not answer cancels nothing.
func (a *access) watchCredentials(ctx context.Context, cancel context.CancelCauseFunc, credentials *http.Request) {
	waiter := service.NewWaiter(a.stored)
	for {
		if err := waiter.Wait(ctx, accessAge, store.TopicAccess); err != nil {
			return
		}
		identity, err := a.identify(credentials)
		if fault.Is(err, fault.Unauthorized) || err == nil && !identity.Known() {
			cancel(errAccessEnded)
			return
		}
	}
}

// writeRefusal answers a browser without credentials with the login form, and every other client with a problem.
func (a *access) writeRefusal(w http.ResponseWriter, r *http.Request, err error) {
	wantsPage := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
	if wantsPage && fault.Is(err, fault.Unauthorized) && !strings.HasPrefix(r.URL.Path, "/api/") {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	WriteProblem(w, r, err)
}

func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }
