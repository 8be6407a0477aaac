package marker

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEdit edits any bytes. What is edited has changed in marked lines only, reads back, and is edited no second time.
func FuzzEdit(f *testing.F) {
	for _, file := range corpus {
		f.Add([]byte(file), "6.6.0")
		f.Add([]byte(strings.ReplaceAll(file, "\n", "\r\n")), "1.10")
		f.Add([]byte("\ufeff"+file), "a: b, 'c' \"d\" #e")
	}
	f.Fuzz(func(t *testing.T, file []byte, revision string) {
		got, lines, err := Edit("f.yaml", file, podinfo, revision)
		if err != nil {
			return
		}
		if len(lines) == 0 && !bytes.Equal(got, file) {
			t.Fatal("it has no marker, and changes")
		}
		if !utf8.Valid(file) {
			return
		}
		judge(t, string(file), string(got), revision, lines)
		again, _, err := Edit("f.yaml", got, podinfo, revision)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("the second edit changes %q to %q: %v", got, again, err)
		}
	})
}

// corpus has the styles of files that people promote by.
var corpus = []string{
	"version: 6.5.4 " + m + "\n",
	"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: podinfo\nspec:\n  chart:\n    spec:\n      version: \"6.5.4\" " + m +
		"\n      chart: podinfo\n  values:\n    image:\n      tag: '6.5.4' # {\"$promotion\": \"apps:podinfo:prod:tag\"}\n",
	"images:\n- name: a\n  newTag: 1.0 " + m + "\n  newName: b # {\"$promotion\": \"apps:podinfo:prod:name\"}\n- {name: c, newTag: d}\n",
	"---\na: &x 1 " + m + "\nb: *x\n---\n# c\n- - 'd' " + m + "\n- ? e\n  : f " + m + "\n",
	"a: {\n  b: c, " + m + "\n  d: [e, f]\n}\n",
	"a: |\n  b: c\nd: >-\n  e\nf: g " + m,
	"a: !!str 1 " + m + "\nb: !c d " + m + "\n",
	"\"a\": \"b # \\\" c\" " + m + "\n'd': 'it''s' " + n + "\n",
	"a: b\n  c " + m + "\n",
	"a: \"b\n  c\" " + m + "\n",
	"%YAML 1.2\n---\na: b " + m + "\n...\n",
	"x:\t[\"a\n b\", c, " + m + "\n]\n",
}
