package webhook

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/address"
	"github.com/waybill-dev/waybill/internal/secret"
)

// loopback lets the listeners of these tests through the guard.
func loopback() Guard { return Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}} }

func client(t *testing.T, cfg ClientConfig) *Client {
	t.Helper()
	c := NewClient(cfg)
	t.Cleanup(c.Close)
	return c
}

// get returns a call without headers or body.
func get(t *testing.T, address string) Call {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return Call{Method: http.MethodGet, URL: u, Header: http.Header{}}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// listen accepts connections and hands each to do, which must close it.
func listen(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			do(c)
		}
	}()
	return "http://" + l.Addr().String()
}

// failure is how an exchange failed.
type failure struct {
	Verdict Verdict
	Code    string
	Sent    bool
}

func failed(t *testing.T, e *Exchange) failure {
	t.Helper()
	if e.Answered() {
		t.Fatalf("answered %d", e.Response.Status)
	}
	verdict, code, text := e.Failure()
	if text == "" || e.Error == "" {
		t.Errorf("no words: %q, %q", text, e.Error)
	}
	return failure{verdict, code, e.Sent}
}

func TestFaultyTargets(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := "http://" + closed.Addr().String()
	closed.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	plainText := serve(t, func(http.ResponseWriter, *http.Request) {})
	tests := map[string]struct {
		address string
		want    failure
	}{
		"connection refused": {unused, failure{Throttle, CodeDial, false}},
		"closes early":       {listen(t, func(c net.Conn) { c.Close() }), failure{Error, CodeConnection, true}},
		"closes in its answer": {listen(t, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			c.Close()
		}), failure{Error, CodeConnection, true}},
		"no HTTP": {listen(t, func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-x\r\n\r\n"); c.Close() }), failure{Error, CodeConnection, true}},
		"huge header": {serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().
				Set("X", strings.Repeat("x", 70<<10))
		}), failure{Error, CodeConnection, true}},
		"not trusted":     {untrusted.URL, failure{Throttle, CodeTLS, false}},
		"no TLS":          {strings.Replace(plainText, "http:", "https:", 1), failure{Throttle, CodeTLS, false}},
		"no such name":    {"http://nowhere.invalid/", failure{Throttle, CodeDNS, false}},
		"private address": {"http://10.0.0.1/", failure{Fatal, CodeRefused, false}},
		"metadata":        {"http://169.254.169.254/latest", failure{Fatal, CodeRefused, false}},
		"mapped":          {"http://[::ffff:10.0.0.1]/", failure{Fatal, CodeRefused, false}},
	}
	c := client(t, ClientConfig{Guard: loopback(), Resolver: fakeDNS(t, nil)})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := c.Send(t.Context(), get(t, test.address))
			if diff := cmp.Diff(test.want, failed(t, e)); diff != "" {
				t.Errorf("%s: %s", e.Error, diff)
			}
		})
	}
}

func TestATargetThatNeverAnswersRefusesWork(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	ctx, cancel := context.WithCancelCause(t.Context())
	timeout := &timeoutContext{Context: ctx}
	go func() { <-asked; timeout.expired.Store(true); cancel(context.DeadlineExceeded) }()
	e := client(t, ClientConfig{Guard: loopback()}).Send(timeout, get(t, address))
	if diff := cmp.Diff(failure{Throttle, CodeTimeout, true}, failed(t, e)); diff != "" {
		t.Error(diff)
	}
}

// timeoutContext is a context whose deadline passes when the test says so.
type timeoutContext struct {
	context.Context
	expired atomic.Bool
}

func (c *timeoutContext) Err() error {
	if err := c.Context.Err(); err == nil || !c.expired.Load() {
		return err
	}
	return context.DeadlineExceeded
}

func TestCanceledIsToldByItsCause(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	go func() { <-asked; cancel(enough) }()
	e := client(t, ClientConfig{Guard: loopback()}).Send(ctx, get(t, address))
	if !errors.Is(e.err, enough) || !e.Sent {
		t.Errorf("%v, sent %v", e.err, e.Sent)
	}
}

