//go:build services

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/browsertest"
)

// The page of a service fits every screen, and its output follows: each new line comes into view.
func TestServicePageFollowsTheOutput(t *testing.T) {
	t.Parallel()
	s, printed := services(t)
	for i := range 200 {
		printed.add("2026-11-23T17:40:%02d.000Z INFO request served path=/items/%d status=200 duration_ms=12 user_agent=\"curl/8.5\"", i%60, i)
	}
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	look(browser, t, s.URL+"/pipelines/greeter/services/beta/all/oak", "#output", "service")
	look(browser, t, s.URL+"/pipelines/greeter/services/prod/east/elm", "#output", "service-restarts")
	look(browser, t, s.URL+"/pipelines/greeter/services/prod/west/yew", "#unread", "service-away")
	inView := `(() => { const tail = document.getElementById("output-scroll"); return Math.abs(tail.scrollTop) < 2 && tail.scrollHeight > tail.clientHeight })()`
	var atStart, atEnd, reloaded bool
	err := chromedp.Run(browser,
		chromedp.EmulateViewport(1280, 900),
		chromedp.Navigate(s.URL+"/pipelines/greeter/services/beta/all/oak"),
		chromedp.WaitVisible("#link.on", chromedp.ByQuery),
		chromedp.Evaluate(`window.mark = true; `+inView, &atStart),
	)
	if err != nil {
		t.Fatal(err)
	}
	printed.add("a line that came later")
	err = chromedp.Run(browser,
		chromedp.Poll(`document.getElementById("output").textContent.includes("a line that came later")`, nil,
			chromedp.WithPollingTimeout(patience)),
		chromedp.Evaluate(inView, &atEnd),
		chromedp.Evaluate(`!window.mark`, &reloaded),
	)
	if err != nil || !atStart || !atEnd || reloaded {
		t.Errorf("%v; the newest line is in view: at first %v, later %v; the page was reloaded: %v", err, atStart, atEnd, reloaded)
	}
}
