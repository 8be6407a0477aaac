//go:build services

package web_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/servertest"
)

func TestPagesOfBuildsFitDeskAndPhone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	brokenBuild(t, s)
	running := servertest.NewBuild(t, s.Builds, "42", servertest.BuildPlan("lint/vet", "test/unit", "test/race", "image/shop"))
	running.Status(0, build.Running, "")
	running.Run(1, build.Completed, "vet is happy")
	running.Status(2, build.Running, "")
	running.Print(2, colourful...)
	browser := browsertest.Start(t)
	for _, on := range screens() {
		for _, page := range []struct{ name, path, selector string }{
			{"builds", "/builds", "#build-41 .t-failed"},
			{"build-broken", "/builds/41", `.virtual .row[id="3:308"]`},
			{"build-running", "/builds/42", `.virtual .row[id="2:1"]`},
		} {
			look(browser, t, s.URL+page.path, page.selector, page.name, on)
		}
	}
}

// wait waits until a condition in the page holds.
func wait(browser context.Context, t *testing.T, what, condition string) {
	t.Helper()
	if err := chromedp.Run(browser, chromedp.Poll(condition, nil, chromedp.WithPollingTimeout(30*time.Second))); err != nil {
		var state string
		_ = chromedp.Run(browser, chromedp.Evaluate(`location.href + " " + [...document.querySelectorAll(".virtual .row")].slice(0, 60).map((r) => r.innerText).join(" | ")`, &state))
		t.Fatalf("wait until %s: %v; %s", what, err, state)
	}
}

// numbered makes a running build whose step a/one has printed numbered lines, every thousandth with the word needle.
func numbered(t *testing.T, s *site, lines int) *servertest.Build {
	t.Helper()
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan("a/one", "a/two"))
	b.Status(0, build.Running, "")
	b.Status(1, build.Running, "")
	for first := 0; first < lines; first += 1000 {
		block := make([]string, 1000)
		for i := range block {
			block[i] = fmt.Sprintf("line %d \x1b[32mok\x1b[0m of a test that prints about a hundred bytes, as many test programs do", first+i+1)
		}
		block[499] += " needle"
		b.Print(1, block...)
	}
	return b
}

const (
	rowInSight = `((id) => { const r = document.getElementById(id); if (!r) return false; const a = r.getBoundingClientRect(), b = r.closest(".loglines").getBoundingClientRect(); return a.top >= b.top - 1 && a.bottom <= b.bottom + 1 && r.innerText.includes("line"); })`
	box        = `document.querySelector("#log-1 .loglines")`
)

func TestALogIsScrolledFollowedSearchedAndLinked(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := numbered(t, s, 50_000)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.URL+"/builds/7")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the end is shown", rowInSight+`("1:50000")`)
	b.Print(1, "line 50001 is new")
	wait(browser, t, "a new line is followed", rowInSight+`("1:50001")`)
	scroll := func(to string) {
		if err := chromedp.Run(browser, chromedp.Evaluate(box+".scrollTop = "+to, nil)); err != nil {
			t.Fatal(err)
		}
	}
	scroll("400 * 20")
	wait(browser, t, "line 401 is shown", rowInSight+`("1:401")`)
	wait(browser, t, "scrolling up ends following", `!document.getElementById("log-follow").checked`)
	b.Print(1, "line 50002 is new")
	wait(browser, t, "the page knows of the new line", `document.getElementById("log-1").dataset.lines === "50002"`)
	wait(browser, t, "line 401 stays", rowInSight+`("1:401")`)
	if err := chromedp.Run(browser, chromedp.Click("#log-follow")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the end is followed again", rowInSight+`("1:50002")`)
	if err := chromedp.Run(browser, chromedp.SendKeys("#log-search", "NEEDLE"+kb.Enter)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the first match is shown", rowInSight+`("1:500") && document.querySelector(".logtools output").value === "1 of 50"`)
	if err := chromedp.Run(browser, chromedp.Click(`button[aria-label="Next match"]`)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the second match is shown", rowInSight+`("1:1500") && document.querySelector(".row.found").id === "1:1500"`)
	if err := chromedp.Run(browser, chromedp.Click(`button[aria-label="Previous match"]`), chromedp.Click(`button[aria-label="Previous match"]`)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the last match is shown", rowInSight+`("1:49500")`)
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/builds"), chromedp.Navigate(s.URL+"/builds/7#1:30000-30002"), chromedp.WaitVisible("#log-search")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the permalink is shown", rowInSight+`("1:30000") && document.querySelectorAll(".row.marked").length === 3`)
	for _, do := range []struct{ what, script, want string }{
		{"a number is a permalink", `document.querySelector('.row[id="1:30004"] .n').click()`, `location.hash === "#1:30004"`},
		{"times are shown", `{ const s = document.getElementById("log-time"); s.value = "since"; s.dispatchEvent(new Event("change")); }`, `document.querySelector('.row[id="1:30004"] .at')?.textContent === "0.00s"`},
		{"lines are wrapped", `document.getElementById("log-wrap").click()`, `document.getElementById("log").classList.contains("wrapped") && ` + rowInSight + `("1:30004")`},
	} {
		if err := chromedp.Run(browser, chromedp.Evaluate(do.script, nil)); err != nil {
			t.Fatalf("%s: %v", do.what, err)
		}
		wait(browser, t, do.what, do.want)
	}
	scroll("1e9")
	wait(browser, t, "the end of wrapped lines is shown", rowInSight+`("1:50002")`)
}
