package fault_test

import (
	"errors"
	"fmt"
	"net/http"
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
		{fault.Wrap(fault.BadParameters, fault.Problems{{Text: "bad"}}), http.StatusBadRequest, 2},
		{fault.New(fault.NoTime, "x"), http.StatusInternalServerError, 1},
		{fault.New(fault.Unavailable, "x"), http.StatusServiceUnavailable, 3},
		{fault.New(fault.Canceled, "x"), http.StatusConflict, 4},
		{fault.New(fault.Pending, "x"), http.StatusOK, 5},
		{fault.New(fault.Interrupted, "x"), http.StatusServiceUnavailable, 130},
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
