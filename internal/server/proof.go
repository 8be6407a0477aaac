package server

import (
	"encoding/hex"
	"net"
	"net/http"

	"github.com/waybill-dev/waybill/internal/operation"
)

// prove answers a nonce, if there is one and the request came to the place that it requests.
func (a *access) prove(w http.ResponseWriter, r *http.Request) {
	nonce := r.Header.Get(operation.NonceHeader)
	if raw, err := hex.DecodeString(nonce); err != nil || len(raw) != operation.NonceSize || !a.isAsked(r) {
		return
	}
	w.Header().Set(operation.ProofHeader, operation.ProofOf(a.token, nonce, r.Host))
}

// isAsked reports whether a request names the port that it came to, or the public address.
func (a *access) isAsked(r *http.Request) bool {
	if a.site.public != nil && r.Host == a.site.public.Host {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	_, asked, err := net.SplitHostPort(r.Host)
	if err != nil {
		asked = "80"
	}
	_, port, err := net.SplitHostPort(local.String())
	return err == nil && asked == port
}
