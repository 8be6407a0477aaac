package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// sessionAge is how long a browser stays logged in.
const sessionAge = 30 * 24 * time.Hour

// session is what the cookie of a logged-in browser says, signed with a key made from the home's
// token: it outlives a restart and ends when the token changes.
type session struct {
	By      string    `json:"by"`
	Token   string    `json:"token,omitempty"` // SHA-256 of the stored token behind it, hex; "": the home's
	Expires time.Time `json:"expires"`
}

// Encrypted reports whether a client asked by https, here or at the proxy that stands before this server and says so
// (X-Forwarded-Proto). Who forges that gets links and a cookie of no use to them.
func Encrypted(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// sessions seals and opens cookies.
type sessions struct {
	key  []byte
	name string // of the cookie; cookies know no ports, so two Waybills on one machine need two names
}

func newSessions(token string) sessions {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("waybill session"))
	key := mac.Sum(nil)
	public := sha256.Sum256(key)
	return sessions{key: key, name: "waybill-" + hex.EncodeToString(public[:4])}
}

// cookie logs a browser in.
func (s sessions) cookie(opened session, now time.Time, secure bool) *http.Cookie {
	opened.Expires = now.Add(sessionAge)
	content, _ := json.Marshal(opened) // strings and times always marshal
	encoded := base64.RawURLEncoding.EncodeToString(content)
	return &http.Cookie{
		Name: s.name, Value: encoded + "." + s.sign(encoded), Path: "/", MaxAge: int(sessionAge.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
}

// open is the session of the request's cookie; ok is false without a valid one.
func (s sessions) open(r *http.Request, now time.Time) (opened session, ok bool) {
	cookie, err := r.Cookie(s.name)
	if err != nil {
		return session{}, false
	}
	encoded, signature, _ := strings.Cut(cookie.Value, ".")
	if !same(signature, s.sign(encoded)) {
		return session{}, false
	}
	content, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(content, &opened) != nil || now.After(opened.Expires) {
		return session{}, false
	}
	return opened, true
}

func (s sessions) sign(text string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}
