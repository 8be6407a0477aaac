package yamltree_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

func TestProblemsNameTheirPlace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ file, want string }{
		"empty":                 {"", "f:1:1: the file is empty"},
		"comment only":          {"# hi\n", "f:1:1: the file is empty"},
		"null":                  {"---\n", "f:1:1: the file is empty"},
		"two documents":         {"a: b\n---\nc: d\n", "f:2:1: a second document starts here; the file may have one only"},
		"tab below a key":       {"a:\n\tb: 1\n", "f:2:1: a tab cannot indent; use spaces"},
		"tab after spaces":      {"a:\n  \tb: 1\n", "f:2:3: a tab cannot indent; use spaces"},
		"at sign":               {"a:\n  b: @x\n", "f:2:6: found character that cannot start any token"},
		"list at the root":      {"- a\n", "f:1:1: want a mapping, found a list"},
		"unclosed list":         {"a: [1,\n\n", "f:1:6: did not find expected node content"},
		"dedent":                {"x:\n  a:\n    - b\n   c: d\n", "f:4:4: did not find expected key"},
		"tab":                   {"a: b\n\tc: d\n", "f:2:1: a tab cannot indent; use spaces"},
		"colon in a value":      {"z: y\na: b: c\n", "f:2:5: mapping values are not allowed in this context"},
		"unknown escape":        {"a: \"\\q\"\n", "f:1:5: found unknown escape character"},
		"unknown anchor":        {"a: 1\nx: [b, *nope]\n", "f:2:8: the alias *nope names no anchor above it"},
		"cycle":                 {"a: &x [*x]\n", "f:1:8: the alias *x is inside the node that it names"},
		"no UTF-8":              {"a: b\nc: \xff\n", "f:2:4: byte 0xff is not UTF-8"},
		"control character":     {"a: \x01b\n", "f:1:4: the control character 0x01 is not allowed"},
		"repeated key":          {"a: 1\nb: 2\na: 3\n", "f:3:1: the key \"a\" is already at 1:1"},
		"repeated merge":        {"x: &x {q: 1}\ny:\n  <<: *x\n  <<: *x\n", "f:4:3: the key \"<<\" is already at 3:3"},
		"merge of a string":     {"x:\n  <<: b\n", "f:2:7: << wants a mapping or a list of mappings, found a string"},
		"key that is a boolean": {"true: 1\n", "f:1:1: the key true is a boolean; put it in quotes"},
		"key that is a list":    {"? [a]\n: c\n", "f:1:3: a key must be a string"},
		"empty key":             {"\"\": c\n", "f:1:1: a key must not be empty"},
		"tag that does not fit": {"a: !!int foo\n", "f:1:4: \"foo\" is not what its tag !!int says"},
		"tag that is not known": {"a: !foo b\n", "f:1:4: the tag !foo is not known"},
		"two faults": {"true: 1\na: 1\na: 1\n",
			"f:1:1: the key true is a boolean; put it in quotes\nf:3:1: the key \"a\" is already at 2:1"},
		"too large":               {strings.Repeat("#", 300), "f:1:1: the file has more than 256 bytes"},
		"column counts letters":   {"ü: {é: 1, é: 2}\n", "f:1:11: the key \"é\" is already at 1:5"},
		"too deep":                {"a: " + strings.Repeat("[", 110) + strings.Repeat("]", 110), "f:1:103: there are more than 100 levels"},
		"key yes is only a name":  {"yes: 1\n", ""},
		"byte order mark is none": {"\ufeffa: b\n", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := yamltree.Parse("f", []byte(test.file), 256)
			if diff := cmp.Diff(test.want, problems.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestVariablesInTextAreNoKeys: a script may have many.
func TestVariablesInTextAreNoKeys(t *testing.T) {
	t.Parallel()
	text := "a: |\n" + strings.Repeat("  echo ${x}${y}\n", 60_000)
	if _, problems := yamltree.ParseAll("f", []byte(text), 4<<20); problems != nil {
		t.Error(problems)
	}
}

func TestParseAllReadsEveryDocument(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [" + strings.Repeat("x,", 300) + "]\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: [*b]\n---\n"
	for name, test := range map[string]struct {
		file string
		keys []string // the first of each document
		want string
	}{
		"none":          {"", nil, ""},
		"only comments": {"# nothing yet\n", nil, ""},
		"two":           {"a: 1\n---\nb: 2\n", []string{"a", "b"}, ""},
		"an empty one":  {"---\n---\nb: 2\n---\n", []string{"b"}, ""},
		"faults of each": {"a: 1\na: 2\n---\n- x\n---\nc: 1", nil,
			"f:2:1: the key \"a\" is already at 1:1\nf:4:1: want a mapping, found a list"},
		"a broken one":     {"a: 1\n---\nb: [\n", nil, "f:3:4: did not find expected node content"},
		"too large in all": {bomb + bomb, nil, "f:5:52: there are more than 100000 keys and values once aliases are expanded"},
		"not UTF-8":        {"a: \xff", nil, "f:1:4: byte 0xff is not UTF-8"},
	} {
		nodes, problems := yamltree.ParseAll("f", []byte(test.file), 1<<16)
		if test.want != "" {
			if !strings.HasSuffix(problems.Error(), test.want) {
				t.Errorf("%s: %v, want %s", name, problems, test.want)
			}
			continue
		}
		var keys []string
		for _, n := range nodes {
			keys = append(keys, n.Fields[0].Key)
		}
		if diff := cmp.Diff(test.keys, keys); diff != "" || problems != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, problems, diff)
		}
	}
}

func TestScalarsResolveByTheTable(t *testing.T) {
	t.Parallel()
	for kind, texts := range map[document.Kind][]string{
		document.Null:      {"", "~", "null", "Null", "NULL"},
		document.Bool:      {"true", "True", "FALSE"},
		document.Int:       {"0", "12", "1_000", "-3", "+4", "0x1f", "0o17", "0b101", "010"},
		document.Float:     {"1.50", ".5", "1e3", "-.inf", ".NaN", "1.", "08"},
		document.Timestamp: {"2001-12-14", "2001-12-14T21:59:43.10-05:00", "2001-12-14 21:59:43"},
		document.String:    {"yes", "on", "no", "off", "nUll", "tRue", "1.2.3", "1.26-alpine", "10m", "-", "_1", "0x", "a"},
	} {
		for _, text := range texts {
			if got := document.Resolve(text); got != kind {
				t.Errorf("Resolve(%q) = %d, want %d", text, got, kind)
			}
		}
	}
}

func TestMergedFieldsKeepOrderAndPlace(t *testing.T) {
	t.Parallel()
	const file = `
base: &base {b: 1, a: 2, c: 3}
more: &more {a: 9, z: 8}
step:
  first: x
  <<: [*base, *more]
  c: mine
  list: &l [1.50, "2", 'x', 010]
copy: *l
`
	root, problems := yamltree.Parse("f", []byte(file), 1<<20)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []string
	for _, f := range root.Get("step").Fields {
		got = append(got, fmt.Sprintf("%s=%s %d:%d via %d:%d", f.Key, f.Value.Text, f.Value.At.Line, f.Value.At.Column,
			f.Value.Via.Line, f.Value.Via.Column))
	}
	want := []string{"first=x 5:10 via 0:0", "b=1 2:17 via 6:8", "a=2 2:23 via 6:8", "z=8 3:23 via 6:15",
		"c=mine 7:6 via 0:0", "list= 8:9 via 0:0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1.50", "2", "x", "010"}, root.Strs("copy")); diff != "" {
		t.Error(diff)
	}
}

