package broker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
)

// Names of the standard's headers.
const (
	versionHeader     = "X-Broker-API-Version"
	identityHeader    = "X-Broker-API-Request-Identity"
	originatingHeader = "X-Broker-API-Originating-Identity"
)

const accept = "accepts_incomplete=true"

// fields is the body of a request.
type fields map[string]any

// request is one of a platform. The zero values of user and version are those of the tests.
type request struct {
	method, path, query string
	body                fields
	raw                 string // body as it is sent, instead of the fields
	user, password      string
	version             string // "none": not sent
	header              map[string]string
}

// instancePath returns the path of a service instance, whatever bytes the id has.
func instancePath(id string) string { return "/v2/service_instances/" + escape(id) }

func bindingPath(instance, id string) string {
	return instancePath(instance) + "/service_bindings/" + escape(id)
}

// escape encodes every byte of an id that could mean something in a path.
func escape(id string) string { return strings.ReplaceAll(url.PathEscape(id), ".", "%2E") }

// provision returns the request for a folder of size 2.
func provision(id string) request {
	return request{method: http.MethodPut, path: instancePath(id), query: accept, body: fields{"service_id": "folder", "plan_id": "small",
		"organization_guid": "o", "space_guid": "s", "parameters": fields{"size": 2}}}
}

// update returns the request for a size.
func update(id string, size int) request {
	return request{method: http.MethodPatch, path: instancePath(id), query: accept,
		body: fields{"service_id": "folder", "parameters": fields{"size": size}}}
}

const ids = "service_id=folder&plan_id=small"

func deprovision(id string) request {
	return request{method: http.MethodDelete, path: instancePath(id), query: accept + "&" + ids}
}

func get(id string) request { return request{method: http.MethodGet, path: instancePath(id)} }

func poll(id, operation string) request {
	r := request{method: http.MethodGet, path: instancePath(id) + "/last_operation"}
	if operation != "" {
		r.query = "operation=" + url.QueryEscape(operation)
	}
	return r
}

func bind(instance, id string) request {
	return request{method: http.MethodPut, path: bindingPath(instance, id), body: fields{"service_id": "folder", "plan_id": "small"}}
}

func unbind(instance, id string) request {
	return request{method: http.MethodDelete, path: bindingPath(instance, id), query: ids}
}

func getBinding(instance, id string) request {
	return request{method: http.MethodGet, path: bindingPath(instance, id)}
}

// with returns the request with a field of the body; nil removes it.
func (r request) with(name string, value any) request {
	body := fields{}
	for n, v := range r.body {
		body[n] = v
	}
	body[name] = value
	if value == nil {
		delete(body, name)
	}
	r.body = body
	return r
}

func (r request) asking(query string) request { r.query = query; return r }

func (r request) as(user, password string) request { r.user, r.password = user, password; return r }

func (r request) other() request { return r.as(otherUser, otherPassword) }

func (r request) heading(name, value string) request {
	header := map[string]string{name: value}
	for n, v := range r.header {
		if n != name {
			header[n] = v
		}
	}
	r.header = header
	return r
}

// text returns the body as it is sent.
func (r request) text() string {
	if r.raw != "" || r.body == nil {
		return r.raw
	}
	text, _ := json.Marshal(r.body)
	return string(text)
}

// answer is a checked answer.
type answer struct {
	t       testing.TB
	request request
	status  int
	header  http.Header
	body    string
	fields  map[string]any
}

// send sends a request, and checks the rules of every answer.
func (w *world) send(r request) answer {
	w.t.Helper()
	target := w.server.URL + r.path
	if r.query != "" {
		target += "?" + r.query
	}
	sent, err := http.NewRequestWithContext(w.t.Context(), r.method, target, strings.NewReader(r.text()))
	check(w.t, err)
	if r.user == "" {
		r.user, r.password = user, password
	}
	sent.SetBasicAuth(r.user, r.password)
	if r.text() != "" {
		sent.Header.Set("Content-Type", "application/json")
	}
	if r.version != "none" {
		sent.Header.Set(versionHeader, "2.17")
		if r.version != "" {
			sent.Header.Set(versionHeader, r.version)
		}
	}
	identity := fmt.Sprintf("request-%d", w.requests.Add(1))
	sent.Header.Set(identityHeader, identity)
	for name, value := range r.header {
		sent.Header.Set(name, value)
		if value == "" {
			sent.Header.Del(name)
		}
	}
	// A redirect would be followed, and show as a wrong status.
	received, err := http.DefaultClient.Do(sent)
	check(w.t, err)
	defer received.Body.Close()
	body, err := io.ReadAll(received.Body)
	check(w.t, err)
	a := answer{t: w.t, request: r, status: received.StatusCode, header: received.Header, body: string(body)}
	if got := a.header.Get(identityHeader); got != identity {
		w.t.Errorf("%s: the request's identity is %q, want %q", a, got, identity)
	}
	a.check()
	a.obeysStandard(sent)
	return a
}

