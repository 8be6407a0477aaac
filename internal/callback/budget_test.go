package callback

import (
	"fmt"
	"strings"
	"testing"
)

// TestThePlanOfAJobIsBounded: filters and paths that would look at too much together fail their callback, and a job that has
// them ends all the same.
func TestThePlanOfAJobIsBounded(t *testing.T) {
	t.Parallel()
	list := "[" + strings.Repeat(`{"a":1},`, 9_999) + `{"a":1}]`
	features := mirror(`{"text":"`+strings.Repeat("ab", 20_000)+`","list":`+list+`}`, `{"features":`+list+`}`)
	deep := mirror(strings.Repeat(`{"a":`, 900)+`"`+strings.Repeat("x", 100_000)+`"`+strings.Repeat("}", 900), `{}`)
	for name, c := range map[string]struct {
		job      Job
		callback Callback
		code     string
		words    string
	}{
		"a filter of features": {features,
			Callback{PerFeature: true, Filter: filter(t, `search($.input.text, 'a.{10}c')`)}, CodeFilter, "of 10000"},
		"a filter in CEL": {features,
			Callback{PerFeature: true, Filter: filter(t, `input.text.matches("a.{10}c")`)}, CodeFilter, "of 10000"},
		"a filter of items": {features,
			Callback{Parameters: []Parameter{itemsOf(t, `search($.input.text, 'a.{10}c')`)}}, CodeParameters, "of 10000"},
		"nodes that contain each other": {deep, Callback{Parameters: []Parameter{path(t, "all", "$.input..a")}},
			CodeParameters, "too many nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.callback.Name, c.callback.When, c.callback.Target = "notify", ends(t, "successful"), publish()
			planned := Plan(c.job, []Callback{c.callback})
			if len(planned) != 1 || planned[0].Code != c.code || !strings.Contains(planned[0].Fault, c.words) {
				t.Errorf("%d actions: %s", len(planned), beginning(planned))
			}
		})
	}
}

// beginning prints the beginning of a plan.
func beginning(planned []Planned) string {
	var b strings.Builder
	for _, p := range planned[:min(3, len(planned))] {
		fmt.Fprintf(&b, "%s %.200s; ", p.Code, p.Fault)
	}
	return b.String()
}

// itemsOf returns a parameter with the items of $.input.list that a filter accepts.
func itemsOf(t *testing.T, text string) Parameter {
	t.Helper()
	p := path(t, "items", "$.input")
	p.Items = &Items{From: path(t, "", "$.list").Path, Filter: filter(t, text)}
	return p
}
