package callback

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestFiltersOfOtherFilesAreRead(t *testing.T) {
	t.Parallel()
	feature, err := decode(json.RawMessage(`{"id": "fake-7", "properties": {"gsd": 0.5, "eo:cloud_cover": 12, "for": "x", "tags": ["a", "b"]},
		"links": [{"rel": "self", "href": "h"}, {"rel": "root"}], "assets": {"B1": {"size": 7}}}`))
	if err != nil {
		t.Fatal(err)
	}
	docs := documents{"input": map[string]any{"limit": json.Number("1")}, "output": map[string]any{},
		"workflow": map[string]any{"status": "SUCCESSFUL"}, "feature": feature}
	for text, want := range map[string]struct {
		yes   bool
		fault string
	}{
		`@.id =~ 'fake*' & @.properties.gsd <= 0`:        {false, ""},
		`@.id =~ /^FAKE-\d+$/i && @.properties.gsd <= 1`: {true, ""},
		`@.properties['eo:cloud_cover'] < 20`:            {true, ""},
		`?@.properties.for == "x"`:                       {true, ""},
		`?(@.properties.gsd < 1)`:                        {true, ""},
		`$.features[?(@.properties.gsd < 1)]`:            {true, ""},
		`$.output.features[?@.id == 'other']`:            {false, ""},
		`$.input.limit > @.properties.gsd`:               {true, ""},
		`$.workflow.status in ['FAILED', 'SUCCESSFUL']`:  {true, ""},
		`@.nothing < 1`:                                  {false, ""},
		`!(@.nothing < 1)`:                               {true, ""},
		`@.nothing != 1 || false == true`:                {true, ""},
		`@.links[?@.rel == 'self'].href`:                 {true, ""},
		`@.links[?@.rel == 'root'].href`:                 {false, ""},
		`@.assets.*.size`:                                {true, ""},
		`@.links[-1].rel == 'root' && !@.links[7]`:       {true, ""},
		`length(@.links) == 2 and`:                       {false, "at character 22: want && or ||, found \"and\""},
		`search(@.id, 'ke-') && match(@.id, '[a-z]*-.')`: {true, ""},
		`@.id`:          {true, ""},
		`@..id`:         {true, ""},
		`@.links[0:1]`:  {true, ""},
		`@.gsd + 1 < 2`: {false, `at character 7: want && or ||, found "+ 1 < 2"`},
		`@.gsd < size`:  {false, `at character 9: "size" is not a value: put text in quotes`},
		`@.gsd = 1`:     {false, `at character 7: want && or ||, found "= 1"`},
		"@" + strings.Repeat("[?@", 6) + strings.Repeat("]", 6):   {false, ""},
		strings.Repeat("(", 101) + "@" + strings.Repeat(")", 101): {false, "at character 101: more than 100 parentheses and brackets are nested"},
		`$.gsd < 1`:                    {false, "at character 1: want one of .input, .output, .workflow, .feature after $"},
		`count(@.links) > 1`:           {false, ""},
		`@.id =~ (`:                    {false, "at character 9: want a regular expression in quotes or between slashes, found \"(\""},
		`@.a == 'x`:                    {false, "at character 8: missing closing '"},
		`@.links[*] == 1`:              {false, "at character 1: only one node or value can be compared"},
		`'x'`:                          {false, "at character 1: want true or false, this is of type string"},
		`@.a ==`:                       {false, "at character 7: unexpected end of the filter"},
		`feature.gsd <`:                {false, "at character 14: Syntax error"},
		`feature.gsd < nope`:           {false, "at character 15: undeclared reference to 'nope'"},
		`1.0 + 2.0`:                    {false, "at character 1: want true or false, this is of type double"},
		`feature.properties.gsd < 1.0`: {true, ""},
		`has(feature.properties.gsd) && workflow.status == "SUCCESSFUL" && feature.properties.gsd < input.limit`: {true, ""},
	} {
		f, err := ParseFilter(text)
		if err != nil {
			if want.fault == "" || !strings.Contains(err.Error(), want.fault) {
				t.Errorf("%s: %v, want %q", text, err, want.fault)
			}
			continue
		}
		if yes, err := f.matches(docs, enough()); err != nil || yes != want.yes || want.fault != "" {
			t.Errorf("%s: %v, %v; want %v", text, yes, err, want)
		}
	}
}

// FuzzParseFilter: every text is a filter or an error with its place.
func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{"@.a == 1", "?(@.b)", "$.features[?@.x =~ /y/]", "feature.a", "@['a", "@.a[?@.b[?@.c", "!!@"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if err != nil {
			if fault, ok := errors.AsType[*FilterError](err); !ok || fault.Offset < 0 || fault.Text == "" {
				t.Errorf("%q: %#v", text, err)
			}
			return
		}
		// any answer will do
		_, _ = filter.matches(documents{"input": nil, "output": nil, "workflow": map[string]any{}, "feature": []any{"a"}}, enough())
	})
}

// enough returns a budget that one filter cannot use up.
func enough() *float64 {
	left := float64(pathLimit)
	return &left
}
