package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	t.Parallel()
	const mask = `"Package":"github.com/waybill-dev/waybill/internal/mask"`
	in := "3 programs played\n" +
		`{"Action":"run",` + mask + `,"Test":"TestQuick"}` + "\n" +
		`{"Action":"output",` + mask + `,"Test":"TestQuick","Output":"    quick_test.go:1: not shown\n"}` + "\n" +
		`{"Action":"pass",` + mask + `,"Test":"TestQuick","Elapsed":0.5}` + "\n" +
		`{"Action":"output",` + mask + `,"Test":"TestLong/part","Output":"    long_test.go:1: wrong\n"}` + "\n" +
		`{"Action":"fail",` + mask + `,"Test":"TestLong/part","Elapsed":12.25}` + "\n" +
		`{"Action":"output",` + mask + `,"Output":"FAIL\n"}` + "\n" +
		`{"Action":"fail",` + mask + `,"Elapsed":13}` + "\n"
	want := "3 programs played\n    long_test.go:1: wrong\nFAIL\n   12.2  internal/mask TestLong/part\n    0.5  internal/mask TestQuick\n"
	var out strings.Builder
	failed, err := report(strings.NewReader(in), &out)
	if !failed || err != nil {
		t.Errorf("failed %v, %v", failed, err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	var many strings.Builder
	for i := range 2 * longest {
		fmt.Fprintf(&many, `{"Action":"pass",%s,"Test":"Test%d","Elapsed":%d}`+"\n", mask, i, i)
	}
	out.Reset()
	failed, err = report(strings.NewReader(many.String()), &out)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if failed || err != nil || len(lines) != longest || lines[0] != "   59.0  internal/mask Test59" {
		t.Errorf("failed %v, %v, %d lines, first %q", failed, err, len(lines), lines[0])
	}
}
