package ogc_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/webhook"
)

func TestTheLandingPageLeadsEverywhere(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	var page ogc.LandingPage
	w.get("/").want(t, http.StatusOK).into(t, &page)
	for _, rel := range []string{"self", "alternate", "service-desc", "service-doc", "http://www.opengis.net/def/rel/ogc/1.0/conformance",
		"http://www.opengis.net/def/rel/ogc/1.0/processes", "http://www.opengis.net/def/rel/ogc/1.0/job-list"} {
		found := false
		for _, l := range page.Links {
			if l.Rel == rel {
				found = true
				w.get(strings.TrimPrefix(l.Href, w.server.URL)).want(t, http.StatusOK)
			}
		}
		if !found {
			t.Errorf("no link %s", rel)
		}
	}
	var conformance ogc.Conformance
	w.get("/conformance").into(t, &conformance)
	if len(conformance.ConformsTo) != 8 {
		t.Errorf("conforms to %v", conformance.ConformsTo)
	}
}

func TestLinksAreWhatTheClientAskedFor(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	var page ogc.LandingPage
	w.get("/", header{"X-Forwarded-Proto", "https"}).want(t, http.StatusOK).into(t, &page)
	for _, l := range page.Links {
		if !strings.HasPrefix(l.Href, "https://127.0.0.1:") {
			t.Errorf("link %s leads to %s behind a proxy that clients reach by https", l.Rel, l.Href)
		}
	}
}

