//go:build services

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// On a phone the steps of a plan were beyond the edge of the screen, after four columns.
func TestPlanShowsItsStepsOnAPhone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, servertest.Definition)
	browser := browsertest.Start(t)
	var steps int
	var beyond []string
	err := chromedp.Run(browser,
		chromedp.EmulateViewport(390, 900),
		chromedp.Navigate(s.URL+"/pipelines/greeter/plan?fail=prod/west/yew"),
		chromedp.WaitVisible("#schedule .t-failed", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelectorAll("#schedule tbody tr").length`, &steps),
		chromedp.Evaluate(`[...document.querySelectorAll("#schedule tbody th, #schedule tbody td")]
			.filter((cell) => cell.getBoundingClientRect().right > innerWidth).map((cell) => cell.textContent)`, &beyond),
	)
	if err != nil || steps < 10 || len(beyond) > 0 {
		t.Errorf("%v; of a plan of %d rows these are beyond the edge: %q", err, steps, beyond)
	}
}
