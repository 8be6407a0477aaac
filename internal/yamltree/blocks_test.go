package yamltree

import (
	"bytes"
	"math"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v4"
)

// TestTextOfScriptsHasNoKeys: a script may have many brackets, colons and commas.
func TestTextOfScriptsHasNoKeys(t *testing.T) {
	t.Parallel()
	script := "      echo '{\"a\": [1, 2], \"b\": {}}'\n\n      - x: y\n"
	for name, test := range map[string]struct {
		file string
		want int
	}{
		"an item":              {"a:\n  b:\n    cmds:\n    - |\n" + script + "    - ls --all: no\n", 10},
		"a value":              {"a: # it's\n  b: >-  # text\n" + script + "c: [d, \"e\"]\n", 10},
		"with properties":      {"a: &x !!str |\n" + script, 2},
		"after plain words":    {"a: it's \"so\", isn't it\nb: |\n" + script, 4},
		"of an item's key":     {"- - a: |\n" + script, 4},
		"not below the key":    {"- a: |\n  - x\n", 4},
		"not where a quote is": {"a: \"b\n  c: |\n    - x\"\n", 5},
	} {
		if got, _ := countNodes([]byte(test.file), math.MaxInt); got != test.want {
			t.Errorf("%s: %d nodes are counted, want %d", name, got, test.want)
		}
	}
}

// FuzzBlocks: what is taken for text never hides keys from the count. At most two nodes come from one that is counted, as for the key
// and the missing value of {a}, and two from each document.
func FuzzBlocks(f *testing.F) {
	items := strings.Repeat("1, ", 50)
	for _, seed := range []string{
		"a: |\n  x: y\n  - z\nb: c\n",
		"a: [\"x: |\n    \", " + items + "]\n",
		"it's: ['abc: |\n  ', " + items + "]\n",
		"a: b - \"c: [\"d: |\n  \", " + items + "]\n",
		"a:\t'x\nb: |\n  ', [" + items + "]\n",
		"--- ['a\nk: |\n  ', " + items + "]\n",
		"- - k: |\n   - " + strings.Repeat("- ", 50) + "\n",
		"a: |\r  x\r- [" + items + "]\n",
		"a: |\n    x\n  - [" + items + "]\n",
		"a: |2\n  - [" + items + "]\n   x\n",
		"? |\n  a\n: [" + items + "]\n",
		"a: b\n  - |\n    # c\n    - [" + items + "]\n",
		"a:\n- |\n  x\n- [" + items + "]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if checkBytes("f", data) != nil {
			return
		}
		decoder, nodes, documents := yaml.NewDecoder(bytes.NewReader(data)), 0, 1
		for {
			var root yaml.Node
			if decoder.Decode(&root) != nil {
				break
			}
			documents++
			nodes += nodesBelow(&root)
		}
		if counted, _ := countNodes(data, math.MaxInt); nodes > 2*(counted+documents) {
			t.Errorf("%d nodes, and %d are counted", nodes, counted)
		}
	})
}

func nodesBelow(n *yaml.Node) int {
	count := 1
	for _, c := range n.Content {
		count += nodesBelow(c)
	}
	return count
}
