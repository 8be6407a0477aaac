package jsonpath_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/jsonpath"
)

// TestMatchingCostsByTextAndPattern: a filter stops before the work, whatever of the two is big and wherever it comes from.
func TestMatchingCostsByTextAndPattern(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ab", 100_000)
	for _, c := range []struct {
		filter     string
		a, p       string
		enough     bool
		atMostCost float64
	}{
		{`search(@.a, 'b+a')`, "abba", "", true, 50},
		{`search(@.a, 'a.{990}c')`, "abba", "", true, 600},
		{`search(@.a, 'a.{990}c')`, long, "", false, 0},
		{`@.a =~ '(.*a.{300}){3}c'`, long, "", false, 0},
		{`search(@.a, 'ab')`, long, "", true, 100_000},
		{`search(@.a, @.p)`, "abba", "b+a", true, 500},
		{`search(@.a, @.p)`, long, "a.{990}c", false, 0},
		{`search(@.a, @.p)`, "x", strings.Repeat(`\pL{999}`, 3000), false, 0},
		{`search(@.a, @.p)`, "x", `(((\pL{10}){10}){10}){9}`, true, 15_000},
		{`search(@.a, @.p)`, "x", strings.Repeat(`\p{L}`, 51), false, 0},
		{`search(@.a, @.p)`, "x", strings.Repeat(`x`, 257), false, 0},
		{`search(@.a, @.p)`, "x", strings.Repeat(`x`, 256), true, 600},
		{`match(value(@..a), 'a')`, strings.Repeat(`\p{L}`, 1500), "", true, 15_000},
		{`match(@.a, value(@..p))`, "x", strings.Repeat(`\p{L}`, 51), false, 0},
		{`search('x', @.p)`, "", strings.Repeat(`x`, 20_000), false, 0},
		{`match(value(@..a), 'a.{990}c')`, long, "", false, 0},
	} {
		t.Run(fmt.Sprintf("%s with %d and %.10s", c.filter, len(c.a), c.p), func(t *testing.T) {
			t.Parallel()
			f, err := jsonpath.ParseFilter(c.filter, []string{"input"})
			if err != nil {
				t.Fatal(err)
			}
			left := 100_000.0
			node := map[string]any{"a": c.a, "p": c.p}
			_, err = f.Accepts(node, map[string]any{"input": node}, &left)
			if (err == nil) != c.enough || c.enough && 100_000-left > c.atMostCost {
				t.Errorf("cost %.0f, %v", 100_000-left, err)
			}
		})
	}
}

// TestWeighCountsWhatIsWrittenSeveralTimes: values that contain each other count each time.
func TestWeighCountsWhatIsWrittenSeveralTimes(t *testing.T) {
	t.Parallel()
	var values []any
	value := any(strings.Repeat("x", 400))
	for range 10 {
		value = map[string]any{"a": value}
		values = append(values, value)
	}
	left := 2000.0
	if err := jsonpath.Weigh(values, &left); err != nil || left != 2000-10*101-55 {
		t.Errorf("%.0f left, %v", left, err)
	}
	left = 1000
	if err := jsonpath.Weigh(values, &left); err == nil {
		t.Error("1,000 nodes are enough")
	}
}

// TestABigDocumentIsMeasuredUpToTheLimit: what an expression would look at is not counted much further than to the
// rest.
func TestABigDocumentIsMeasuredUpToTheLimit(t *testing.T) {
	t.Parallel()
	wide := make([]any, 300_000)
	deep := any("x")
	for range 1500 {
		deep = []any{deep}
	}
	root := map[string]any{"input": map[string]any{"wide": wide, "same": wide, "deep": deep}}
	for _, text := range []string{"count(@.wide[*]) > 1", "@.wide == @.same", "count(@.deep[*]) > 1", "@.deep == @.deep"} {
		f, err := jsonpath.ParseFilter(text, []string{"input"})
		if err != nil {
			t.Fatal(err)
		}
		left := 10_000.0
		if _, err := f.Accepts(root["input"], root, &left); err == nil || left > 9_000 || left < -20_000 {
			t.Errorf("%s: %.0f nodes left of 10,000; %v", text, left, err)
		}
	}
}
