package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

// output is a Printer with what it has printed.
type output struct {
	show.Printer
	out, err bytes.Buffer
}

func newOutput(json bool) *output {
	o := &output{}
	o.Printer = show.Printer{Out: &o.out, Err: &o.err, JSON: json}
	return o
}

// want compares what was printed on the two streams.
func (o *output) want(t *testing.T, out, err string) {
	t.Helper()
	if diff := cmp.Diff(out, o.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(err, o.err.String()); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
}

// wantValue compares what was printed as JSON with a value.
func wantValue[T any](t *testing.T, o *output, want T) {
	t.Helper()
	var got T
	if err := json.Unmarshal(o.out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, o.out.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

// wantFault checks the code, the text and the hint of an error; "" is any hint.
func wantFault(t *testing.T, err error, code fault.Code, text, hint string) {
	t.Helper()
	if !fault.Is(err, code) || !strings.Contains(fmt.Sprint(err), text) {
		t.Fatalf("got %v (%s), want %s: …%s…", err, fault.CodeOf(err), code, text)
	}
	if got := fault.HintOf(err); hint != "" && got != hint {
		t.Errorf("hint %q, want %q", got, hint)
	}
}

// noon is the time of the tests.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local) }
