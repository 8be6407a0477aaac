package ogc_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-dev/waybill/internal/webhook"
)

// counted serves documents and counts requests: n bytes of text at /text/n, a list of n numbers at /list/n.
func counted(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/{kind}/{n}", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var n int
		_, _ = fmt.Sscan(r.PathValue("n"), &n)
		if r.PathValue("kind") == "list" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "["+strings.Repeat("1,", n-1)+"1]")
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Repeat("x", n))
	})
	return httptestServer(t, mux), &asked
}

// TestNothingIsFetchedForUnknownInputs: a refused request does not cause others.
func TestNothingIsFetchedForUnknownInputs(t *testing.T) {
	t.Parallel()
	at, asked := counted(t)
	w := start(t, loopback())
	p := w.problem(w.ask(http.MethodPost, "/processes/mirror/execution",
		`{"inputs": {"payload": {}, "mode": "middle", "odd": {"href": "`+at+`/text/1"}, "output": {"href": "`+at+`/text/1"}}}`),
		http.StatusBadRequest, badInputs)
	if asked.Load() != 0 || !strings.Contains(p.Detail, "additional properties 'odd' not allowed") ||
		!strings.Contains(p.Detail, "inputs/mode: ") {
		t.Errorf("%d links were followed; %s", asked.Load(), p.Detail)
	}
}

// TestLinksOfARequestAreBounded in number, in bytes and in values.
func TestLinksOfARequestAreBounded(t *testing.T) {
	t.Parallel()
	at, asked := counted(t)
	w := start(t, loopback())
	links := func(n int, path string) string {
		return `{"inputs": {"output": [` + strings.TrimSuffix(strings.Repeat(`{"href": "`+at+path+`"},`, n), ",") + `]}}`
	}
	p := w.problem(w.ask(http.MethodPost, "/processes/quick/execution", links(21, "/text/1")), http.StatusBadRequest, badInputs)
	if asked.Load() != 0 || p.Detail != "the inputs have 21 links: want at most 20" {
		t.Errorf("%d links were followed; %s", asked.Load(), p.Detail)
	}
	w.ask(http.MethodPost, "/processes/quick/execution", links(20, "/text/1")).want(t, http.StatusOK)
	p = w.problem(w.ask(http.MethodPost, "/processes/quick/execution", links(3, "/text/6000000")), http.StatusBadRequest, badInputs)
	if !strings.Contains(p.Detail, "bytes") {
		t.Error(p.Detail)
	}
	p = w.problem(w.ask(http.MethodPost, "/processes/quick/execution", links(2, "/list/130000")), http.StatusBadRequest, badInputs)
	if !strings.Contains(p.Detail, "the inputs have more than 250000 values together") {
		t.Error(p.Detail)
	}
}

