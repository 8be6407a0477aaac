package web

import (
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/internal/server"
)

func TestHostsThatFailAlikeShareOneCause(t *testing.T) {
	t.Parallel()
	page := deploymentPage{server.DeploymentView{Failures: []server.Failure{
		{Target: "greeter/prod/east/elm", Why: "no such bucket"},
		{Target: "greeter/prod/east/fir", Why: "exit status 1"},
		{Target: "greeter/prod/west/yew", Why: "no such bucket"},
	}}, nil}
	causes := page.Causes()
	if len(causes) != 2 || len(causes[0].Where) != 2 || causes[0].Where[1].Target != "greeter/prod/west/yew" || len(causes[1].Where) != 1 {
		t.Errorf("%+v", causes)
	}
}

func TestOnlyAWholeErrorIsReferredTo(t *testing.T) {
	t.Parallel()
	page := deploymentPage{server.DeploymentView{Failures: []server.Failure{{Why: "no"}}}, nil}
	for raw, want := range map[string]string{
		`{"event": "host-deployed", "error": "no"}`:               "host-deployed · see above",
		`{"reason": "prod/all/oak host-deployed: no"}`:            "prod/all/oak host-deployed: see above",
		`{"event": "noticed", "reason": "not now", "by": "nora"}`: "noticed · not now · by nora",
	} {
		if got := page.Brief([]byte(raw)); got != want {
			t.Errorf("%s is shown as %q, want %q", raw, got, want)
		}
	}
}

func TestDepthsDoNotDependOnTheOrderOfStages(t *testing.T) {
	t.Parallel()
	stages := []server.StageView{{Name: "d", After: []string{"c", "a"}}, {Name: "c", After: []string{"b"}}, {Name: "b", After: []string{"a"}}, {Name: "a"}}
	for range 2 {
		if got := depthsOf(stages); got["a"] != 0 || got["b"] != 1 || got["c"] != 2 || got["d"] != 3 {
			t.Errorf("depths %v", got)
		}
		slices.Reverse(stages)
	}
}
