package ogc_test

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// part is one part of an answer.
type part struct{ ID, Kind, Location, Body string }

// parts returns the parts of an answer of type multipart/related.
func parts(t *testing.T, a answer) []part {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/related" || parameters["type"] == "" {
		t.Fatalf("Content-Type %s, %v", a.Header.Get("Content-Type"), err)
	}
	var all []part
	for reader := multipart.NewReader(strings.NewReader(string(a.body)), parameters["boundary"]); ; {
		p, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part{p.Header.Get("Content-ID"), p.Header.Get("Content-Type"), p.Header.Get("Content-Location"), string(body)})
	}
}

const made = `"inputs": {"output": {"html": "<p>", "note": "hello", "my output": 7, "scan": "SUkqAA=="}}`

// wanted are the forms in which a request may want its results, each with a check of the answer.
var wanted = []struct {
	name, request string
	status        int
	check         func(t *testing.T, at string, a answer)
}{
	{"raw, one by value", `"outputs": {"note": {}}`, 200, func(t *testing.T, _ string, a answer) {
		if string(a.body) != "hello" || a.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("%s %s", a.Header.Get("Content-Type"), a.body)
		}
	}},
	{"raw, several by value", `"response": "raw"`, 200, func(t *testing.T, _ string, a answer) {
		want := []part{{"html", "text/html", "", "<p>"}, {"my%20output", "application/json", "", "7"}, {"note", "text/plain", "", "hello"},
			{"scan", "image/tiff", "", "II*\x00"}}
		if diff := cmp.Diff(want, parts(t, a)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}},
	{"raw, some by reference", `"outputs": {"note": {"transmissionMode": "value"}, "my output": {"transmissionMode": "reference"}}`, 200,
		func(t *testing.T, at string, a answer) {
			want := []part{{"my%20output", "application/json", at + "/my%20output", ""}, {"note", "text/plain", "", "hello"}}
			if diff := cmp.Diff(want, parts(t, a)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}},
	{"raw, all by reference", `"outputs": {"note": {"transmissionMode": "reference"}, "my output": {"transmissionMode": "reference"}}`, 204,
		func(t *testing.T, at string, a answer) {
			want := []string{`<` + at + `/my%20output>; rel=item; title="my output"; type="application/json"`,
				`<` + at + `/note>; rel=item; title=note; type="text/plain"`}
			got := a.Header.Values("Link")
			if diff := cmp.Diff(want, got[len(got)-2:]); diff != "" || len(a.body) > 0 {
				t.Errorf("%q, Link (-want +got):\n%s", a.body, diff)
			}
		}},
	{"document", `"response": "document", "outputs": {"note": {}, "my output": {"transmissionMode": "reference"}}`, 200, func(t *testing.T,
		at string, a answer) {
		want := `{"my output":{"href":"` + at + `/my%20output","rel":"item","type":"application/json","title":"my output"},"note":"hello"}`
		if strings.TrimSpace(string(a.body)) != want || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s, want %s", a.Header.Get("Content-Type"), a.body, want)
		}
	}},
}

// TestResultsAreSentAsTheRequestWants requests each form synchronously, and of an asynchronous job's results.
func TestResultsAreSentAsTheRequestWants(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	for _, test := range wanted {
		body := `{` + made + `, ` + test.request + `}`
		t.Run(test.name+", sync", func(t *testing.T) {
			a := w.ask(http.MethodPost, "/processes/report/execution", body).want(t, test.status)
			monitor, _, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("Link"), "<"), ">")
			test.check(t, monitor+"/results", a)
		})
		t.Run(test.name+", async", func(t *testing.T) {
			var info ogc.StatusInfo
			w.ask(http.MethodPost, "/processes/report/execution", body, header{"Prefer", "respond-async"}).want(t, http.StatusCreated).into(t, &info)
			w.until(info.JobID, "successful")
			at := "/jobs/" + info.JobID + "/results"
			test.check(t, w.server.URL+at, w.get(at).want(t, test.status))
			if page := w.get(at, header{"Accept", "text/html"}).want(t, http.StatusOK); !strings.HasPrefix(string(page.body), "<!doctype html>") {
				t.Errorf("a browser gets %s", page.body)
			}
			for _, link := range w.get(at).Header.Values("Link") {
				address, _, _ := strings.Cut(strings.TrimPrefix(link, "<"+w.server.URL), ">")
				w.get(address).want(t, http.StatusOK)
			}
		})
	}
}

// TestAClientOfAnotherRequestsJobSaysHowItWantsTheResults: the job keeps the form of its own request.
func TestAClientOfAnotherRequestsJobSaysHowItWantsTheResults(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	var info ogc.StatusInfo
	w.ask(http.MethodPost, "/processes/report/execution", `{`+made+`, "response": "document", "outputs": {"note": {}}}`,
		header{"Prefer", "respond-async"}).
		want(t, http.StatusCreated).into(t, &info)
	w.until(info.JobID, "successful")
	at := "/jobs/" + info.JobID + "/results"
	var results map[string]json.RawMessage
	w.get(at).want(t, http.StatusOK).into(t, &results)
	if len(results) != 1 || string(results["note"]) != `"hello"` {
		t.Errorf("its own: %s", results)
	}
	if a := w.get(at + "?response=raw"); string(a.body) != "hello" {
		t.Errorf("raw: %s", a.body)
	}
	if several := parts(t, w.get(at+"?response=raw&outputs=note,html")); len(several) != 2 {
		t.Errorf("two: %v", several)
	}
	if p := w.problem(w.get(at+"?response=cooked"), http.StatusBadRequest, invalid); p.Detail != "response=cooked: want raw or document" {
		t.Errorf("detail %q", p.Detail)
	}
}

