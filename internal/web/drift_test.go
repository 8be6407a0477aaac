package web_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// The line of a host that drifts named the revision there twice.
func TestDriftNamesARevisionOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, servertest.Definition)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	s.Script.End("beta/all/oak host-deployment-tested", action.Outcome{Kind: action.Fatal, Error: "no answer"})
	s.Until(t, s.Ship(t, "greeter", "88d0e17"), "fails", servertest.Ended)
	page := s.page(t, "/pipelines/greeter", "")
	_, line, found := strings.Cut(page, "runs 88d0e17 of #2")
	line, _, _ = strings.Cut(line, "</li>")
	if !found || strings.Contains(line, "88d0e17") || !strings.Contains(line, "; the stage has <code>3f2c9a1</code>") {
		t.Errorf("found: %v; behind what the host runs: %q", found, line)
	}
}