// TestBombsCostLittleMemory is not parallel: it measures what the whole process allocates.
func TestBombsCostLittleMemory(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		item := fmt.Sprintf("*a%d,", i-1)
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.Repeat(item, 10))
	}
	for name, file := range map[string]string{
		"aliases":                 laughs.String(),
		"depth":                   strings.Repeat("[", 1<<19),
		"dashes":                  strings.Repeat("- ", 1<<19),
		"items":                   "a: [" + strings.Repeat("a,", 1<<18) + "]",
		"pairs":                   strings.Repeat("a: 1\n", 200_000),
		"pairs without spaces":    "{" + strings.Repeat(`"a":1,`, 150_000) + "}",
		"repeated keys":           strings.Repeat("a: 1\n", 90_000),
		"repeated long keys":      strings.Repeat(strings.Repeat("k", 1000)+": 1\n", 900),
		"keys that are none":      strings.Repeat("? [a]\n", 45_000),
		"keys without values":     "{" + strings.Repeat("a,", 90_000) + "}",
		"pairs in lists":          "a: [" + strings.Repeat("a: b,", 49_000) + "]",
		"syntax error at its end": strings.Repeat("a: 1\n", 49_000) + "b: [\n",
		"error behind comments":   strings.Repeat("# x\n", 200_000) + "b: [\n",
		"many documents":          strings.Repeat("---\n", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
			runtime.ReadMemStats(&after)
			if len(problems) == 0 || len(problems) > 101 {
				t.Errorf("%d problems, want 1 to 101", len(problems))
			}
			if size := len(problems.Error()); size > 128<<10 {
				t.Errorf("the problems take %d bytes", size)
			}
			allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MiB allocated", allocated)
			if allocated > 72 { // 64, and what the race detector adds
				t.Errorf("%d MiB were allocated", allocated)
			}
		})
	}
}

