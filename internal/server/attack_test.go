package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestAPlanOfAHostileDefinitionHasASmallAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	long := strings.Repeat("k", 500)
	for name, source := range map[string]string{
		"8 MB of pairs":              strings.Repeat("a: 1\n", 1_600_000),
		"repeated keys":              strings.Repeat("a: 1\n", 90_000),
		"unknown keys":               strings.Repeat("x"+long+": 1\n", 1000),
		"unknown keys in a long one": "pipeline: greeter\n" + strings.Repeat("s", 1<<20) + ": {" + strings.Repeat("true: 1, ", 30_000) + "}\n",
		"a syntax error at its end":  strings.Repeat("a: 1\n", 90_000) + "b: [\n",
	} {
		status, body, _ := s.ask(t, "POST", "/api/v1/pipelines/greeter/plan", source, "Content-Type", "application/yaml", "Authorization", bearer)
		if status != 400 || len(body) > 512<<10 || !strings.Contains(body, `"problems":`) {
			t.Errorf("%s: %d with %d bytes, want 400 with problems and few bytes: %.300s", name, status, len(body), body)
		}
	}
}

// TestEveryReasonIsBounded: people's texts stay in the log, and on every page about what it is for.
func TestEveryReasonIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	ref := s.Ship(t, "greeter", "3f2c9a1")
	longest := strings.Repeat("é", 1000)
	commands := func(reason string) map[string]error {
		all := map[string]error{
			"approve":  onlyError(s.Service.Approve(t.Context(), service.Approval{Pipeline: "greeter", Stage: "prod", By: "ana", Reason: reason})),
			"freeze":   onlyError(s.Service.Freeze(t.Context(), "greeter", admission.Freeze{By: "ana", Reason: reason})),
			"thaw":     onlyError(s.Service.Thaw(t.Context(), "greeter", "ana", reason)),
			"reject":   onlyError(s.Service.RejectRevision(t.Context(), "greeter", "3f2c9a1", "ana", reason)),
			"accept":   onlyError(s.Service.AcceptRevision(t.Context(), "greeter", "3f2c9a1", "ana", reason)),
			"rollback": onlyError(s.Service.Rollback(t.Context(), service.TargetRequest{Pipeline: "greeter", Reason: reason})),
			"catch-up": onlyError(s.Service.CatchUp(t.Context(), service.TargetRequest{Pipeline: "greeter", Reason: reason})),
			"lane":     onlyError(s.Service.Limit(t.Context(), "step/x", queue.LimitCommand{Kind: "pause", Reason: reason})),
		}
		for _, kind := range []string{"retry", "skip", "hold", "resume", "until", "alarm", "cancel"} {
			all[kind] = s.Service.Command(t.Context(), ref, service.Command{Kind: kind, By: "ana", Reason: reason})
		}
		return all
	}
	for name, err := range commands(longest + "é") {
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "the reason has 1001 characters, 1000 are allowed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range commands(longest) {
		if err != nil && strings.Contains(err.Error(), "characters") {
			t.Errorf("%s with a reason of 1000 characters: %v", name, err)
		}
	}
}

// TestNoCookieIsGoodForTheWholeMachine logs in on loopback. Browsers send a cookie to every port of a host, so one for 127.0.0.1
// would reach every server there.
func TestNoCookieIsGoodForTheWholeMachine(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	own, cookie := s.loginOnLoopback(t)
	const hold = "/api/v1/deployments/greeter%239/hold"
	for host, want := range map[string]int{own: 404, own + ":7070": 404, "127.0.0.1:7070": 401, "localhost": 401,
		"waybill-0123456789abcdef.localhost": 403, "evil." + own: 403} {
		if status, body, _ := s.ask(t, "POST", hold, "", "Cookie", cookie, "Host", host); status != want {
			t.Errorf("a change by the cookie at %s: %d, want %d: %s", host, status, want, body)
		}
	}
	if status, _, _ := s.ask(t, "POST", hold, "", "Authorization", bearer); status != 404 {
		t.Errorf("a change by a token at 127.0.0.1: %d, want 404", status)
	}
	for path, asked := range map[string]string{"/healthz": "", "/login": "", "/": "text/html", "/api/v1/status": ""} {
		if _, body, header := s.ask(t, "GET", path, "", "Accept", asked); strings.Contains(body, own) ||
			strings.Contains(header.Get("Location"), own) {
			t.Errorf("%s shows the home's own name to a client without a token", path)
		}
	}
}