func TestEndlessAndBinaryAnswersAreCut(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat("\xff\x00", 1<<10))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	e := client(t, ClientConfig{Guard: loopback()}).Send(t.Context(), get(t, address))
	if !e.Answered() || !e.Response.Cut || len(e.Answer().Body) != maxResponse || e.Response.Body != "" || e.Response.BodyBase64 == "" {
		t.Errorf("%v, cut %v, %d bytes", e.err, e.Response.Cut, len(e.body))
	}
}

func TestWhatIsSentIsWhatIsTold(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%s %s %s %s %s", r.Method, r.Host, r.URL, r.Header.Get("X-A"), body)
		w.Header().Set("X-B", "b")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "short and stout")
	})
	call := get(t, address+"/x?y=1")
	call.Method, call.Body = http.MethodPost, "text"
	call.Header.Set("X-A", "a")
	call.Header.Set("Host", "other.example.org")
	e := client(t, ClientConfig{Guard: loopback()}).Send(t.Context(), call)
	if want := "POST other.example.org /x?y=1 a text"; <-got != want {
		t.Errorf("want %s", want)
	}
	if e.Request.Body != "text" || e.Response.Status != http.StatusTeapot || e.Response.Body != "short and stout" ||
		e.Response.Header.Get("X-B") != "b" ||
		e.Timing.FirstByteMS <= 0 || e.Timing.EndedMS < e.Timing.FirstByteMS {
		t.Errorf("%+v", e)
	}
}

func TestRedirectsAreAnswersUnlessTheyAreFollowed(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			fmt.Fprint(w, "end")
			return
		}
		http.Redirect(w, r, "/end", http.StatusFound)
	})
	c := client(t, ClientConfig{Guard: loopback()})
	call := get(t, address)
	if e := c.Send(t.Context(), call); !e.Answered() || e.Response.Status != http.StatusFound {
		t.Errorf("%v", e.err)
	}
	call.follow = true
	if e := c.Send(t.Context(), call); !e.Answered() || e.Response.Body != "end" || len(e.Hops) != 1 {
		t.Errorf("%v %v", e.err, e.Hops)
	}
}

// TestNoRedirectDropsTheBody: after a 301 or 302 a client sends a GET instead of a POST, whose answer would say
// nothing about what was to be delivered. A 303 requests that GET.
func TestNoRedirectDropsTheBody(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if status, err := strconv.Atoi(r.URL.Path[1:]); err == nil {
			http.Redirect(w, r, "/end", status)
			return
		}
		body, _ := io.ReadAll(r.Body) // what is read is compared
		fmt.Fprintf(w, "%s %s", r.Method, body)
	})
	for status, want := range map[int]string{301: "", 302: "", 303: "GET ", 307: "POST text", 308: "POST text"} {
		call := get(t, fmt.Sprintf("%s/%d", address, status))
		call.Method, call.Body, call.follow = http.MethodPost, "text", true
		e := client(t, ClientConfig{Guard: loopback()}).Send(t.Context(), call)
		if want != "" {
			if !e.Answered() || e.Response.Body != want {
				t.Errorf("%d: %v, %+v", status, e.err, e.Response)
			}
		} else if got := failed(t, e); got.Code != CodeRedirect || !strings.Contains(e.Error, "a POST becomes a GET") {
			t.Errorf("%d: %+v", status, got)
		}
	}
}

func TestAtMostFiveRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("/%d", asked.Add(1)), http.StatusFound)
	})
	call := get(t, address)
	call.follow = true
	e := client(t, ClientConfig{Guard: loopback()}).Send(t.Context(), call)
	if diff := cmp.Diff(failure{Fatal, CodeRedirect, true}, failed(t, e)); diff != "" || asked.Load() != 6 {
		t.Errorf("%s asked %d times", diff, asked.Load())
	}
}

func TestARedirectMeetsTheGuard(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://10.1.2.3/inside", http.StatusFound)
	})
	call := get(t, address)
	call.follow = true
	e := client(t, ClientConfig{Guard: loopback()}).Send(t.Context(), call)
	if got := failed(t, e); got.Code != CodeRefused || !strings.Contains(e.Error, "10.1.2.3") {
		t.Errorf("%+v %s", got, e.Error)
	}
}