// TestBrowsersRunNothingOfAJob: the outputs of a job have the origin under which the reader is logged in.
func TestBrowsersRunNothingOfAJob(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	id := w.execute("report",
		`{"output": {"html": "<script>alert(1)</script>", "drawing": "<svg onload='alert(1)'/>", "note": "<script>", "my output": 1, "scan": "SUkqAA=="}}`)
	w.until(id, "successful")
	at := "/jobs/" + id
	for path, disposition := range map[string]string{"/results/html?f=json": "attachment",
		"/results/drawing?f=json": "attachment", "/results": "attachment",
		"/results/note?f=json": "", "/results/scan?f=json": "", "/results/my%20output": "", "/results?outputs=html&response=raw": "attachment",
		"/results?response=document": "", "/inputs": ""} {
		h := w.get(at+path).want(t, http.StatusOK).Header
		if h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Disposition") != disposition {
			t.Errorf("%s: %v", path, h)
		}
	}
	sync := w.ask(http.MethodPost, "/processes/report/execution", `{"inputs": {"output": {"html": "<script>"}}}`).want(t, http.StatusOK)
	if h := sync.Header; h.Get("Content-Security-Policy") == "" || h.Get("Content-Disposition") != "attachment" {
		t.Errorf("at once: %v", h)
	}
}

// TestPagesHaveTheStatusOfTheirDocuments compares the answers for people and for programs.
func TestPagesHaveTheStatusOfTheirDocuments(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	failed := w.execute("quick", `{"outcome": "fatal", "error": "no disk"}`)
	w.until(failed, "failed")
	gone := w.execute("quick", `{"n": 1}`)
	w.until(gone, "successful")
	w.ask(http.MethodDelete, "/jobs/"+gone, "").want(t, http.StatusOK)
	live := w.execute("wait", `{}`)
	for path, status := range map[string]int{"/jobs/" + failed + "/results": 500, "/jobs/" + gone + "/results": 410,
		"/jobs/" + gone + "/results/x": 410,
		"/jobs/" + live + "/results":   404, "/jobs/none": 404} {
		w.get(path).want(t, status)
		if page := w.get(path, header{"Accept", "text/html"}).want(t, status); !strings.HasPrefix(string(page.body), "<!doctype html>") {
			t.Errorf("%s: %s", path, page.body)
		}
		w.get(path, header{"Accept", "text/event-stream"}).want(t, status)
	}
}

// TestPreferencesAreReadAsTheStandardSays covers RFC 7240: lists, several headers, parameters, quotes, the first of several.
func TestPreferencesAreReadAsTheStandardSays(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	for prefer, want := range map[string]struct {
		status  int
		applied string
	}{
		"respond-async":                         {201, "respond-async"},
		"respond-async; wait=10":                {201, "respond-async"},
		`respond-async;foo="a, wait=1; b\"c"`:   {201, "respond-async"},
		`handling=lenient, Respond-Async ; x=y`: {201, "respond-async"},
		`foo="a, respond-async, b"`:             {200, ""},
		`foo; respond-async`:                    {200, ""},
		"wait=10":                               {200, "wait=10"},
		`wait="11", wait=2`:                     {200, "wait=11"},
		"wait=9999999999999999999":              {200, ""},
		"wait=100":                              {200, ""},
	} {
		a := w.ask(http.MethodPost, "/processes/quick/execution", `{"inputs": {"output": {"n": 1}}}`, header{"Prefer", prefer})
		if a.StatusCode != want.status || a.Header.Get("Preference-Applied") != want.applied {
			t.Errorf("Prefer: %s: %s, applied %q; want %d, %q", prefer, a.Status, a.Header.Get("Preference-Applied"), want.status, want.applied)
		}
	}
	id := w.execute("wait", `{}`)
	var live ogc.StatusInfo
	w.get("/jobs/"+id).into(t, &live)
	monitor := ""
	for _, l := range live.Links {
		if l.Rel == "monitor" {
			monitor = l.Href
		}
	}
	if monitor != w.server.URL+"/jobs/"+id {
		t.Errorf("the job is monitored at %q", monitor)
	}
}

// TestRefusedBodiesHaveTheStatusOfHTTP covers bodies that are refused before they are parsed.
func TestRefusedBodiesHaveTheStatusOfHTTP(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	w.problem(w.ask(http.MethodPost, "/processes/quick/execution", "a,b", header{"Content-Type", "text/csv"}),
		http.StatusUnsupportedMediaType, "waybill:unsupported_media_type")
	w.problem(w.ask(http.MethodPost, "/processes/quick/execution", strings.Repeat(" ", 4<<20+1)),
		http.StatusRequestEntityTooLarge, "waybill:too_large")
}
