package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// omitted lists the statuses that the document lacks for a route, and why the broker answers with them all the same. Methods and addresses
// that it lacks (405, 404), and requests that end before they are read (408), are not in it at all.
var omitted = []struct {
	method, path string // path of the document, or its end; "": any
	status       int
	reason       string
}{
	{"GET", "/v2/catalog", 304, "the prose allows ETag and If-None-Match for the catalog"},
	{"", "", 401, "the prose demands it of every route; the document has it not for some of GET"},
	{"", "", 412, "the prose demands it of every route for a version that is not served"},
	{"GET", "", 400, "a malformed header or query: the prose has it for every route"},
	{"", "", 413, "HTTP: a body without a bound would fill the memory"},
	{"", "", 429, "HTTP: failed logins are limited"},
	{"", "", 503, "the prose has it for every route: the broker cannot answer now"},
	{"", "", 500, "a fault of the program"},
	{"PATCH", "", 404, "the prose: a broker should refuse an update of a service instance that does not exist"},
	{"PUT", "/service_bindings/{binding_id}", 404, "likewise for a bind"},
	{"GET", "/v2/service_instances/{instance_id}", 422, "the prose: ConcurrencyError while the service instance is changed"},
}

// document is the standard's document.
type document struct {
	*openapi3.T
	router routers.Router
}

var readDocument = sync.OnceValues(func() (*document, error) { //nolint:gochecknoglobals // read once for all tests
	content, err := os.ReadFile("testdata/openapi-2.17.yaml")
	if err != nil {
		return nil, err
	}
	parsed, err := openapi3.NewLoader().LoadFromData(content)
	if err != nil {
		return nil, err
	}
	parsed.Servers = openapi3.Servers{{URL: "http://broker"}}
	router, err := legacy.NewRouter(parsed)
	return &document{parsed, router}, err
})

// exception returns why the document lacks a status of a route; "": it should not.
func exception(method, path string, status int) string {
	for _, o := range omitted {
		if o.status == status && (o.method == "" || o.method == method) && (o.path == "" || strings.HasSuffix(path, o.path)) {
			return o.reason
		}
	}
	return ""
}

// obeysStandard fails the test unless the document describes an exchange, or an exception is listed.
func (a answer) obeysStandard(sent *http.Request) {
	a.t.Helper()
	d, err := readDocument()
	check(a.t, err)
	if err := d.refuses(sent, a); err != nil {
		a.t.Errorf("%s\nis not as the standard's document says: %v", a, err)
	}
}

// mounted matches the part of an address that names the namespace of its catalog.
var mounted = regexp.MustCompile(`^/ns/[^/]+`)

func (d *document) refuses(sent *http.Request, a answer) error {
	described, err := http.NewRequestWithContext(sent.Context(), sent.Method, "http://broker"+mounted.ReplaceAllString(sent.URL.RequestURI(), ""), strings.NewReader(a.request.text()))
	if err != nil {
		return err
	}
	described.Header = sent.Header.Clone()
	route, parameters, err := d.router.FindRoute(described)
	if err != nil || strings.HasSuffix(sent.URL.Path, "/") { // not an address of the document
		if a.status < http.StatusBadRequest && sent.Method != http.MethodHead {
			return errors.New("the address is not described")
		}
		return nil
	}
	input := &openapi3filter.RequestValidationInput{Request: described, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if err := openapi3filter.ValidateRequest(sent.Context(), input); err != nil && a.status < http.StatusBadRequest {
		return fmt.Errorf("the broker takes the request: %w", err)
	}
	if route.Operation.Responses.Status(a.status) != nil {
		return openapi3filter.ValidateResponse(sent.Context(), &openapi3filter.ResponseValidationInput{RequestValidationInput: input,
			Status: a.status, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body)), Options: input.Options})
	}
	if exception(sent.Method, route.Path, a.status) == "" {
		return fmt.Errorf("status %d is not described", a.status)
	}
	if a.status == http.StatusNotModified {
		return nil
	}
	return d.Components.Schemas["Error"].Value.VisitJSON(a.fields)
}

// TestTheDocumentIsApplied checks the check.
func TestTheDocumentIsApplied(t *testing.T) {
	t.Parallel()
	d, err := readDocument()
	check(t, err)
	for _, c := range []struct {
		request request
		status  int
		body    string
		refused bool
	}{
		{poll("demo", ""), 200, `{"state":"failed"}`, false},
		{poll("demo", ""), 200, `{"state":"done"}`, true},
		{poll("demo", ""), 200, `{}`, true},
		{poll("demo", ""), 202, `{"state":"failed"}`, true},
		{poll("demo", ""), 503, `{"error":"Unavailable"}`, false},
		{poll("demo", ""), 503, `{"error":1}`, true},
		{provision("demo"), 202, `{"operation":"x"}`, false},
		{provision("demo"), 202, `{"operation":1}`, true},
		{provision("demo"), 404, `{"error":"x"}`, true},
		{provision("demo").with("space_guid", nil), 202, `{"operation":"x"}`, true},
		{provision("demo").with("space_guid", nil), 400, `{"error":"x"}`, false},
		{fetchCatalog, 200, `{"services":[{"id":"a"}]}`, true},
		{request{method: http.MethodGet, path: "/v3/catalog"}, 200, `{}`, true},
	} {
		sent, err := http.NewRequestWithContext(t.Context(), c.request.method, "http://a"+c.request.path+"?"+c.request.query, nil)
		check(t, err)
		sent.Header.Set(versionHeader, "2.17")
		sent.Header.Set("Content-Type", "application/json")
		a := answer{t: t, request: c.request, status: c.status, body: c.body, header: http.Header{"Content-Type": {"application/json"}}}
		check(t, json.Unmarshal([]byte(c.body), &a.fields))
		if err := d.refuses(sent, a); (err != nil) != c.refused {
			t.Errorf("%s: %v, want a refusal: %t", a, err, c.refused)
		}
	}
}

// TestExceptionsAreNeeded: for each there is a route whose document lacks the status.
func TestExceptionsAreNeeded(t *testing.T) {
	t.Parallel()
	d, err := readDocument()
	check(t, err)
	needed := map[int]bool{}
	for path, item := range d.Paths.Map() {
		for method, operation := range item.Operations() {
			for i, o := range omitted {
				fits := (o.method == "" || o.method == method) && (o.path == "" || strings.HasSuffix(path, o.path))
				if fits && operation.Responses.Status(o.status) == nil {
					needed[i] = true
				}
			}
		}
	}
	for i, o := range omitted {
		if !needed[i] || o.reason == "" {
			t.Errorf("the exception for %s %s, %d is not needed", o.method, o.path, o.status)
		}
	}
}
