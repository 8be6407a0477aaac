//go:build services

package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// screen is a window in CSS pixels and a colour scheme.
type screen struct {
	name   string
	width  int64
	scheme string
}

// screens returns a desk and a phone, by day and by night.
func screens() []screen {
	return []screen{{"desk", 1280, "light"}, {"night", 1280, "dark"}, {"phone", 390, "light"}, {"phone-night", 390, "dark"}}
}

// story makes a pipeline with one deployment finished, one failed and one on its way.
func story(t *testing.T, s *site) (failed, running service.Ref) {
	t.Helper()
	s.Apply(t, servertest.Definition)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	s.Script.End("prod/west/yew host-deployed", action.Outcome{
		Kind: action.Retry, Error: "not healthy within 60s: exit status 1\npanic: listen tcp 127.0.0.1:7104: bind: address already in use",
	})
	failed = s.Ship(t, "greeter", "5b01c3e+81e05d")
	first := s.Until(t, failed, "fails", servertest.Ended).Failures[0].Action
	if err := s.Service.Command(t.Context(), failed, service.Command{Kind: "retry", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	s.Until(t, failed, "fails again", func(v service.DeploymentView) bool { return servertest.Ended(v) && v.Failures[0].Action != first })
	s.Script.End("prod/west/yew host-deployed", action.Outcome{})
	s.Script.Hold("prod/east/elm host-deployed")
	running = s.Ship(t, "greeter", "88d0e17+b5d81e")
	s.Until(t, running, "reaches elm", func(v service.DeploymentView) bool { return v.State.Live == 1 && v.State.Done >= 24 })
	return failed, running
}

// look opens a page, wants an element there, and surveys the page.
func look(browser context.Context, t *testing.T, address, selector, name string, also ...func(on screen)) {
	t.Helper()
	err := chromedp.Run(browser,
		chromedp.EmulateViewport(screens()[0].width, 900),
		chromedp.Navigate(address),
		chromedp.WaitVisible(selector, chromedp.ByQuery),
	)
	if err != nil {
		t.Fatalf("%s: open %s: %v", name, address, err)
	}
	survey(browser, t, name, also...)
}

// survey shows the current page on each screen, and keeps screenshots. It wants nothing wider than the window and no broken rule of
// accessibility; also has further checks.
func survey(browser context.Context, t *testing.T, name string, also ...func(on screen)) {
	t.Helper()
	for _, on := range screens() {
		err := chromedp.Run(browser,
			chromedp.EmulateViewport(on.width, 900),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: on.scheme}}),
		)
		if err != nil {
			t.Fatalf("%s on a %s: %v", name, on.name, err)
		}
		wait(browser, t, name+" fits on a "+on.name, `innerWidth === `+fmt.Sprint(on.width)+` && document.documentElement.scrollWidth <= innerWidth`)
		browsertest.Save(browser, t, name+"-"+on.name)
		browsertest.Accessible(browser, t, name+" on a "+on.name)
		for _, check := range also {
			check(on)
		}
	}
}

