package broker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/services"
)

// FuzzRequests sends requests of any bytes that package http accepts to one broker, whose service instances are those of the requests
// before. No answer is a fault of the broker, each is JSON, and one that refuses stores nothing.
func FuzzRequests(f *testing.F) {
	text := provision("x").text()
	f.Add("PUT", "/v2/service_instances/a?accepts_incomplete=true", "X-Broker-API-Version: 2.17", text)
	f.Add("PUT", "/v2/service_instances/a%2F..?accepts_incomplete=true", "X-Broker-API-Version: 2.17", text)
	f.Add("PATCH", "/v2/service_instances/a?accepts_incomplete=true", "X-Broker-API-Version: 2.17", `{"service_id":"folder","parameters":{"size":4}}`)
	f.Add("GET", "/v2/service_instances/a/last_operation?operation=provision", "X-Broker-API-Version: 2.17", "")
	f.Add("PUT", "/v2/service_instances/a/service_bindings/b", "X-Broker-API-Version: 2.17", `{"service_id":"folder","plan_id":"small"}`)
	f.Add("DELETE", "/v2/service_instances/a?accepts_incomplete=true&service_id=folder&plan_id=small", "X-Broker-API-Version: 2.17", "")
	f.Add("GET", "/v2/catalog", "X-Broker-API-Version: 2.0\r\nIf-None-Match: *", "")
	f.Add("CONNECT", "/v2/catalog", "X-Broker-API-Version: 2.0", "")
	f.Add("GET", "http://a/v2//catalog", "Host: b", "")
	f.Add("OPTIONS", "*", "X-Broker-API-Version: 2.0", "")
	f.Add("PUT", "/v2/service_instances/b?accepts_incomplete=true",
		"X-Broker-API-Version: 2.17\r\nX-Broker-API-Originating-Identity: a eyJhIjoxfQ==", strings.Replace(text, `{"size":2}`, `{"data":"\u0000"}`, 1))
	w := serve(f, openSQLite)
	f.Fuzz(func(t *testing.T, method, target, headers, body string) {
		raw := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: broker\r\nContent-Length: %d\r\n%s\r\n\r\n%s", method, target, len(body), headers, body)
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil {
			return // package http refuses it
		}
		r.SetBasicAuth(user, password)
		before := w.row(r)
		answered := httptest.NewRecorder()
		w.server.Config.Handler.ServeHTTP(answered, r)
		after := w.row(r)
		if answered.Code >= http.StatusInternalServerError {
			t.Fatalf("%q: %d %s", raw, answered.Code, answered.Body)
		}
		if diff := cmp.Diff(before, after); answered.Code >= http.StatusBadRequest && diff != "" {
			t.Errorf("%q: %d %s (-before +after):\n%s", raw, answered.Code, answered.Body, diff)
		}
		if answered.Code != http.StatusNotModified && !json.Valid(answered.Body.Bytes()) {
			t.Errorf("%q: %d %q", raw, answered.Code, answered.Body)
		}
	})
}

// row returns the row of the service instance that a request may mean.
func (w *world) row(r *http.Request) *services.Instance {
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), "/v2/service_instances/")
	segment, _, _ := strings.Cut(rest, "/")
	id, err := url.PathUnescape(segment)
	if err != nil {
		return nil
	}
	row, err := w.ledger.Services.Get(r.Context(), id)
	if err != nil {
		return nil // an id that cannot be stored
	}
	return row
}
