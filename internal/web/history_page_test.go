package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// The history of a target has the deployments that started there and no others, and the metrics count
// their ends.
func TestHistoryAndMetricsPagesShowWhatHappened(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, servertest.Definition)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	s.Script.End("beta/all/oak host-deployed", action.Outcome{Kind: action.Fatal, Error: "disk <full>"})
	s.Until(t, s.Ship(t, "greeter", "88d0e17"), "fails", servertest.Ended)
	beta := s.page(t, "/pipelines/greeter/history?target=beta%2Fall%2Foak", "")
	has(t, beta, `/deployments/greeter/2">#2</a>`, `/deployments/greeter/1">#1</a>`, "disk &lt;full&gt;")
	prod := s.page(t, "/pipelines/greeter/history?target=prod", "")
	has(t, prod, `/deployments/greeter/1">#1</a>`)
	if strings.Contains(prod, `/deployments/greeter/2"`) || strings.Contains(prod, "Earlier deployments") {
		t.Error("the history of prod has a deployment that never started there, or leads to earlier ones")
	}
	has(t, s.page(t, "/pipelines/greeter/metrics?weeks=4", ""), "the last 4 weeks", `<span class="state t-failed">1 of 2</span>`)
	for path, want := range map[string]int{
		"/pipelines/greeter/history?target=nowhere": http.StatusNotFound,
		"/pipelines/greeter/history?before=x":       http.StatusBadRequest,
		"/pipelines/greeter/metrics?weeks=9999":     http.StatusBadRequest,
		"/pipelines/nowhere/metrics":                http.StatusNotFound,
		"/pipelines/nowhere/history":                http.StatusNotFound,
	} {
		if got := s.get(t, path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// The buttons freeze and thaw a pipeline, name the waiting deployments, and need the scope operate.
func TestFreezeAndThawNeedOperate(t *testing.T) {
	t.Parallel()
	s := serveGreeter(t)
	s.Script.Hold("beta/all/oak host-deployed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "reaches oak", func(v service.DeploymentView) bool {
		return v.State.Live == 1 && v.Stages[1].State == service.RunRunning
	})
	const path = "/pipelines/greeter"
	has(t, s.page(t, path, "token-of-cyd"), path+"/freeze", "1 deployment on the way waits.")
	if strings.Contains(s.page(t, path, "token-of-bob"), path+"/freeze") {
		t.Error("bob sees the button")
	}
	for _, c := range []struct {
		form, token string
		fields      url.Values
		want        int
	}{
		{"/freeze", "token-of-bob", nil, http.StatusForbidden},
		{"/freeze", "token-of-cyd", url.Values{"for": {"soon"}}, http.StatusBadRequest},
		{"/thaw", "token-of-cyd", nil, http.StatusConflict},
		{"/freeze", "token-of-cyd", url.Values{"for": {"2h"}, "reason": {"holidays"}}, http.StatusSeeOther},
		{"/freeze", "token-of-cyd", nil, http.StatusConflict},
	} {
		if got := s.post(t, path+c.form, c.token, "", c.fields); got != c.want {
			t.Errorf("%s of %s with %v: %d, want %d", c.form, c.token, c.fields, got, c.want)
		}
	}
	view, err := s.Service.Pipeline(t.Context(), "greeter")
	if err != nil || view.Freeze == nil || view.Freeze.By != "cyd" || view.Freeze.Reason != "holidays" {
		t.Fatalf("the freeze is %+v, %v", view.Freeze, err)
	}
	if left := time.Until(view.Freeze.Until); left > 2*time.Hour || left < time.Hour {
		t.Errorf("the freeze ends in %s, want 2 hours", left)
	}
	has(t, s.page(t, path, "token-of-cyd"), path+"/thaw", "frozen by cyd")
	if got := s.post(t, path+"/thaw", "token-of-bob", "", nil); got != http.StatusForbidden {
		t.Errorf("bob thaws: %d", got)
	}
	if got := s.post(t, path+"/thaw", "token-of-cyd", "", nil); got != http.StatusSeeOther {
		t.Errorf("cyd thaws: %d", got)
	}
	s.Script.Release("beta/all/oak host-deployed")
	s.Until(t, ref, "ends", servertest.Ended)
}
