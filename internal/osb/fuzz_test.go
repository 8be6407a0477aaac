package osb

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzRequests checks that no request makes a parser panic, that each refusal is a 4xx with a reason, and that
// the values of an accepted request, written again, parse to the same values.
func FuzzRequests(f *testing.F) {
	f.Add("2.17", "cloudfoundry e30=", "demo-1", "b", "accepts_incomplete=true&service_id=a&plan_id=b&operation=update",
		[]byte(whole(`,"parameters":{"a":[1.0,null,"\u0041"]},"context":{"platform":"cloudfoundry","namespace":"n"},`+
			`"maintenance_info":{"version":"1.0.0"}`)))
	f.Add("2.0", "", "a/b", "%", "service_id=%00&plan_id=;", []byte(`{"service_id":"x","previous_values":{},"plan_id":null}`))
	f.Add("3.1", "x", "", "", "%", []byte(`[[[[`))
	f.Fuzz(func(t *testing.T, version, identity, instance, binding, query string, body []byte) {
		r := Request{Header: http.Header{"X-Broker-Api-Version": {version}}, Instance: instance, Binding: binding, Query: query, Body: body}
		if identity != "" {
			r.Header.Set("X-Broker-API-Originating-Identity", identity)
		}
		again(t, r, Request.Provision, func(p Provision) (Request, string) {
			a := p.Attributes
			return written(r, p.AcceptsIncomplete, "", ""), object(
				"service_id", a.ServiceID, "plan_id", a.PlanID, "organization_guid", a.Organization, "space_guid", a.Space,
				"parameters", raw(a.Parameters), "context", raw(a.Context),
				"maintenance_info", map[string]any{"version": a.Maintenance})
		})
		again(t, r, Request.Update, func(u Update) (Request, string) {
			var parameters, context any
			if u.Parameters != nil {
				parameters = raw(*u.Parameters)
			}
			if u.Context != nil {
				context = raw(u.Context.Text)
			}
			var plan any
			if u.PlanID != "" {
				plan = u.PlanID
			}
			return written(r, u.AcceptsIncomplete, "", ""), object("service_id", u.ServiceID, "plan_id", plan, "parameters", parameters,
				"context", context, "maintenance_info", map[string]any{"version": u.Maintenance})
		})
		again(t, r, Request.Deprovision, func(d Deprovision) (Request, string) {
			return written(r, d.AcceptsIncomplete, d.ServiceID, d.PlanID), ""
		})
		again(t, r, Request.Unbind, func(u Unbind) (Request, string) { return written(r, false, u.ServiceID, u.PlanID), "" })
		again(t, r, Request.Bind, func(b Bind) (Request, string) {
			return written(r, false, "", ""), object("service_id", b.ServiceID, "plan_id", b.PlanID, "parameters", raw(b.Parameters))
		})
		again(t, r, Request.Fetch, func(Fetch) (Request, string) { return r, "" })
		again(t, r, Request.FetchBinding, func(Fetch) (Request, string) { return r, "" })
	})
}

// again parses a request, and then its values written again.
func again[T any](t *testing.T, r Request, parse func(Request) (T, *Error), write func(T) (Request, string)) {
	t.Helper()
	first, err := parse(r)
	if err != nil {
		if err.Status < 400 || err.Status > 499 || err.Description == "" || err.Code == "" {
			t.Fatalf("%T: a bad error: %+v", first, err)
		}
		return
	}
	repeated, body := write(first)
	repeated.Body = []byte(body)
	second, err := parse(repeated)
	if diff := cmp.Diff(first, second); err != nil || diff != "" {
		t.Fatalf("%T, read again from %s: %v (-first +second):\n%s", first, body, err, diff)
	}
}

// written returns a request with the query that was read.
func written(r Request, accepts bool, service, plan string) Request {
	query := url.Values{}
	if accepts {
		query.Set("accepts_incomplete", "true")
	}
	query.Set("service_id", service)
	query.Set("plan_id", plan)
	r.Query = query.Encode()
	return r
}

func raw(text Canonical) any {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// object returns a JSON object of the names and values that alternate in pairs.
func object(pairs ...any) string {
	fields := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i].(string)] = pairs[i+1]
	}
	text, _ := json.Marshal(fields)
	return string(text)
}
