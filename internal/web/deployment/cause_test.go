package deployment

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestHostsThatFailAlikeShareOneCause(t *testing.T) {
	t.Parallel()
	data := deploymentPage{DeploymentView: service.DeploymentView{Failures: []service.Failure{
		{Target: "greeter/prod/east/elm", Why: "no such bucket"},
		{Target: "greeter/prod/east/fir", Why: "exit status 1"},
		{Target: "greeter/prod/west/yew", Why: "no such bucket"},
	}}}
	causes := data.Causes()
	if len(causes) != 2 || len(causes[0].Where) != 2 || causes[0].Where[1].Target != "greeter/prod/west/yew" || len(causes[1].Where) != 1 {
		t.Errorf("%+v", causes)
	}
}

func TestAnErrorOfManyHostsNamesFew(t *testing.T) {
	t.Parallel()
	data := deploymentPage{DeploymentView: service.DeploymentView{Failures: make([]service.Failure, 1000)}}
	causes := data.Causes()
	if len(causes) != 1 || len(causes[0].Where) != causeShown || causes[0].More != 1000-causeShown {
		t.Errorf("%d causes, the first with %d steps and %d more", len(causes), len(causes[0].Where), causes[0].More)
	}
}

func TestApproveSaysHowManyMustToo(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]admission.ApprovalState{
		"1 more person must approve prod too before it starts in this deployment.": {Stage: "prod",
			Count: 3, Given: []string{"ana"}},
		"2 more people must approve prod too before it starts in this deployment.": {Stage: "prod", Count: 3},
		"prod starts in this deployment, unless a window, a freeze or another deployment keeps it back.": {Stage: "prod",
			Count: 2, Given: []string{"ana"}},
	} {
		if got := (deploymentPage{}).ApproveSays(a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOnlyAWholeErrorIsReferredTo(t *testing.T) {
	t.Parallel()
	data := deploymentPage{DeploymentView: service.DeploymentView{Failures: []service.Failure{{Why: "no"}}}}
	for raw, want := range map[string]string{
		`{"event": "host-deployed", "error": "no"}`:               "host-deployed · see above",
		`{"reason": "prod/all/oak host-deployed: no"}`:            "prod/all/oak host-deployed: see above",
		`{"reason": "oak: no (RETRIES_EXHAUSTED)"}`:               "oak: see above",
		`{"reason": "oak: no (or so)"}`:                           "oak: no (or so)",
		`{"event": "noticed", "reason": "not now", "by": "nora"}`: "noticed · not now · by nora",
	} {
		if got := data.Brief([]byte(raw)); got != want {
			t.Errorf("%s is shown as %q, want %q", raw, got, want)
		}
	}
}
