package web_test

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
)

// people gives bob the scope approve, cyd operate and dan execute.
func (s *site) people(t *testing.T) {
	t.Helper()
	for name, scope := range map[string]string{"bob": "approve", "cyd": "operate", "dan": "execute"} {
		if err := s.Ledger.CreateToken(t.Context(),
			token.Token{Hash: sha256.Sum256([]byte("token-of-" + name)), Name: name, Scopes: []string{scope}}); err != nil {
			t.Fatal(err)
		}
	}
}

// serveGreeter serves a site with the pipeline greeter, and with people.
func serveGreeter(t *testing.T) *site {
	t.Helper()
	s := serve(t)
	s.people(t)
	s.Apply(t, servertest.Definition)
	return s
}

// second registers the revision 88d0e17 of a pipeline with an artifact of its own, and returns a
// deployment of it.
func (s *site) second(t *testing.T, name string) service.Ref {
	t.Helper()
	made, err := s.Service.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: name, Label: "88d0e17"}, false, "")
	if err != nil {
		t.Fatal(err)
	}
	artifact := pipeline.RevisionArtifact{Label: "any", Name: "any", Blob: "sha256/second", Digest: strings.Repeat("5e", 32), Size: 6}
	if err := s.Ledger.RegisterArtifact(t.Context(), name, made.Revision.Seq, artifact); err != nil {
		t.Fatal(err)
	}
	deployed, err := s.Service.Deploy(t.Context(), service.NewDeployment{Pipeline: name, Revision: "88d0e17"})
	if err != nil {
		t.Fatal(err)
	}
	return service.Ref{Pipeline: name, Number: deployed.Number}
}

// has fails the test unless the page has each of the texts.
func has(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not have %q", text)
		}
	}
}

// The page before a rollback lists the effect on each host and has a button only with the scope
// operate. The button does nothing if it would undo another deployment by now.
func TestRollbackPageSaysWhatIsUndoneAndUndoesThat(t *testing.T) {
	t.Parallel()
	s := serveGreeter(t)
	const path = "/pipelines/greeter/rollback"
	has(t, s.page(t, path, "token-of-cyd"), `id="refused"`, "nothing has been deployed to greeter")
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	s.Until(t, s.second(t, "greeter"), "ends", servertest.Ended)
	seen := s.page(t, path+"?target=prod%2Feast", "token-of-cyd")
	has(t, seen, "2 hosts get 3f2c9a1 back", "The revision 88d0e17 of #2 is rejected",
		"prod/east/elm</th><td>88d0e17 of #2</td><td>3f2c9a1</td>", "Roll back prod/east of greeter</button>")
	if strings.Contains(seen, "prod/west/yew</th>") {
		t.Error("the page shows a host outside of the target")
	}
	if strings.Contains(s.page(t, path, "token-of-bob"), `id="sure"`) {
		t.Error("bob sees the button")
	}
	has(t, s.page(t, path+"?target=nowhere", "token-of-cyd"), `id="refused"`, "nowhere")
	stale := url.Values{"target": {"prod/east"}, "undoes": {"1"}, "revision": {"3f2c9a1"}}
	if got := s.post(t, path, "token-of-cyd", "", stale); got != http.StatusConflict {
		t.Errorf("a stale page: %d, want %d", got, http.StatusConflict)
	}
	asSeen := url.Values{"target": {"prod/east"}, "undoes": {"2"}, "revision": {"3f2c9a1"}, "reason": {"error rate"}}
	if got := s.post(t, path, "token-of-bob", "", asSeen); got != http.StatusForbidden {
		t.Errorf("bob rolls back: %d, want %d", got, http.StatusForbidden)
	}
	if got := s.post(t, path, "token-of-cyd", "", asSeen); got != http.StatusSeeOther {
		t.Fatalf("cyd rolls back: %d, want %d", got, http.StatusSeeOther)
	}
	done := s.Until(t, service.Ref{Pipeline: "greeter", Number: 3}, "ends", servertest.Ended)
	if done.Kind != journal.Rollback || done.Label != "3f2c9a1" || len(done.Stages) == 0 {
		t.Errorf("%+v, want a rollback to 3f2c9a1", done.Deployment)
	}
	for _, stage := range done.Stages {
		for _, group := range stage.Groups {
			if want := group.Target == "greeter/prod/east"; (group.State == service.RunFinished) != want {
				t.Errorf("%s is %s", group.Target, group.State)
			}
		}
	}
}

