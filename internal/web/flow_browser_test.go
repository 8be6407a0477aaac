//go:build services

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/browsertest"
)

// The pages of flows and service instances fit every screen.
func TestPagesOfFlowsFitDeskAndPhone(t *testing.T) {
	t.Parallel()
	s, _ := shopSite(t)
	provisionFlow(t, s, "a/b", "eventflow")
	provisionFlow(t, s, "0f5f2ab8-4c33-4a6f-9a35-3c5a3a4cdd7e", "eventflow")
	bare := serve(t)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	look(browser, t, s.URL+"/flows", `[id="flow-shop/orders"] .t-failed`, "flows")
	look(browser, t, s.URL+"/flows/shop/orders", "#neighbours", "flow")
	look(browser, t, s.URL+"/flows/store/waits", "#status", "flow-waits")
	look(browser, t, s.URL+"/service-instances", "#instances .t-running", "service-instances")
	look(browser, t, s.URL+"/service-instances/a%2Fb", "#alone", "service-instance")
	look(browser, t, bare.URL+"/flows", ".fault", "flows-missing")
}
