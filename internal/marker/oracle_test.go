package marker

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// judge compares a file and the edited file in two ways that share nothing with the package: as lines of text, of which those
// with the marker alone may differ, and as trees of another parser, in which the scalars that have the marker as their comment are the
// revision, and all else is the same.
func judge(t *testing.T, was, is, revision string, lines []Line) {
	t.Helper()
	before, after := strings.Split(was, "\n"), strings.Split(is, "\n")
	if len(before) != len(after) {
		t.Fatalf("%d lines become %d", len(before), len(after))
	}
	listed := map[int]Line{}
	for _, l := range lines {
		listed[l.Number] = l
	}
	for i := range before {
		l, ok := listed[i+1]
		if before[i] != after[i] && (!ok || !strings.Contains(before[i], "$promotion")) {
			t.Errorf("line %d has no marker and changes from %q to %q", i+1, before[i], after[i])
		}
		if ok && (l.Changed() != (before[i] != after[i]) || tail(l.Was) != tail(l.Is)) {
			t.Errorf("line %d is listed as %+v", i+1, l)
		}
	}
	one, two := readAll(t, was), readAll(t, is)
	if len(one) != len(two) {
		t.Fatalf("%d documents become %d", len(one), len(two))
	}
	changed := 0
	for i := range one {
		changed += compare(t, one[i], two[i], revision)
	}
	if listed := countChanged(lines); listed != changed {
		t.Errorf("%d lines are listed as changed, %d scalars differ", listed, changed)
	}
}

func countChanged(lines []Line) (n int) {
	for _, l := range lines {
		if l.Changed() {
			n++
		}
	}
	return n
}

// tail returns a line after its value.
func tail(line string) string { return line[strings.LastIndexByte(line, '#'):] }

var ours = regexp.MustCompile(`^# *\{.*"\$promotion": *"apps:podinfo:prod(:[a-z]+)?".*\}\s*$`)

// compare compares two trees and returns how many scalars differ.
func compare(t *testing.T, was, is *yaml.Node, revision string) (changed int) {
	t.Helper()
	if was.Kind != is.Kind || len(was.Content) != len(is.Content) || was.Anchor != is.Anchor || was.LineComment != is.LineComment {
		t.Fatalf("the node at line %d differs", was.Line)
	}
	if was.Value != is.Value {
		changed++
		if was.Kind != yaml.ScalarNode || !ours.MatchString(was.LineComment) {
			t.Errorf("line %d: %q is not marked and becomes %q (%s)", was.Line, was.Value, is.Value, was.LineComment)
		}
		if !strings.Contains(revision, is.Value) {
			t.Errorf("line %d: %q becomes %q", was.Line, was.Value, is.Value)
		}
		var text any
		if err := is.Decode(&text); is.ShortTag() == "!!str" && (err != nil || text != is.Value) {
			t.Errorf("line %d reads back as %v, %v", was.Line, text, err)
		}
	}
	for i := range was.Content {
		changed += compare(t, was.Content[i], is.Content[i], revision)
	}
	return changed
}

func readAll(t *testing.T, text string) (roots []*yaml.Node) {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		var root yaml.Node
		if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
			return roots
		} else if err != nil {
			return nil // an unreadable text is compared as lines only
		}
		roots = append(roots, &root)
	}
}