// holds wants a condition of the browser's current page.
func holds(browser context.Context, t *testing.T, name, condition string) {
	t.Helper()
	var held bool
	if err := chromedp.Run(browser, chromedp.Evaluate(condition, &held)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !held {
		t.Errorf("%s: want %s", name, condition)
	}
}

func TestPagesFitDeskAndPhone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	undoable := rolled(t, s) // before a host is held
	s.Apply(t, strings.Replace(manyHosts(), "pipeline: greeter", "pipeline: many", 1))
	failed, running := story(t, s)
	browser := browsertest.Start(t)
	var first string
	actions, err := s.Service.Actions(t.Context(), queue.ActionQuery{Pipeline: failed.Pipeline, Deployment: failed.Number})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range actions {
		if a.Thread.Status == action.RetriesExhausted {
			first = a.ID.String()
		}
	}
	for lane, reason := range map[string]string{"step/a-lane": "maintenance", "notify/hooks.example.org": "503: target refuses work"} {
		if _, err := s.Service.Limit(t.Context(), lane, queue.LimitCommand{Kind: "pause", By: "ana", Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	unwell(t, s)
	canceled, broken := misfortunes(t, s)
	waiting := gated(t, s)
	pages := []struct{ name, path, selector string }{
		{"pipelines", "/", "article#pipeline-greeter .station.t-running .coming"},
		{"pipeline", "/pipelines/greeter", `table.hosts [id="host-prod/east/elm"] .t-running`},
		{"deployment-failed", fmt.Sprintf("/deployments/greeter/%d", failed.Number), ".failure pre"},
		{"deployment-running", fmt.Sprintf("/deployments/greeter/%d", running.Number), "#stage-prod .chain .t-running"},
		{"deployment-canceled", canceled, ".title .t-ended"},
		{"build-failed", broken, ".failure pre"},
		{"deployment-waiting", waiting, "#approval-prod .buttons"},
		{"pipeline-frozen", "/pipelines/gated", ".station[data-stage=prod] .condition .t-held"},
		{"rollback", undoable + "/rollback?target=prod", "#sure button"},
		{"rollback-refused", undoable + "/rollback?target=nowhere", "#refused"},
		{"skip", fmt.Sprintf("/deployments/greeter/%d/skip?target=prod", failed.Number), "#sure button, #refused"},
		{"again", "/deployments/greeter/1/again", "#sure button"},
		{"many", "/pipelines/many?page=2", "#hosts-filter"},
		{"history", "/pipelines/greeter/history?target=prod", "tr[id^=passage-] .t-failed"},
		{"metrics", "/pipelines/greeter/metrics", "#stage-prod .t-failed"},
		{"plan", "/pipelines/greeter/plan?fail=prod/west/yew", "#schedule .t-failed"},
		{"log", "/pipelines/greeter/log", "table.log tr.c-fact"},
		{"actions", "/actions", "tr[id^=action-] .t-failed"},
		{"lanes", "/actions?live=1", "#lanes .t-held"},
		{"action", "/actions/" + first, "#event-1 .state"},
		{"status", "/status", "#handler-mail .t-failed"},
		{"missing", "/deployments/greeter/99", ".fault"},
	}
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	also := map[string]func(on screen){
		"actions": func(on screen) {
			holds(browser, t, "long errors are cut on a "+on.name,
				`[...document.querySelectorAll("tr .detail")].every((e) => e.offsetHeight < 200)`)
		},
		"deployment-failed": func(on screen) {
			holds(browser, t, "names in the timeline have room on a "+on.name,
				`[...document.querySelectorAll(".spans .name")].every((e) => e.offsetWidth >= 80)`)
		},
	}
	for _, page := range pages {
		var checks []func(screen)
		if check := also[page.name]; check != nil {
			checks = append(checks, check)
		}
		look(browser, t, s.URL+page.path, page.selector, page.name, checks...)
	}
}

// longError is an error that scrolls.
var longError = "step test/unit failed: exit status 1\n" +
	strings.Repeat("    greeter_test.go:31: got \"Hello\", want \"Good morning\"\n", 30) + "whole log: test/unit"

// misfortunes makes a deployment that was canceled half-way and one whose build failed, and returns their pages.
func misfortunes(t *testing.T, s *site) (canceled, broken string) {
	t.Helper()
	s.Apply(t, strings.ReplaceAll(servertest.Definition, "pipeline: greeter", "pipeline: other"))
	s.Script.Hold("beta/all/oak host-deployed")
	ref := s.Ship(t, "other", "3f2c9a1")
	s.Until(t, ref, "reaches oak", func(v service.DeploymentView) bool { return v.State.Live == 1 && v.State.Done > 3 })
	if err := s.Service.Command(t.Context(), ref, service.Command{Kind: "cancel", By: "ana", Reason: "wrong branch"}); err != nil {
		t.Fatal(err)
	}
	s.Script.Release("beta/all/oak host-deployed")
	s.Until(t, ref, "is canceled", servertest.Ended)
	s.Script.End("build build-completed", action.Outcome{Kind: action.Fatal, Error: longError})
	failed := s.Ship(t, "other", "5b01c3e")
	s.Until(t, failed, "fails", servertest.Ended)
	s.Script.End("build build-completed", action.Outcome{})
	return fmt.Sprintf("/deployments/other/%d", ref.Number), fmt.Sprintf("/deployments/other/%d", failed.Number)
}

// conditions begins a stage with a condition of each kind.
const conditions = `- name: prod
  approval: {count: 2, by: [ana, bob, cyd]}
  windows: [{kind: Allow, schedule: "0 4 29 2 *", duration: 1h, timezone: Europe/Stockholm}]
  gates: [{name: calm, when: Before, http: {url: "https://calm.example"}}, {name: smoke, http: {url: "https://smoke.example"}}]
  bake: {for: 10m}
`

// gated makes a frozen pipeline with a deployment that waits for approval, and returns the page of the deployment.
func gated(t *testing.T, s *site) (waiting string) {
	t.Helper()
	s.Apply(t, strings.NewReplacer("pipeline: greeter", "pipeline: gated", "- name: prod\n", conditions).Replace(servertest.Definition))
	ref := s.Ship(t, "gated", "3f2c9a1")
	s.Until(t, ref, "waits", func(v service.DeploymentView) bool { return len(v.State.Approvals) == 1 })
	if _, err := s.Service.Approve(t.Context(), service.Approval{Pipeline: "gated", Stage: "prod", By: "bob"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Service.Freeze(t.Context(), "gated", admission.Freeze{By: "ana", Reason: "holidays"}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/deployments/gated/%d", ref.Number)
}

// rolled makes a pipeline with two finished deployments, and returns its page.
func rolled(t *testing.T, s *site) (page string) {
	t.Helper()
	s.Apply(t, strings.ReplaceAll(servertest.Definition, "pipeline: greeter", "pipeline: rolled"))
	s.Until(t, s.Ship(t, "rolled", "3f2c9a1"), "ends", servertest.Ended)
	s.Until(t, s.second(t, "rolled"), "ends", servertest.Ended)
	return "/pipelines/rolled"
}

// unwell gives the status page something to report.
func unwell(t *testing.T, s *site) {
	t.Helper()
	for range 3 {
		if _, err := s.Ledger.Enqueue(t.Context(),
			action.Action{Kind: "action", Name: "mail", Handler: "mail", Delivery: action.AtLeastOnce}); err != nil {
			t.Fatal(err)
		}
	}
	s.Ledger.UpdateReport(func(r *queue.Report) {
		r.Undeletable = map[string]string{"flows/01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77": "workflows.argoproj.io is forbidden: exceeded quota"}
		r.Reload = &queue.Reload{File: "/etc/waybill/server.yaml", Since: time.Now().Add(-time.Hour), TriedAt: time.Now(),
			Faults: []string{`/etc/waybill/server.yaml:14:7: unknown key "retires" in handlers.notify.backoff (did you mean "retries"?)`}}
	})
}

func TestStatusPageAnswersAndFollows(t *testing.T) {
	t.Parallel()
	s := serve(t)
	browser := browsertest.Start(t)
	err := chromedp.Run(browser,
		chromedp.Navigate(s.URL+"/status"),
		chromedp.WaitVisible("#verdict .t-finished", chromedp.ByQuery),
		chromedp.WaitVisible("nav a[href='/status'][aria-current]", chromedp.ByQuery),
		chromedp.WaitVisible("#link.on", chromedp.ByQuery),
		chromedp.ActionFunc(func(context.Context) error { unwell(t, s); return nil }),
		chromedp.WaitVisible("#verdict .t-failed", chromedp.ByQuery),
		chromedp.WaitVisible(".trouble-unserved, .trouble-reload", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
}

func TestPageFollowsWithoutReload(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, running := story(t, s)
	browser := browsertest.Start(t)
	var reloaded bool
	err := chromedp.Run(browser,
		chromedp.Navigate(fmt.Sprintf("%s/deployments/greeter/%d", s.URL, running.Number)),
		chromedp.WaitVisible("#link.on", chromedp.ByQuery),
		chromedp.Evaluate(`window.same = true; document.querySelector("h1 a").focus()`, nil),
		chromedp.Evaluate(`document.querySelectorAll(".bars [data-begun]").forEach((bar) => bar.setAttribute("width", 0))`, nil),
		chromedp.WaitReady(`.bars [data-begun]:not([width="0"])`, chromedp.ByQuery), // the script gives it its length
		chromedp.ActionFunc(func(context.Context) error {
			s.Script.Release("prod/east/elm host-deployed")
			return nil
		}),
		chromedp.WaitVisible("#stage-prod.t-finished", chromedp.ByQuery),
		chromedp.Evaluate(`window.same !== true || document.activeElement !== document.querySelector("h1 a")`, &reloaded),
	)
	if err != nil {
		t.Fatal(err)
	}
	if reloaded {
		t.Error("the page was loaded again, or lost the focus")
	}
}

func TestLoginAddressWorksOnceAndButtonsAct(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, running := story(t, s)
	browser := browsertest.Start(t)
	address, page := s.login(), fmt.Sprintf("%s/deployments/greeter/%d", s.URL, running.Number)
	var stranger bool
	err := chromedp.Run(browser,
		chromedp.Navigate(page),
		chromedp.WaitVisible("#stage-prod", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector(".buttons") === null`, &stranger),
		chromedp.Navigate(address),
		chromedp.WaitVisible(".me .who", chromedp.ByQuery),
		chromedp.Navigate(page),
		chromedp.Click("#ask-hold summary", chromedp.ByQuery),
		chromedp.SendKeys("#reason-hold", "checking dashboards", chromedp.ByQuery),
		chromedp.Click("#ask-hold button", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-held", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	if !stranger {
		t.Error("a browser that is not logged in sees buttons")
	}
	view, err := s.Service.Deployment(t.Context(), running)
	if err != nil || !strings.Contains(view.State.Held, "ana") || !strings.Contains(view.State.Held, "checking dashboards") {
		t.Errorf("the deployment is held %q, %v; want by ana, with the reason", view.State.Held, err)
	}
	err = chromedp.Run(browser,
		chromedp.Click(".me button", chromedp.ByQuery),
		chromedp.WaitVisible(`.me a[href^="/login"]`, chromedp.ByQuery),
		chromedp.Navigate(address),
		chromedp.WaitVisible("p.error", chromedp.ByQuery), // the login was used before
		chromedp.SendKeys("#token", "a-token-of-the-home", chromedp.ByQuery),
		chromedp.Click("button", chromedp.ByQuery),
		chromedp.WaitVisible(".me .who", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
}
