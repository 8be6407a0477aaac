package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// After a deployment every host is observed, whatever its pipeline's state; what was observed is counted and shown, and
// views ask no host again.
func TestServicesAndDriftAreObserved(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	for _, host := range []string{"prod/west/yew", "prod/east/fir"} {
		w.Script.End(host+" host-deployed", action.Outcome{Kind: action.Done, Output: []byte(`{"release":"3f2c9a1-aaaaaaaaaaaa"}`)})
	}
	source := strings.Replace(servertest.Definition, `{url: "local://yew", vars: {port: 7104}}`,
		`{url: "ssh://deploy@yew", vars: {port: 7104}, service: {manager: none}}`, 1)
	source = strings.Replace(source, `{url: "local://fir"`, `{url: "local://ash", vars: {port: 7105}}, {url: "ssh://deploy@fir"`, 1)
	w.Apply(t, source) // ash is in the home of another machine
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	var mu sync.Mutex
	var asked []string
	w.Service.Inspect = func(_ context.Context, at pipeline.Place, _ string) (step.State, bool, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, at.Host.Name)
		switch at.Host.Name {
		case "oak":
			return step.State{Supervisor: 7, Service: 8, Restarts: 4}, true, nil
		case "ash":
			return step.State{}, false, nil
		case "elm":
			return step.State{}, false, errors.New("no route to elm")
		case "fir":
			return step.State{Release: "3f2c9a1-aaaaaaaaaaaa"}, true, nil
		}
		return step.State{Release: "by-hand"}, true, nil
	}
	drifted, services, err := w.Service.ObserveOnce(t.Context())
	if err != nil || drifted != 1 {
		t.Errorf("%d hosts drift, %v; want yew", drifted, err)
	}
	if diff := cmp.Diff(map[string]int{"up": 1, "unknown": 1, "down": 1}, services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if slices.Sort(asked); !slices.Equal(asked, []string{"ash", "elm", "fir", "oak", "yew"}) {
		t.Errorf("asked %v, want each host once", asked)
	}
	view, err := w.Service.Pipeline(t.Context(), "greeter")
	if err != nil || len(view.Drift) != 1 || view.Drift[0].Target != "greeter/prod/west/yew" || view.Drift[0].Has != "by-hand" {
		t.Errorf("drift %+v, %v", view.Drift, err)
	}
	if oak := view.Hosts[0].Service; oak == nil || oak.Restarts != 4 || oak.Observed.IsZero() {
		t.Errorf("oak: %+v, want what was observed", oak)
	}
	status, err := w.Service.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var troubles []string
	for _, trouble := range status.Troubles {
		if trouble.Kind == service.TroubleService {
			troubles = append(troubles, trouble.Text)
		}
	}
	want := []string{"greeter/prod/west/yew has release by-hand, not 3f2c9a1 of #1", "the service on greeter/beta/all/oak is up, 4 restarts",
		"the service on greeter/prod/east/elm is unknown: no route to elm", "the service on greeter/prod/east/fir is down"}
	if diff := cmp.Diff(want, troubles); diff != "" {
		t.Errorf("troubles (-want +got):\n%s", diff)
	}
	if len(asked) != 5 {
		t.Errorf("views asked hosts again: %v", asked)
	}
}
