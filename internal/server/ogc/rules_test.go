package ogc_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

func TestMain(m *testing.M) {
	for _, kind := range []string{"text/html", "image/png", "image/tiff", "image/svg+xml", "multipart/related",
		"application/schema+json", "application/vnd.oai.openapi+json"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.FileBodyDecoder)
	}
	for _, kind := range []string{"application/schema+json", "application/vnd.oai.openapi+json"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.JSONBodyDecoder)
	}
	os.Exit(m.Run())
}

// rules are the schemas that every answer must match: the standard's, and those of the document that the API serves.
type rules struct {
	standard openapi3.Schemas
	router   routers.Router
}

func readRules(t testing.TB, w *world) *rules {
	t.Helper()
	served, err := openapi3.NewLoader().LoadFromData(w.get("/api").want(t, http.StatusOK).body)
	if err != nil {
		t.Fatal(err)
	}
	served.Servers = openapi3.Servers{{URL: w.server.URL}}
	router, err := legacy.NewRouter(served)
	if err != nil {
		t.Fatalf("the served document is not OpenAPI 3.0: %v", err)
	}
	return &rules{standard: readStandard(t), router: router}
}

// readStandard reads the schemas of testdata/standard.
func readStandard(t testing.TB) openapi3.Schemas {
	t.Helper()
	files, err := filepath.Glob("testdata/standard/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no schemas found", err)
	}
	document := &openapi3.T{OpenAPI: "3.0.3", Info: &openapi3.Info{Title: "standard", Version: "1.0"}, Paths: openapi3.NewPaths(),
		Components: &openapi3.Components{Schemas: openapi3.Schemas{}}}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		document.Components.Schemas[name] = &openapi3.SchemaRef{Ref: name + ".yaml"}
	}
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = true
	read := openapi3.ReadFromFile
	loader.ReadFromURIFunc = func(l *openapi3.Loader, location *url.URL) ([]byte, error) {
		content, err := read(l, location)
		if strings.HasSuffix(location.Path, "/inputValueNoObject.yaml") { // see testdata/standard/README.md
			content = bytes.Replace(content, []byte("oneOf:"), []byte("anyOf:"), 1)
		}
		return content, err
	}
	root, err := filepath.Abs("testdata/standard/root")
	if err != nil {
		t.Fatal(err)
	}
	if err := loader.ResolveRefsIn(document, &url.URL{Path: filepath.ToSlash(root)}); err != nil {
		t.Fatal(err)
	}
	return document.Components.Schemas
}

// schemaOf returns the standard's schema of a successful answer; "": none.
func schemaOf(method, path string, status int) string {
	if path == "/processes/{processID}/execution" && (status == http.StatusCreated || status == http.StatusSeeOther) {
		return "statusInfo"
	}
	return map[string]string{
		"GET /": "landingPage", "GET /conformance": "confClasses", "GET /processes": "processList", "GET /processes/{processID}": "process",
		"GET /jobs": "jobList", "GET /jobs/{jobID}": "statusInfo", "DELETE /jobs/{jobID}": "statusInfo", "GET /jobs/{jobID}/results": "results",
	}[method+" "+path]
}

func (u *rules) check(t testing.TB, r *http.Request, response *http.Response, body []byte) {
	t.Helper()
	if strings.HasPrefix(r.URL.Path, "/api/v1/") {
		return // Waybill's own API has another document
	}
	kind := response.Header.Get("Content-Type")
	isHTML := strings.HasPrefix(kind, "text/html")
	route, parameters, err := u.router.FindRoute(r)
	if err != nil { // not a path of this API, or not a method of the path
		if response.StatusCode < http.StatusBadRequest {
			t.Errorf("%s %s is not described: %v", r.Method, r.URL, err)
		}
		return
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil && response.StatusCode < http.StatusBadRequest {
		t.Errorf("%s %s was taken, and is not described: %v", r.Method, r.URL, err)
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{RequestValidationInput: input,
		Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(body)), Options: input.Options})
	if err != nil {
		t.Errorf("%s %s: the answer is not as the API's own document says: %v\n%s", r.Method, r.URL, err, body)
	}
	if isHTML {
		return
	}
	name := schemaOf(r.Method, route.Path, response.StatusCode)
	if name == "results" && r.URL.Query().Get("response") != "document" {
		name = "" // any content is valid
	}
	if response.StatusCode >= http.StatusBadRequest {
		name = "exception"
		if kind != "application/problem+json" {
			t.Errorf("%s %s: an error of type %s", r.Method, r.URL, kind)
		}
	}
	u.obeys(t, name, body)
}

// obeys fails the test unless a document matches one of the standard's schemas.
func (u *rules) obeys(t testing.TB, name string, body []byte) {
	t.Helper()
	if name == "" {
		return
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Errorf("%s: %v", body, err)
		return
	}
	if err := u.standard[name].Value.VisitJSON(value, openapi3.MultiErrors()); err != nil {
		t.Errorf("the standard's %s refuses: %v\n%s", name, err, body)
	}
}
