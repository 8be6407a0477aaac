package callback

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTranslatedFiltersSelectTheSame compares filters as CEL with what JSONPath itself selects, over every filter of the
// suite that stands on a list and can be translated.
func TestTranslatedFiltersSelectTheSame(t *testing.T) {
	t.Parallel()
	translated, refused := 0, map[string]int{}
	raw, err := os.ReadFile("../jsonpath/testdata/jsonpath/cts.json") // with its licence
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests []struct {
			Name     string  `json:"name"`
			Selector string  `json:"selector"`
			Document any     `json:"document"`
			Result   []any   `json:"result"`
			Results  [][]any `json:"results"` // where the order is free
			Invalid  bool    `json:"invalid_selector"`
		} `json:"tests"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // as documents are read
	if err := decoder.Decode(&suite); err != nil {
		t.Fatal(err)
	}
	for _, c := range suite.Tests {
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