// loginOnLoopback logs in by a token at localhost. It returns the home's own name, to which the browser is sent, and the cookie.
func (s *testServer) loginOnLoopback(t *testing.T) (own, cookie string) {
	t.Helper()
	u, err := url.Parse(s.api.LoginURL("ana"))
	if err != nil {
		t.Fatal(err)
	}
	own = u.Hostname()
	if !strings.HasPrefix(own, "waybill-") || !strings.HasSuffix(own, ".localhost") || len(own) < len("waybill-.localhost")+16 {
		t.Fatalf("the login address is %s, want a name of the home's own below .localhost", u)
	}
	status, body, header := s.ask(t, "GET", u.RequestURI(), "")
	if status != 200 || header.Get("Set-Cookie") != "" || strings.Contains(body, own) {
		t.Errorf("a code at 127.0.0.1: %d with cookie %q, want the form", status, header.Get("Set-Cookie"))
	}
	form := url.Values{"token": {homeToken}, "next": {"/actions"}}.Encode()
	status, _, header = s.ask(t, "POST", "/login", form, "Content-Type", "application/x-www-form-urlencoded", "Host", "localhost:8000")
	there, err := url.Parse(header.Get("Location"))
	if status != http.StatusSeeOther || err != nil || there.Host != own+":8000" || header.Get("Set-Cookie") != "" {
		t.Fatalf("a token at localhost: %d to %s with cookie %q, want it sent to %s:8000", status, there, header.Get("Set-Cookie"), own)
	}
	status, _, header = s.ask(t, "GET", there.RequestURI(), "", "Host", there.Host)
	if status != http.StatusSeeOther || header.Get("Location") != "/actions" || header.Get("Set-Cookie") == "" {
		t.Fatalf("its code at the home's name: %d to %q with cookie %q", status, header.Get("Location"), header.Get("Set-Cookie"))
	}
	cookie, _, _ = strings.Cut(header.Get("Set-Cookie"), ";")
	return own, cookie
}

