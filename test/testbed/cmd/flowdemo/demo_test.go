//go:build services

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/test/testbed"
)

var product testbed.Product

func TestMain(m *testing.M) {
	status := m.Run()
	if product.Remove() != nil {
		status = max(status, 1)
	}
	os.Exit(status)
}

// TestDemonstration runs the demonstration without a visitor, to its end.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	script := childtest.Command(t, "../../../../scripts/demo-eventflow")
	script.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), childtest.ProgramVariable+"="+product.Path(t, "../../../.."))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		t.Fatalf("demo-eventflow: %v: %s", err, out)
	}
	for _, want := range []string{"the flow is Ready", "it has become an action", "export KUBECONFIG="} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it printed no %q:\n%s", want, out)
		}
	}
}
