package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// authorize returns the identity of a request, or an error if it may not even read. The checks have a fixed order: the origin
// comes first, since the browser of a foreign page may send a valid cookie.
func (a *access) authorize(r *http.Request) (service.Identity, error) {
	if err := a.origin.Check(r); err != nil {
		return service.Identity{}, fault.New(fault.Forbidden, "the request comes from another site's page: %w", err)
	}
	if !a.site.isOwnHost(r.Host) {
		return service.Identity{}, errForeignHost(r.Host)
	}
	identity, proved, err := a.proveApprover(r)
	if !proved {
		identity, err = a.identify(r)
	}
	if err != nil {
		return identity, err
	}
	if a.site.isLocal(r) || r.URL.Path == "/login" || r.URL.Path == "/logout" || identity.Has(service.ScopeRead) {
		return identity, nil
	}
	return service.Require(service.WithIdentity(r.Context(), identity), service.ScopeRead)
}

// errForeignHost returns the refusal of a request for a host that is not a name of the server.
func errForeignHost(host string) error {
	return fault.New(fault.Forbidden, "this server does not answer for the host %q", host).
		WithHint("ask for 127.0.0.1; behind a proxy set server.url in server.yaml to the address that clients use")
}

// identify returns the identity of a request's token or cookie. A wrong token is refused even where none is needed, since
// its sender expects the token's rights.
func (a *access) identify(r *http.Request) (service.Identity, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		token, isBearer := strings.CutPrefix(header, "Bearer ")
		if !isBearer {
			return service.Identity{}, invalidToken()
		}
		if sameSecret(token, a.token) {
			return service.Identity{Name: userOf(r), Scopes: service.AllScopes()}, nil
		}
		return a.lookUp(r.Context(), sha256.Sum256([]byte(token)))
	}
	if !a.site.isLogin(r.Host) {
		return service.Identity{}, nil
	}
	session, ok, err := a.sessions.findSession(r)
	switch {
	case err != nil || !ok:
		return service.Identity{}, err
	case session.Token == nil:
		return service.Identity{Name: session.By, Scopes: service.AllScopes()}, nil
	}
	identity, err := a.lookUp(r.Context(), [32]byte(session.Token))
	if fault.Is(err, fault.Unauthorized) {
		return service.Identity{}, nil // the token was revoked, and so the session has ended
	}
	return identity, err
}

// lookUp returns the identity of a stored token by its hash, or an error if the token is unknown or has expired.
func (a *access) lookUp(ctx context.Context, hash [32]byte) (service.Identity, error) {
	token, err := a.stored.TokenByHash(ctx, hash)
	switch {
	case fault.Is(err, fault.NotFound):
		return service.Identity{}, invalidToken()
	case err != nil:
		return service.Identity{}, err
	case !token.Valid(time.Now()):
		return service.Identity{}, invalidToken()
	}
	identity := service.Identity{Name: token.Name, Token: token.Name}
	for _, scope := range token.Scopes {
		identity.Scopes = append(identity.Scopes, service.Scope(scope))
	}
	return identity, nil
}

func invalidToken() error {
	return fault.New(fault.Unauthorized, "the token is not valid").
		WithHint("the home's file \"token\" holds the one of this server")
}

// userOf returns the name of the user behind the home's token.
func userOf(r *http.Request) string {
	if user := r.Header.Get(operation.UserHeader); user != "" && len(user) <= 100 {
		return user
	}
	return "token"
}