func TestARedirectAfterTheLoginStaysHere(t *testing.T) {
	t.Parallel()
	s := serve(t, "0.0.0.0:7070")
	for next, want := range map[string]string{
		"/actions?live=1":              "/actions?live=1",
		"/pipelines/a%2Fb":             "/pipelines/a%2Fb",
		"":                             "/",
		"actions":                      "/",
		"//evil.example/":              "/",
		`/\evil.example`:               "/",
		`/./\evil.example`:             "/",
		"/\t/evil.example":             "/",
		"/\n/evil.example":             "/",
		"/..//evil.example":            "/evil.example",
		"https://evil.example":         "/",
		"/.//evil.example":             "/evil.example",
		"javascript:alert(1)":          "/",
		"https:evil.example":           "/",
		"///evil.example":              "/evil.example",
		"/x/..//evil.example?y=1#frag": "/evil.example?y=1",
	} {
		form := url.Values{"token": {homeToken}, "next": {next}}.Encode()
		status, _, header := s.ask(t, "POST", "/login", form, "Content-Type", "application/x-www-form-urlencoded")
		if got := header.Get("Location"); status != http.StatusSeeOther || got != want {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
	}
}

func TestForwardedRequestsAreNotThisMachines(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	for _, header := range [][2]string{
		{"Forwarded", "for=unknown"}, {"Via", "1.1 edge"}, {"CDN-Loop", "cdn"}, {"X-Forwarded-Proto", "https"}, {"X-Forwarded-Host", "a.example"},
		{"X-Original-Forwarded-For", "unknown"}, {"X-Real-IP", "unknown"}, {"X-Forwarded-For", "203.0.113.9"},
		{"CF-Connecting-IP", "203.0.113.9"},
		{"CF-Connecting-IPv6", "2001:db8::9"}, {"True-Client-IP", "203.0.113.9"}, {"Fly-Client-IP", "203.0.113.9"},
		{"X-Cluster-Client", "203.0.113.9, 10.0.0.1"}, {"X-Envoy-External-Address", "203.0.113.9"}, {"X-Azure-SocketAddress", "203.0.113.9:4711"},
		{"X-Whatever-Comes-Next", "[2001:db8::9]:4711"}, {"Client", "[2001:db8::9]"},
	} {
		if status, _, _ := s.ask(t, "GET", "/api/v1/pipelines", "", header[:]...); status != 401 {
			t.Errorf("reading with %s: %d, want 401", header, status)
		}
		if status, _, _ := s.ask(t, "GET", "/api/v1/pipelines", "", append(header[:], "Authorization", bearer)...); status != 200 {
			t.Errorf("reading with %s and a token: %d, want 200", header, status)
		}
	}
}

// TestRequestsOfHTTP10AreNotThisMachines: by default nginx uses HTTP/1.0 and adds no headers.
func TestRequestsOfHTTP10AreNotThisMachines(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	for version, want := range map[string]int{"1.0": 401, "1.1": 200} {
		r, err := http.ReadRequest(bufio.NewReader(
			strings.NewReader("GET /api/v1/pipelines HTTP/" + version + "\r\nHost: 127.0.0.1:7070\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		s.api.Handler().ServeHTTP(answer, r)
		if answer.Code != want {
			t.Errorf("HTTP/%s: %d, want %d", version, answer.Code, want)
		}
	}
}

// TestBrowsersOfThisMachineRead: headers of browsers and programs on this machine are not mistaken for those of a proxy.
func TestBrowsersOfThisMachineRead(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	for _, header := range [][2]string{
		{"User-Agent",
			"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"},
		{"Referer", "http://127.0.0.1:7070/"},
		{"Sec-CH-UA-Full-Version", `"120.0.0.0"`}, {"Accept-Language", "de,en;q=0.5"}, {"Upgrade-Insecure-Requests", "1"},
		{"DNT", "1"}, {"Cookie", "a=127.0.0.1"},
		{"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {"Last-Event-ID", "7"},
	} {
		if status, answer, _ := s.ask(t, "GET", "/api/v1/pipelines", "", header[:]...); status != 200 {
			t.Errorf("reading with %s: %d %s", header, status, answer)
		}
	}
}

// TestBehindAProxy puts a reverse proxy in front of a server on loopback, with the headers of docs/operate.md and without any.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	public := &url.URL{Scheme: "https", Host: "waybill.example.org"}
	api := server.New(w.Service, server.Options{Listen: "127.0.0.1:7070", URL: public, Token: homeToken})
	back := httptest.NewServer(api.Handler())
	t.Cleanup(back.Close)
	target, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := func(rewrite func(*httputil.ProxyRequest)) *testServer {
		front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			rewrite(r)
		}})
		t.Cleanup(front.Close)
		return &testServer{World: w, Server: front, api: api}
	}
	silent := proxy(func(*httputil.ProxyRequest) {})
	if status, _, _ := silent.ask(t, "GET", "/api/v1/pipelines", ""); status != 401 {
		t.Errorf("reading through a proxy that says nothing: %d, want 401", status)
	}
	good := proxy(func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host; r.SetXForwarded() })
	host := []string{"Host", "waybill.example.org"}
	if status, _, _ := good.ask(t, "GET", "/api/v1/pipelines", "", host...); status != 401 {
		t.Errorf("reading through a proxy without a token: %d, want 401", status)
	}
	if status, _, _ := good.ask(t, "GET", "/api/v1/pipelines", "", append(host, "Authorization", bearer)...); status != 200 {
		t.Errorf("reading through a proxy with a token: %d, want 200", status)
	}
	if status, _, _ := good.ask(t, "GET", "/api/v1/pipelines", "", "Host", "evil.example", "Authorization", bearer); status != 403 {
		t.Errorf("another host: %d, want 403", status)
	}
	login, err := url.Parse(api.LoginURL("ana"))
	if err != nil || login.Scheme != "https" || login.Host != public.Host {
		t.Fatalf("the login address is %s, want one of %s", login, public)
	}
	status, _, header := good.ask(t, "GET", login.RequestURI(), "", host...)
	cookie := header.Get("Set-Cookie")
	if status != http.StatusSeeOther || !strings.Contains(cookie, "Secure") {
		t.Errorf("login: %d with cookie %q, want it for https only", status, cookie)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	if status, _, _ := good.ask(t, "GET", "/api/v1/pipelines", "", append(host, "Cookie", cookie)...); status != 200 {
		t.Errorf("reading with the cookie: %d, want 200", status)
	}
	if status, _, _ := good.ask(t, "POST", "/api/v1/deployments/greeter%239/hold", "",
		append(host, "Cookie", cookie, "Origin", "https://waybill.example.org")...); status != 404 {
		t.Errorf("a button behind the proxy: %d, want 404", status)
	}
}

func TestAnswersAreNotKept(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	for _, path := range []string{"/api/v1/pipelines", "/api/v1/nothing", "/api/v1/openapi.json", "/healthz", "/login"} {
		if _, _, header := s.ask(t, "GET", path, ""); header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control %q, want no-store", path, header.Get("Cache-Control"))
		}
	}
}