func TestTheDefinitionIsOpenAPI(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	a := w.get("/api").want(t, http.StatusOK)
	if kind := a.Header.Get("Content-Type"); kind != "application/vnd.oai.openapi+json;version=3.0" {
		t.Errorf("it is %s", kind)
	}
	goldentest.CompareJSON(t, "testdata/openapi.json", a.body)
	document, err := openapi3.NewLoader().LoadFromData(a.body)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestProcessesAreListedInPages(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	var first, rest ogc.ProcessList
	w.get("/processes?limit=5").want(t, http.StatusOK).into(t, &first)
	next := first.Links[len(first.Links)-1]
	if len(first.Processes) != 5 || next.Rel != "next" {
		t.Fatalf("%+v", first)
	}
	w.get(strings.TrimPrefix(next.Href, w.server.URL)).into(t, &rest)
	if len(rest.Processes) != 1 || rest.Processes[0].ID != "wait" || rest.Links[len(rest.Links)-1].Rel == "next" {
		t.Errorf("%+v", rest)
	}
}

func TestProcessesAreDescribed(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	var mirror ogc.Process
	w.get("/processes/mirror").want(t, http.StatusOK).into(t, &mirror)
	if mirror.Version != "2" || mirror.Title != "Mirror items" || mirror.Inputs["payload"].MinOccurs != 1 ||
		mirror.Inputs["mode"].MinOccurs != 0 {
		t.Errorf("%+v", mirror)
	}
	if diff := cmp.Diff([]string{"async-execute", "dismiss"}, mirror.JobControlOptions); diff != "" {
		t.Errorf("ways (-want +got):\n%s", diff)
	}
	parts := mirror.Inputs["parts"].Schema["items"].(map[string]any)
	if parts["minimum"] != 0.0 || parts["exclusiveMinimum"] != true || mirror.Inputs["mode"].Schema["nullable"] != true {
		t.Errorf("JSON Schema in the words of OpenAPI 3.0: %v, %v", parts, mirror.Inputs["mode"].Schema)
	}
	var schema map[string]any
	w.get("/processes/mirror/inputsschema").want(t, http.StatusOK).into(t, &schema)
	if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" || schema["$defs"] == nil ||
		schema["additionalProperties"] != false {
		t.Errorf("%v", schema)
	}
	w.get("/processes/mirror/outputsschema").want(t, http.StatusOK)
	p := w.problem(w.get("/processes/miror"), http.StatusNotFound, exceptions+"no-such-process")
	if p.Hint != `did you mean "mirror"?` {
		t.Errorf("hint %q", p.Hint)
	}
}

const features = `"payload": {"features": [{"id": "a"}, {"id": "b"}]}`

func TestJobsAreExecutedPolledAndFetched(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	id := w.execute("mirror", `{`+features+`, "output": {"features": [{"id": "a"}], "count": 1, "picture": "iVBORw==", "note": "hello"}}`)
	info := w.until(id, "successful")
	if info.ProcessID != "mirror" || info.WaybillStatus != "SUCCESSFUL" || info.Progress != 100 ||
		info.Finished.IsZero() || info.Started.Before(info.Created.Add(-1)) {
		t.Errorf("%+v", info)
	}
	for _, l := range info.Links {
		w.get(strings.TrimPrefix(l.Href, w.server.URL)).want(t, http.StatusOK)
	}
	var results map[string]json.RawMessage
	w.get("/jobs/"+id+"/results?response=document").want(t, http.StatusOK).into(t, &results)
	want := map[string]json.RawMessage{"features": []byte(`[{"id":"a"}]`), "count": []byte(`1`),
		"picture": []byte(`"iVBORw=="`), "note": []byte(`"hello"`)}
	if diff := cmp.Diff(want, results, compactJSON()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	results = nil
	w.get("/jobs/"+id+"/results?outputs=count,note&response=document").want(t, http.StatusOK).into(t, &results)
	if len(results) != 2 {
		t.Errorf("two outputs: %s", results)
	}
	for name, is := range map[string]struct{ kind, body string }{"count": {"application/json", "1"}, "picture": {"image/png", "\x89PNG"},
		"note": {"text/plain", "hello"}, "features": {"application/json", `[{"id":"a"}]`}} {
		a := w.get("/jobs/"+id+"/results/"+name).want(t, http.StatusOK)
		if a.Header.Get("Content-Type") != is.kind || string(a.body) != is.body {
			t.Errorf("%s: %s %q", name, a.Header.Get("Content-Type"), a.body)
		}
	}
	if p := w.problem(w.get("/jobs/"+id+"/results/cuont"), http.StatusNotFound, "waybill:not_found"); p.Hint != `did you mean "count"?` {
		t.Errorf("hint %q", p.Hint)
	}
	w.problem(w.get("/jobs/"+id+"/results?outputs=none"), http.StatusNotFound, "waybill:not_found")
	var inputs map[string]json.RawMessage
	w.get("/jobs/"+id+"/inputs").want(t, http.StatusOK).into(t, &inputs)
	if len(inputs) != 2 {
		t.Errorf("inputs %s", inputs)
	}
}

func compactJSON() cmp.Option {
	return cmp.Transformer("compact", func(raw json.RawMessage) string {
		var value any
		_ = json.Unmarshal(raw, &value) // it was encoded from JSON
		text, _ := json.Marshal(value)
		return string(text)
	})
}

func TestDismissedJobsAreGone(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	id := w.execute("mirror", `{`+features+`, "output": {"count": 1}}`)
	w.until(id, "successful")
	for range 2 {
		var info ogc.StatusInfo
		w.ask(http.MethodDelete, "/jobs/"+id, "").want(t, http.StatusOK).into(t, &info)
		if info.Status != "dismissed" || info.WaybillStatus != "SUCCESSFUL" {
			t.Errorf("%+v", info)
		}
	}
	w.problem(w.get("/jobs/"+id+"/results"), http.StatusGone, "waybill:dismissed")
	w.problem(w.get("/jobs/"+id+"/results/count"), http.StatusGone, "waybill:dismissed")
	if again := w.execute("mirror", `{`+features+`, "output": {"count": 1}}`); again == id {
		t.Error("a dismissed job answers for its payload")
	}
	// Only documents are followed: a client that would also read events has its change made once, and an answer.
	w.ask(http.MethodDelete, "/jobs/"+id, "", header{"Accept", "text/event-stream"}).want(t, http.StatusOK)
	live := w.execute("wait", `{}`)
	w.until(live, "running")
	w.problem(w.get("/jobs/"+live+"/results"), http.StatusNotFound, exceptions+"result-not-ready")
	var info ogc.StatusInfo
	w.ask(http.MethodDelete, "/jobs/"+live, "").want(t, http.StatusOK).into(t, &info)
	if info.Status != "dismissed" {
		t.Errorf("%+v", info)
	}
	if info := w.until(live, "dismissed"); info.WaybillStatus != "CANCELED" {
		t.Errorf("%+v", info)
	}
	w.problem(w.get("/jobs/"+live+"/results"), http.StatusGone, "waybill:dismissed")
	w.problem(w.ask(http.MethodDelete, "/jobs/nonsense", ""), http.StatusNotFound, exceptions+"no-such-job")
}

func TestFailuresHaveTheirOwnStatus(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	failed := w.execute("mirror", `{"payload": {"n": 1}, "outcome": "fatal", "error": "no disk"}`)
	if info := w.until(failed, "failed"); info.Message != "no disk" {
		t.Errorf("message %q", info.Message)
	}
	if p := w.problem(w.get("/jobs/"+failed+"/results"), http.StatusInternalServerError,
		"waybill:failed"); !strings.Contains(p.Detail, "no disk") {
		t.Errorf("detail %q", p.Detail)
	}
	wrong := w.execute("mirror", `{"payload": {"n": 2}, "outcome": "invalid", "error": "no such place"}`)
	w.until(wrong, "failed")
	w.problem(w.get("/jobs/"+wrong+"/results"), http.StatusBadRequest, "waybill:invalid")
	ask := func(inputs string) answer {
		return w.ask(http.MethodPost, "/processes/quick/execution", `{"inputs": `+inputs+`}`)
	}
	w.problem(ask(`{"outcome": "fatal", "error": "no disk"}`), http.StatusInternalServerError, "waybill:failed")
}

func TestSynchronousExecutionAnswersWithTheOutputs(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	ask := func(process, body string, headers ...header) answer {
		t.Helper()
		return w.ask(http.MethodPost, "/processes/"+process+"/execution", body, headers...)
	}
	one := ask("quick", `{"inputs": {"output": {"count": 1}}}`).want(t, http.StatusOK)
	if string(one.body) != "1" || !regexp.MustCompile(`^<`+w.server.URL+
		`/jobs/[0-9a-f-]{36}>; rel="monitor"; type="application/json"$`).MatchString(one.Header.Get("Link")) {
		t.Errorf("%s, Link %s", one.body, one.Header.Get("Link"))
	}
	several := ask("quick", `{"inputs": {"output": {"a": 1, "b": {"c": 2}}}, "response": "document"}`).want(t, http.StatusOK)
	w.rules.obeys(t, "results", several.body)
	var results map[string]json.RawMessage
	several.into(t, &results)
	if string(results["b"]) != `{"value":{"c":2},"mediaType":"application/json"}` {
		t.Errorf("an object is a qualified value: %s", results["b"])
	}
	document := ask("quick",
		`{"inputs": {"output": {"count": 2}}, "response": "document", "outputs": {"count": {"transmissionMode": "reference"}}}`).
		want(t, http.StatusOK)
	w.rules.obeys(t, "results", document.body)
	if !strings.Contains(string(document.body), "/results/count") {
		t.Errorf("by reference: %s", document.body)
	}
	if lone := ask("quick", `{"inputs": {"output": [1, 2]}}`).want(t, http.StatusOK); string(lone.body) != "[1,2]" {
		t.Errorf("an output without names: %s", lone.body)
	}
	ask("quick", `{"inputs": {"n": 1}}`).want(t, http.StatusNoContent)

	async := ask("quick", `{"inputs": {"output": {"count": 3}}}`, header{"Prefer", "respond-async"}).want(t, http.StatusCreated)
	if async.Header.Get("Preference-Applied") != "respond-async" {
		t.Errorf("applied %q", async.Header.Get("Preference-Applied"))
	}
	late := ask("brief", `{"inputs": {"output": {"count": 4}}}`).want(t, http.StatusCreated)
	var info ogc.StatusInfo
	late.into(t, &info)
	if info.Status != "running" && info.Status != "accepted" {
		t.Errorf("%+v", info)
	}
	w.held.letGo()
	w.until(info.JobID, "successful")
}

func TestEqualPayloadsAreOneJob(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	const path = "/processes/mirror/execution"
	id := w.execute("mirror", `{"payload": {"b": 1.0, "a": [2], "at": 1}}`)
	hit := w.ask(http.MethodPost, path, `{"inputs": {"payload": {"a": [2e0], "at": 2, "b": 1}}}`).want(t, http.StatusSeeOther)
	if hit.Header.Get("Location") != w.server.URL+"/jobs/"+id {
		t.Errorf("Location %s, want job %s", hit.Header.Get("Location"), id)
	}
	var list ogc.CacheList
	w.get("/cache").want(t, http.StatusOK).into(t, &list)
	if len(list.Entries) != 1 || list.Entries[0].JobID != id || list.Entries[0].Version != "2" || list.Entries[0].InvalidAfter != nil {
		t.Fatalf("%+v", list)
	}
	var entry ogc.CacheEntry
	w.ask(http.MethodPost, "/cache", `{"processID": "mirror", "inputs": {"payload": {"a": [2], "b": 1}}}`).
		want(t, http.StatusOK).into(t, &entry)
	if diff := cmp.Diff(list.Entries[0], entry); diff != "" {
		t.Errorf("looked up (-listed +found):\n%s", diff)
	}
	w.get("/cache/"+entry.Key).want(t, http.StatusOK)
	w.problem(w.ask(http.MethodPost, "/cache", `{"processID": "mirror", "inputs": {"payload": {}}}`), http.StatusNotFound, "waybill:not_found")
	w.problem(w.get("/cache/"+id), http.StatusNotFound, "waybill:not_found")
	w.until(id, "successful")
	w.ask(http.MethodPost, "/cache/"+entry.Key+"/invalidate", `{"at": "2126-01-01T00:00:00Z"}`).want(t, http.StatusOK)
	w.ask(http.MethodPost, path, `{"inputs": {"payload": {"a": [2], "b": 1}}}`).want(t, http.StatusSeeOther)
	w.ask(http.MethodPost, "/cache/"+entry.Key+"/invalidate", "").want(t, http.StatusOK)
	w.ask(http.MethodPost, path, `{"inputs": {"payload": {"a": [2], "b": 1}}}`).want(t, http.StatusCreated)
	for _, text := range []string{"c", "d"} {
		w.execute("mirror", `{"payload": {"x": "`+text+`"}}`)
	}
	list = ogc.CacheList{}
	w.get("/cache?limit=2&processID=mirror").want(t, http.StatusOK).into(t, &list)
	next := list.Links[len(list.Links)-1]
	list = ogc.CacheList{}
	w.get(strings.TrimPrefix(next.Href, w.server.URL)).want(t, http.StatusOK).into(t, &list)
	if len(list.Entries) != 1 {
		t.Errorf("the second page has %d entries", len(list.Entries))
	}
}

func TestRepeatedRequestsAreOneJob(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	ask := func(body string) answer {
		return w.ask(http.MethodPost, "/processes/mirror/execution", body, header{"Idempotency-Key", "k"})
	}
	first := ask(`{"inputs": {"payload": {"n": 1}}}`).want(t, http.StatusCreated)
	again := ask(`{"inputs": {"payload": {"n": 1}}}`).want(t, http.StatusCreated)
	if first.Header.Get("Location") != again.Header.Get("Location") {
		t.Errorf("two jobs: %s and %s", first.Header.Get("Location"), again.Header.Get("Location"))
	}
	w.problem(ask(`{"inputs": {"payload": {"n": 2}}}`), http.StatusUnprocessableEntity, "waybill:idempotency_key_reused")
}

func TestEveryFaultOfARequestIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	files := files(t)
	w := start(t, loopback())
	texts := func(a answer, kind string) []string {
		t.Helper()
		p := w.problem(a, http.StatusBadRequest, kind)
		var all []string
		for _, one := range p.Problems {
			all = append(all, one.String())
		}
		return all
	}
	ask := func(body string) answer {
		t.Helper()
		return w.ask(http.MethodPost, "/processes/mirror/execution", body)
	}
	got := texts(ask(`{"inputs": {"payload": {"features": "none"}, "mode": "middle", "parts": [0, 1], "image": "not base64",
		"output": {"href": "`+files+`/missing"}}}`), badInputs)
	want := []string{
		"inputs/image: not base64: illegal base64 data at input byte 3",
		"inputs/output: fetch " + files + "/missing: " + strings.TrimPrefix(files, "http://") + " answered 404 Not Found",
		"inputs/mode: value must be one of 'fast', 'slow', <nil>",
		"inputs/parts/0: exclusiveMinimum: got 0, want 0",
		"inputs/payload/features: got string, want array",
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = texts(
		ask(
			`{"inputs": [], "inptus": {}, "response": "any", "outputs": {"feature": {}, "count": {"transmissionMode": "pigeon"}}, "subscriber": {"successUri": "ftp://x"}}`), invalid)
	want = []string{
		`unknown key "inptus" (did you mean "inputs"?)`,
		`inputs: want an object, found array`,
		`outputs: output "feature" not found (did you mean "features"?)`,
		`outputs/count: transmissionMode: want value or reference, found "pigeon"`,
		`response: want raw or document, found "any"`,
		`subscriber/successUri: want an address such as https://example.org/done, found "ftp://x"`,
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.problem(ask("{"), http.StatusBadRequest, invalid)
	w.problem(w.ask(http.MethodPost, "/processes/none/execution", "{}"), http.StatusNotFound, exceptions+"no-such-process")
}

func sorted(all []string) []string {
	some := append([]string{}, all...)
	for i := range some {
		for j := i + 1; j < len(some); j++ {
			if some[j] < some[i] {
				some[i], some[j] = some[j], some[i]
			}
		}
	}
	return some
}

// files serves documents like another site.
func files(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, kind := range map[string]string{"/features.json": "application/json", "/note.txt": "text/plain", "/picture": "image/png"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w,
				map[string]string{"/features.json": `{"features": [{"id": "z"}]}`, "/note.txt": "hello", "/picture": "\x89PNG"}[path])
		})
	}
	return httptestServer(t, mux)
}