// TestRequestsAreBounded: the cost of a small request is a small multiple of its size.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	many := func(n int, item func(int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("," + item(i))
		}
		return b.String()[1:]
	}
	numbers := `{"payload": {"features": [` + many(260_000, func(int) string { return "1" }) + `]}}`
	for path, body := range map[string]string{"/processes/mirror/execution": `{"inputs": ` + numbers + `}`,
		"/cache": `{"processID": "mirror", "inputs": ` + numbers + `}`} {
		p := w.problem(w.ask(http.MethodPost, path, body), http.StatusRequestEntityTooLarge, "waybill:too_large")
		if !strings.Contains(p.Detail, "values: want at most 250000") {
			t.Error(p.Detail)
		}
	}
	unknown := func(i int) string { return fmt.Sprintf(`"unknown%d": 1`, i) }
	for path, body := range map[string]string{"/processes/mirror/execution": "", "/cache": `"processID": "mirror", `} {
		p := w.problem(w.ask(http.MethodPost, path, `{`+body+`"inputs": {`+many(1001, unknown)+`}}`),
			http.StatusRequestEntityTooLarge, "waybill:too_large")
		if p.Detail != "the request has 1001 inputs: want at most 1000" {
			t.Error(p.Detail)
		}
	}
	inputs := many(1000, unknown)
	outputs := many(2_000, func(i int) string { return fmt.Sprintf(`"unknown%d": {}`, i) })
	broken := `"payload": {}, "parts": [` + many(100_000, func(int) string { return "0" }) + `]`
	for name, test := range map[string]struct{ body, kind, more string }{
		"unknown inputs":  {`{"inputs": {` + inputs + `}}`, badInputs, ""},
		"broken inputs":   {`{"inputs": {` + broken + `}}`, badInputs, "and 99900 more"},
		"unknown outputs": {`{"outputs": {` + outputs + `}}`, invalid, "and 1900 more"},
	} {
		a := w.ask(http.MethodPost, "/processes/mirror/execution", test.body)
		p := w.problem(a, http.StatusBadRequest, test.kind)
		if len(a.body) > 100_000 || len(p.Problems) > 101 || !strings.Contains(p.Detail, test.more) {
			t.Errorf("%s: %d problems in %d bytes, at the end %q", name, len(p.Problems), len(a.body), p.Detail[max(0, len(p.Detail)-100):])
		}
	}
	frame := `{"outputs": {"` + strings.Repeat("x", 70_000) + `": {}}}`
	w.problem(w.ask(http.MethodPost, "/processes/quick/execution", frame), http.StatusRequestEntityTooLarge, "waybill:too_large")
}

// TestMediaTypesOfInputsChooseTheirSchema covers values, lists and links.
func TestMediaTypesOfInputsChooseTheirSchema(t *testing.T) {
	t.Parallel()
	at, _ := counted(t)
	w := start(t, loopback())
	for inputs, want := range map[string]string{
		`{"note": "hello"}`:                                            "",
		`{"note": "longer than a note"}`:                               "",
		`{"note": {"value": "hello", "mediaType": "text/plain"}}`:      "",
		`{"note": {"value": "aGVsbG8=", "mediaType": "image/png"}}`:    "",
		`{"note": {"value": "longer", "mediaType": "text/plain"}}`:     "inputs/note: as text/plain: maxLength: got 6, want 5",
		`{"note": {"value": "hello!", "mediaType": "image/png"}}`:      "inputs/note: not base64: illegal base64 data at input byte 5",
		`{"note": {"value": "hello", "mediaType": "image/gif"}}`:       "inputs/note: mediaType image/gif: want text/plain or image/png",
		`{"notes": ["a", {"value": "<p>", "mediaType": "text/html"}]}`: "",
		`{"notes": ["a", {"value": "b", "mediaType": "text/csv"}]}`:    "inputs/notes: 1: mediaType text/csv: want text/plain or text/html",
		`{"note": {"href": "` + at + `/text/5"}}`:                      "",
		`{"note": {"href": "` + at + `/text/6"}}`:                      "inputs/note: as text/plain: maxLength: got 6, want 5",
		`{"note": {"href": "` + at + `/text/6", "type": "image/png"}}`: "",
		`{"scan": "SUkqAA=="}`:                                         "",
		`{"scan": "II*"}`:                                              "inputs/scan: not base64: illegal base64 data at input byte 2",
	} {
		a := w.ask(http.MethodPost, "/processes/scan/execution", `{"inputs": `+inputs+`}`)
		if want == "" {
			a.want(t, http.StatusCreated)
			continue
		}
		if p := w.problem(a, http.StatusBadRequest, badInputs); p.Detail != want {
			t.Errorf("%s: got %s, want %s", inputs, p.Detail, want)
		}
	}
	id := w.execute("scan", `{"note": {"href": "`+at+`/text/6", "type": "image/png"}}`)
	var got map[string]json.RawMessage
	w.get("/jobs/"+id+"/inputs").into(t, &got)
	if string(got["note"]) != `"eHh4eHh4"` {
		t.Errorf("a link to bytes is %s", got["note"])
	}
}
