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
)

// userHeader names the person behind the home's token, which everybody of one machine shares.
const userHeader = "Waybill-User"

// access decides who may ask what: what comes from this machine may read, everything else needs a token; every
// change needs one with the right scope, and none comes from a foreign page.
type access struct {
	token    string // the home's
	stored   tokens // the others
	site     site
	sessions sessions
	origin   *http.CrossOriginProtection
	next     http.Handler

	mu    sync.Mutex
	codes map[string]loginCode
}

// tokens is what access needs of the ledger.
type tokens interface {
	TokenByHash(ctx context.Context, hash [32]byte) (ledger.Token, error)
	Waiter() *ledger.Ledger
	sessionStore
}

// newAccess puts the rules before a handler. public is where clients reach the server; nil: where it listens.
func newAccess(token string, stored tokens, listen string, public *url.URL, next http.Handler) *access {
	a := &access{
		token: token, stored: stored, sessions: newSessions(token, stored), next: next,
		origin: http.NewCrossOriginProtection(), codes: map[string]loginCode{},
	}
	a.site = site{loopback: isLoopback(listen), own: a.sessions.name + ".localhost", public: public}
	return a
}

func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := limitBodyTime(w, r)
	defer body.abandon()
	w = retryAfterWriter{w}
	nameRequest(w.Header())
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store") // what may be kept says so itself
	a.site.setScheme(r)
	if isHealth(r.URL.Path) {
		a.next.ServeHTTP(w, r)
		return
	}
	if err := refuseNotText(r.URL); err != nil {
		WriteProblem(w, r, err)
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

// A request that lasts, such as a stream, ends when what it was let in by is valid no longer: at once where this server hears
// that a token was revoked or a session ended, and for a token or a session that expires within accessAge.
const (
	lasting   = time.Second
	accessAge = 10 * time.Second
)

var errAccessEnded = fault.New(fault.Unauthorized, "the token was revoked or has expired, or the session has ended")

// serveAs hands a request over with its identity.
func (a *access) serveAs(w http.ResponseWriter, r *http.Request, identity Identity) {
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), identityKey{}, identity))
	defer cancel(nil)
	if identity.Known() {
		credentials := &http.Request{Host: r.Host, Header: http.Header{"Authorization": r.Header["Authorization"], "Cookie": r.Header["Cookie"]}}
		watch := time.AfterFunc(lasting, func() { a.watchCredentials(ctx, cancel, credentials.WithContext(ctx)) })
		defer watch.Stop()
	}
	a.next.ServeHTTP(w, r.WithContext(ctx))
}

// watchCredentials cancels a request when its credentials are valid no longer. While the ledger does not answer it changes nothing.
func (a *access) watchCredentials(ctx context.Context, cancel context.CancelCauseFunc, credentials *http.Request) {
	waiter := &Waiter{a.stored.Waiter()}
	for {
		if err := waiter.Wait(ctx, accessAge, ledger.TopicAccess); err != nil {
			return
		}
		identity, err := a.identify(credentials)
		if fault.Is(err, fault.Unauthorized) || err == nil && !identity.Known() {
			cancel(errAccessEnded)
			return
		}
	}
}

// writeRefusal answers a browser that may not read with the login form, everybody else with a problem.
func (a *access) writeRefusal(w http.ResponseWriter, r *http.Request, err error) {
	wantsPage := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
	if wantsPage && fault.Is(err, fault.Unauthorized) && !strings.HasPrefix(r.URL.Path, "/api/") {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	WriteProblem(w, r, err)
}

func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }
