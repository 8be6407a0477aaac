package client

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/operation"
)

// ErrUnproven is the error of a connection to a program that did not prove that it has the token.
var ErrUnproven = errors.New("the server did not prove that it has the token of this home")

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

// requireProof requests the proof on a new connection, which is at its beginning again afterwards.
func requireProof(conn net.Conn, base *url.URL, token string) error {
	raw := make([]byte, operation.NonceSize)
	_, _ = rand.Read(raw) // it never fails
	nonce := hex.EncodeToString(raw)
	health := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + "/healthz"}
	ask := &http.Request{Method: http.MethodGet, URL: health, Host: base.Host, Header: http.Header{operation.NonceHeader: {nonce}}}
	if err := conn.SetDeadline(time.Now().Add(operation.ProofWithin)); err != nil {
		return err
	}
	if err := ask.Write(conn); err != nil {
		return err
	}
	reader := bufio.NewReaderSize(io.LimitReader(conn, mostAnswerHeader), mostAnswerHeader) // http.ReadResponse keeps a header without bound
	answer, err := http.ReadResponse(reader, ask)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	defer answer.Body.Close()
	if _, err := io.CopyN(io.Discard, answer.Body, mostAnswerHeader); !errors.Is(err, io.EOF) || reader.Buffered() > 0 || answer.Close {
		return ErrUnproven
	}
	if want := operation.ProofOf(token, nonce, base.Host); !hmac.Equal([]byte(answer.Header.Get(operation.ProofHeader)), []byte(want)) {
		return ErrUnproven
	}
	return conn.SetDeadline(time.Time{})
}
