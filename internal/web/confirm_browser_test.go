//go:build services

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// A person reaches a rollback from the page of the pipeline, chooses a target, reads the consequences
// and confirms them, on a live page.
func TestRollbackIsChosenReadAndConfirmed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	page := rolled(t, s)
	browser := browsertest.Start(t)
	var reason string
	err := chromedp.Run(browser,
		chromedp.Navigate(s.login()),
		chromedp.WaitVisible(".me .who", chromedp.ByQuery),
		chromedp.Navigate(s.URL+page),
		chromedp.Click(`.buttons a[href$="/rollback"]`, chromedp.ByQuery),
		chromedp.WaitVisible("#says", chromedp.ByQuery),
		chromedp.SendKeys("#f-target", "prod/east", chromedp.ByQuery),
		chromedp.Click("#choice button", chromedp.ByQuery),
		chromedp.WaitReady(`#sure input[name=target][value="prod/east"]`, chromedp.ByQuery),
		chromedp.WaitVisible("#link.on", chromedp.ByQuery),
		chromedp.SendKeys("#reason", "error rate", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Service.Deploy(t.Context(), service.NewDeployment{Pipeline: "rolled", Revision: "88d0e17"})
	if err != nil {
		t.Fatal(err)
	}
	s.Until(t, service.Ref{Pipeline: "rolled", Number: again.Number}, "ends", servertest.Ended)
	err = chromedp.Run(browser,
		chromedp.WaitReady(`#sure input[name=undoes][value="3"]`, chromedp.ByQuery), // the page follows the newest deployment
		chromedp.Value("#reason", &reason, chromedp.ByQuery),
		chromedp.Click("#sure button", chromedp.ByQuery),
		chromedp.WaitVisible("#h-timeline", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	made := s.Until(t, service.Ref{Pipeline: "rolled", Number: 4}, "ends", servertest.Ended)
	if made.Kind != journal.Rollback || made.Label != "3f2c9a1" || reason != "error rate" {
		t.Errorf("%+v with the reason %q, want a rollback to 3f2c9a1", made.Deployment, reason)
	}
}
