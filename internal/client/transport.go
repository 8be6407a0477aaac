package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

// Limits on what a command reads from a server, which may be another program.
const (
	answerWithin = 30 * time.Second // bounds the wait for the header of an answer, once the request is sent
	storedWithin = 15 * time.Minute // the same for uploads, which the server stores first
	bodyWithin   = 2 * time.Minute  // bounds the body of an answer that is read whole
	mostWhole    = 64 << 20         // bytes of such a body, and of an event of a stream
	mostProblem  = 1 << 20          // bytes of a problem
	mostRedirect = 5

	mostAnswerHeader = 64 << 10 // bytes
)

// dialer makes the connections of a transport; nil: the standard one.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// newHTTP returns an HTTP client that waits for the header of an answer for a time. It follows redirects to the same scheme, host
// and port only: the token goes along.
func newHTTP(within time.Duration, dial dialer) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout, transport.MaxResponseHeaderBytes = within, mostAnswerHeader
	if dial != nil {
		transport.DialContext, transport.Proxy = dial, nil
	}
	return &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		first := via[0].URL
		if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
			return fmt.Errorf("it redirects to %s://%s, and the token is only for %s://%s", next.URL.Scheme, next.URL.Host, first.Scheme, first.Host)
		}
		if len(via) > mostRedirect {
			return errors.New("it redirects again and again")
		}
		return nil
	}}
}

// line is a client of a server, with or without the token.
type line struct {
	token         string
	quick, stores *http.Client // clients of requests, and of uploads
}

func newLine(token string, dial dialer) *line {
	return &line{token: token, quick: newHTTP(answerWithin, dial), stores: newHTTP(storedWithin, dial)}
}

// lineFor returns the client for a request. A client of a home first finds out whether the server there is the home's; to
// another program it sends no token.
func (c *Client) lineFor(ctx context.Context) (*line, error) {
	if c.proven == nil {
		return c.open, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen != nil {
		return c.chosen, nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/healthz", nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "ask %s: %w", c.base, err)
	}
	answer, err := c.proven.quick.Do(r)
	switch {
	case errors.Is(err, ErrUnproven):
		c.chosen = c.open
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, c.unreachable(err)
	default:
		_ = answer.Body.Close() // nothing of it is wanted
		c.chosen = c.proven
	}
	return c.chosen, nil
}

// do sends a request, with the token if there is one.
func (l *line) do(r *http.Request) (*http.Response, error) {
	if l.token != "" {
		r.Header.Set("Authorization", "Bearer "+l.token)
	}
	if r.Header.Get("Content-Type") == operation.BinaryType {
		return l.stores.Do(r)
	}
	return l.quick.Do(r)
}

// withheld adds to a refusal that the home's token was not sent.
func (c *Client) withheld(used *line, err error) error {
	if c.proven == nil || used == c.proven || !fault.Is(err, fault.Unauthorized) {
		return err
	}
	return fault.Wrap(fault.Unauthorized, fmt.Errorf("%w (%w, so it was not sent)", err, ErrUnproven)).
		WithHint("is it the server of this home, and of this version?")
}

// unreachable returns the error of a request without an answer.
func (c *Client) unreachable(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return fault.New(fault.Unavailable, "ask %s: %w", c.base, err).WithHint("does waybill up run there?")
}

// boundedBody limits an answer that is read whole, in time and in size.
type boundedBody struct {
	io.ReadCloser
	left  int64
	timer *time.Timer
}

// errTooLong is the error for an answer above its limit.
var errTooLong = fmt.Errorf("the answer has more than %d bytes", mostWhole)

// bound limits the body of an answer that is read whole.
func bound(body io.ReadCloser) io.ReadCloser {
	return &boundedBody{ReadCloser: body, left: mostWhole, timer: time.AfterFunc(bodyWithin, func() { _ = body.Close() })}
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *boundedBody) Close() error {
	b.timer.Stop()
	return b.ReadCloser.Close()
}
