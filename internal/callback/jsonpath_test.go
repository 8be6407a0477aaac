package callback

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/theory/jsonpath"
)

// compliance is one case of the RFC 9535 compliance suite, which lies in testdata/jsonpath with its licence.
type compliance struct {
	Name     string  `json:"name"`
	Selector string  `json:"selector"`
	Document any     `json:"document"`
	Result   []any   `json:"result"`
	Results  [][]any `json:"results"` // where the order is free
	Invalid  bool    `json:"invalid_selector"`
}

func suite(t *testing.T) []compliance {
	t.Helper()
	raw, err := os.ReadFile("testdata/jsonpath/cts.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []compliance `json:"tests"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber() // as parameters are read
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Tests) < 700 {
		t.Fatalf("the suite has %d cases", len(file.Tests))
	}
	return file.Tests
}

// TestPathsComplyWithRFC9535 runs the whole suite through the library that reads paths here and in package webhook.
func TestPathsComplyWithRFC9535(t *testing.T) {
	t.Parallel()
	for _, c := range suite(t) {
		path, err := jsonpath.Parse(c.Selector)
		if c.Invalid {
			if err == nil {
				t.Errorf("%s: %q is taken for a path", c.Name, c.Selector)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %q: %v", c.Name, c.Selector, err)
			continue
		}
		got := []any(path.Select(c.Document))
		wanted := c.Results
		if wanted == nil {
			wanted = [][]any{c.Result}
		}
		same := func(want []any) bool { return len(got)+len(want) == 0 || reflect.DeepEqual(got, want) }
		if !slices.ContainsFunc(wanted, same) {
			t.Errorf("%s: %q selects %v, want one of %v", c.Name, c.Selector, got, wanted)
		}
	}
}

// TestTranslatedFiltersSelectTheSame compares filters as CEL with what JSONPath itself selects, over every filter of the
// suite that stands on a list and can be translated.
func TestTranslatedFiltersSelectTheSame(t *testing.T) {
	t.Parallel()
	translated, refused := 0, map[string]int{}
	for _, c := range suite(t) {
		list, isList := c.Document.([]any)
		if c.Invalid || !isList || !strings.HasPrefix(c.Selector, "$[?") || c.Results != nil {
			continue
		}
		filter, err := ParseFilter(c.Selector)
		if err != nil {
			refused[err.Error()[strings.Index(err.Error(), ": ")+2:]]++
			continue
		}
		translated++
		var got []any
		for _, feature := range list {
			yes, err := filter.matches(documents{"input": nil, "output": nil, "workflow": map[string]any{}, "feature": feature})
			if err != nil {
				t.Fatalf("%s: %q as %q: %v", c.Name, c.Selector, filter.CEL(), err)
			}
			if yes {
				got = append(got, feature)
			}
		}
		if diff := cmp.Diff(c.Result, got, cmpEmpty()); diff != "" {
			t.Errorf("%s: %q as %q (-want +got):\n%s", c.Name, c.Selector, filter.CEL(), diff)
		}
	}
	t.Logf("%d translated; refused: %v", translated, refused)
	if translated < 150 {
		t.Errorf("only %d filters of the suite can be translated", translated)
	}
}

func cmpEmpty() cmp.Option {
	return cmp.FilterValues(func(a, b []any) bool { return len(a)+len(b) == 0 }, cmp.Comparer(func(_, _ []any) bool { return true }))
}
