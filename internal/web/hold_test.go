package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// Each thing that holds a deployment has the button that ends it: a hold of a stage or of the
// deployment, and a rejection.
func TestWhatHoldsADeploymentHasTheButtonThatEndsIt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.people(t)
	s.Apply(t, servertest.Definition)
	s.Script.Hold("beta/all/oak host-deployed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "reaches oak", func(v server.DeploymentView) bool { return v.State.Live == 1 && v.Stages[1].State == server.RunRunning })
	const path = "/deployments/greeter/1"
	buttons := func(when string, want ...string) {
		t.Helper()
		page := s.page(t, path, "token-of-cyd")
		var found []string
		for _, id := range []string{"hold", "resume", "resume-prod", "accept"} {
			if strings.Contains(page, `id="ask-`+id+`"`) {
				found = append(found, id)
			}
		}
		if got := strings.Join(found, " "); got != strings.Join(want, " ") {
			t.Errorf("%s: the buttons are %q, want %q", when, got, want)
		}
	}
	press := func(command string, fields url.Values) {
		t.Helper()
		if got := s.post(t, path+"/"+command, "token-of-cyd", "", fields); got != http.StatusSeeOther {
			t.Fatalf("%s %v: %d, want %d", command, fields, got, http.StatusSeeOther)
		}
	}
	buttons("at work", "hold")
	press("hold", url.Values{"target": {"prod"}})
	buttons("prod is held", "hold", "resume-prod")
	press("resume", url.Values{"target": {"prod"}})
	press("hold", url.Values{"target": {""}})
	buttons("it is held", "resume")
	press("resume", nil)
	if _, err := s.Service.RejectRevision(t.Context(), "greeter", "3f2c9a1", "ana", "slow"); err != nil {
		t.Fatal(err)
	}
	buttons("its revision is rejected", "accept")
	if got := s.post(t, path+"/accept", "token-of-bob", "", nil); got != http.StatusForbidden {
		t.Errorf("bob accepts: %d, want %d", got, http.StatusForbidden)
	}
	press("accept", nil)
	buttons("accepted", "hold")
	if err := s.Service.Command(t.Context(), ref, server.Command{Kind: "until", Target: "beta", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	buttons("it goes no further than beta", "hold", "resume")
	press("resume", nil)
	s.Script.Release("beta/all/oak host-deployed")
	s.Until(t, ref, "ends", servertest.Ended)
}
