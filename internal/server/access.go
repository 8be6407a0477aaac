package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
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

// access decides who may ask what: on loopback reading is free, elsewhere it needs a token; every
// change needs one with the right scope, and none comes from a foreign page.
type access struct {
	token    string // the home's
	stored   tokens // the others
	loopback bool   // where the server listens
	sessions sessions
	origin   *http.CrossOriginProtection
	next     http.Handler

	mu    sync.Mutex
	codes map[string]string // one-time login code → who logs in
}

// tokens is what access needs of the ledger.
type tokens interface {
	TokenByHash(ctx context.Context, hash [32]byte) (ledger.Token, error)
}

func newAccess(token string, stored tokens, loopback bool, next http.Handler) *access {
	return &access{
		token: token, stored: stored, loopback: loopback, sessions: newSessions(token), next: next,
		origin: http.NewCrossOriginProtection(), codes: map[string]string{},
	}
}

func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = patient{w}
	nameRequest(w.Header())
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "same-origin")
	if isHealth(r.URL.Path) {
		a.next.ServeHTTP(w, r)
		return
	}
	identity, err := a.check(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	if r.URL.Path == "/login" {
		a.login(w, r)
		return
	}
	a.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, identity)))
}

// check finds who asks, and refuses what nobody may ask from there. The order is fixed: the
// foreign page first, since its browser may well carry a good cookie.
func (a *access) check(r *http.Request) (Identity, error) {
	if err := a.origin.Check(r); err != nil {
		return Identity{}, fault.New(fault.Forbidden, "the request comes from another site's page: %w", err)
	}
	if a.loopback && !isLoopback(r.Host) {
		return Identity{}, fault.New(fault.Forbidden, "this server is for its own machine, not for %q", r.Host).
			WithHint("ask for it at 127.0.0.1, or set server.listen")
	}
	identity, err := a.identify(r)
	if err != nil {
		return identity, err
	}
	if a.loopback || r.URL.Path == "/login" || identity.Has(ScopeRead) {
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
	opened, ok := a.sessions.open(r, time.Now())
	switch {
	case !ok:
		return Identity{}, nil
	case opened.Token == "":
		return Identity{Name: opened.By, Scopes: allScopes()}, nil
	}
	var hash [32]byte
	n, err := hex.Decode(hash[:], []byte(opened.Token))
	if unreadable := err != nil || n != len(hash); unreadable {
		return Identity{}, nil // nobody: the cookie is not one of ours
	}
	identity, err := a.lookUp(r.Context(), hash)
	if fault.Is(err, fault.Unauthorized) {
		return Identity{}, nil // revoked meanwhile: a browser that nobody knows any more
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

// code makes a one-time login code.
func (a *access) code(by string) string {
	code := randomHex()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.codes[code] = by
	return code
}

// redeem takes a code; the second time it is nobody's.
func (a *access) redeem(code string) (by string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	by, ok = a.codes[code]
	delete(a.codes, code)
	return by, ok
}

func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }

// isLoopback reports whether host (with or without a port) is this machine's own name for itself. Other
// names are refused so that a page whose name is pointed at 127.0.0.1 cannot read what is here.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || (ip != nil && ip.IsLoopback())
}
