package show

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestPreviewsSayWhatWouldBeDone(t *testing.T) {
	t.Parallel()
	rollback := service.RollbackPreview{Revision: "3f2c9a1", Undoes: 2, Undone: "88d0e17", Rejects: true, Cancels: true, Holds: []int64{3},
		Hosts: []service.ReturningHost{{Target: "greeter/prod/east/elm", Runs: &service.Running{Deployment: 2, Label: "88d0e17"}}}}
	skip := service.CommandPreview{Kind: "skip", Target: "greeter/prod", Hosts: 1, Steps: []pipeline.StepState{
		{StepKey: pipeline.StepKey{Deployment: 2, Target: "greeter/prod/east/elm", Event: pipeline.HostDeployed}, State: pipeline.StateFailed}}}
	for _, c := range []struct{ got, want []string }{
		{RollbackPreview("greeter", rollback), []string{"greeter#2 would be undone: 1 host would get revision 3f2c9a1",
			"  prod/east/elm  runs 88d0e17 of greeter#2",
			"greeter#2 would be canceled", "revision 88d0e17 would be rejected", "greeter#3 would be held"}},
		{CommandPreview(service.Ref{Pipeline: "greeter", Number: 2},
			skip), []string{"greeter#2: skip of prod would be recorded; 1 step would be left out",
			"  prod/east/elm  deploy  failed"}},
		{CommandPreview(service.Ref{Pipeline: "greeter", Number: 2},
			service.CommandPreview{Kind: "hold", Target: "greeter"}), []string{"greeter#2: hold would be recorded"}},
		{DeployPreview(service.DeployPreview{Revision: "3f2c9a1", Version: 1,
			Stages: []service.ReplacedRevision{{Stage: "prod", Current: &service.Standing{Label: "88d0e17"}, Newer: true}}}),
			[]string{"revision 3f2c9a1 would be deployed by definition 1", "  prod  has 88d0e17, which is newer"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Error(diff)
		}
	}
}
