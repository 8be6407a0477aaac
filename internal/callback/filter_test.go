package callback

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestFiltersOfOtherFilesAreTranslated(t *testing.T) {
	t.Parallel()
	feature, err := decode(json.RawMessage(`{"id": "fake-7", "properties": {"gsd": 0.5, "eo:cloud_cover": 12, "for": "x", "tags": ["a", "b"]},
		"links": [{"rel": "self", "href": "h"}, {"rel": "root"}], "assets": {"B1": {"size": 7}}}`))
	if err != nil {
		t.Fatal(err)
	}
	docs := documents{"input": map[string]any{"limit": json.Number("1")}, "output": map[string]any{}, "workflow": map[string]any{"status": "SUCCESSFUL"}, "feature": feature}
	for text, want := range map[string]struct {
		yes bool
		cel string
	}{
		`@.id =~ 'fake*' & @.properties.gsd <= 0`:        {false, `(jp.holds(feature.id.matches("fake*")) && jp.le(feature.properties.gsd, 0.0))`},
		`@.id =~ /^FAKE-\d+$/i && @.properties.gsd <= 1`: {true, ""},
		`@.properties['eo:cloud_cover'] < 20`:            {true, `jp.lt(feature.properties["eo:cloud_cover"], 20.0)`},
		`?@.properties.for == "x"`:                       {true, `jp.eq(feature.properties["for"], "x")`},
		`?(@.properties.gsd < 1)`:                        {true, `jp.lt(feature.properties.gsd, 1.0)`},
		`$.features[?(@.properties.gsd < 1)]`:            {true, `jp.lt(feature.properties.gsd, 1.0)`},
		`$.output.features[?@.id == 'other']`:            {false, ""},
		`$.input.limit > @.properties.gsd`:               {true, `jp.gt(input.limit, feature.properties.gsd)`},
		`$.workflow.status in ['FAILED', 'SUCCESSFUL']`:  {true, ""},
		`@.nothing < 1`:                                  {false, ""},
		`!(@.nothing < 1)`:                               {true, ""},
		`@.nothing != 1 || false == true`:                {true, ""},
		`@.links[?@.rel == 'self'].href`:                 {true, `jp.nodes(feature.links).exists(n1, jp.eq(n1.rel, "self") && jp.exists(n1.href))`},
		`@.links[?@.rel == 'root'].href`:                 {false, ""},
		`@.assets.*.size`:                                {true, ""},
		`@.links[-1].rel == 'root' && !@.links[7]`:       {true, ""},
		`length(@.links) == 2 and`:                       {false, "error: at character 22: want && or ||, found \"and\""},
		`search(@.id, 'ke-') && match(@.id, '[a-z]*-.')`: {true, ""},
		`@.id`:          {true, `jp.exists(feature.id)`},
		`@..id`:         {false, "error: at character 2: descendants (..) cannot be translated to CEL"},
		`@.links[0:1]`:  {false, "error: at character 10: slices cannot be translated to CEL"},
		`@.gsd + 1 < 2`: {false, `error: at character 7: want && or ||, found "+ 1 < 2"`},
		`@.gsd < size`:  {false, `error: at character 9: "size" is no value; a text stands in quotes`},
		`@.gsd = 1`:     {false, `error: at character 7: want && or ||, found "= 1"`},
		"@" + strings.Repeat("[?@", 6) + strings.Repeat("]", 6):   {false, "error: at character 19: filters stand in each other more than 5 deep"},
		strings.Repeat("(", 101) + "@" + strings.Repeat(")", 101): {false, "error: at character 101: more than 100 parentheses and ! stand in each other"},
		`$.gsd < 1`:                    {false, "error: at character 1: after $ stands one of .input, .output, .workflow, .feature"},
		`count(@.links) > 1`:           {false, "error: at character 1: the function count() cannot be translated to CEL"},
		`@.id =~ (`:                    {false, "error: at character 9: want a regular expression in quotes or between slashes, found \"(\""},
		`@.a == 'x`:                    {false, "error: at character 8: the text does not end"},
		`@.links[*] == 1`:              {false, "error: at character 1: only one node or value can be compared"},
		`'x'`:                          {false, "error: at character 1: want true or false, this is of type string"},
		`@.a ==`:                       {false, "error: at character 7: the filter ends in the middle"},
		`feature.gsd <`:                {false, "error: at character 14: Syntax error"},
		`feature.gsd < nope`:           {false, "error: at character 15: undeclared reference to 'nope'"},
		`1.0 + 2.0`:                    {false, "error: at character 1: want true or false, this is of type double"},
		`feature.properties.gsd < 1.0`: {true, "feature.properties.gsd < 1.0"},
		`has(feature.properties.gsd) && workflow.status == "SUCCESSFUL" && feature.properties.gsd < input.limit`: {true, ""},
	} {
		f, err := ParseFilter(text)
		if err != nil {
			if problem := "error: " + err.Error(); want.cel == "" || !strings.Contains(problem, want.cel) {
				t.Errorf("%s: %v, want %q", text, err, want.cel)
			}
			continue
		}
		if want.cel != "" && f.CEL() != want.cel {
			t.Errorf("%s: as CEL %s, want %s", text, f.CEL(), want.cel)
		}
		if yes, err := f.matches(docs); err != nil || yes != want.yes {
			t.Errorf("%s as %s: %v, %v; want %v", text, f.CEL(), yes, err, want.yes)
		}
	}
}

// FuzzParseFilter: whatever stands in a file is a filter or an error with its place.
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
		_, _ = filter.matches(documents{"input": nil, "output": nil, "workflow": map[string]any{}, "feature": []any{"a"}}) // any answer will do
	})
}
