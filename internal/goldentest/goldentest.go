// Package goldentest compares what the product makes with files that a person has read: golden files, and
// transcripts, which are commands with the output. The flag -rewrite writes the files as they are now; what it
// changed is reviewed with git diff.
package goldentest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false,
	"write golden files, transcripts and stories as they are now, instead of comparing; review them with git diff")

// Rewrite reports whether the flag -rewrite is set.
func Rewrite() bool { return *rewrite }

// Compare fails the test unless the file has the content; with -rewrite it writes the file.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -rewrite writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); -rewrite writes it:\n%s", file, diff)
	}
}

// Play runs a subtest for each file that matches the pattern. It compares the file with the result of play on its
// text.
func Play(t *testing.T, pattern string, play func(t *testing.T, text string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			Compare(t, file, play(t, string(text)))
		})
	}
}

// Blocks returns a transcript with what its commands print now. Its blocks are separated by empty lines; one is a
// command of one or more lines, then "----" and the output. Lines that begin with "#" are remarks; a block may
// consist of remarks alone. run gets a command's lines without remarks, and returns the output, each line with its
// end.
func Blocks(text string, run func(command []string) string) string {
	var result strings.Builder
	for i, block := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		if i > 0 {
			result.WriteString("\n")
		}
		head, _, found := strings.Cut(block+"\n", "----\n")
		result.WriteString(head)
		if !found {
			continue
		}
		var command []string
		for line := range strings.Lines(head) {
			if !strings.HasPrefix(line, "#") {
				command = append(command, strings.TrimRight(line, "\n"))
			}
		}
		result.WriteString("----\n" + run(command))
	}
	return result.String()
}

// CompareJSON compares a JSON document without white space, as servers send it, with a file that
// has it with indentation, so that a difference is readable. Everything else is compared byte for
// byte; with -rewrite it writes the file.
func CompareJSON(t testing.TB, file string, served []byte) {
	t.Helper()
	var lines, again bytes.Buffer
	if err := json.Indent(&lines, served, "", " "); err != nil {
		t.Fatalf("the document is not valid JSON: %v", err)
	}
	lines.WriteByte('\n')
	if err := json.Compact(&again, lines.Bytes()); err != nil || !bytes.Equal(bytes.TrimSpace(served), again.Bytes()) {
		t.Errorf("the document is served with white space that %s cannot keep", file)
	}
	Compare(t, file, lines.String())
}
