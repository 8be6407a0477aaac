package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestDifferencesAreNamedByTheirPlace(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	type detail struct {
		Given []string `json:"given"`
		By    []string `json:"by,omitempty"`
	}
	type less struct{ Given []string }
	for _, c := range []struct {
		what        string
		today, then any
		want        string // of what; "": the same
	}{
		{"numbers of two types", pipeline.Fact, uint8(1), ""},
		{"texts", pipeline.StatusActive, "failed", "x"},
		{"an inner field", []pipeline.StepState{{}, {StepKey: pipeline.StepKey{Target: "shop"}}},
			[]pipeline.StepState{{}, {}}, "x[1].StepKey.Target"},
		{"a longer list", []int{1, 2, 3}, []int{1, 2}, "x, of 3 and 2"},
		{"a shorter list", []int{1}, []int{1, 2}, "x, of 1 and 2"},
		{"nil that JSON shows", detail{}, detail{Given: []string{}}, "x.Given"},
		{"nil that JSON hides", detail{}, detail{By: []string{}}, ""},
		{"a key", map[string]int{"a": 1}, map[string]int{"a": 2}, "x[a]"},
		{"another key", map[string]int{"a": 1}, map[string]int{"b": 1}, "x[a]"},
		{"a lost field", less{}, detail{}, "x has lost the field By"},
		{"a new field", detail{}, less{}, "x has the new field By"},
		{"one moment, twice", noon, noon.Add(0), ""},
		{"one moment in two zones", noon, noon.In(time.FixedZone("X", 3600)), "x"},
		{"no pointer", (*admission.Freeze)(nil), &admission.Freeze{}, "x"},
		{"pointers to the same", &admission.Freeze{By: "ana"}, &admission.Freeze{By: "ana"}, ""},
		{"pointers to others", &admission.Freeze{By: "ana"}, &admission.Freeze{By: "bob"}, "x.By"},
		{"two kinds", "1", 1, "x"},
		{"nothing", nil, 1, "x"},
	} {
		d, differs := newComparer().compare("x", c.today, c.then)
		if differs != (c.want != "") || d.what != c.want {
			t.Errorf("%s: differs %v at %q, want %q", c.what, differs, d.what, c.want)
		}
	}
}

func TestErrorsDifferByTextTypeAndWhatTheySay(t *testing.T) {
	t.Parallel()
	refused := func() *fault.Error { return fault.New(fault.Refused, "no") }
	for _, c := range []struct {
		what        string
		today, then error
		want        bool
	}{
		{"none", nil, nil, false},
		{"one", nil, errors.New("no"), true},
		{"text", errors.New("no"), errors.New("yes"), true},
		{"code", refused(), fault.New(fault.Invalid, "no"), true},
		{"hint", refused(), refused().WithHint("wait"), true},
		{"type", refused(), errors.New("no"), true},
		{"the same", refused(), refused(), false},
		{"wrapped code", fmt.Errorf("ask: %w", refused()), fmt.Errorf("ask: %w", fault.New(fault.Invalid, "no")), true},
		{"invariant", &pipeline.Violation{Invariant: "I1"}, &pipeline.Violation{Invariant: "I2"}, true},
	} {
		if d, differs := newComparer().compareErrors("x", c.today, c.then); differs != c.want {
			t.Errorf("%s: differs %v, want %v: %v", c.what, differs, c.want, d)
		}
	}
}

func TestDifferenceShowsBothSides(t *testing.T) {
	t.Parallel()
	d, _ := newComparer().compare("x", []byte(`{"a":1}`), []byte(`{"a":2}`))
	if text := d.String(); !strings.Contains(text, `{"a":1}`) || !strings.Contains(text, `{"a":2}`) {
		t.Errorf("got %s", text)
	}
}