// The page before a skip lists the steps to leave out, and its button leaves out these only.
func TestSkipPageSaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	s := serveGreeter(t)
	s.Script.End("prod/east/elm host-deployment-tested", action.Outcome{Kind: action.Fatal, Error: "no"})
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "fails", servertest.Ended)
	const path = "/deployments/greeter/1"
	const link = path + "/skip?target=prod%2feast%2felm&amp;event=host-deployment-tested"
	if shown := s.page(t, path, "token-of-cyd"); !strings.Contains(shown, link) || strings.Contains(s.page(t, path, "token-of-dan"), "/skip") {
		t.Error("the page of the deployment does not lead to the skip, or does without the scope operate")
	}
	seen := s.page(t, path+"/skip?target=prod%2Feast%2Felm&event=host-deployment-tested", "token-of-cyd")
	has(t, seen, "1 step of 1 host is left out of greeter#1", "prod/east/elm</th><td>test</td><td>failed</td>", `id="sure"`)
	if strings.Contains(s.page(t, path+"/skip?target=prod", "token-of-dan"), `id="sure"`) {
		t.Error("dan sees the button")
	}
	has(t, s.page(t, path+"/skip?target=beta", "token-of-cyd"), `id="refused"`, "nothing is left to skip in beta")
	has(t, seen, `name="reason" id="reason" maxlength="200" autocomplete="off" required>`)
	fields := url.Values{"target": {"prod/east/elm"}, "event": {"host-deployment-tested"}, "reason": {"known"}}
	if got := s.post(t, path+"/skip", "token-of-cyd", "", fields); got != http.StatusSeeOther {
		t.Fatalf("cyd skips: %d, want %d", got, http.StatusSeeOther)
	}
	view, err := s.Service.Deployment(t.Context(), ref)
	if err != nil || view.Stages[2].Groups[0].Hosts[0].Steps[2].State != pipeline.StateExcluded {
		t.Errorf("the test of elm is %+v, %v; want it excluded", view.Stages[2].Groups[0].Hosts[0].Steps[2], err)
	}
}

