package callback

import (
	"encoding/json"
	"strings"
	"testing"
)

// costing returns documents in which an attacker may have any text, list and regular expression.
func costing(t *testing.T) documents {
	t.Helper()
	list := strings.Repeat("1, ", 9_999) + "1"
	input := `{"text": "` + strings.Repeat("ab", 20_000) + `", "list": [` + list + `], "same": [` + list + `], "nested": [[` + list + `]],
		"pattern": "a.{990}c", "short": [1, 2, 3], "huge": "` + strings.Repeat("x{1000}", 6) + `"}`
	value, err := decode(json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	return documents{"input": value, "output": nil, "workflow": map[string]any{}, docFeature: "ab"}
}

// TestCELCostsWhatItReads: CEL itself counts these as a few units.
func TestCELCostsWhatItReads(t *testing.T) {
	t.Parallel()
	docs := costing(t)
	const text, list, program = 40_000, 10_000, 990
	for text, atLeast := range map[string]float64{
		`feature.matches('a.{990}c')`:                                               3 * program / 16,
		`feature.matches(input.pattern)`:                                            16 * program,
		`size(input.text) < 3`:                                                      text / textBytes,
		`input.text + 'x' == feature`:                                               text / textBytes,
		`input.text < input.text`:                                                   text / textBytes,
		`double(input.text) > 1.0 || true`:                                          text / textBytes,
		`7.0 in input.list`:                                                         list * valueNodes,
		`[7.0] in input.nested`:                                                     list * valueNodes,
		`input.list == input.same`:                                                  2 * list * valueNodes,
		`input.list != input.same`:                                                  2 * list * valueNodes,
		`[input.list] == input.nested`:                                              2 * list * valueNodes,
		`input.short.exists(x, size(input.text) < 3)`:                               3 * text / textBytes,
		`input.short.exists(x, feature.matches(input.pattern))`:                     3 * 16 * program,
		`input.short.exists(x, double(input.text) > 1.0) || true`:                   text / textBytes,
		`input.list.all(x, true)`:                                                   (3 * list) * (3 * list) / countedUnits,
		`input.short.exists(x, input.short.exists(y, 7.0 in input.list))`:           costLimit,
		`input.short.exists(x, input.list == input.same && x == 7.0)`:               costLimit,
		`feature.matches('a.{990}c') || feature.matches('b') || size(feature) == 2`: 3 * program / 16,
	} {
		left := 1e12
		_, err := filter(t, text).matches(docs, &left)
		if got := 1e12 - left; got < atLeast {
			t.Errorf("%s costs %.0f nodes, want at least %.0f; %v", text, got, atLeast, err)
		}
	}
}

// TestCELDoesNotMatchWhatCostsTooMuch: neither a long text with a big program nor a huge program is
// tried before it is charged.
func TestCELDoesNotMatchWhatCostsTooMuch(t *testing.T) {
	t.Parallel()
	docs := costing(t)
	left := 1e12
	for text, want := range map[string]string{
		`input.text.matches('a.{990}c')`:          "the filter matches a text that is too long for its regular expression",
		`matches(input.text, 'a.{990}c')`:         "the filter matches a text that is too long for its regular expression",
		`input.text.matches(input.pattern)`:       "the filter matches a text that is too long for its regular expression",
		`feature.matches(input.huge)`:             "the filter looks at too many nodes",
		`feature.matches(input.text)`:             "the filter has a regular expression of 40000 bytes from a document; at most 1000 are allowed",
		`feature.matches(input.pattern + '(')`:    "missing closing )",
		`input.short.matches('a')`:                "no such overload",
		`feature.matches(1.0 == 1.0 ? 'b' : 'c')`: "",
		`feature.matches('^a')`:                   "",
	} {
		yes, err := filter(t, text).matches(docs, &left)
		if want == "" && (err != nil || !yes) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v; want %q", text, yes, err, want)
		}
	}
	if _, err := ParseFilter(`feature.matches('(')`); err == nil || !strings.Contains(err.Error(), "missing closing )") {
		t.Errorf("a literal that is not valid: %v", err)
	}
}

// TestLongNumbersAreFaultsOfADocument: a number is parsed wherever it is compared.
func TestLongNumbersAreFaultsOfADocument(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"n": ` + strings.Repeat("1", 1000) + `}`:          "",
		`{"n": ` + strings.Repeat("1", 1001) + `}`:          "has a number of more than 1000 characters",
		`[{"n": [1, 0.` + strings.Repeat("1", 1000) + `]}]`: "has a number of more than 1000 characters",
		`{"n": "` + strings.Repeat("1", 1001) + `"}`:        "",
		`{`: "is not valid JSON: unexpected EOF",
	} {
		got := ""
		if _, err := decode(json.RawMessage(text)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.20s: %q, want %q", text, got, want)
		}
	}
}

// TestWorkThatFailsIsPaidFor: features that are refused one by one end a plan too, so that a plan
// does not take its documents' size for each.
func TestWorkThatFailsIsPaidFor(t *testing.T) {
	t.Parallel()
	tooDeep := strings.Repeat("[", 1500) + strings.Repeat("]", 1500)
	wide := `[` + strings.Repeat("1,", 300_000) + `1]`
	job := mirror(`{"wide": `+wide+`, "deep": `+tooDeep+`}`, `{"features": [`+strings.Repeat("1,", 9_999)+`1]}`)
	docs, err := job.documents()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"count($.input.wide[*]) > 1", "$.input.wide == $.input.wide",
		"feature in input.wide.map(x, [x])", "count($.input.deep[*]) > 1"} {
		c := Callback{Name: "each", Target: publish(), PerFeature: true, Filter: filter(t, text)}
		p := planner{job: job, callback: &c, docs: docs, left: pathLimit}
		p.features()
		if len(p.planned) != 1 || p.planned[0].Code != CodeFilter || p.left >= 0 {
			t.Errorf("%s: %d actions, %.0f nodes are left; the first: %s", text, len(p.planned), p.left, p.planned[0].Fault)
		}
	}
}

// TestParametersAreWeighedBeforeTheyAreWritten: also values of one node each, and long names.
func TestParametersAreWeighedBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	list := mirror(`{"list": [`+strings.Repeat("1,", 2_000_000)+`1]}`, "{}")
	name := mirror(strings.Repeat(`{"a": `, 900)+`{"`+strings.Repeat("x", 100_000)+`": 1}`+strings.Repeat("}", 900), "{}")
	long := mirror(strings.Repeat(`{"a": `, 900)+`[`+strings.Repeat(strings.Repeat("1", 1000)+",", 999)+`1]`+strings.Repeat("}", 900), "{}")
	var many []Parameter
	for _, one := range strings.Split("abcdef", "") {
		many = append(many, path(t, one, "$.input.list"))
	}
	for title, c := range map[string]struct {
		job  Job
		with []Parameter
	}{"many lists": {list, many}, "long names": {name, []Parameter{path(t, "all", "$.input..a")}},
		"long numbers": {long, []Parameter{path(t, "all", "$.input..a")}}} {
		got := Plan(c.job, []Callback{{Name: "each", Target: publish(), When: ends(t, "successful"), Parameters: c.with}})
		if len(got) != 1 || got[0].Code != CodeParameters || !strings.Contains(got[0].Fault, "looks at too many nodes") {
			t.Errorf("%s: %d actions: %s", title, len(got), beginning(got))
		}
	}
}
