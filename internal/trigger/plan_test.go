package trigger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/trigger"
)

// handler returns a target that takes anything but the parameter "bad".
func handler() callback.Target {
	return callback.Target{Handler: "mail", Prepare: func(raw json.RawMessage) (action.Action, error) {
		if strings.Contains(string(raw), `"bad"`) {
			return action.Action{}, errors.New(`unknown parameter "bad"`)
		}
		return action.Action{Kind: "action", Name: "mail", Handler: "mail", Lane: "mail/x", Parameters: raw,
			Delivery: action.AtMostOnce}, nil
	}}
}

// process returns a target that executes a process.
func process() callback.Target {
	return callback.Target{Handler: "argo", Process: "import", Prepare: func(raw json.RawMessage) (action.Action, error) {
		if strings.Contains(string(raw), `"bad"`) {
			return action.Action{}, errors.New(`unknown input "bad"`)
		}
		return action.Action{Kind: action.KindJob, Name: "import", Version: 3, Handler: "argo", Lane: "argo",
			CacheKey: action.ID{1}, Parameters: raw}, nil
	}}
}

// from returns a parameter with a path.
func from(t testing.TB, name, path string) trigger.Parameter {
	t.Helper()
	p, err := trigger.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	return trigger.Parameter{Name: name, Path: p}
}

// value returns a parameter with a value.
func value(t testing.TB, name, text string) trigger.Parameter {
	return trigger.Parameter{Name: name, Value: decode(t, text)}
}

