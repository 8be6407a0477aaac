package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/token"
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
	TokenByHash(ctx context.Context, hash [32]byte) (token.Token, error)
	NewWaiter() *ledger.Ledger
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
	body := hasten(w, r)
	defer body.leave()
	w = retryAfterWriter{w}
	nameRequest(w.Header())
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store") // what may be kept says so itself
	a.site.name(r)
	if isHealth(r.URL.Path) {
		a.next.ServeHTTP(w, r)
		return
	}
	if err := refuseNotText(r.URL); err != nil {
		WriteProblem(w, r, err)
		return
	}
	identity, err := a.check(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	switch r.URL.Path {
	case "/login":
		a.login(w, r)
	case "/logout":
		a.logout(w, r)
	default:
		a.serve(w, r, identity)
	}
}

// A request that lasts, such as a stream, ends when what it was let in by is valid no longer: at once where this server hears
// that a token was revoked or a session ended, and for a token or a session that expires within accessAge.
const (
	lasting   = time.Second
	accessAge = 10 * time.Second
)

var errAccessEnded = fault.New(fault.Unauthorized, "the token was revoked or has expired, or the session has ended")

// serve hands a request over with its identity.
func (a *access) serve(w http.ResponseWriter, r *http.Request, identity Identity) {
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), identityKey{}, identity))
	defer cancel(nil)
	if identity.Known() {
		credentials := &http.Request{Host: r.Host, Header: http.Header{"Authorization": r.Header["Authorization"], "Cookie": r.Header["Cookie"]}}
		watch := time.AfterFunc(lasting, func() { a.watch(ctx, cancel, credentials.WithContext(ctx)) })
		defer watch.Stop()
	}
	a.next.ServeHTTP(w, r.WithContext(ctx))
}

// watch cancels a request when its credentials are valid no longer. While the ledger does not answer it changes nothing.
func (a *access) watch(ctx context.Context, cancel context.CancelCauseFunc, credentials *http.Request) {
	waiter := &Waiter{a.stored.NewWaiter()}
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

// check finds who asks, and refuses what nobody may ask from there. The order is fixed: the
// foreign page first, since its browser may well carry a good cookie.
func (a *access) check(r *http.Request) (Identity, error) {
	if err := a.origin.Check(r); err != nil {
		return Identity{}, fault.New(fault.Forbidden, "the request comes from another site's page: %w", err)
	}
	if !a.site.knows(r.Host) {
		return Identity{}, fault.New(fault.Forbidden, "this server does not answer for the host %q", r.Host).
			WithHint("ask for 127.0.0.1; behind a proxy set server.url in server.yaml to the address that clients use")
	}
	identity, err := a.identify(r)
	if err != nil {
		return identity, err
	}
	if a.site.local(r) || r.URL.Path == "/login" || r.URL.Path == "/logout" || identity.Has(ScopeRead) {
		return identity, nil
	}
	return Require(context.WithValue(r.Context(), identityKey{}, identity), ScopeRead)
}

// identify reads the token or the cookie. A wrong token is refused even where none is needed, because who sends one means it.
func (a *access) identify(r *http.Request) (Identity, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		token, isBearer := strings.CutPrefix(header, "Bearer ")
		if !isBearer {
			return Identity{}, notValid()
		}
		if same(token, a.token) {
			return Identity{Name: userOf(r), Scopes: allScopes()}, nil
		}
		return a.lookUp(r.Context(), sha256.Sum256([]byte(token)))
	}
	if !a.site.isLogin(r.Host) {
		return Identity{}, nil
	}
	session, ok, err := a.sessions.find(r)
	switch {
	case err != nil || !ok:
		return Identity{}, err
	case session.Token == nil:
		return Identity{Name: session.By, Scopes: allScopes()}, nil
	}
	identity, err := a.lookUp(r.Context(), [32]byte(session.Token))
	if fault.Is(err, fault.Unauthorized) {
		return Identity{}, nil // the token was revoked meanwhile, and the session with it
	}
	return identity, err
}

// lookUp finds a stored token, which is still good, by its hash.
func (a *access) lookUp(ctx context.Context, hash [32]byte) (Identity, error) {
	token, err := a.stored.TokenByHash(ctx, hash)
	switch {
	case fault.Is(err, fault.NotFound):
		return Identity{}, notValid()
	case err != nil:
		return Identity{}, err
	case !token.Valid(time.Now()):
		return Identity{}, notValid()
	}
	identity := Identity{Name: token.Name}
	for _, scope := range token.Scopes {
		identity.Scopes = append(identity.Scopes, Scope(scope))
	}
	return identity, nil
}

func notValid() error {
	return fault.New(fault.Unauthorized, "the token is not valid").
		WithHint("the home's file \"token\" holds the one of this server")
}

func userOf(r *http.Request) string {
	if user := r.Header.Get(userHeader); user != "" && len(user) <= 100 {
		return user
	}
	return "token"
}

// refuse answers a browser that may not read with the login form, everybody else with a problem.
func (a *access) refuse(w http.ResponseWriter, r *http.Request, err error) {
	wantsPage := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
	if wantsPage && fault.Is(err, fault.Unauthorized) && !strings.HasPrefix(r.URL.Path, "/api/") {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	WriteProblem(w, r, err)
}

func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }
