package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/address"
	"github.com/waybill-dev/waybill/internal/secret"
)

// Exchange is one request and what came of it: the evidence that is archived.
type Exchange struct {
	Action   string   `json:"action"`
	Attempt  int      `json:"attempt"`
	Request  Message  `json:"request"`
	Response *Message `json:"response,omitempty"` // absent when there was none
	Timing   Timing   `json:"timing"`
	Error    string   `json:"error,omitempty"`
	Hops     []string `json:"hops,omitempty"` // addresses that redirects led to
	Sent     bool     `json:"sent"`           // a connection was there: the target may have seen the request
	header   http.Header
	body     []byte
	err      error
}

// Message is one side of an exchange.
type Message struct {
	Method     string      `json:"method,omitempty"`
	URL        string      `json:"url,omitempty"`
	Status     int         `json:"status,omitempty"`
	Header     http.Header `json:"header,omitempty"`
	Body       string      `json:"body,omitempty"`
	BodyBase64 string      `json:"bodyBase64,omitempty"` // instead of Body when that is not text
	Cut        bool        `json:"cut,omitempty"`        // the body is longer than what was kept
}

// Timing is when an exchange began and how long its parts took.
type Timing struct {
	StartedAt   time.Time `json:"startedAt"`
	ConnectedMS float64   `json:"connectedMs,omitempty"` // time from the start to the connection
	FirstByteMS float64   `json:"firstByteMs,omitempty"` // time from the start to the answer
	EndedMS     float64   `json:"endedMs"`
}

// Answered reports whether there is an answer to judge.
func (e *Exchange) Answered() bool { return e.err == nil && e.Response != nil }

// Answer returns the answer of the target; use it only if Answered.
func (e *Exchange) Answer() Answer {
	return Answer{Status: e.Response.Status, Header: e.header, Body: e.body}
}

// Took returns how long the exchange took.
func (e *Exchange) Took() time.Duration {
	return time.Duration(e.Timing.EndedMS * float64(time.Millisecond)).Round(time.Millisecond)
}

// Codes of exchanges without an answer.
const (
	CodeRefused    = "address_refused" // the guard said no
	CodeDNS        = "dns_error"
	CodeDial       = "dial_error"
	CodeTLS        = "tls_error"
	CodeTimeout    = "no_answer"       // nothing came in time
	CodeConnection = "connection_lost" // it broke, or what came was no HTTP
	CodeRedirect   = "redirect_refused"
)

// Failure returns why an answer is missing and what that means: news about the target is throttle.
func (e *Exchange) Failure() (verdict Verdict, code, text string) {
	text = plain(e.err)
	if refused, ok := errors.AsType[*address.Refused](e.err); ok {
		return Fatal, CodeRefused, refused.Error()
	}
	if errors.Is(e.err, errRedirect) {
		return Fatal, CodeRedirect, text
	}
	if _, ok := errors.AsType[*net.DNSError](e.err); ok {
		return Throttle, CodeDNS, text
	}
	if isTLS(e.err) {
		return Throttle, CodeTLS, text
	}
	timeout, ok := errors.AsType[net.Error](e.err)
	late := ok && timeout.Timeout() && e.Response == nil
	switch {
	case !e.Sent && late:
		return Throttle, CodeDial, "no connection in time"
	case !e.Sent:
		return Throttle, CodeDial, text
	case late:
		return Throttle, CodeTimeout, "no answer in time"
	}
	return Error, CodeConnection, text
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch) || strings.Contains(err.Error(), "tls: ") // other TLS errors have no type
}

// plain returns an error without net/http's words about method and address, which the exchange has.
func plain(err error) string {
	if err == nil {
		return ""
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return err.Error()
}

// credentials are headers whose values are never written down.
var credentials = []string{"Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization"}

// Redact takes every secret out of what is written down of the exchange.
func (e *Exchange) Redact(r *secret.Redactor) {
	e.Error = r.Text(e.Error)
	for i, hop := range e.Hops {
		e.Hops[i] = r.Text(hop)
	}
	e.Request.redact(r)
	if e.Response != nil {
		e.Response.redact(r)
	}
}

func (m *Message) redact(r *secret.Redactor) {
	m.URL, m.Body = r.Text(m.URL), r.Text(m.Body)
	header := http.Header{}
	for name, values := range m.Header {
		for _, value := range values {
			if slices.Contains(credentials, name) {
				header.Add(name, secret.Mark(name))
				continue
			}
			header.Add(r.Text(name), r.Text(value))
		}
	}
	m.Header = header
	if m.BodyBase64 != "" {
		m.redactBytes(r)
	}
}

// redactBytes searches for secrets in a body that is not text.
func (m *Message) redactBytes(r *secret.Redactor) {
	bytes, err := base64.StdEncoding.DecodeString(m.BodyBase64)
	if err != nil {
		return // it was made by setBody
	}
	m.BodyBase64 = base64.StdEncoding.EncodeToString([]byte(r.Text(string(bytes))))
}

// setBody keeps a body as text where it is some.
func (m *Message) setBody(body []byte) {
	if utf8.Valid(body) {
		m.Body = string(body)
		return
	}
	m.BodyBase64 = base64.StdEncoding.EncodeToString(body)
}
