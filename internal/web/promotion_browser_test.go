//go:build services

package web_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// TestAPipelineOfKubernetesInABrowser: the page fits every screen, follows the promoter, and a person approves on it.
func TestAPipelineOfKubernetesInABrowser(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Promote(t, func(in *promotion.Input, plan *promotion.Plan) {
		servertest.AwaitApproval(in, plan)
		prod := &plan.Verdicts[2]
		prod.Why = append(prod.Why, promotion.Reason{Code: promotion.WhyHeld, Message: "held by ana: holidays", Until: in.Now.Add(time.Hour)})
		us := promotion.TargetID{Cluster: "apps/leaf-us", Namespace: "podinfo-prod"}
		in.Seen[us] = promotion.Seen{Class: promotion.Unknown, Why: promotion.ClusterUnreachable, Applied: "6.5.4",
			Message: "dial tcp 10.1.2.3:6443: connect: no route to host"}
	})
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	look(browser, t, s.URL+podinfoPage, "#environment-prod", "promotion")
	look(browser, t, s.URL+"/deployments/"+servertest.PromotionPipeline+"/12", "#stage-prod", "promotion-run")
	look(browser, t, s.URL+"/", ".station[data-stage=prod]", "promotions")
	err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.URL+podinfoPage),
		chromedp.Click("#ask-approve-prod summary", chromedp.ByQuery),
		chromedp.WaitVisible("#ask-approve-prod button", chromedp.ByQuery))
	if err != nil {
		t.Fatal(err)
	}
	browsertest.Save(browser, t, "promotion-approve")
	browsertest.Accessible(browser, t, "a pipeline of Kubernetes with an open form")
	s.Promote(t, servertest.AwaitApproval) // the form stays open while the page changes
	err = chromedp.Run(browser,
		chromedp.WaitNotPresent("#environment-prod .t-backoff", chromedp.ByQuery),
		chromedp.SendKeys("#reason-approve-prod", "dashboards are green", chromedp.ByQuery),
		chromedp.Evaluate(`document.documentElement.id = "before"`, nil), // the page after it has the same address
		chromedp.Click("#ask-approve-prod form button", chromedp.ByQuery),
		chromedp.WaitNotPresent("#before", chromedp.ByQuery),
		chromedp.WaitVisible("#environment-prod", chromedp.ByQuery))
	if err != nil {
		t.Fatal(err)
	}
	holds(browser, t, "the page after the approval", `location.pathname === "`+podinfoPage+`"`)
	state, err := s.Ledger.Promotions.Load(t.Context(), servertest.PromotionPipeline, "")
	if err != nil || len(state.Intents) != 1 || state.Intents[0].By.Name != "ana" || state.Intents[0].Reason != "dashboards are green" {
		t.Errorf("got %+v, %v", state.Intents, err)
	}
	s.Promote(t, nil)
	if err := chromedp.Run(browser, chromedp.WaitNotPresent("#ask-approve-prod", chromedp.ByQuery)); err != nil {
		t.Errorf("the page does not follow: %v", err)
	}
}
