package page_test

import (
	"bufio"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

const homeToken = "a-token-of-the-home"

// templates has a page that fits, a file without the template of its name, and a template that calls
// an unknown function.
var templates = fstest.MapFS{
	"templates/note.html": {
		Data: []byte(`{{define "note"}}<p>{{shout .Data}}{{template "state" args "tone" (tone "failed") "word" "no"}}</p>{{end}}`)},
	"templates/empty.html":   {Data: []byte(`{{define "other"}}{{end}}`)},
	"templates/unknown.html": {Data: []byte(`{{define "unknown"}}{{whisper}}{{end}}`)},
}

// site is a site with the address at which it is served.
type site struct {
	*page.Site
	*servertest.World
	url string
}

// serve starts a site with one page, which load fills, and a form, which do executes.
func serve(t *testing.T, load page.Loader, do page.Submit) site {
	t.Helper()
	w := servertest.Start(t)
	pages := page.NewSite(w.Service, map[string]string{"made.css": "p { color: red }"})
	shout := template.FuncMap{"shout": func(v any) string { return strings.ToUpper(fmt.Sprint(v)) }}
	pages.Handle("GET /note", pages.Template(templates, shout, "note"), load)
	pages.HandleForm("POST /note", service.ScopeOperate, do)
	api := server.New(w.Service, server.Options{Token: homeToken, Pages: pages, Version: "test"})
	s := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections() // live pages never end on their own
		s.Close()
	})
	return site{pages, w, s.URL}
}

// ask sends a request with the home's token and returns the answer. Its body is closed when the test
// ends.
func (s site) ask(t *testing.T, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+homeToken)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// text returns the rest of an answer.
func text(t *testing.T, response *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestAPageIsInTheFrameAndEscaped(t *testing.T) {
	t.Parallel()
	s := serve(t, func(*http.Request) (page.Content, error) {
		return page.Content{Title: "A <note>", Nav: "jobs", Data: "<b>", Styles: []string{"made.css"}, Modules: []string{"log.js"}}, nil
	}, nil)
	response := s.ask(t, http.MethodGet, "/note?x=1", "")
	shown := text(t, response)
	for _, want := range []string{
		"<title>A &lt;note&gt; · Waybill</title>", `<p>&lt;B&gt;<span class="state t-failed">no</span></p>`, "/made.css",
		`type="module" src="/assets/`,
		`<a href="/jobs" aria-current="true">`, ` data-live>`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page lacks %s:\n%s", want, shown)
		}
	}
	if got := response.Header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") ||
		response.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", response.Header)
	}
}

func TestAnErrorIsAPageThatDoesNotFollow(t *testing.T) {
	t.Parallel()
	s := serve(t, func(*http.Request) (page.Content, error) {
		return page.Content{}, fault.New(fault.Refused, "not <now>").WithHint("later")
	}, nil)
	for path, want := range map[string]string{"/note": "not &lt;now&gt;", "/nowhere": "page /nowhere not found"} {
		response := s.ask(t, http.MethodGet, path, "")
		shown := text(t, response)
		if response.StatusCode < 400 || !strings.Contains(shown, want) || !strings.Contains(shown, `class="hint"`) ||
			strings.Contains(shown, "data-live") {
			t.Errorf("%s: %d\n%s", path, response.StatusCode, shown)
		}
	}
	stream := s.ask(t, http.MethodGet, "/note", "", "Accept", "text/event-stream")
	if got := stream.Header.Get("Content-Type"); stream.StatusCode < 400 || strings.Contains(got, "event-stream") {
		t.Errorf("the stream of a page that cannot be shown: %d, %s", stream.StatusCode, got)
	}
}

func TestATemplateThatDoesNotExistIsRefusedWhenAPageIsRegistered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"empty", "unknown", "missing"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the template is accepted", name)
				}
			}()
			page.NewSite(nil, nil).Template(templates, nil, name)
		}()
	}
}