func TestPlanMakesAnActionOfAHandler(t *testing.T) {
	tr := &trigger.Trigger{Name: "order-created", Target: handler(), Parameters: []trigger.Parameter{from(t, "order",
		"$.data.id"), value(t, "region", `"eu"`)}}
	got := trigger.Plan(tr, event(t, `, "data": {"id": 42}`))
	want := callback.Planned{Action: action.Action{Kind: "event", Name: "order-created", Handler: "mail", Lane: "mail/x",
		Delivery:  action.AtMostOnce,
		CreatedBy: "trigger order-created, event 1 of /shop", Parameters: json.RawMessage(`{"order":42,"region":"eu"}`)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanMakesAJobOfAProcess(t *testing.T) {
	got := trigger.Plan(&trigger.Trigger{Name: "order-created", Target: process()}, event(t, ""))
	want := callback.Planned{Action: action.Action{Kind: "job", Name: "import", Version: 3, Handler: "argo",
		Lane: "argo", CacheKey: action.ID{1},
		CreatedBy: "trigger order-created, event 1 of /shop", Parameters: json.RawMessage(`{}`)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanTakesParametersFromTheEvent(t *testing.T) {
	const data = `, "subject": "eu/7", "size": 5, "express": true, "data": {"id": 42, "sum": 1.10,
		"big": 12345678901234567890, "none": null, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}], "odd key": 1e400}`
	for _, c := range []struct {
		name, more string
		path, want string // want: value of the parameter; "": it is left out
	}{
		{name: "attribute", more: data, path: "$.source", want: `"/shop"`},
		{name: "version", more: data, path: "$.specversion", want: `"1.0"`},
		{name: "without $", more: data, path: ".subject", want: `"eu/7"`},
		{name: "integer", more: data, path: "$.size", want: `5`},
		{name: "boolean", more: data, path: "$.express", want: `true`},
		{name: "absent attribute", more: data, path: "$.time"},
		{name: "value", more: data, path: "$.data.id", want: `42`},
		{name: "digits", more: data, path: "$.data.sum", want: `1.10`},
		{name: "many digits", more: data, path: "$.data.big", want: `12345678901234567890`},
		{name: "large number", more: data, path: "$.data['odd key']", want: `1e400`},
		{name: "null", more: data, path: "$.data.none", want: `null`},
		{name: "absent value", more: data, path: "$.data.missing"},
		{name: "absent in a text", more: data, path: "$.source.x"},
		{name: "index", more: data, path: "$.data.lines[-1].sku", want: `"b"`},
		{name: "index too large", more: data, path: "$.data.lines[2]"},
		{name: "list", more: data, path: "$.data.lines[*].sku", want: `["a","b"]`},
		{name: "list of one", more: data, path: "$.data.lines[?@.n > 1].sku", want: `["b"]`},
		{name: "empty list", more: data, path: "$.data.lines[?@.n > 2].sku", want: `[]`},
		{name: "slice", more: data, path: "$.data.lines[0:1].n", want: `[1]`},
		{name: "descendants", more: data, path: "$..sku", want: `["a","b"]`},
		{name: "whole data", more: `, "data": [1, {"a": "<&>"}]`, path: "$.data", want: `[1,{"a":"<&>"}]`},
		{name: "data is null", more: `, "data": null`, path: "$.data", want: `null`},
		{name: "no data", path: "$.data"},
		{name: "no data to look into", path: "$.data.id"},
		{name: "text", more: `, "datacontenttype": "text/plain", "data": "a\nb"`, path: "$.data", want: `"a\nb"`},
		{name: "bytes", more: `, "datacontenttype": "image/png", "data_base64": "AP8="`, path: "$.data", want: `"AP8="`},
		{name: "whole event", path: "$",
			want: `{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created.v1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			planned := trigger.Plan(&trigger.Trigger{Name: "t", Target: handler(), Parameters: []trigger.Parameter{from(t, "p",
				c.path)}}, event(t, c.more))
			want := map[string]any{}
			if c.want != "" {
				want["p"] = decode(t, c.want)
			}
			if planned.Fault != "" {
				t.Fatal(planned.Fault)
			}
			if diff := cmp.Diff(any(want), decode(t, string(planned.Action.Parameters))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlansAreTheSameInEveryMode(t *testing.T) {
	binary := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/shop"},
		"Ce-Type":      {"order.created.v1"},
		"Content-Type": {"application/json"}}
	events, _, err := cloudevent.Read(binary, []byte(`{"id": 42}`))
	if err != nil {
		t.Fatal(err)
	}
	tr := &trigger.Trigger{Name: "t", Target: process(), Parameters: []trigger.Parameter{from(t, "all", "$")}}
	inJSON := trigger.Plan(tr, event(t, `, "datacontenttype": "application/json", "data": {"id": 42}`))
	if diff := cmp.Diff(inJSON, trigger.Plan(tr, &events[0])); diff != "" {
		t.Errorf("(-structured +binary):\n%s", diff)
	}
}

// TestWhatDoesNotFitIsAFailedAction checks plans with a fault, of which the rest is the same whatever the fault is.
func TestWhatDoesNotFitIsAFailedAction(t *testing.T) {
	long := strings.Repeat("1", 1001)
	for _, c := range []struct {
		name, more, code, want string
		target                 callback.Target
		parameters             []trigger.Parameter
	}{
		{name: "schema of a handler", target: handler(), parameters: []trigger.Parameter{value(t, "bad", `1`)},
			code: callback.CodeParameters, want: `unknown parameter "bad"`},
		{name: "schema of a process", target: process(), parameters: []trigger.Parameter{value(t, "bad", `1`)},
			code: callback.CodeParameters, want: `unknown input "bad"`},
		{name: "a path over too many nodes", target: handler(), parameters: []trigger.Parameter{from(t, "all", "$..*..*..*")},
			more: `, "data": ` + strings.Repeat("[", 90) + strings.TrimSuffix(strings.Repeat("[],", 1000),
				",") + strings.Repeat("]", 90),
			code: callback.CodeParameters, want: `parameter "all": $..[*]..[*]..[*] looks at too many nodes`},
		{name: "all paths together", target: handler(), more: `, "data": [` + strings.Repeat("1,", 300_000) + `1]`,
			code: callback.CodeParameters,
			parameters: []trigger.Parameter{from(t, "a", "$.data[*]"), from(t, "b", "$.data[*]"), from(t, "c", "$.data[*]"),
				from(t, "d", "$.data[*]")},
			want: `parameter "d": $["data"][*] looks at too many nodes`},
		{name: "one text many times", target: handler(), more: `, "data": {"a": "` + strings.Repeat("x", 1<<20) + `"}`,
			code:       callback.CodeParameters,
			parameters: []trigger.Parameter{from(t, "a", "$.data['a','a','a','a','a','a','a','a']")},
			want:       `parameter "a": looks at too many nodes`},
		{name: "a long number", target: handler(), more: `, "data": [` + long + `]`, parameters: []trigger.Parameter{from(t,
			"a", "$.id")},
			code: callback.CodeDocument, want: "the event has a number of more than 1000 characters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := trigger.Plan(&trigger.Trigger{Name: "order-created", Target: c.target, Parameters: c.parameters}, event(t,
				c.more))
			want := callback.Planned{Code: c.code, Fault: c.want, Action: action.Action{Kind: "event", Name: "order-created",
				Handler:   c.target.Handler,
				CreatedBy: "trigger order-created, event 1 of /shop", Policy: action.DefaultPolicy(), Delivery: action.AtLeastOnce}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheLargestEventFitsTheBudget(t *testing.T) {
	elements := (1<<20 - 200) / 2
	e := event(t, `, "data": [`+strings.Repeat("1,", elements)+`1]`)
	for _, path := range []string{"$", "$.data", "$.data[*]", "$.data[?@ > 1]"} {
		planned := trigger.Plan(&trigger.Trigger{Name: "t", Target: handler(), Parameters: []trigger.Parameter{from(t, "p",
			path)}}, e)
		if planned.Fault != "" {
			t.Errorf("%s: %s", path, planned.Fault)
		}
	}
}

func TestParsePathKnowsTheMembersOfAnEvent(t *testing.T) {
	for path, want := range map[string]string{
		"$": "", "$.data": "", "$.data.Any_Name": "", "$.type": "", "$.myextension": "", "$['data'][0]": "", "$..id": "",
		"$.*": "", ".data": "",
		"$.Type":        `want an attribute or $.data: "Type" cannot be an attribute: want at most 64 of a-z and 0-9`,
		"$.data_base64": `want an attribute or $.data: "data_base64" cannot be an attribute: want at most 64 of a-z and 0-9`,
		"$.data[":       `"$.data[" is not a valid JSONPath: `, // and the reason of the library
	} {
		_, err := trigger.ParsePath(path)
		if got := fmt.Sprint(err); (want == "") != (err == nil) || err != nil && !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %q", path, got, want)
		}
	}
}