func TestTextCannotEndItsOwnEvent(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	server.ServeEvents(w, r, func(_ context.Context, s *server.EventStream) error {
		return s.Text("1", "content", "a\r\revent: content\rdata: X\r\n\r\nid: 9\n\nb")
	})
	_, events, _ := strings.Cut(w.Body.String(), "\n\n")
	want := "id: 1\nevent: content\n"
	for _, line := range []string{"a", "", "event: content", "data: X", "", "id: 9", "", "b"} {
		want += "data: " + line + "\n"
	}
	want += "\n"
	if events != want {
		t.Errorf("got %q, want %q", events, want)
	}
}

func TestReplacingTheActionOfAnotherNeedsOperate(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	storeToken(t, s.Ledger, "ann", "the-token-of-ann-1", "execute")
	storeToken(t, s.Ledger, "ben", "the-token-of-ben-1", "execute")
	storeToken(t, s.Ledger, "ops", "the-token-of-ops-1", "execute", "operate")
	body := `{"handler": "work", "uniqueKey": "k", "onConflict": "replace", "at": "` + time.Now().Add(time.Hour).UTC().
		Format(time.RFC3339) + `"}`
	for _, step := range []struct {
		token string
		want  int
	}{{"the-token-of-ann-1", 201}, {"the-token-of-ben-1", 403}, {"the-token-of-ann-1", 201}, {"the-token-of-ops-1", 201},
		{"the-token-of-ann-1", 403}} {
		status, answer, _ := s.ask(t, "POST", "/api/v1/actions", body, "Authorization", "Bearer "+step.token, "Content-Type", "application/json")
		if status != step.want {
			t.Errorf("%s: %d, want %d: %s", step.token, status, step.want, answer)
		}
	}
}

func TestUploadsAreBoundedAndBelongToAPipeline(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	s.Service.LargestUpload = 1000
	large, fits := strings.Repeat("x", 1001), strings.Repeat("x", 1000)
	for _, upload := range []struct {
		name, path, body string
		want             int
	}{
		{"no pipeline", "/api/v1/pipelines/none/revisions/x/snapshot", fits, 404},
		{"too large", "/api/v1/pipelines/greeter/revisions/x/snapshot", large, 413},
		{"just right", "/api/v1/pipelines/greeter/revisions/x/snapshot", fits, 200},
		{"once more", "/api/v1/pipelines/greeter/revisions/x/snapshot", fits, 200},
		{"an artifact without a revision", "/api/v1/pipelines/greeter/revisions/x/artifacts/any", fits, 404},
	} {
		status, body, _ := s.ask(t, "PUT", upload.path, upload.body, "Authorization", bearer)
		if status != upload.want {
			t.Errorf("%s: %d, want %d: %s", upload.name, status, upload.want, body)
		}
	}
}

// TestAnUploadOfARegisteredRevisionStoresWhatIsLost: the answer has the registered key, under which the bytes are stored again.
func TestAnUploadOfARegisteredRevisionStoresWhatIsLost(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	const path = "/api/v1/pipelines/greeter/revisions/x/snapshot"
	ask := func(content string) (status int, key string) {
		t.Helper()
		status, body, _ := s.ask(t, "PUT", path, content, "Authorization", bearer)
		var answer struct{ Key string }
		_ = json.Unmarshal([]byte(body), &answer) // a refusal has no key
		return status, answer.Key
	}
	_, key := ask("files")
	if _, err := s.Service.Register(t.Context(),
		pipeline.RegisteredRevision{Pipeline: "greeter", Label: "x", Snapshot: key}, false, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs.Clear(t.Context(), "upload"); err != nil {
		t.Fatal(err)
	}
	status, again := ask("files")
	stored, err := s.Service.Snapshot(t.Context(), "greeter", "x")
	if status != 200 || again != key || err != nil || !stored.Stored {
		t.Errorf("%d with %s, stored %v, %v; want the registered key %s and its bytes", status, again, stored, err, key)
	}
	if status, _ := ask("other files"); status != 409 {
		t.Errorf("other content: %d, want 409", status)
	}
}