func TestNoCredentialCrossesHosts(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	call := get(t, address)
	call.Method, call.Body, call.follow, call.private = http.MethodPost, "harmless", true, []string{"X-Api-Key"}
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Harmless"} {
		call.Header.Set(name, "value")
	}
	c := client(t, ClientConfig{Guard: loopback()})
	if e := c.Send(t.Context(), call); !e.Answered() {
		t.Fatal(e.err)
	}
	header := <-got
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Referer"} {
		if header.Get(name) != "" {
			t.Errorf("%s arrived", name)
		}
	}
	if header.Get("X-Harmless") != "value" {
		t.Error("X-Harmless did not arrive")
	}
	call.sealed = true
	if got := failed(t, c.Send(t.Context(), call)); got.Code != CodeRedirect {
		t.Errorf("a body with a secret was sent on: %+v", got)
	}
}

// A name that first leads to an address that is let through, and then elsewhere, gains nothing.
func TestRebindingMeetsTheGuard(t *testing.T) {
	t.Parallel()
	address := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{"127.0.0.1", "10.9.8.7"}
	var asked atomic.Int32
	dns := fakeDNS(t, func(string) netip.Addr {
		return netip.MustParseAddr(addresses[min(int(asked.Add(1)), len(addresses))-1])
	})
	c := client(t, ClientConfig{Guard: loopback(), Resolver: dns, Once: true})
	if e := c.Send(t.Context(), get(t, "http://rebind.example:"+port)); !e.Answered() {
		t.Fatal(e.err)
	}
	e := c.Send(t.Context(), get(t, "http://rebind.example:"+port))
	if got := failed(t, e); got.Code != CodeRefused || !strings.Contains(e.Error, "10.9.8.7") {
		t.Errorf("%+v %s", got, e.Error)
	}
}

