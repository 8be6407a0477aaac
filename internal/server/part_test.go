package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// TestPartIsDeployedToItsTargetAlone brings an older revision to one host, and leaves everything else as it is.
func TestPartIsDeployedToItsTargetAlone(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	s.Apply(t, servertest.Definition)
	ana := s.client()
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	if _, err := register(ctx, ana, pipeline.RegisteredRevision{Pipeline: "greeter", Label: "88d0e17"}, false, ""); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want service.NewDeployment
		code fault.Code
		says string
	}{
		{service.NewDeployment{Revision: "88d0e17", Target: "prod"}, fault.Refused, "does not have all its artifacts yet"},
		{service.NewDeployment{Revision: "3f2c9a1", Target: "build"}, fault.Refused, "stage build has no hosts"},
		{service.NewDeployment{Revision: "3f2c9a1", Target: "prod/nowhere"}, fault.NotFound, "has no greeter/prod/nowhere"},
		{service.NewDeployment{Revision: "3f2c9a1", Target: "prod", Until: "prod"}, fault.Invalid, "exclude each other"},
	} {
		test.want.Pipeline = "greeter"
		if _, err := deploy(ctx, ana, test.want); !fault.Is(err, test.code) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("deploy %+v: %v, want %s: %s", test.want, err, test.code, test.says)
		}
	}
	d, err := deploy(ctx, ana, service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1", Target: "prod/east/elm"})
	if err != nil || d.Number != 2 || d.Kind != journal.Part || d.Label != "3f2c9a1" || d.By != "ana" {
		t.Fatalf("deploy: %+v, %v", d, err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: 2}, "ends", servertest.Ended)
	entries, err := s.Ledger.Entries(ctx, journal.EntryQuery{Pipeline: "greeter", Deployment: 2, Class: pipeline.Fact})
	if err != nil {
		t.Fatal(err)
	}
	var facts []string
	for _, e := range entries {
		facts = append(facts, e.Target+" "+e.Event)
	}
	want := []string{"greeter pipeline-started", "greeter/prod/east/elm host-started", "greeter/prod/east/elm host-artifact-replicated",
		"greeter/prod/east/elm host-deployed", "greeter/prod/east/elm host-deployment-tested", "greeter/prod/east/elm host-finished-successfully",
		"greeter pipeline-finished-successfully"}
	if !slices.Equal(facts, want) {
		t.Errorf("facts %q, want %q", facts, want)
	}
}