func TestInputsMayBeReferencesQualifiedAndBinary(t *testing.T) {
	t.Parallel()
	at := files(t)
	w := start(t, loopback())
	id := w.execute("mirror", `{"payload": {"href": "`+at+`/features.json"}, "mode": {"value": "slow", "mediaType": "text/plain"},
		"image": {"href": "`+at+`/picture"}, "output": {"value": {"a": {"href": "`+at+
		`/note.txt"}}}, "parts": [{"value": 1}, 2], "error": {"href": "`+at+`/note.txt"}}`)
	var inputs map[string]json.RawMessage
	w.get("/jobs/"+id+"/inputs").want(t, http.StatusOK).into(t, &inputs)
	want := map[string]json.RawMessage{"payload": []byte(`{"features": [{"id": "z"}]}`), "mode": []byte(`"slow"`),
		"image":  []byte(`"iVBORw=="`),
		"output": []byte(`{"a": {"href": "` + at + `/note.txt"}}`), "parts": []byte(`[1, 2]`), "error": []byte(`"hello"`)}
	if diff := cmp.Diff(want, inputs, compactJSON()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	guarded := start(t, webhook.Guard{})
	p := guarded.problem(guarded.ask(http.MethodPost, "/processes/mirror/execution",
		`{"inputs": {"payload": {"href": "`+at+`/features.json"}}}`), http.StatusBadRequest, badInputs)
	if !strings.Contains(p.Detail, "address 127.0.0.1 is refused: loopback") {
		t.Errorf("detail %q", p.Detail)
	}
}

func TestLargeInputsAreKeptBesideTheLog(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	large := `{"payload": {"text": "` + strings.Repeat("x", 100_000) + `"}}`
	id := w.execute("mirror", large)
	if a := w.get("/jobs/"+id+"/inputs").want(t, http.StatusOK); string(a.body) != strings.ReplaceAll(large, ": ", ":") &&
		string(a.body) != large {
		t.Errorf("%d bytes came back of %d", len(a.body), len(large))
	}
	w.ask(http.MethodPost, "/processes/mirror/execution", `{"inputs": `+large+`}`).want(t, http.StatusSeeOther)
	w.until(id, "successful")
	w.ask(http.MethodDelete, "/jobs/"+id, "").want(t, http.StatusOK)
	if a := w.get("/jobs/"+id+"/inputs").want(t, http.StatusOK); len(a.body) < 100_000 {
		t.Errorf("%d bytes are left of the inputs, which a retry needs", len(a.body))
	}
}
