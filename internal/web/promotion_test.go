package web_test

import (
	"bufio"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
	"github.com/waybill-dev/waybill/internal/web"
)

const podinfoPage = "/pipelines/" + servertest.PromotionPipeline

// withTokens gives each name a token with a scope: token-of-NAME.
func (s *site) withTokens(t *testing.T, scopes map[string]string) {
	t.Helper()
	for name, scope := range scopes {
		if err := s.Ledger.CreateToken(t.Context(),
			token.Token{Hash: sha256.Sum256([]byte("token-of-" + name)), Name: name, Scopes: []string{scope}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestThePageOfAPipelineOfKubernetesShowsEverything(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Promote(t, func(in *promotion.Input, plan *promotion.Plan) {
		prod := &plan.Verdicts[2]
		prod.Why = append(prod.Why, promotion.Reason{Code: promotion.WhyHeld, Message: "held by ana: holidays", Until: in.Now.Add(time.Hour)})
		us := promotion.TargetID{Cluster: "apps/leaf-us", Namespace: "podinfo-prod"}
		in.Seen[us] = promotion.Seen{Class: promotion.Failed, Applied: "6.5.4", Attempted: "6.6.0", Message: "<timed out>"}
	})
	shown := s.page(t, podinfoPage, "")
	for _, want := range []string{
		"HelmRelease podinfo", "run 12: <code>6.6.0</code> (was <code>6.5.4</code>)", "soaked 5m, gate smoke passed",
		"proposed: pull request 41, open 11m, a person must merge it", "held by ana: holidays, until", "leaf-us/podinfo-prod",
		"6.5.4 (tried 6.6.0)", "&lt;timed out&gt;", `href="https://git.example.com/apps/fleet/pulls/41"`,
		"environment-proposed", "staging/leaf-eu/podinfo-staging", `id="run-11"`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(shown, "<form method=\"post\" action=\"/pipelines/") {
		t.Error("a reader without a token sees buttons")
	}
	if front := s.page(t, "/", ""); !strings.Contains(front, `href="`+podinfoPage+`"`) || !strings.Contains(front, `data-stage="prod"`) {
		t.Error("the list of pipelines lacks it")
	}
	if missing := s.page(t, "/pipelines/apps:podinf", ""); !strings.Contains(missing, "not found") {
		t.Error("a misspelt name has a page")
	}
}

func TestButtonsOfEnvironmentsAreThoseOfTheReader(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.withTokens(t, map[string]string{"bob": "approve", "cyd": "operate", "dan": "approve"})
	s.Promote(t, func(in *promotion.Input, plan *promotion.Plan) {
		servertest.AwaitApproval(in, plan)
		in.Spec.Environments[2].Approval = &admission.Approval{Count: 1, By: []string{"bob"}}
	})
	approve, hold := podinfoPage+"/environments/prod/approve", podinfoPage+"/environments/prod/hold"
	for name, want := range map[string][2]bool{"bob": {true, false}, "cyd": {false, true}, "dan": {false, false}} {
		shown := s.page(t, podinfoPage, "token-of-"+name)
		if strings.Contains(shown, approve) != want[0] || strings.Contains(shown, hold) != want[1] {
			t.Errorf("%s sees the wrong buttons", name)
		}
	}
	stale := url.Values{"revision": {"6.5.9"}}
	if got := s.post(t, approve, "token-of-bob", "", stale); got != http.StatusUnprocessableEntity {
		t.Errorf("an approval of another revision: %d", got)
	}
	for _, c := range []struct {
		name, token string
		form        url.Values
		want        int
	}{
		{"approve", "dan", url.Values{"revision": {"6.6.0"}}, http.StatusForbidden},
		{"approve", "cyd", url.Values{"revision": {"6.6.0"}}, http.StatusForbidden},
		{"approve", "bob", url.Values{"revision": {"6.6.0"}}, http.StatusSeeOther},
		{"hold", "bob", nil, http.StatusForbidden},
		{"hold", "cyd", url.Values{"for": {"2h"}, "reason": {"holidays"}}, http.StatusSeeOther},
		{"retry", "cyd", nil, http.StatusSeeOther},
		{"override", "cyd", nil, http.StatusBadRequest},
		{"override", "cyd", url.Values{"reason": {"fix"}}, http.StatusSeeOther},
		{"rollback", "cyd", url.Values{"revision": {"6.5.4"}}, http.StatusSeeOther},
	} {
		if got := s.post(t, podinfoPage+"/environments/prod/"+c.name, "token-of-"+c.token, "", c.form); got != c.want {
			t.Errorf("%s by %s: %d, want %d", c.name, c.token, got, c.want)
		}
	}
	s.Promote(t, servertest.AwaitApproval)
	if shown := s.page(t, podinfoPage, "token-of-cyd"); !strings.Contains(shown, podinfoPage+"/environments/prod/release") {
		t.Error("a held environment has no button that releases it")
	}
	for _, path := range []string{podinfoPage + "/environments/prod/release", podinfoPage + "/hold", podinfoPage + "/freeze", podinfoPage + "/thaw"} {
		if got := s.post(t, path, "token-of-cyd", "", nil); got != http.StatusSeeOther {
			t.Errorf("%s: %d", path, got)
		}
	}
	s.Promote(t, nil)
	if got := s.post(t, podinfoPage+"/release", "token-of-cyd", "", nil); got != http.StatusSeeOther {
		t.Errorf("release of the pipeline: %d", got)
	}
	if got := s.post(t, "/pipelines/greeter/hold", "token-of-cyd", "", nil); got != http.StatusNotFound {
		t.Errorf("a hold of another kind of pipeline: %d", got)
	}
}

// TestATargetWithoutAKnownRevisionIsNotOneThatRunsNothing: its cluster may be away.
func TestATargetWithoutAKnownRevisionIsNotOneThatRunsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Promote(t, servertest.LoseTarget)
	if shown := s.page(t, podinfoPage, ""); !strings.Contains(shown, "no known revision") || strings.Contains(shown, "<code>nothing</code>") {
		t.Errorf("the page shows\n%s", shown)
	}
}

func TestThePageOfAPipelineOfKubernetesIsLive(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Promote(t, servertest.AwaitApproval)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Listener.Addr().String()+podinfoPage, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	awaitLine := func(text string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the stream ended without %q: %v", text, lines.Err())
	}
	awaitLine("waiting: approval 0 of 1")
	s.Promote(t, nil)
	awaitLine("proposed: pull request 41")
}

// TestEveryPageWarnsOfSignaturesThatCoverNothing: also one that is not found.
func TestEveryPageWarnsOfSignaturesThatCoverNothing(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{Offers: service.Offers{BodylessHMAC: func() bool { return true }}})
	s, safe := listen(t, w, web.New(w.Service)), serve(t)
	for _, path := range []string{"/", "/actions", "/status", "/builds", "/processes", "/pipelines/other"} {
		if !strings.Contains(s.page(t, path, ""), "promoter.bodylessHMAC") {
			t.Errorf("%s has no warning", path)
		}
		if strings.Contains(safe.page(t, path, ""), "promoter.bodylessHMAC") {
			t.Errorf("%s warns without a reason", path)
		}
	}
}
