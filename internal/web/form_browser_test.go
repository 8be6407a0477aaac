//go:build services

package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/queue"
)

func TestButtonsRetryCancelSnoozeAndReplayActions(t *testing.T) {
	t.Parallel()
	s, host := serveActions(t)
	const text = "the target has no such collection\nstatus 404"
	failed := s.add(t)
	s.work(t, host, action.Outcome{Kind: action.Fatal, Error: text})
	second := s.add(t)
	s.work(t, host, action.Outcome{Kind: action.Fatal, Error: "again"})
	browser := browsertest.Start(t)
	var said int
	var retried string
	err := chromedp.Run(browser,
		chromedp.Navigate(s.login()),
		chromedp.Navigate(s.URL+"/actions/"+failed.String()),
		chromedp.WaitVisible("#error pre", chromedp.ByQuery),
		chromedp.Evaluate(`document.body.innerText.split("no such collection").length - 1`, &said),
		chromedp.Click("#ask-retry summary", chromedp.ByQuery),
		chromedp.WaitVisible("#ask-retry .hint", chromedp.ByQuery),
		chromedp.Click("#ask-retry button", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-waiting", chromedp.ByQuery),
		chromedp.Location(&retried),
		chromedp.Click("#ask-snooze summary", chromedp.ByQuery),
		chromedp.SendKeys("#for-snooze", "2h", chromedp.ByQuery),
		chromedp.Click("#ask-snooze button", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-backoff", chromedp.ByQuery),
		chromedp.Click("#ask-cancel summary", chromedp.ByQuery),
		chromedp.Click("#ask-cancel button", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-ended", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	if said != 1 {
		t.Errorf("the page says the error %d times", said)
	}
	again, err := action.ParseID(retried[strings.LastIndex(retried, "/")+1:])
	if err != nil {
		t.Fatal(err)
	}
	s.is(t, again, action.Canceled)
	if v, err := s.Service.Action(t.Context(), again); err != nil || v.RetryOf != failed || v.CreatedBy != "ana" {
		t.Errorf("retry of %s by %s, %v", v.RetryOf, v.CreatedBy, err)
	}
	var refused string
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/actions/"+
		failed.String()), chromedp.WaitReady("#ask-retry form", chromedp.ByQuery), chromedp.Evaluate(`[1, 2].map(() => {
			const press = new SubmitEvent("submit", {bubbles: true, cancelable: true});
			document.querySelector("#ask-retry form").dispatchEvent(press);
			return press.defaultPrevented;
		}).join()`, &refused)); err != nil || refused != "false,true" {
		t.Errorf("of two presses of a button these are refused: %s, %v", refused, err)
	}
	var words string
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/actions/replay")); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.RunResponse(browser, chromedp.Click("#filter button", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	// A script reads the new page: nodes that were found while it replaced the former page may be gone.
	_, err = chromedp.RunResponse(browser,
		chromedp.Evaluate(`document.querySelector("#h-consequence").innerText`, &words),
		chromedp.Evaluate(`document.querySelector("#replay button").click()`, nil))
	if err == nil {
		err = chromedp.Run(browser, chromedp.WaitVisible("#replayed", chromedp.ByQuery))
	}
	if err != nil || words != "2 actions in this range" {
		t.Fatal(words, err)
	}
	all, err := s.Service.Actions(t.Context(), queue.ActionQuery{RetryOf: second})
	if err != nil || len(all) != 1 || all[0].CreatedBy != "ana" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestButtonsSteerLanes(t *testing.T) {
	t.Parallel()
	s, _ := serveActions(t)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login()), chromedp.Navigate(s.URL+"/lanes"),
		chromedp.Click("#ask-pause summary", chromedp.ByQuery),
		chromedp.SendKeys("#input-lane-pause", "notify/hooks.example.org", chromedp.ByQuery),
		chromedp.SendKeys("#for-pause", "2h", chromedp.ByQuery),
		chromedp.SendKeys("#reason-pause", "maintenance", chromedp.ByQuery),
		chromedp.Click("#ask-pause button", chromedp.ByQuery),
		chromedp.WaitVisible("#lanes .t-held", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	limits, err := s.Service.Limits(t.Context())
	if err != nil || len(limits) != 1 || limits[0].PausedBy != "ana" || limits[0].Reason != "maintenance" || limits[0].PauseUntil.IsZero() {
		t.Fatalf("%+v, %v", limits, err)
	}
	look(browser, t, s.URL+"/lanes", "#lanes .t-held", "lane-page")
	look(browser, t, s.URL+"/schedules", "#schedule-nightly", "schedules")
	look(browser, t, s.URL+"/actions/replay?status=failed&status=timed_out", "#h-consequence", "replay")
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/lanes"),
		chromedp.Click(`details[id="ask-resume-notify/hooks.example.org"] summary`, chromedp.ByQuery),
		chromedp.Click(`details[id="ask-resume-notify/hooks.example.org"] button`, chromedp.ByQuery),
		chromedp.WaitVisible("#lanes .none, #lanes .t-backoff", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	if limits, err = s.Service.Limits(t.Context()); err != nil || len(limits) > 0 && limits[0].PausedBy != "" {
		t.Errorf("%+v, %v", limits, err)
	}
}
