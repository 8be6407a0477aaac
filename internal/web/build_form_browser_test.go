//go:build services

package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/server"
)

func TestFormsOfBuildsFitDeskAndPhone(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	for _, o := range []server.NewBuild{{Project: "shop", Passwords: map[string]string{"key": "swordfish"}}, {Project: "shop", Branch: "topic", Inputs: map[string]string{"level": "debug"}}} {
		if o.By = "ana"; o.Passwords == nil {
			o.Stages = []string{"test", "image"}
		}
		if _, _, err := s.Service.RunBuild(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Service.CancelBuild(t.Context(), "1", "ana"); err != nil {
		t.Fatal(err)
	}
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	for _, on := range screens() {
		for _, page := range []struct{ name, path, form string }{
			{"builds-start", "/builds", "ask-run"}, {"build-rerun", "/builds/1", "ask-rerun"}, {"build-queued", "/builds/2", "ask-cancel"},
		} {
			look(browser, t, s.URL+page.path, "#"+page.form, page.name, on)
			if err := chromedp.Run(browser, chromedp.Click("#"+page.form+" summary")); err != nil {
				t.Fatal(err)
			}
			wait(browser, t, "the form is open", `document.querySelector("#`+page.form+` button").checkVisibility() && document.documentElement.scrollWidth <= innerWidth`)
			var png []byte
			if err := chromedp.Run(browser, chromedp.FullScreenshot(&png, 100)); err != nil {
				t.Fatal(err)
			}
			browsertest.Save(t, page.name+"-open-"+on.name, png)
			browsertest.Accessible(browser, t, page.name+" with its form on a "+on.name)
		}
	}
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/builds/2"), chromedp.Click("#ask-cancel summary")); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.RunResponse(browser, chromedp.Click("#ask-cancel button")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the build is canceled", `document.querySelector(".meta .state")?.innerText === "canceled"`)
}
