package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// The button that rolls back needs the scope operate, and makes the deployment with the reason in the
// form.
func TestRollbackButtonNeedsOperateAndRollsBack(t *testing.T) {
	t.Parallel()
	s, ctx := serveGreeter(t), t.Context()
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	s.Until(t, s.second(t, "greeter"), "ends", servertest.Ended)
	const path = "/pipelines/greeter/rollback"
	for name, want := range map[string]bool{"bob": false, "cyd": true} {
		if strings.Contains(s.page(t, "/pipelines/greeter", "token-of-"+name), path) != want {
			t.Errorf("%s sees the button: %t, want %t", name, !want, want)
		}
	}
	if got := s.post(t, path, "token-of-bob", "", nil); got != http.StatusForbidden {
		t.Errorf("bob rolls back: %d, want %d", got, http.StatusForbidden)
	}
	if got := s.post(t, path, "token-of-cyd", "", url.Values{"reason": {"error rate"}}); got != http.StatusSeeOther {
		t.Fatalf("cyd rolls back: %d, want %d", got, http.StatusSeeOther)
	}
	all, err := s.Service.Deployments(ctx, journal.DeploymentQuery{Pipeline: "greeter", Limit: 1})
	if err != nil || len(all) != 1 || all[0].Kind != journal.Rollback || all[0].Label != "3f2c9a1" || all[0].By != "cyd" {
		t.Errorf("the newest deployment is %+v, %v; want a rollback to 3f2c9a1 by cyd", all, err)
	}
}

// The page of a deployment that was rolled back links the rollback. It has no retry, which the server
// would refuse.
func TestPageOfARolledBackDeployment(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.people(t)
	s.Apply(t, servertest.Definition+"  onFailure: rollback\n")
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	s.Script.End("prod/east/elm host-deployment-tested", action.Outcome{Kind: action.Fatal, Error: "answers 500"})
	bad := s.second(t, "greeter")
	s.Until(t, bad, "is rolled back", func(v service.DeploymentView) bool { return v.State.RolledBackBy != 0 })
	page := s.page(t, "/deployments/greeter/2", "token-of-cyd")
	if want := `rolled back by <a href="/deployments/greeter/3">#3</a>`; !strings.Contains(page, want) ||
		strings.Contains(page, "held revision") {
		t.Errorf("the page lacks %s, or shows the rejection:\n%s", want, page)
	}
	if strings.Contains(page, "/deployments/greeter/2/retry") {
		t.Error("the page offers a retry")
	}
}