// TestASyntaxErrorIsParsedOnce is not parallel: it measures what the whole process allocates.
func TestASyntaxErrorIsParsedOnce(t *testing.T) {
	allocated := func(file string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
		runtime.ReadMemStats(&after)
		if want := "f:45001:4: did not find expected node content"; strings.HasSuffix(file, "[\n") && problems.Error() != want {
			t.Errorf("got %v, want %s", problems, want)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	sound, broken := allocated(strings.Repeat("a: 1\n", 45_000)+"b: []\n"), allocated(strings.Repeat("a: 1\n", 45_000)+"b: [\n")
	if broken > 2*sound {
		t.Errorf("%d bytes to find the place of an error, %d to read a sound file", broken, sound)
	}
}

// TestAnchorsAreConvertedForEachAlias has anchors at all places where parts of a tree are given up once they are converted.
func TestAnchorsAreConvertedForEachAlias(t *testing.T) {
	t.Parallel()
	const file = "a: &a {b: &b [x, {c: &c d}], e: *b}\nf: [*a, *b, *c]\ng: {<<: *a, e: *c}\n"
	root, problems := yamltree.Parse("f", []byte(file), 1<<16)
	if problems != nil {
		t.Fatal(problems)
	}
	got, err := json.Marshal(document.Plain(root))
	want := `{"a":{"b":["x",{"c":"d"}],"e":["x",{"c":"d"}]},"f":[{"b":["x",{"c":"d"}],"e":["x",{"c":"d"}]},["x",{"c":"d"}],"d"],"g":{"b":["x",{"c":"d"}],"e":"d"}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestManyKeysAndValuesAreRead reads files that are as large as they may be.
func TestManyKeysAndValuesAreRead(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"items":         "a:\n" + strings.Repeat("- x\n", 99_000),
		"flow mappings": "a: [" + strings.Repeat("{a: b, c: d},", 19_000) + "]",
		"nested":        "a:\n" + strings.Repeat("- b: c\n  d: e\n", 19_000),
	} {
		if _, problems := yamltree.Parse("f", []byte(file), 1<<20); problems != nil {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestFurtherProblemsAreCounted(t *testing.T) {
	t.Parallel()
	_, problems := yamltree.Parse("f", []byte(strings.Repeat("a: 1\n", 350)), yamltree.BuildFile)
	if got, want := len(problems), 101; got != want {
		t.Fatalf("%d problems, want %d", got, want)
	}
	if got, want := problems[100].String(), "f: and 249 more"; got != want {
		t.Errorf("the last is %q, want %q", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: &x {b: 1}\nc: *x\n", "a: [1,\n", "<<: {a: b}\n", "a: !!int x", "? a\n: b",
		"a: |\n  b\n c", "--- a\n...\n---\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, problems := yamltree.Parse("f", data, 1<<16)
		if root == nil && len(problems) == 0 {
			t.Error("neither a document nor a problem")
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Code == "" || p.Text == "" {
				t.Errorf("problem without a place or words: %+v", p)
			}
		}
	})
}

// TestTextsThatAliasesMultiply: every check of a text is repeated where an alias is.
func TestTextsThatAliasesMultiply(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for text, want := range map[string]string{
		"a: [&a " + long + strings.Repeat(",*a", 100) + "]": "f:1:5: the texts have more than 800000 bytes once aliases are expanded",
		"? " + long + "\n: 1":                               "f:1:3: the key has 10000 bytes; at most 1024 are read",
	} {
		_, problems := yamltree.Parse("f", []byte(text), 200_000)
		if got := problems.Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
