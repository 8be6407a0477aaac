package callback

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// recorded is the table in testdata/filters.txt.
type recorded struct {
	docs     documents
	features []any
	filters  []recordedFilter
}

type recordedFilter struct{ want, text string }

// readRecorded reads the table: lines of documents, of features, and of filters with their answers.
func readRecorded(t *testing.T) recorded {
	t.Helper()
	raw, err := os.ReadFile("testdata/filters.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := recorded{docs: documents{"workflow": map[string]any{"status": "SUCCESSFUL", "error": ""}}}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n"), "\n") {
		if answers, text, ok := strings.Cut(line, "\t"); ok {
			before, now, differs := strings.Cut(answers, " -> ")
			if !differs {
				now = before
			}
			r.filters = append(r.filters, recordedFilter{now, text})
			continue
		}
		name, text, ok := strings.Cut(line, " ")
		if !ok || name == "#" {
			continue
		}
		value, err := decode(json.RawMessage(text))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if name == docFeature {
			r.features = append(r.features, value)
		} else {
			r.docs[name] = value
		}
	}
	return r
}

// TestFiltersAnswerAsRecorded proves that a change in the evaluation of filters does not change the meaning of files.
func TestFiltersAnswerAsRecorded(t *testing.T) {
	t.Parallel()
	table := readRecorded(t)
	if len(table.filters) < 500 || len(table.features) < 10 {
		t.Fatalf("the table has %d filters and %d features", len(table.filters), len(table.features))
	}
	for _, f := range table.filters {
		if got := table.answers(t, f.text); got != f.want {
			t.Errorf("%s: got %s, want %s", f.text, got, f.want)
		}
	}
}

// answers returns the table's answers for a filter.
func (r recorded) answers(t *testing.T, text string) string {
	t.Helper()
	filter, err := ParseFilter(text)
	if fault, ok := errors.AsType[*FilterError](err); ok {
		return fmt.Sprintf("fault %d", fault.Offset)
	}
	var answers strings.Builder
	for _, feature := range r.features {
		yes, err := filter.matches(r.docs.with(feature), enough())
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		answers.WriteString(map[bool]string{true: "1", false: "0"}[yes])
	}
	return answers.String()
}
