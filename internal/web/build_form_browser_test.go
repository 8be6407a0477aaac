//go:build services

package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestFormsOfBuildsFitDeskAndPhone(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	for _, o := range []service.NewBuild{{Project: "shop", Passwords: map[string]string{"key": "swordfish"}},
		{Project: "shop", Branch: "topic", Inputs: map[string]string{"level": "debug"}}} {
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
	for _, page := range []struct{ name, path, form string }{
		{"builds-start", "/builds", "ask-run"}, {"build-rerun", "/builds/1", "ask-rerun"},
		{"build-resume", "/builds/1", "ask-resume"}, {"build-queued", "/builds/2", "ask-cancel"},
	} {
		look(browser, t, s.URL+page.path, "#"+page.form, page.name)
		if err := chromedp.Run(browser, chromedp.Click("#"+page.form+" summary")); err != nil {
			t.Fatal(err)
		}
		wait(browser, t, "the form is open", `document.querySelector("#`+page.form+` button").checkVisibility()`)
		survey(browser, t, page.name+"-open")
	}
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/builds/2"), chromedp.Click("#ask-cancel summary")); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.RunResponse(browser, chromedp.Click("#ask-cancel button")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the build is canceled", `document.querySelector(".meta .state")?.innerText === "canceled"`)
}

// TestReusedStepsLeadToTheirBuild looks at a resumed build on every screen.
func TestReusedStepsLeadToTheirBuild(t *testing.T) {
	t.Parallel()
	s := serveProjects(t)
	if _, _, err := s.Service.RunBuild(t.Context(), service.NewBuild{Project: "shop", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Service.CancelBuild(t.Context(), "1", "ana"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Service.RerunBuild(t.Context(), service.BuildRerun{ID: "1", Resume: true, By: "ana"}); err != nil {
		t.Fatal(err)
	}
	none := sha256.Sum256(nil)
	empty := &build.Trailer{SHA256: hex.EncodeToString(none[:])}
	batch := builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}, {ID: 2, Stage: "test", Name: "vet"},
		{ID: 3, Stage: "image", Name: "shop", Needs: []int{1, 2}}},
		Events: []builds.Event{{Status: build.Running}, {Step: 1, Status: build.Reused, Reason: "reused from build 1",
			Trailer: empty}, {Step: 2, Status: build.Reused, Reason: "reused from build 1", Trailer: empty},
			{Step: 3, Status: build.Scheduling, Reason: "runs again: it failed"}, {Step: 3, Status: build.Running},
			{Step: 3, Status: build.Failed, Reason: "exit status 1", Trailer: empty},
			{Status: build.Failed, Reason: "image/shop failed", Trailer: empty, Final: &build.Final{Steps: 3, Events: 7}}}}
	for i := range batch.Events {
		batch.Events[i].Source, batch.Events[i].EventID, batch.Events[i].At = builds.Worker, strconv.Itoa(i+1), time.Now()
	}
	if _, err := s.Ledger.Builds.Ingest(t.Context(), 2, batch); err != nil {
		t.Fatal(err)
	}
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	look(browser, t, s.URL+"/builds/2", "#step-1 .runline a", "build-reused")
	if _, err := chromedp.RunResponse(browser, chromedp.Click("#step-1 .runline a")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the earlier build is shown", `location.pathname === "/builds/1" && location.hash === "#step-1"`)
}
