package web

import (
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
