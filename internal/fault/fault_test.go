package fault_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
)

func TestCodeSurvivesWrapping(t *testing.T) {
	err := fmt.Errorf("ship: %w", fault.New(fault.Unavailable, "open %s: %w", "waybill.db", errors.New("disk is full")).WithHint("make room"))
	if got := fault.CodeOf(err); got != fault.Unavailable {
		t.Errorf("CodeOf = %q, want %q", got, fault.Unavailable)
	}
	if got, want := err.Error(), "ship: open waybill.db: disk is full"; got != want {
		t.Errorf("Error = %q, want %q", got, want)
	}
	if got, want := fault.HintOf(err), "make room"; got != want {
		t.Errorf("HintOf = %q, want %q", got, want)
	}
}

func TestHintOfAnInnerErrorIsFound(t *testing.T) {
	inner := fault.New(fault.Invalid, "no host").WithHint("name one")
	err := fault.Wrap(fault.Refused, fmt.Errorf("deploy: %w", inner))
	if got, want := fault.HintOf(err), "name one"; got != want {
		t.Errorf("HintOf = %q, want %q", got, want)
	}
}

func TestCodesMapToStatuses(t *testing.T) {
	for _, c := range []struct {
		err        error
		http, exit int
	}{
		{nil, http.StatusInternalServerError, 0},
		{errors.New("plain"), http.StatusInternalServerError, 1},
		{fault.Problems{{Text: "bad"}}, http.StatusBadRequest, 2},
		{fault.Wrap(fault.InvalidParameters, fault.Problems{{Text: "bad"}}), http.StatusBadRequest, 2},
		{fault.New(fault.BackoffWithoutTime, "x"), http.StatusInternalServerError, 1},
		{fault.New(fault.Unavailable, "x"), http.StatusServiceUnavailable, 3},
		{fault.New(fault.Canceled, "x"), http.StatusConflict, 4},
		{fault.New(fault.Pending, "x"), http.StatusOK, 5},
		{fault.New(fault.Interrupted, "x"), http.StatusServiceUnavailable, 130},
		{fault.New(fault.TimedOut, "x"), http.StatusGatewayTimeout, 124},
	} {
		code := fault.CodeOf(c.err)
		if code.Exit() != c.exit || code.HTTP() != c.http {
			t.Errorf("%v: exit %d, HTTP %d; want %d, %d", c.err, code.Exit(), code.HTTP(), c.exit, c.http)
		}
	}
}

func TestClassesSurviveWrapping(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	err := fmt.Errorf("dial: %w", fault.RetryAfter(errors.New("busy"), at))
	if got, ok := fault.RetryAt(err); !ok || !got.Equal(at) {
		t.Errorf("RetryAt = %v, %v", got, ok)
	}
	if fault.IsPermanent(err) {
		t.Error("a busy target is not permanent")
	}
	if !fault.IsPermanent(fmt.Errorf("load: %w", fault.Permanent(errors.New("no key")))) {
		t.Error("Permanent is lost in wrapping")
	}
}

func TestProblemsAreSortedAndWarningsDoNotBlock(t *testing.T) {
	at := func(line, column int) fault.Position {
		return fault.Position{File: "waybill.yaml", Line: line, Column: column}
	}
	problems := fault.Problems{
		{Position: at(9, 3), Text: "second", Suggestion: "groups"},
		{Position: at(2, 7), Text: "told", Warning: true},
		{Position: at(2, 5), Text: "first", Scope: "stages[0]"},
	}
	want := "waybill.yaml:2:5: stages[0]: first\nwaybill.yaml:9:3: second (did you mean \"groups\"?)"
	if diff := cmp.Diff(want, problems.Err().Error()); diff != "" {
		t.Error(diff)
	}
	if err := problems.Warnings().Err(); err != nil {
		t.Errorf("warnings block: %v", err)
	}
}

func TestNearestIsWithinTwoEdits(t *testing.T) {
	known := []string{"groups", "hosts", "after", "build"}
	for name, want := range map[string]string{"grups": "groups", "host": "hosts", "aftre": "after", "environment": "", "x": ""} {
		if got := fault.Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestProblemsBeyondAHundredAreCountedByKind(t *testing.T) {
	var problems fault.Problems
	for i := range 250 {
		problems.Add(fault.Problem{Position: fault.Position{File: "f", Line: i + 1}, Text: "a warning", Warning: true})
	}
	for range 1000 {
		problems.Add(fault.Problem{Position: fault.Position{File: "f", Line: 1}, Text: strings.Repeat("long ", 1000)})
	}
	if got, want := len(problems), 202; got != want {
		t.Errorf("%d problems are kept, want %d", got, want)
	}
	if got := problems.Count(); got != 1250 {
		t.Errorf("%d problems are counted, want 1250", got)
	}
	blocking, ok := errors.AsType[fault.Problems](problems.Err())
	if !ok || len(blocking) != 101 || blocking[100].Text != "and 900 more" {
		t.Errorf("the error has %d problems and ends with %q, want 101 and \"and 900 more\"", len(blocking), blocking[len(blocking)-1].Text)
	}
	if warnings := problems.Warnings(); len(warnings) != 101 || warnings[100].Text != "and 150 more" {
		t.Errorf("there are %d warnings, the last is %q", len(warnings), warnings[len(warnings)-1].Text)
	}
	if size := len(problems.Error()); size > 256<<10 {
		t.Errorf("the text has %d bytes", size)
	}
	joined := append(fault.Problems{}, blocking...)
	joined.Add(blocking...)
	if got := joined[100].Text; got != "and 1900 more" {
		t.Errorf("joined, the last is %q, want \"and 1900 more\"", got)
	}
}
