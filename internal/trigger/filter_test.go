package trigger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/trigger"
)

// decode reads JSON with numbers as json.Number.
func decode(t testing.TB, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// event returns an event with some more members, each after a comma.
func event(t testing.TB, more string) *cloudevent.Event {
	t.Helper()
	events, _, err := cloudevent.Read(http.Header{"Content-Type": {"application/cloudevents+json"}},
		[]byte(`{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created.v1"`+more+`}`))
	if err != nil {
		t.Fatalf("%s: %v", more, err)
	}
	return &events[0]
}

func TestFiltersCompareAttributes(t *testing.T) {
	e := event(t, `, "subject": "eu/7", "size": 12, "express": true, "note": "", "data": {"x": "y"},
		"time": "2026-01-01T00:00:00Z"`)
	for filter, want := range map[string]bool{
		`{"exact": {"type": "order.created.v1"}}`:                                                               true,
		`{"exact": {"type": "order.created"}}`:                                                                  false,
		`{"exact": {"type": "Order.Created.V1"}}`:                                                               false,
		`{"exact": {"type": "order.created.v1", "source": "/shop"}}`:                                            true,
		`{"exact": {"type": "order.created.v1", "source": "/"}}`:                                                false,
		`{"exact": {"specversion": "1.0", "id": "1"}}`:                                                          true,
		`{"exact": {"size": "12", "express": "true"}}`:                                                          true,
		`{"exact": {"size": "12.0"}}`:                                                                           false,
		`{"exact": {"missing": "x"}}`:                                                                           false,
		`{"exact": {"time": "2026-01-01T00:00:00Z"}}`:                                                           true,
		`{"exact": {"time": "2026-01-01T00:00:00+00:00"}}`:                                                      false,
		`{"prefix": {"subject": "eu/"}}`:                                                                        true,
		`{"prefix": {"subject": "eu/7"}}`:                                                                       true,
		`{"prefix": {"subject": "eu/71"}}`:                                                                      false,
		`{"prefix": {"subject": "u/"}}`:                                                                         false,
		`{"prefix": {"subject": "eu/", "type": "order."}}`:                                                      true,
		`{"prefix": {"subject": "eu/", "type": "x"}}`:                                                           false,
		`{"prefix": {"size": "1"}}`:                                                                             true,
		`{"prefix": {"dataschema": "h"}}`:                                                                       false,
		`{"prefix": {"note": "x"}}`:                                                                             false,
		`{"suffix": {"type": ".v1"}}`:                                                                           true,
		`{"suffix": {"type": ".v"}}`:                                                                            false,
		`{"suffix": {"type": ".v1", "subject": "7"}}`:                                                           true,
		`{"suffix": {"type": ".v1", "subject": "8"}}`:                                                           false,
		`{"suffix": {"missing": "x"}}`:                                                                          false,
		`{"all": [{"exact": {"id": "1"}}, {"prefix": {"subject": "eu/"}}]}`:                                     true,
		`{"all": [{"exact": {"id": "1"}}, {"prefix": {"subject": "us/"}}]}`:                                     false,
		`{"any": [{"exact": {"id": "2"}}, {"prefix": {"subject": "eu/"}}]}`:                                     true,
		`{"any": [{"exact": {"id": "2"}}, {"prefix": {"subject": "us/"}}]}`:                                     false,
		`{"not": {"exact": {"id": "2"}}}`:                                                                       true,
		`{"not": {"exact": {"id": "1"}}}`:                                                                       false,
		`{"not": {"exact": {"missing": "x"}}}`:                                                                  true,
		`{"not": {"any": [{"exact": {"id": "2"}}, {"not": {"all": [{"exact": {"id": "1"}}]}}]}}`:                true,
		`{"all": [{"any": [{"exact": {"id": "1"}}]}, {"not": {"suffix": {"type": ".v2"}}}]}`:                    true,
		`{"all": [{"any": [{"exact": {"id": "1"}}]}, {"not": {"suffix": {"type": ".v1"}}}]}`:                    false,
		`{"not": {"all": [{"exact": {"id": "1"}}, {"exact": {"id": "2"}}]}}`:                                    true,
		`{"any": [{"all": [{"exact": {"id": "1"}}, {"exact": {"id": "2"}}]}, {"not": {"exact": {"id": "3"}}}]}`: true,
	} {
		f, err := trigger.ParseFilter(decode(t, filter))
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if got := f.Matches(e); got != want {
			t.Errorf("%s: matches is %v, want %v", filter, got, want)
		}
	}
}

func TestAnAbsentFilterMatchesEverything(t *testing.T) {
	var f *trigger.Filter
	if !f.Matches(event(t, "")) {
		t.Error("nil does not match")
	}
}

func TestParseFilterReportsEveryFault(t *testing.T) {
	const oneOf = "want an object with one of exact, prefix, suffix, all, any, not"
	for filter, want := range map[string][]string{
		`null`:                      {"filter: " + oneOf},
		`[]`:                        {"filter: " + oneOf},
		`"type"`:                    {"filter: " + oneOf},
		`{}`:                        {"filter: " + oneOf},
		`{"exact": null}`:           {"filter.exact: want an object of attributes and texts, at least one"},
		`{"prefix": {}}`:            {"filter.prefix: want an object of attributes and texts, at least one"},
		`{"suffix": []}`:            {"filter.suffix: want an object of attributes and texts, at least one"},
		`{"exact": {"size": 5}}`:    {"filter.exact.size: want a text: write it in quotes"},
		`{"exact": {"size": null}}`: {"filter.exact.size: want a text: write it in quotes"},
		`{"exact": {"type": ""}}`:   {"filter.exact.type: want a text that is not empty"},
		`{"exact": {"data": "x"}}`:  {"filter.exact.data: data is not an attribute"},
		`{"exact": {"Type": "x"}}`: {
			`filter.exact.Type: "Type" cannot be an attribute: want at most 64 of a-z and 0-9`},
		`{"all": []}`:                       {"filter.all: want a list of filters, at least one"},
		`{"any": {"exact": {"type": "x"}}}`: {"filter.any: want a list of filters, at least one"},
		`{"not": [{"exact": {"a": "x"}}]}`:  {"filter.not: " + oneOf},
		`{"exakt": {"type": "x"}}`:          {"filter.exakt: unknown key: want one of exact, prefix, suffix, all, any, not"},
		`{"sql": "type = 'x'"}`:             {"filter.sql: unknown key: want one of exact, prefix, suffix, all, any, not"},
		`{"exact": {"a": "x"}, "prefix": {"a": 1}}`: {
			"filter: it has exact and prefix: want one; all combines several filters",
			"filter.prefix.a: want a text: write it in quotes"},
		`{"all": [{"exact": {"b": 1, "a": ""}}, {}, {"not": {"any": [1]}}]}`: {
			"filter.all[0].exact.a: want a text that is not empty",
			"filter.all[0].exact.b: want a text: write it in quotes", "filter.all[1]: " + oneOf,
			"filter.all[2].not.any[0]: " + oneOf},
	} {
		f, err := trigger.ParseFilter(decode(t, filter))
		faults, _ := errors.AsType[trigger.Faults](err)
		var got []string
		for _, fault := range faults {
			got = append(got, fault.At()+": "+fault.Text)
		}
		if diff := cmp.Diff(want, got); diff != "" || f != nil {
			t.Errorf("%s: filter %v (-want +got):\n%s", filter, f, diff)
		}
		if err == nil || err.Error() != strings.Join(want, "; ") {
			t.Errorf("%s: the error is %v", filter, err)
		}
	}
}

// TestFaultsHaveTheirPlace checks the path that leads to the place of a fault in a file.
func TestFaultsHaveTheirPlace(t *testing.T) {
	_, err := trigger.ParseFilter(decode(t,
		`{"all": [{"exact": {"type": "x"}}, {"exact": {"Type": "x", "type": 1}}, {"sufix": 1}]}`))
	want := trigger.Faults{
		{Path: []any{"all", 1, "exact", "Type"}, Key: true,
			Text: `"Type" cannot be an attribute: want at most 64 of a-z and 0-9`},
		{Path: []any{"all", 1, "exact", "type"}, Text: "want a text: write it in quotes"},
		{Path: []any{"all", 2, "sufix"}, Key: true, Text: "unknown key: want one of exact, prefix, suffix, all, any, not",
			Suggestion: "suffix"},
	}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFiltersAreBounded(t *testing.T) {
	nested := func(levels int) string {
		return strings.Repeat(`{"not": `, levels-1) + `{"exact": {"a": "x"}}` + strings.Repeat("}", levels-1)
	}
	list := func(filters int) string {
		return `{"any": [` + strings.TrimSuffix(strings.Repeat(`{"exact": {"a": "x"}},`, filters), ",") + `]}`
	}
	attributes := func(count int) string {
		var fields []string
		for i := range count {
			fields = append(fields, fmt.Sprintf(`"a%03d": "x"`, i))
		}
		return `{"exact": {` + strings.Join(fields, ", ") + `}}`
	}
	for _, c := range []struct{ filter, want string }{
		{nested(trigger.MaxDepth), ""},
		{nested(trigger.MaxDepth + 1), "filter" + strings.Repeat(".not",
			trigger.MaxDepth) + ": filters are more than 16 levels deep"},
		{list((trigger.MaxConditions - 1) / 2), ""},
		{list(1000), "filter.any[127].exact.a: the filter has more than 256 conditions"},
		{attributes(trigger.MaxConditions - 1), ""},
		{attributes(trigger.MaxConditions), "filter.exact.a255: the filter has more than 256 conditions"},
	} {
		_, err := trigger.ParseFilter(decode(t, c.filter))
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%.60s: got %s, want %q", c.filter, got, c.want)
		}
	}
}

// truth is a filter of one attribute with its answer for the event of TestFiltersCombineByTheLawsOfLogic.
var truths = []struct {
	filter trigger.Filter
	holds  bool
}{
	{trigger.Filter{Exact: map[string]string{"id": "1"}}, true},
	{trigger.Filter{Prefix: map[string]string{"type": "order"}}, true},
	{trigger.Filter{Suffix: map[string]string{"source": "x"}}, false},
	{trigger.Filter{Exact: map[string]string{"absent": "x"}}, false},
}

// draw returns a filter and its answer, which is computed beside it.
func draw(t *rapid.T, levels int) (trigger.Filter, bool) {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if kind == 0 || levels == 0 {
		one := rapid.SampledFrom(truths).Draw(t, "truth")
		return one.filter, one.holds
	}
	if kind == 1 {
		inner, holds := draw(t, levels-1)
		return trigger.Filter{Not: &inner}, !holds
	}
	var filters []trigger.Filter
	var answers []bool
	for range rapid.IntRange(1, 3).Draw(t, "length") {
		inner, holds := draw(t, levels-1)
		filters, answers = append(filters, inner), append(answers, holds)
	}
	if kind == 2 {
		return trigger.Filter{All: filters}, !slices.Contains(answers, false)
	}
	return trigger.Filter{Any: filters}, slices.Contains(answers, true)
}

func TestFiltersCombineByTheLawsOfLogic(t *testing.T) {
	e := event(t, "")
	rapid.Check(t, func(t *rapid.T) {
		f, want := draw(t, 4)
		if got := f.Matches(e); got != want {
			t.Errorf("%+v: matches is %v, want %v", f, got, want)
		}
	})
}
