package webhook

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// proxy is one that answers for plain targets, and leads every tunnel to one address.
type proxy struct {
	URL    string
	tunnel string

	mu    sync.Mutex
	asked []string
}

func newProxy(t *testing.T, tunnel string) *proxy {
	t.Helper()
	p := &proxy{tunnel: tunnel}
	p.URL = serve(t, p.serve)
	return p
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
		return
	}
	if p.tunnel == "" {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	target, err := net.Dial("tcp", p.tunnel)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	client, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		target.Close()
		return
	}
	go func() {
		_, _ = io.Copy(target, client) // both ends say when they are done
		target.Close()
	}()
	_, _ = io.Copy(client, target)
	client.Close()
}

// heard returns what the proxy was asked for.
func (p *proxy) heard() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.asked, ", ")
}

func through(t *testing.T, text string) *Client {
	t.Helper()
	p, err := ParseProxy(text)
	if err != nil {
		t.Fatal(err)
	}
	return client(t, ClientConfig{Proxy: p, Resolver: fakeDNS(t, nil)}) // neither names nor private addresses are reached without it
}

func TestRequestsGoThroughTheProxy(t *testing.T) {
	t.Parallel()
	p := newProxy(t, "")
	if e := through(t, p.URL).Send(t.Context(), get(t, "http://inside.example/a?b=1")); !e.Answered() ||
		p.heard() != "GET http://inside.example/a?b=1" {
		t.Errorf("%s, the proxy heard %s", e.Error, p.heard())
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	p = newProxy(t, secure.Listener.Addr().String())
	e := through(t, p.URL).Send(t.Context(), get(t, "https://inside.example/a"))
	if got, want := failed(t, e), (failure{Throttle, CodeTLS, false}); got != want || p.heard() != "CONNECT inside.example:443" {
		t.Errorf("%+v %s, the proxy heard %s; want that the target's own certificate is not trusted", got, e.Error, p.heard())
	}
}

func TestAProxyThatDoesNotConnectRefusesWork(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := "http://" + l.Addr().String()
	l.Close()
	for address, says := range map[string]string{newProxy(t, "").URL: "it answers 407 Proxy Authentication Required", unused: "refused"} {
		e := through(t, address).Send(t.Context(), get(t, "https://inside.example/a"))
		if got, want := failed(t, e), (failure{Throttle, CodeDial, false}); got != want || !strings.Contains(e.Error, says) {
			t.Errorf("%+v %s", got, e.Error)
		}
	}
}

// A proxy is inside the network, so what is given as an address meets the guard before it is requested, after a
// redirect too.
func TestAddressesMeetTheGuardBeforeTheProxy(t *testing.T) {
	t.Parallel()
	p := newProxy(t, "")
	c := through(t, p.URL)
	for _, target := range []string{"http://10.0.0.1/", "http://localhost/", "http://a.localhost./",
		"http://[::ffff:169.254.169.254]/", "https://192.168.1.1/"} {
		if got, want := failed(t, c.Send(t.Context(), get(t, target))), (failure{Fatal, CodeRefused, false}); got != want || p.heard() != "" {
			t.Errorf("%s: %+v, the proxy heard %q", target, got, p.heard())
		}
	}
	call := get(t, "http://inside.example/?to=http://10.0.0.1/")
	call.follow = true
	if got := failed(t, c.Send(t.Context(), call)); got.Code != CodeRefused {
		t.Errorf("redirected: %+v", got)
	}
	allowed := client(t, ClientConfig{Proxy: mustProxy(t, p.URL), Guard: Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
	if e := allowed.Send(t.Context(), get(t, "http://10.0.0.1/")); !e.Answered() {
		t.Errorf("a network that is let through: %s", e.Error)
	}
}

func mustProxy(t *testing.T, text string) Proxy {
	t.Helper()
	p, err := ParseProxy(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheEnvironmentCountsWhenItIsNamed(t *testing.T) {
	p, direct := newProxy(t, ""), false
	target := serve(t, func(http.ResponseWriter, *http.Request) { direct = true })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(target, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		t.Setenv(name, p.URL)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		t.Setenv(name, "direct.example")
	}
	dns := fakeDNS(t, func(string) netip.Addr { return netip.MustParseAddr("127.0.0.1") })
	ignoring := client(t, ClientConfig{Guard: loopback(), Resolver: dns})
	if e := ignoring.Send(t.Context(), get(t, "http://inside.example:"+port)); !e.Answered() || !direct || p.heard() != "" {
		t.Errorf("unless it is named: %s, the proxy heard %q", e.Error, p.heard())
	}
	heeding := client(t, ClientConfig{Proxy: mustProxy(t, FromEnvironment), Resolver: dns})
	if e := heeding.Send(t.Context(), get(t, "http://inside.example/")); !e.Answered() || p.heard() != "GET http://inside.example/" {
		t.Errorf("when it is named: %s, the proxy heard %q", e.Error, p.heard())
	}
	if got := failed(t, heeding.Send(t.Context(), get(t, "http://direct.example:"+port))); got.Code != CodeRefused {
		t.Errorf("what goes without the proxy meets the guard: %+v", got)
	}
}

func TestProxiesAreNamedByAddress(t *testing.T) {
	for text, want := range map[string]string{
		"http://proxy.example.org:3128": "proxy.example.org:3128", "https://proxy.example.org": "proxy.example.org:443",
		"socks5://10.0.0.7": "10.0.0.7:1080", "proxy.example.org:3128": "", "ftp://proxy.example.org": "", "http://": "", "true": "",
		"http://ana:hunter2@proxy.example.org": "",
	} {
		p, err := ParseProxy(text)
		if diff := cmp.Diff(want, strings.Join(p.addresses, " ")); diff != "" || (err == nil) != (want != "") {
			t.Errorf("%s: %v, %s", text, err, diff)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error quotes a password: %v", err)
		}
	}
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		t.Setenv(name, "http://ana:hunter2@[proxy")
	}
	if _, err := ParseProxy(FromEnvironment); err == nil || strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("a wrong environment: %v", err)
	}
}