// The page before a second deployment says which stages get an older revision, and needs the scope
// execute.
func TestDeployAgainSaysWhatItReplaces(t *testing.T) {
	t.Parallel()
	s := serveGreeter(t)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	s.Until(t, s.second(t, "greeter"), "ends", servertest.Ended)
	const path = "/deployments/greeter/1"
	for name, want := range map[string]bool{"cyd": false, "dan": true} {
		if got := strings.Contains(s.page(t, path, "token-of-"+name), path+"/again"); got != want {
			t.Errorf("%s sees the button: %t, want %t", name, got, want)
		}
		if got := strings.Contains(s.page(t, path+"/again", "token-of-"+name), `id="sure"`); got != want {
			t.Errorf("%s may confirm: %t, want %t", name, got, want)
		}
	}
	has(t, s.page(t, path+"/again", ""), "takes 3f2c9a1 through every stage of definition 1",
		"prod</th><td>88d0e17 of #2</td><td>3f2c9a1, which is older</td>")
	if got := s.post(t, path+"/again", "token-of-cyd", "", nil); got != http.StatusForbidden {
		t.Errorf("cyd deploys: %d, want %d", got, http.StatusForbidden)
	}
	if got := s.post(t, path+"/again", "token-of-dan", "", nil); got != http.StatusSeeOther {
		t.Fatalf("dan deploys: %d, want %d", got, http.StatusSeeOther)
	}
	made := s.Until(t, service.Ref{Pipeline: "greeter", Number: 3}, "ends", servertest.Ended)
	if made.Label != "3f2c9a1" || made.By != "dan" || made.Kind != journal.Manual {
		t.Errorf("%+v, want a deployment of 3f2c9a1 by dan", made.Deployment)
	}
	_, field, _ := strings.Cut(s.page(t, path+"/again", "token-of-dan"), `name="key" value="`)
	key, _, _ := strings.Cut(field, `"`)
	if again := s.page(t, path+"/again", "token-of-dan"); key == "" || !strings.Contains(again, key) {
		t.Errorf("drawn again, the page has another key than %q", key)
	}
	for range 2 { // the button is pressed twice
		if got := s.post(t, path+"/again", "token-of-dan", "", url.Values{"key": {key}}); got != http.StatusSeeOther {
			t.Fatalf("dan deploys: %d, want %d", got, http.StatusSeeOther)
		}
	}
	if all, err := s.Service.Deployments(t.Context(), journal.DeploymentQuery{Pipeline: "greeter"}); err != nil || all[0].Number != 4 {
		t.Errorf("a button that is pressed twice: %d deployments, %v, want 4", all[0].Number, err)
	}
	s.Until(t, service.Ref{Pipeline: "greeter", Number: 4}, "ends", servertest.Ended)
	if again := s.page(t, path+"/again", "token-of-dan"); strings.Contains(again, key) {
		t.Error("after a deployment the page has the same key")
	}
	has(t, s.page(t, path+"/again?target=beta", "token-of-dan"), "takes 3f2c9a1 to beta and nowhere else", `value="beta"`)
	has(t, s.page(t, path+"/again?target=build", "token-of-dan"), `id="refused"`, "stage build has no hosts")
	if got := s.post(t, path+"/again", "token-of-dan", "", url.Values{"target": {"beta"}}); got != http.StatusSeeOther {
		t.Fatalf("dan deploys to beta: %d, want %d", got, http.StatusSeeOther)
	}
	if part := s.Until(t, service.Ref{Pipeline: "greeter", Number: 5}, "ends", servertest.Ended); part.Kind != journal.Part {
		t.Errorf("%+v, want a deployment to beta", part.Deployment)
	}
	if got := s.get(t, "/deployments/greeter/9/again"); got != http.StatusNotFound {
		t.Errorf("an unknown deployment: %d", got)
	}
}

// A gate that has not been requested can be skipped alone; a build and a gate that has passed cannot.
func TestGateHasItsOwnSkip(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.people(t)
	s.Apply(t, strings.Replace(servertest.Definition, "- name: prod\n", `- name: prod
  gates: [{name: calm, when: Before, http: {url: "https://calm.example"}}, {name: smoke, http: {url: "https://smoke.example"}}]
`, 1))
	s.Script.Hold("prod/east/elm host-deployed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "reaches elm", func(v service.DeploymentView) bool {
		return v.State.Live == 1 && v.Stages[2].Groups[1].State == service.RunFinished
	})
	page := s.page(t, "/deployments/greeter/1", "token-of-cyd")
	has(t, page, "/skip?target=prod&amp;event=gate-passed%2fsmoke")
	for _, other := range []string{"event=gate-passed%2fcalm", "event=build-completed"} {
		if strings.Contains(page, other) {
			t.Errorf("the page has %s", other)
		}
	}
	has(t, s.page(t, "/deployments/greeter/1/skip?target=prod&event=gate-passed%2Fsmoke", "token-of-cyd"),
		"1 step is left out of greeter#1", "<td>gate smoke</td>")
	s.Script.Release("prod/east/elm host-deployed")
	s.Until(t, ref, "ends", servertest.Ended)
}
