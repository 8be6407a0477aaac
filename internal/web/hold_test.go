package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// Every hold of a deployment has a button that ends it: of a stage, of the deployment, and by a
// rejection.
func TestWhatHoldsADeploymentHasTheButtonThatEndsIt(t *testing.T) {
	t.Parallel()
	s := serveGreeter(t)
	s.Script.Hold("beta/all/oak host-deployed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "reaches oak", func(v service.DeploymentView) bool {
		return v.State.Live == 1 && v.Stages[1].State == service.RunRunning
	})
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
	if err := s.Service.Command(t.Context(), ref, service.Command{Kind: "until", Target: "beta", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	buttons("it goes no further than beta", "hold", "resume")
	press("resume", nil)
	s.Script.Release("beta/all/oak host-deployed")
	s.Until(t, ref, "ends", servertest.Ended)
}

// A failed deployment that a newer one has overtaken can only be canceled: its page has no button that
// the server would refuse, and its stages in the order of its own definition.
func TestAnOvertakenDeploymentOffersNothingThatIsRefused(t *testing.T) {
	t.Parallel()
	s := serveGreeter(t)
	s.Script.End("beta/all/oak host-deployment-tested", action.Outcome{Kind: action.Fatal, Error: "no answer"})
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "fails", servertest.Ended)
	if err := s.Service.Command(t.Context(), ref, service.Command{Kind: "hold", Target: "prod", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	const path = "/deployments/greeter/1"
	page := s.page(t, path, "token-of-cyd")
	if !strings.Contains(page, `id="ask-resume-prod"`) || !strings.Contains(page, "Skip…") || !strings.Contains(page, "Skip the step…") {
		t.Error("a failed deployment may be resumed and skipped")
	}
	s.Script.End("beta/all/oak host-deployment-tested", action.Outcome{Kind: action.Done})
	s.Until(t, s.Ship(t, "greeter", "88d0e17"), "ends", servertest.Ended)
	s.Apply(t, strings.Replace(servertest.Definition, "- name: prod", "- name: live", 1))
	page = s.page(t, path, "token-of-cyd")
	for _, refused := range []string{`id="ask-resume-prod"`, "Skip…", "Skip the step…"} {
		if strings.Contains(page, refused) {
			t.Errorf("the page has %s, which is refused", refused)
		}
	}
	if !strings.Contains(page, `id="ask-cancel"`) {
		t.Error("it cannot be canceled")
	}
	view, err := s.Service.Deployment(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var stages []string
	for _, stage := range view.Stages {
		stages = append(stages, stage.Name)
	}
	if got := strings.Join(stages, " "); got != "build beta prod" {
		t.Errorf("stages %s", got)
	}
}
