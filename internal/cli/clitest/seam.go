package clitest

import (
	"context"
	"errors"
	"testing"
)

// Runs holds the commands of a noun that query the log, by their names, with the least that they need.
type Runs[F any] map[string]func(ctx context.Context, f F, o *Output) error

// WantErrors runs every command on a log that does not answer: each passes the error on, makes no further call, and prints no half
// answer. calls returns the recorded calls of a log.
func (r Runs[F]) WantErrors(t *testing.T, away func() F, calls func(F) []string) {
	t.Helper()
	for name, run := range r {
		for _, json := range []bool{AsText, AsJSON} {
			f, o := away(), NewOutput(json)
			if err := run(t.Context(), f, o); !errors.Is(err, ErrAway) {
				t.Errorf("waybill %s: got %v, want the ledger's error", name, err)
			}
			if o.Printed.Len() > 0 {
				t.Errorf("waybill %s printed %q before its error", name, o.Printed.String())
			}
			if all := calls(f); len(all) != 1 {
				t.Errorf("waybill %s went on after the error: %v", name, all)
			}
		}
	}
}

// WantEmpty runs commands on a log that has nothing: every list is [] for programs, and a remark beside the output for people.
func (r Runs[F]) WantEmpty(t *testing.T, empty func() F, remarks map[string]string) {
	t.Helper()
	for name, remark := range remarks {
		text, document := NewOutput(AsText), NewOutput(AsJSON)
		if err := r[name](t.Context(), empty(), text); err != nil {
			t.Fatalf("waybill %s: %v", name, err)
		}
		if err := r[name](t.Context(), empty(), document); err != nil {
			t.Fatalf("waybill %s -o json: %v", name, err)
		}
		if text.Printed.Len() > 0 || text.Warned.String() != remark+"\n" {
			t.Errorf("waybill %s printed %q and %q, want the remark %q", name, text.Printed.String(), text.Warned.String(), remark)
		}
		if document.Printed.String() != "[]\n" || document.Warned.Len() > 0 {
			t.Errorf("waybill %s -o json printed %q and %q", name, document.Printed.String(), document.Warned.String())
		}
	}
}

// Words holds the completions of an argument, and the wanted ones.
type Words struct {
	Of   func() ([]string, error)
	Want []string
}

// WantWords compares the number, the first and the last of the words that complete arguments, by the names of these.
func WantWords(t *testing.T, all map[string]Words) {
	t.Helper()
	for name, c := range all {
		got, err := c.Of()
		if err != nil || len(got) != len(c.Want) || got[0] != c.Want[0] || got[len(got)-1] != c.Want[len(c.Want)-1] {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.Want)
		}
	}
}
