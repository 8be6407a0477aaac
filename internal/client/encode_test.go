package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/operation"
)

// sent is a server's view of an input.
type sent struct {
	method, path, query, once, ifMatch, kind, body string
	root                                           bool
	size                                           int64
	expect                                         string
}

// TestAnInputIsSentByItsTags: the fields of an input are where the server reads them.
func TestAnInputIsSentByItsTags(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 5000, time.UTC)
	none := operation.Description{ID: "get", Method: http.MethodGet, Path: "/api/v1/of/{name}/{number}"}
	greeter := operation.PipelinePath{Pipeline: "greeter"}
	type Path struct {
		Name   string `path:"name"`
		Number int    `path:"number"`
	}
	type body struct {
		Text string `json:"text,omitempty"`
	}
	for name, c := range map[string]struct {
		of   operation.Description
		in   any
		want sent
	}{
		"a path": {none, &Path{"a/b #c", 0}, sent{path: "/of/a%2Fb%20%23c/0"}},
		"a path elsewhere": {operation.Description{Method: http.MethodDelete, Path: "/api/build/{name}"}, &Path{Name: "7"},
			sent{method: http.MethodDelete, path: "/api/build/7", root: true}},
		"a query": {none, &struct {
			Path
			Text  string    `query:"text"`
			Limit int64     `query:"limit"`
			Live  bool      `query:"live"`
			Since time.Time `query:"since"`
			Words []string  `query:"word,explode"`
		}{Path{"a", 1}, "x&y", 3, true, at, []string{"one", "two"}},
			sent{path: "/of/a/1", query: "limit=3&live=true&since=2026-03-01T12%3A00%3A00.000005Z&text=x%26y&word=one&word=two"}},
		"values that are left out": {none, &struct {
			Path
			Text  string    `query:"text"`
			Live  bool      `query:"live"`
			Since time.Time `query:"since"`
			Words []string  `query:"word,explode"`
			Yes   bool      `query:"yes" default:"true"`
			Key   string    `header:"Idempotency-Key"`
			Body  *body
		}{}, sent{path: "/of//0", query: "yes=false"}},
		"headers": {none, &struct {
			Path
			Key     string `header:"Idempotency-Key"`
			IfMatch string `header:"If-Match"`
		}{Path{"a", 1}, "k1", `"3"`}, sent{path: "/of/a/1", once: "k1", ifMatch: `"3"`}},
		"a body": {none, &struct {
			Path
			Body body
		}{Path{"a", 1}, body{"hello"}}, sent{path: "/of/a/1", kind: "application/json", body: `{"text":"hello"}`}},
		"an optional body": {none, &struct {
			Path
			Body *body
		}{Path{"a", 1}, &body{}}, sent{path: "/of/a/1", kind: "application/json", body: `{}`}},
		"a file": {none, &struct {
			Path
			RawBody []byte `contentType:"application/yaml"`
		}{Path{"a", 1}, []byte("a: 1")}, sent{path: "/of/a/1", kind: "application/yaml", body: "a: 1"}},
		"an upload": {none, &struct {
			Path
			Content operation.Content
		}{Path{"a", 1}, operation.Content{Reader: strings.NewReader("bytes"), Size: 5}},
			sent{path: "/of/a/1", kind: operation.BinaryType, body: "bytes", size: 5}},
		"an upload without bytes": {none, &struct {
			Path
			Content operation.Content
		}{Path: Path{"a", 1}}, sent{path: "/of/a/1", kind: operation.BinaryType}},
		"an upload that is sent once it is wanted": {operation.Description(operation.PutArtifact), &operation.ArtifactUpload{
			LabelPath: operation.LabelPath{PipelinePath: greeter, Label: "v1"}, Artifact: "arm64", Name: "a b",
			Content: operation.Content{Reader: strings.NewReader("bytes")}},
			sent{method: http.MethodPut, path: "/pipelines/greeter/revisions/v1/artifacts/arm64", query: "name=a+b",
				kind: operation.BinaryType, body: "bytes", expect: "100-continue"}},
		"parameters after an upload": {operation.Description(operation.ReportBuildTests), &operation.TestReport{
			BuildPath: operation.BuildPath{ID: "7"}, StepID: 2, Name: "unit.xml", Format: "trx",
			Content: operation.Content{Reader: strings.NewReader("<a/>")}},
			sent{method: http.MethodPost, path: "/api/build/7/test-result", root: true, query: "format=trx&name=unit.xml&step=2",
				kind: operation.BinaryType, body: "<a/>"}},
		"a plan of an edit": {operation.Description(operation.PlanDeployment), &operation.PlanInput{
			PipelinePath: greeter, File: "waybill.yaml", Simulate: true, Fail: []string{"beta", "prod:test"},
			Source: []byte("stages: []")},
			sent{method: http.MethodPost, path: "/pipelines/greeter/plan",
				query: "fail=beta&fail=prod%3Atest&file=waybill.yaml&simulate=true", kind: operation.YAMLType, body: "stages: []"}},
		"a plan without an edit": {operation.Description(operation.PlanDeployment), &operation.PlanInput{
			PipelinePath: greeter, Revision: "v1"},
			sent{method: http.MethodPost, path: "/pipelines/greeter/plan", query: "revision=v1&simulate=false"}},
	} {
		q, err := newRequest(c.of, c.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := sent{method: q.method, path: q.path, query: q.query.Encode(), once: q.once, ifMatch: q.ifMatch, kind: q.kind, root: q.root,
			size: q.size, expect: q.expect}
		if q.body != nil {
			content, err := io.ReadAll(q.body)
			if got.body = string(content); err != nil {
				t.Error(err)
			}
		}
		if c.want.method == "" {
			c.want.method = http.MethodGet
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(sent{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAnInputThatCannotBeSentIsRefused: what a client could not send must not be left out in
// silence.
func TestAnInputThatCannotBeSentIsRefused(t *testing.T) {
	t.Parallel()
	d := operation.Description{ID: "get", Method: http.MethodGet, Path: "/api/v1/{map}"}
	for _, in := range []any{
		&struct{ Text string }{"x"},
		&struct {
			Accept string `header:"Accept"`
		}{"text/event-stream"},
		&struct {
			Map map[string]string `path:"map"`
		}{},
		&struct{ Body func() }{func() {}},
		&operation.Nothing{},
	} {
		if q, err := newRequest(d, in); err == nil {
			t.Errorf("%+v is sent as %+v", in, q)
		}
	}
}
