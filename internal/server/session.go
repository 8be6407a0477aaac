package server

import (
	"context"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
)

// sessionAge is the lifetime of a browser's session.
const sessionAge = 12 * time.Hour

// Encrypted reports whether a client used https, with this server or with a proxy in front of it (X-Forwarded-Proto). A client
// that forges the header only gets links and a cookie that do not work for it.
func Encrypted(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// sessions manages the sessions of logged-in browsers. A browser keeps a secret in a cookie; the ledger keeps its hash, made
// with a key from the home's token, so that a new token ends all sessions.
type sessions struct {
	stored sessionStore
	key    []byte
	name   string // name of the cookie and, below .localhost, of the home's own host
}

// sessionStore is the part of the ledger that sessions use.
type sessionStore interface {
	StartSession(ctx context.Context, s token.Session) error
	SessionByHash(ctx context.Context, hash [32]byte) (token.Session, error)
	EndSession(ctx context.Context, hash [32]byte) error
}

func newSessions(token string, stored sessionStore) sessions {
	s := sessions{stored: stored, key: service.Keyed([]byte(token), "waybill session")}
	s.name = "waybill-" + hex.EncodeToString(service.Keyed(s.key, "name")[:8])
	return s
}

// hash returns the key under which the ledger keeps the session of a cookie's secret.
func (s sessions) hash(secret string) [32]byte { return [32]byte(service.Keyed(s.key, secret)) }

// visitor is a person who logs in.
type visitor struct {
	by    string
	token []byte // SHA-256 of the stored token; nil: the home's
}

// startSession stores a new session and returns its cookie.
func (s sessions) startSession(ctx context.Context, v visitor, now time.Time, secure bool) (*http.Cookie, error) {
	secret := randomHex()
	session := token.Session{Hash: s.hash(secret), By: v.by, Token: v.token, ExpiresAt: now.Add(sessionAge)}
	if err := s.stored.StartSession(ctx, session); err != nil {
		return nil, err
	}
	return s.cookie(secret, secure, sessionAge), nil
}

// findSession returns the session of the request's cookie; ok is false without a valid one.
func (s sessions) findSession(r *http.Request) (session token.Session, ok bool, err error) {
	cookie, err := r.Cookie(s.name)
	if err != nil {
		return session, false, nil //nolint:nilerr // no cookie
	}
	session, err = s.stored.SessionByHash(r.Context(), s.hash(cookie.Value))
	if fault.Is(err, fault.NotFound) {
		return session, false, nil
	}
	return session, err == nil, err
}

// endSession ends the session of the request's cookie. It returns the cookie that makes the browser delete it.
func (s sessions) endSession(r *http.Request) (*http.Cookie, error) {
	if cookie, err := r.Cookie(s.name); err == nil {
		if err := s.stored.EndSession(r.Context(), s.hash(cookie.Value)); err != nil {
			return nil, err
		}
	}
	return s.cookie("", Encrypted(r), -time.Second), nil
}

func (s sessions) cookie(value string, secure bool, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: s.name, Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
}
