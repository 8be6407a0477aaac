package main

import (
	"go/parser"
	"go/token"
	"testing"
)

// TestMutationsFollowTheCode: each mutation has its one place in its package, and changes it to something that parses.
func TestMutationsFollowTheCode(t *testing.T) {
	t.Chdir("../..")
	rules := map[string]bool{}
	for _, m := range trials() {
		if rules[m.rule] {
			t.Errorf("the rule %q is there twice", m.rule)
		}
		rules[m.rule] = true
		text, err := m.apply()
		if err != nil {
			t.Errorf("%s: %v", m.rule, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, 0); err != nil {
			t.Errorf("%s: %v", m.rule, err)
		}
	}
}
