package clitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Output is a Printer with the output.
type Output struct {
	show.Printer
	Printed, Warned bytes.Buffer
}

func NewOutput(json bool) *Output {
	o := &Output{}
	o.Printer = show.Printer{Out: &o.Printed, Err: &o.Warned, JSON: json}
	return o
}

// Want compares the output on the two streams.
func (o *Output) Want(t *testing.T, out, err string) {
	t.Helper()
	if diff := cmp.Diff(out, o.Printed.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(err, o.Warned.String()); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
}

// WantValue compares output in JSON with a value.
func WantValue[T any](t *testing.T, o *Output, want T) {
	t.Helper()
	var got T
	if err := json.Unmarshal(o.Printed.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, o.Printed.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

// WantFault checks the code, the text and the hint of an error; "" is any hint.
func WantFault(t *testing.T, err error, code fault.Code, text, hint string) {
	t.Helper()
	if !fault.Is(err, code) || !strings.Contains(fmt.Sprint(err), text) {
		t.Fatalf("got %v (%s), want %s: …%s…", err, fault.CodeOf(err), code, text)
	}
	if got := fault.HintOf(err); hint != "" && got != hint {
		t.Errorf("hint %q, want %q", got, hint)
	}
}

// Noon is the time of the tests.
func Noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local) }

// AsText and AsJSON are the two forms of output.
const (
	AsText = false
	AsJSON = true
)

// IsShown reports whether the error's text was printed already.
func IsShown(err error) bool {
	_, ok := errors.AsType[cmdline.Shown](err)
	return ok
}
