package server

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A server proves that it has the home's token before a command of the home sends it: once the server is down, any program of the
// machine can take its port. The command sends a nonce on each new connection, and the answer is a MAC of the nonce and of the place
// that was asked, with the token's hash as the key. A program in between gets no proof for a place of its own: the server
// proves only where it was asked itself.
const (
	nonceHeader = "Waybill-Nonce"
	proofHeader = "Waybill-Proof"
	nonceSize   = 32 // bytes
	proofWithin = 5 * time.Second
)

// proofOf returns the proof that the holder of a token gives for a nonce, both in hex.
func proofOf(token, nonce, host string) string {
	key := sha256.Sum256([]byte(token))
	mac := hmac.New(sha256.New, key[:])
	_, _ = fmt.Fprintf(mac, "waybill proof 1\n%s\n%s\n", nonce, host) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}

// prove answers a nonce, if there is one and the request came to the place that it asks for.
func (a *access) prove(w http.ResponseWriter, r *http.Request) {
	nonce := r.Header.Get(nonceHeader)
	if raw, err := hex.DecodeString(nonce); err != nil || len(raw) != nonceSize || !a.isAsked(r) {
		return
	}
	w.Header().Set(proofHeader, proofOf(a.token, nonce, r.Host))
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

// errUnproven is the error of a connection to a program that did not prove that it has the token.
var errUnproven = errors.New("the server did not prove that it has the token of this home")

// proving returns a dialer whose connections lead to a server that has the token.
func proving(base *url.URL, token string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := requireProof(conn, base, token); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
}

// requireProof asks for the proof on a new connection, which is at its beginning again afterwards.
func requireProof(conn net.Conn, base *url.URL, token string) error {
	raw := make([]byte, nonceSize)
	_, _ = rand.Read(raw) // it never fails
	nonce := hex.EncodeToString(raw)
	health := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + "/healthz"}
	ask := &http.Request{Method: http.MethodGet, URL: health, Host: base.Host, Header: http.Header{nonceHeader: {nonce}}}
	if err := conn.SetDeadline(time.Now().Add(proofWithin)); err != nil {
		return err
	}
	if err := ask.Write(conn); err != nil {
		return err
	}
	reader := bufio.NewReaderSize(io.LimitReader(conn, mostAnswerHeader), mostAnswerHeader) // http.ReadResponse keeps a header without bound
	answer, err := http.ReadResponse(reader, ask)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnproven, err)
	}
	defer answer.Body.Close()
	if _, err := io.CopyN(io.Discard, answer.Body, mostAnswerHeader); !errors.Is(err, io.EOF) || reader.Buffered() > 0 || answer.Close {
		return errUnproven
	}
	if want := proofOf(token, nonce, base.Host); !hmac.Equal([]byte(answer.Header.Get(proofHeader)), []byte(want)) {
		return errUnproven
	}
	return conn.SetDeadline(time.Time{})
}
