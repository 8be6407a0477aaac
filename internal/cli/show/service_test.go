package show

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/service"
)

func serviceViews() map[string][]string {
	runs := &service.Running{Label: "88d0e17", Deployment: 2}
	of := func(host string, state *service.Services) service.ServiceView {
		return service.ServiceView{Target: "greeter/prod/east/" + host, Name: "greeter", Manager: "process", Runs: runs, State: state}
	}
	up := of("elm", &service.Services{State: service.ServiceUp, Restarts: 3, Exit: "7", Since: at(100)})
	untested := of("oak", &service.Services{State: service.ServiceStopped})
	untested.Runs = &service.Running{Label: "3f2c9a1", Deployment: 1, Doubt: service.DoubtUntested}
	away := of("gum", &service.Services{State: service.ServiceUnknown, Error: "reach host gum: refused\nby it"})
	other := up
	other.Target, other.Found = "greeter/prod/east/fir", &service.Found{Release: "3f2c9a1-11aa22bb", Instead: "88d0e17 (#2)"}
	nothing := service.ServiceView{Target: "greeter/prod/east/yew", Name: "greeter", Manager: "none"}
	host := step.State{Release: "88d0e17-9b1e07d2", Previous: "3f2c9a1-11aa22bb", Ledger: "ledger-1", Rank: 2,
		Deployment: "greeter#2", Busy: true, Unfinished: true,
		Supervisor: 41, Service: 42, Started: at(100), Running: "88d0e17-9b1e07d2", Restarts: 3, Exit: "7"}
	return map[string][]string{
		"services":       Services("greeter", []service.ServiceView{up, untested, away, other, nothing}, Style{}, now()),
		"service-status": ServiceStatus(service.ServiceStatusView{ServiceView: up, Host: &host}, now()),
		"service-status-stopped": ServiceStatus(service.ServiceStatusView{ServiceView: untested,
			Host: &step.State{Release: "3f2c9a1-11aa22bb", Unfinished: true}}, now()),
		"service-status-away": ServiceStatus(service.ServiceStatusView{ServiceView: away}, now()),
		"service-status-changed": ServiceStatus(service.ServiceStatusView{ServiceView: up, Verified: true,
			Changed: []string{"bin/web", "data/words.txt"}}, now()),
		"service-status-whole": ServiceStatus(service.ServiceStatusView{ServiceView: up, Verified: true}, now()),
		"service-status-none":  ServiceStatus(service.ServiceStatusView{ServiceView: nothing}, now()),
	}
}

// The command names the smallest target that has every host which can be caught up.
func TestCatchUpNamesTheSmallestTarget(t *testing.T) {
	t.Parallel()
	lacks := func(host string) service.Drift { return service.Drift{Target: "greeter/" + host, CatchUp: true} }
	for _, c := range []struct {
		drift []service.Drift
		want  string
	}{
		{[]service.Drift{{Target: "greeter/prod/east/elm"}}, ""},
		{[]service.Drift{lacks("prod/east/elm")}, "greeter prod/east/elm --catch-up deploys to it"},
		{[]service.Drift{lacks("prod/east/elm"), lacks("prod/east/fir")}, "greeter prod/east --catch-up deploys to the 2 hosts"},
		{[]service.Drift{lacks("prod/east/elm"), lacks("prod/west/elm")}, "greeter prod --catch-up deploys to the 2 hosts"},
		{[]service.Drift{lacks("prod/east/elm"), lacks("beta/all/oak")}, "greeter --catch-up deploys to the 2 hosts"},
	} {
		got := strings.Join(CatchUp("greeter", c.drift), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.drift, got, c.want)
		}
	}
}