// fakeDNS answers questions for A with what answer says, and all others with nothing. With nil no
// name exists.
func fakeDNS(t *testing.T, answer func(name string) netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(reply(buffer[:n], answer), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// reply makes the answer to a DNS query with one question (RFC 1035).
func reply(query []byte, answer func(string) netip.Addr) []byte {
	end := 12
	var labels []string
	for query[end] != 0 {
		labels = append(labels, string(query[end+1:end+1+int(query[end])]))
		end += 1 + int(query[end])
	}
	question := query[12 : end+5]
	kind := binary.BigEndian.Uint16(query[end+1:])
	out := append(slices.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	out = append(out, question...)
	switch {
	case answer == nil:
		out[3] |= 3 // no such name
	case kind == 1:
		out[7] = 1
		address := answer(strings.Join(labels, ".")).As4()
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, address[:]...)
	}
	return out
}

func TestGuardKnowsThePrivateRanges(t *testing.T) {
	t.Parallel()
	refused := []string{"0.0.0.0", "10.255.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "169.254.169.254",
		"172.16.0.1", "172.31.255.255",
		"192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
		"240.0.0.1", "255.255.255.255",
		"168.63.129.16", "::", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1",
		"fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1", "3fff::1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::",
		"100::1", "5f00::1", "4000::1"}
	for _, text := range refused {
		err := Guard{}.Check(netip.MustParseAddr(text))
		if _, ok := errors.AsType[*address.Refused](err); !ok {
			t.Errorf("%s is let through", text)
		}
	}
	for _, text := range []string{"8.8.8.8", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:4700::1111",
		"64:ff9b::808:808", "2002:808:808::1"} {
		if err := (Guard{}).Check(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	allow := Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}}
	for text, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::a01:203": true,
		"10.2.0.1": false, "fd12::1": true, "fc12::1": false} {
		if got := allow.Check(netip.MustParseAddr(text)) == nil; got != want {
			t.Errorf("%s: let through %v, want %v", text, got, want)
		}
	}
}

func TestExchangesAreRedacted(t *testing.T) {
	t.Parallel()
	values := secret.Values{"token": "tok/en-1"}
	e := &Exchange{
		Request: Message{URL: "https://h/?k=tok%2Fen-1",
			Header: http.Header{"Authorization": {"Basic x"}, "X-Key": {"a tok/en-1"}}, Body: `{"k": "tok/en-1"}`},
		Response: &Message{Header: http.Header{"Set-Cookie": {"a=b"}}},
		Error:    "tok/en-1 is wrong", Hops: []string{"https://h/tok%2Fen-1"},
	}
	e.Response.setBody([]byte("\xfftok/en-1"))
	e.Redact(values.Redactor())
	want := &Exchange{
		Request: Message{URL: "https://h/?k=[secret:token]", Body: `{"k": "[secret:token]"}`,
			Header: http.Header{"Authorization": {"[secret:Authorization]"}, "X-Key": {"a [secret:token]"}}},
		Response: &Message{Header: http.Header{"Set-Cookie": {"[secret:Set-Cookie]"}}},
		Error:    "[secret:token] is wrong", Hops: []string{"https://h/[secret:token]"},
	}
	want.Response.setBody([]byte("\xff[secret:token]"))
	if diff := cmp.Diff(want, e, cmp.AllowUnexported(Exchange{})); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsAreRenderedAndSigned(t *testing.T) {
	t.Parallel()
	parse := func(field, text string) *Template {
		t.Helper()
		tmpl, err := ParseTemplate(field, text, names())
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	request := &Request{Method: http.MethodPost, URL: parse("url", "https://h/{{ .parameters.team }}"), Body: parse("body", vectorBody),
		Headers: []Header{{"Authorization", parse("Authorization", "Bearer {{ .secrets.token }}")}, {"X-Try", parse("X-Try", "{{ .attempt }}")}},
		Signing: []string{"key"}}
	d := Data{ID: vectorID, Attempt: 3, Parameters: map[string]any{"team": "web"}, Secrets: secret.Values{"token": "t", "key": vectorSecret}}
	call, err := request.Render(d, time.Unix(vectorTime, 0))
	if err != nil {
		t.Fatal(err)
	}
	if call.Header.Get("Webhook-Signature") != vectorResult || call.Header.Get("X-Try") != "3" || call.URL.String() != "https://h/web" ||
		!slices.Equal(call.private, []string{"Authorization"}) || call.sealed {
		t.Errorf("%+v", call)
	}
	for text, want := range map[string]string{"ftp://h": "is not an address", "/path": "is not an address",
		"https://u:p@h/": "does not belong in an address",
		"http://127.1/":  "neither a name nor an address", "http://0x7f000001/": "neither a name nor an address",
		"http://2130706433./": "neither a name nor an address"} {
		if _, err := (&Request{URL: parse("url", text)}).Render(d, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	request.Headers = []Header{{"X-Team", parse("X-Team", "{{ .parameters.team }}")}}
	d.Parameters["team"] = "a\r\nX-Injected: b"
	request.URL = parse("url", "https://h/")
	if _, err := request.Render(d, time.Now()); err == nil || !strings.Contains(err.Error(), "header X-Team") {
		t.Error(err)
	}
}

// TestEveryRequestNamesItsAction: signed or not, so that a target can recognise repetitions; and
// the program that sends it.
func TestEveryRequestNamesItsAction(t *testing.T) {
	t.Parallel()
	parse := func(field, text string) *Template {
		t.Helper()
		tmpl, err := ParseTemplate(field, text, names())
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	plain := Request{Method: http.MethodPost, URL: parse("url", "https://h/")}
	signed, named := plain, plain
	signed.Signing = []string{"key"}
	named.Headers = []Header{{"user-agent", parse("user-agent", "acme")}}
	for name, c := range map[string]struct {
		request Request
		agent   string
	}{"plain": {plain, "waybill"}, "signed": {signed, "waybill"}, "with its own agent": {named, "acme"}} {
		call, err := c.request.Render(Data{ID: vectorID, Attempt: 2, Secrets: secret.Values{"key": vectorSecret}}, time.Unix(vectorTime, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Header.Values("webhook-id"); !slices.Equal(got, []string{vectorID}) {
			t.Errorf("%s: webhook-id %q", name, got)
		}
		if got := call.Header.Values("User-Agent"); !slices.Equal(got, []string{c.agent}) {
			t.Errorf("%s: user agent %q", name, got)
		}
	}
}
