// Package signature signs requests with a shared key, and verifies them. A signature binds a method, an address, a time, a nonce and
// a body, so it is of no use for any other request. Package promotions records its nonce, so it is of no use twice.
//
// The older signature of a body alone (see VerifyBody) binds neither the address nor the time.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Header is the name of the header with a signature: t=UNIXTIME,n=NONCE,k=KEY,v1=HEX.
const Header = "Waybill-Signature"

// Bounds of the header and its parts, in bytes.
const (
	maxHeader = 1024
	maxNonce  = 128
	minNonce  = 8
	maxKey    = 253 // as of a key of a Secret
	maxTime   = 12  // digits
)

// Request is the signed part of a request.
type Request struct {
	Method string // such as POST
	Target string // path with query, as it is sent, such as /approval/apps/podinfo/prod/6.6.0
	Body   []byte
}

// Signature is a signature as the header has it.
type Signature struct {
	At    time.Time // whole seconds
	Nonce string    // unique for its key
	Key   string    // name of the key
	mac   []byte
}

// Parse reads the header. Each of its four parts occurs once, in any order.
func Parse(header string) (s Signature, err error) {
	parts, err := split(header)
	if err != nil {
		return s, err
	}
	at, err := strconv.ParseInt(parts["t"], 10, 64)
	if err != nil || at < 0 || len(parts["t"]) > maxTime || strconv.FormatInt(at, 10) != parts["t"] {
		return s, fmt.Errorf("%s: t: want the seconds since 1970", Header)
	}
	s = Signature{At: time.Unix(at, 0).UTC(), Nonce: parts["n"], Key: parts["k"]}
	if len(s.Nonce) < minNonce || len(s.Nonce) > maxNonce || !isPlain(s.Nonce) {
		return s, fmt.Errorf("%s: n: want %d to %d of a-z, A-Z, 0-9, dot, dash and underscore", Header, minNonce, maxNonce)
	}
	if s.Key == "" || len(s.Key) > maxKey || !isPlain(s.Key) {
		return s, fmt.Errorf("%s: k: want the name of a key", Header)
	}
	if s.mac, err = hex.DecodeString(parts["v1"]); err != nil || len(s.mac) != sha256.Size {
		return s, fmt.Errorf("%s: v1: want %d hexadecimal digits", Header, 2*sha256.Size)
	}
	return s, nil
}

// split returns the values of a header by their names.
func split(header string) (map[string]string, error) {
	if len(header) > maxHeader {
		return nil, fmt.Errorf("%s has %d bytes: want at most %d", Header, len(header), maxHeader)
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := parts[name]; twice {
			return nil, fmt.Errorf("%s has %.20q twice", Header, name)
		}
		parts[name] = value
	}
	if len(parts) != 4 {
		return nil, fmt.Errorf("%s has %d parts: want t=UNIXTIME,n=NONCE,k=KEY,v1=HEX", Header, len(parts))
	}
	return parts, nil
}

// isPlain reports whether a text has only letters, digits, -, _ and dots.
func isPlain(text string) bool {
	for _, c := range []byte(text) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// Verify reports whether the signature is that of a request by a key, in constant time. An empty key verifies nothing. It knows no
// present: the caller compares At, and records Nonce.
func (s Signature) Verify(key []byte, r Request) bool {
	return len(key) > 0 && hmac.Equal(s.mac, s.of(key, r))
}

// of returns the HMAC-SHA-256 of a request: of its method, its target, the time, the nonce, and the SHA-256 of the body in hexadecimal
// digits, each followed by a line feed. No part can have one, so different requests never have the same content.
func (s Signature) of(key []byte, r Request) []byte {
	body := sha256.Sum256(r.Body)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\n%d\n%s\n%x\n", r.Method, r.Target, s.At.Unix(), s.Nonce, body)
	return mac.Sum(nil)
}

// Sign returns the header of a request. The signature has its time, nonce and name of the key.
func (s Signature) Sign(key []byte, r Request) string {
	return fmt.Sprintf("t=%d,n=%s,k=%s,v1=%x", s.At.Unix(), s.Nonce, s.Key, s.of(key, r))
}
