package jsonpath_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/jsonpath"
)

// compliance is one case of the RFC 9535 compliance suite, which is stored in testdata/jsonpath
// with its licence.
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

// TestPathsComplyWithRFC9535 runs the whole suite.
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
		left := 100_000.0
		got, err := path.Select(c.Document, &left)
		if err != nil {
			t.Errorf("%s: %q: %v", c.Name, c.Selector, err)
			continue
		}
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

// TestWorkIsBounded: whatever a path and a document are, the nodes that are looked at are counted.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"error": `, 900) + "1" + strings.Repeat("}", 900)
	wide := "[" + strings.Repeat(`{"a": "`+strings.Repeat("x", 60)+`"}, `, 1000) + "1]"
	long := `{"text": "` + strings.Repeat("x", 20_000) + `", "list": [` + strings.Repeat("1, ", 10_000) + "1]}"
	nested := strings.Repeat("[", 30) + strings.Repeat("]", 30)
	const limit = 1_000_000
	for _, c := range []struct {
		path, document string
		want           int // nodes; -1: too much work
	}{
		{"$..error", deep, 900},
		{"$..error..code", deep, 0},
		{"$..error..error..code", deep, -1},
		{"$..[*]..[*]..[*]", deep, -1},
		{"$[*,*,*][*,*,*]", wide, 9000},
		{"$[*][?@.b || $..b]", wide, -1},
		{"$[?@..a]", wide, 1000},
		{"$[?@.a == 'x']", wide, 0},
		{"$[?$..b]", wide, -1},
		{"$[?count($..a) > 0]", wide, -1},
		{"$[?count(@..*) > 0]", wide, 1000},
		{"$[?@[?@[?@[?$..b]]]]", wide, 0}, // nothing is so deep
		{"$[?@[?$..b]]", wide, -1},
		{"$[?search(@.a, 'y')]", wide, 0},
		{"$.list[?search($.text, 'y')]", long, -1},
		{"$.list[?@ == $.text]", long, 0},
		{"$.list[?@ > $.list[0]]", long, 0},
		{"$['list', 'list'][*]", long, 20_002},
		{"$[?@" + strings.Repeat("['error', 'error']", 20) + "]", deep, -1},
		{"$[?count(@" + strings.Repeat("['error', 'error']", 20) + ") > 0]", deep, -1},
		{"$[?$" + strings.Repeat("[0, 0]", 20) + "]", wide, 0},
		{"$[?$" + strings.Repeat("[0, 0]", 20) + "]", nested, -1},
		{"$[?@['a', 'b']]", wide, 1000},
	} {
		path, err := jsonpath.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := json.Unmarshal([]byte(c.document), &document); err != nil {
			t.Fatal(err)
		}
		left := float64(limit)
		nodes, err := path.Select(document, &left)
		if c.want < 0 && (err == nil || !strings.Contains(err.Error(), "looks at too many nodes")) ||
			c.want >= 0 && (err != nil || len(nodes) != c.want) {
			t.Errorf("%s: %d nodes, %v; want %d", c.path, len(nodes), err, c.want)
		}
	}
	var tooDeep any
	if err := json.Unmarshal([]byte(strings.Repeat("[", 1002)+strings.Repeat("]", 1002)), &tooDeep); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"$..a", "$.a[?@..b]", "$.b[?$..a]", "$[?@.a == 1 || @..b]"} {
		path, err := jsonpath.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		left := float64(limit)
		if _, err := path.Select(map[string]any{"a": tooDeep, "b": []any{1}}, &left); err == nil ||
			!strings.Contains(err.Error(), "levels deep") {
			t.Errorf("%s in a document of 1,003 levels: %v", text, err)
		}
	}
	if _, err := jsonpath.Parse("$" + strings.Repeat(".a", 4096)); err == nil {
		t.Error("a path of 8,193 bytes was taken")
	}
}

// TestAPathCostsWhatItLooksAt: neither the size nor the depth of the rest of the document counts.
func TestAPathCostsWhatItLooksAt(t *testing.T) {
	t.Parallel()
	var deep any
	if err := json.Unmarshal([]byte(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), &deep); err != nil {
		t.Fatal(err)
	}
	document := map[string]any{"a": map[string]any{"b": []any{1, 2}}, "deep": deep}
	for text, want := range map[string]float64{"$.a.b[0]": 6, "$.a.b[*]": 7, "$.a..b": 7, "$.a.b[?@ == 1]": 8} {
		path, err := jsonpath.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		left := 1000.0
		if _, err := path.Select(document, &left); err != nil || 1000-left != want {
			t.Errorf("%s looks at %v nodes, want %v; %v", text, 1000-left, want, err)
		}
	}
}

// TestPathsSayWhatTheyAre: the path alone decides the type of a parameter.
func TestPathsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"$": `true ""`, "$.a": `true "a"`, "$['a'][0].b": `true "a"`, "$[0]": `true ""`, "$.a[*]": `false "a"`, "$.a[?@.b]": `false "a"`,
		"$..a": `false ""`, "$.a['b', 'c']": `false "a"`, "$.a[0:1]": `false "a"`,
	} {
		path, err := jsonpath.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%v %q", path.Singular(), path.First()); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestAFilterCostsWhatItLooksAt: parts that a filter does not read cost nothing, so a big document can be asked about
// often.
func TestAFilterCostsWhatItLooksAt(t *testing.T) {
	t.Parallel()
	big := make([]any, 50_000)
	for i := range big {
		big[i] = map[string]any{"id": json.Number("1")}
	}
	root := map[string]any{"feature": nil, "output": map[string]any{"features": big, "title": "x", "text": strings.Repeat("a", 1<<20)}}
	feature := map[string]any{"id": "a", "big": big, "tags": []any{"a", "b"}}
	for text, want := range map[string]float64{
		"@.id == 'a'":                          4,
		"$.output.title == 'x'":                5,
		"@.id in ['a', 'b'] & $.output.title":  9,
		"@.tags[?@ =~ 'b']":                    9,
		"@.tags == @.big":                      100_009,
		"@.big[?@.id == 1]":                    200_003,
		"length(@.big) > 3 && @.id":            6,
		"length($.output.text) < 100":          1<<18 + 5, // it counts the characters of the whole text
		"count($.output.features[*]) > 3":      -1,
		"@.big[?@.id == 2] || @.big[?@.id==3]": 400_005,
	} {
		filter, err := jsonpath.ParseFilter(text, []string{"output"})
		if err != nil {
			t.Fatal(err)
		}
		left := 1_000_000.0
		_, err = filter.Accepts(feature, root, &left)
		if want < 0 && err == nil || want >= 0 && (err != nil || 1_000_000-left != want) {
			t.Errorf("%s looks at %v nodes, want %v; %v", text, 1_000_000-left, want, err)
		}
	}
}