func TestAssetsAreCachedUnderTheirDigest(t *testing.T) {
	t.Parallel()
	s := serve(t, func(*http.Request) (page.Content, error) { return page.Content{}, nil }, nil)
	_, rest, _ := strings.Cut(text(t, s.ask(t, http.MethodGet, "/note", "")), "/assets/")
	digest, _, _ := strings.Cut(rest, "/")
	for path, want := range map[string]int{
		digest + "/made.css": http.StatusOK, digest + "/waybill.css": http.StatusOK, digest + "/log.js": http.StatusOK,
		digest + "/nothing.css": http.StatusNotFound, "0123456789ab/waybill.css": http.StatusNotFound,
	} {
		response := s.ask(t, http.MethodGet, "/assets/"+path, "")
		cached := strings.Contains(response.Header.Get("Cache-Control"), "immutable")
		if response.StatusCode != want || want == http.StatusOK && !cached {
			t.Errorf("%s: %d, %v", path, response.StatusCode, response.Header)
		}
	}
	body := httptest.NewRecorder()
	page.NewSite(new(service.Service), map[string]string{"made.css": "other"}).
		WriteError(body, httptest.NewRequest(http.MethodGet, "/", nil), fault.New(fault.Invalid, "x"))
	if digest == "" || strings.Contains(body.Body.String(), digest) {
		t.Errorf("other assets have the same digest %q", digest)
	}
}

func TestAFormIsBoundedAndLeadsOn(t *testing.T) {
	t.Parallel()
	var done atomic.Int64
	s := serve(t, nil, func(r *http.Request, by string) (string, error) {
		done.Add(1)
		if r.PostFormValue("fail") != "" {
			return "", fault.New(fault.Refused, "it fails")
		}
		return "/note?by=" + url.QueryEscape(by), nil
	})
	for _, c := range []struct {
		name, body, token string
		want              int
		done              int64
	}{
		{"a field of 1001 bytes", "a=" + strings.Repeat("x", 1001), homeToken, http.StatusBadRequest, 0},
		{"a body of 65537 bytes", strings.Repeat("a=b&", 16384) + "c", homeToken, http.StatusRequestEntityTooLarge, 0},
		{"no token", "a=b", "", http.StatusUnauthorized, 0},
		{"a field of 1000 bytes", "a=" + strings.Repeat("x", 1000), homeToken, http.StatusSeeOther, 1},
		{"a refusal", "fail=1", homeToken, http.StatusConflict, 2},
	} {
		authorization := "Bearer " + c.token
		if c.token == "" {
			authorization = ""
		}
		response := s.ask(t, http.MethodPost, "/note", c.body, "Authorization", authorization)
		if response.StatusCode != c.want || done.Load() != c.done {
			t.Errorf("%s: %d, executed %d times; want %d and %d", c.name, response.StatusCode, done.Load(), c.want, c.done)
		}
		if to := response.Header.Get("Location"); c.want == http.StatusSeeOther && !strings.HasPrefix(to, "/note?by=") {
			t.Errorf("%s: leads to %q", c.name, to)
		}
	}
}

// event reads the next event of a stream: its id and its data.
func event(t *testing.T, stream *bufio.Scanner) (id, data string) {
	t.Helper()
	for stream.Scan() {
		name, value, _ := strings.Cut(stream.Text(), ":")
		switch value = strings.TrimSpace(value); name {
		case "id":
			id = value
		case "data":
			data += value
		case "":
			if id != "" {
				return id, data
			}
		}
	}
	return id, data
}

func TestALivePageSendsChangesAndNothingTwice(t *testing.T) {
	t.Parallel()
	var data atomic.Value
	data.Store("one")
	s := serve(t, func(*http.Request) (page.Content, error) {
		shown := data.Load().(string)
		if shown == "" {
			return page.Content{}, fault.New(fault.NotFound, "it is gone")
		}
		return page.Content{Data: shown}, nil
	}, nil)
	change := func(to string) {
		t.Helper()
		data.Store(to)
		a := action.Action{Kind: "action", Name: "mail", Handler: "mail", Delivery: action.AtLeastOnce}
		if _, err := s.Ledger.Enqueue(t.Context(), a); err != nil { // wakes the page
			t.Fatal(err)
		}
	}
	stream := bufio.NewScanner(s.ask(t, http.MethodGet, "/note", "", "Accept", "text/event-stream").Body)
	first, shown := event(t, stream)
	if first == "" || !strings.Contains(shown, "ONE") {
		t.Errorf("the first event is %q: %s", first, shown)
	}
	change("one") // not a change
	change("two")
	second, shown := event(t, stream)
	if second == first || !strings.Contains(shown, "TWO") {
		t.Errorf("after a change the event is %q: %s", second, shown)
	}
	again := bufio.NewScanner(s.ask(t, http.MethodGet, "/note", "", "Accept", "text/event-stream", "Last-Event-ID", second).Body)
	change("three")
	if id, shown := event(t, again); id == second || !strings.Contains(shown, "THREE") {
		t.Errorf("a reader who has seen %s gets %s: %s", second, id, shown)
	}
	change("") // the stream ends, and the browser connects again
	for {
		if id, _ := event(t, again); id == "" {
			break
		}
	}
}
