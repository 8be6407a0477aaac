package callback

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFiltersComplyWithRFC9535 runs every filter of the compliance suite that selects from a list
// at the root.
func TestFiltersComplyWithRFC9535(t *testing.T) {
	t.Parallel()
	run := 0
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
			// Here $ begins with the name of a document, and a filter has neither siblings nor
			// segments behind it.
			if !strings.Contains(err.Error(), "after $") && !strings.Contains(err.Error(), `found ",`) &&
				!strings.Contains(err.Error(), `found "]`) {
				t.Errorf("%s: %q: %v", c.Name, c.Selector, err)
			}
			continue
		}
		run++
		var got []any
		for _, feature := range list {
			yes, err := filter.matches(documents{"input": nil, "output": nil, "workflow": map[string]any{}, "feature": feature}, enough())
			if err != nil {
				t.Fatalf("%s: %q: %v", c.Name, c.Selector, err)
			}
			if yes {
				got = append(got, feature)
			}
		}
		if diff := cmp.Diff(c.Result, got, cmpEmpty()); diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", c.Name, c.Selector, diff)
		}
	}
	if run < 200 {
		t.Errorf("only %d filters of the suite were run", run)
	}
}

func cmpEmpty() cmp.Option {
	return cmp.FilterValues(func(a, b []any) bool { return len(a)+len(b) == 0 }, cmp.Comparer(func(_, _ []any) bool { return true }))
}