// String returns the exchange in one line.
func (a answer) String() string {
	return fmt.Sprintf("%s %.80s?%.80s %.200s as %s: %d %.400s", a.request.method, a.request.path, a.request.query, a.request.text(),
		a.request.user, a.status, a.body)
}

// check checks the rules of every answer.
func (a *answer) check() {
	a.t.Helper()
	if a.status == http.StatusNotModified || a.request.method == http.MethodHead {
		if a.body != "" {
			a.t.Errorf("%s: want no body", a)
		}
		return
	}
	if kind := a.header.Get("Content-Type"); kind != "application/json" {
		a.t.Errorf("%s: Content-Type %q", a, kind)
	}
	if err := json.Unmarshal([]byte(a.body), &a.fields); err != nil {
		a.t.Errorf("%s: %v", a, err)
	}
	for name, value := range a.fields {
		if value == nil {
			a.t.Errorf("%s: %s is null", a, name)
		}
	}
	text, _ := a.fields["description"].(string)
	if a.status < http.StatusBadRequest {
		return
	}
	if a.code() == "" || text == "" || len(text) > 1<<10 || !utf8.ValidString(text) {
		a.t.Errorf("%s: want an error with a code and a description of at most 1 KiB", a)
	}
	if a.status == http.StatusUnauthorized && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") {
		a.t.Errorf("%s: WWW-Authenticate %q", a, a.header.Get("WWW-Authenticate"))
	}
	for _, name := range []string{"instance_usable", "update_repeatable"} {
		if value, ok := a.fields[name]; ok && (name == "instance_usable" || a.request.method != http.MethodPatch) {
			a.t.Errorf("%s: %s is %v", a, name, value)
		}
	}
}

// code returns the code of an error; "" if there is none.
func (a answer) code() string {
	code, _ := a.fields["error"].(string)
	return code
}

// want fails the test unless the answer has a status and, where it is an error, a code.
func (a answer) want(status int, code string) answer {
	a.t.Helper()
	if a.status != status || a.code() != code {
		a.t.Fatalf("%s\nwant %d %s", a, status, code)
	}
	return a
}

// describes fails the test unless the description contains a text.
func (a answer) describes(text string) answer {
	a.t.Helper()
	if got, _ := a.fields["description"].(string); !strings.Contains(got, text) {
		a.t.Errorf("%s\nwant a description with %q", a, text)
	}
	return a
}

// is fails the test unless the body is a JSON object.
func (a answer) is(want string) answer {
	a.t.Helper()
	var fields map[string]any
	check(a.t, json.Unmarshal([]byte(want), &fields))
	if diff := cmp.Diff(fields, a.fields); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", a, diff)
	}
	return a
}

// operation returns the id of the operation of a 202.
func (a answer) operation() action.ID {
	a.t.Helper()
	text, _ := a.want(http.StatusAccepted, "").fields["operation"].(string)
	id, err := action.ParseID(text)
	if err != nil {
		a.t.Fatalf("%s: %v", a, err)
	}
	return id
}

// stored holds the content of the log about service instances.
type stored struct {
	Rows       []services.Instance
	Operations []action.ID
}

// stored returns the rows and the operations. Bindings have no list: tests read those that they mean.
func (w *world) stored() (s stored) {
	w.t.Helper()
	var err error
	s.Rows, err = w.ledger.Services.List(w.t.Context(), "", 1000)
	check(w.t, err)
	actions, err := w.ledger.Actions(w.t.Context(), queue.ActionQuery{Kind: services.Kind})
	check(w.t, err)
	for _, a := range actions {
		s.Operations = append(s.Operations, a.ID)
	}
	return s
}

// unchanged fails the test unless the log is as it was.
func (w *world) unchanged(before stored) {
	w.t.Helper()
	if diff := cmp.Diff(before, w.stored()); diff != "" {
		w.t.Errorf("the log has changed (-before +now):\n%s", diff)
	}
}
