//go:build services

package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
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
	s.Apply(t, servertest.Definition)
	s.Script.Hold("build build-completed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	view := s.Until(t, ref, "builds", func(v service.DeploymentView) bool { return v.State.Live == 1 })
	deployed := servertest.NewBuild(t, s.Builds, view.Stages[0].Steps[0].Action.String()+".1", servertest.BuildPlan("test/unit"))
	deployed.Status(0, build.Running, "")
	deployed.Status(1, build.Running, "")
	deployed.Print(1, colourful...)
	browser := browsertest.Start(t)
	for _, page := range []struct{ name, path, selector string }{
		{"deployment-build", fmt.Sprintf("/deployments/greeter/%d", ref.Number), ".buildtail .row"},
		{"builds", "/builds", "#build-41 .t-failed"},
		{"builds-filtered", "/builds?test=checkout&stage=lint&since=2020-01-01", "#build-41 .t-failed"},
		{"build-broken", "/builds/41", `.virtual .row[id="3:308"]`},
		{"build-running", "/builds/42", `.virtual .row[id="2:1"]`},
	} {
		look(browser, t, s.URL+page.path, page.selector, page.name, func(on screen) {
			holds(browser, t, page.name+" on a "+on.name,
				`[...document.querySelectorAll(".scroll > table")].every((e) => e.offsetWidth <= e.parentElement.clientWidth)`)
		})
	}
}

// patience bounds the wait for a page, which may be drawn on a busy machine.
const patience = 5 * time.Minute

// wait waits until a condition in the page holds.
func wait(browser context.Context, t *testing.T, what, condition string) {
	t.Helper()
	if err := chromedp.Run(browser, chromedp.Poll(condition, nil, chromedp.WithPollingTimeout(patience))); err != nil {
		var state string
		_ = chromedp.Run(browser, chromedp.Evaluate(
			`location.href + " " + [...document.querySelectorAll(".virtual .row")].slice(0, 60).map((r) => r.innerText).join(" | ")`, &state))
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
	b := numbered(t, s, 2000)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.URL+"/builds/7")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the end is shown", rowInSight+`("1:2000")`)
	b.Print(1, "line 2001 is new")
	wait(browser, t, "a new line is followed", rowInSight+`("1:2001")`)
	scroll := func(to string) {
		if err := chromedp.Run(browser, chromedp.Evaluate(box+".scrollTop = "+to, nil)); err != nil {
			t.Fatal(err)
		}
	}
	scroll("400 * 20")
	wait(browser, t, "line 401 is shown", rowInSight+`("1:401")`)
	wait(browser, t, "scrolling up ends following", `!document.getElementById("log-follow").checked`)
	b.Print(1, "line 2002 is new")
	wait(browser, t, "the page knows of the new line", `document.getElementById("log-1").dataset.lines === "2002"`)
	wait(browser, t, "line 401 stays", rowInSight+`("1:401")`)
	if err := chromedp.Run(browser, chromedp.Click("#log-follow")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the end is followed again", rowInSight+`("1:2002")`)
	if err := chromedp.Run(browser, chromedp.SendKeys("#log-search", "NEEDLE"+kb.Enter)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the first match is shown", rowInSight+`("1:500") && document.querySelector(".logtools output").value === "1 of 2"`)
	if err := chromedp.Run(browser, chromedp.Click(`button[aria-label="Next match"]`)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the second match is shown", rowInSight+`("1:1500") && document.querySelector(".row.found").id === "1:1500"`)
	if err := chromedp.Run(browser, chromedp.Click(`button[aria-label="Previous match"]`),
		chromedp.Click(`button[aria-label="Previous match"]`)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the last match is shown", rowInSight+`("1:1500")`)
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/builds"), chromedp.Navigate(s.URL+"/builds/7#1:1200-1202"),
		chromedp.WaitVisible("#log-search")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the permalink is shown", rowInSight+`("1:1200") && document.querySelectorAll(".row.marked").length === 3`)
	for _, do := range []struct{ what, script, want string }{
		{"a number is a permalink", `document.querySelector('.row[id="1:1204"] .n').click()`, `location.hash === "#1:1204"`},
		{"times are shown",
			`{ const s = document.getElementById("log-time"); s.value = "since"; s.dispatchEvent(new Event("change")); }`,
			`document.querySelector('.row[id="1:1204"] .at')?.textContent === "0.00s"`},
		{"lines are wrapped", `document.getElementById("log-wrap").click()`,
			`document.documentElement.classList.contains("wrapped") && ` + rowInSight + `("1:1204")`},
	} {
		if err := chromedp.Run(browser, chromedp.Evaluate(do.script, nil)); err != nil {
			t.Fatalf("%s: %v", do.what, err)
		}
		wait(browser, t, do.what, do.want)
	}
	scroll("1e9")
	wait(browser, t, "the end of wrapped lines is shown", rowInSight+`("1:2002")`)
}

func TestAShortLogIsWrappedWholeAndLeavesTheWheelToThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan("a/one", "a/two"))
	b.Status(1, build.Running, "")
	for i := range 6 {
		b.Print(1, fmt.Sprintf("line %d %s", i+1, strings.Repeat("words ", 120)))
	}
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 1100), chromedp.Navigate(s.URL+"/builds/7"),
		chromedp.WaitVisible("#log-wrap")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the log is shown", rowInSight+`("1:6")`)
	if err := chromedp.Run(browser, chromedp.Click("#log-wrap")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "all wrapped lines are shown",
		`document.getElementById("1:1").offsetHeight > 40 && `+rowInSight+`("1:1") && `+rowInSight+`("1:6")`)
	if err := chromedp.Run(browser, chromedp.Click("#log-wrap")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the box is as high as its lines again", box+`.clientHeight < 160 && `+rowInSight+`("1:6")`)

	var at struct{ X, Y float64 }
	err := chromedp.Run(browser, chromedp.EmulateViewport(1280,
		300), chromedp.Evaluate(box+`.scrollIntoView({block: "center"}); scrollTo(0, scrollY - 60);
		(() => { const r = `+box+
		`.getBoundingClientRect(); return {X: r.left + 200, Y: (Math.max(0, r.top) + Math.min(innerHeight, r.bottom)) / 2}; })()`, &at))
	if err != nil {
		t.Fatal(err)
	}
	var before float64
	err = chromedp.Run(browser, chromedp.Evaluate("scrollY",
		&before), chromedp.MouseEvent(input.MouseWheel, at.X, at.Y, func(p *input.DispatchMouseEventParams) *input.DispatchMouseEventParams {
		return p.WithDeltaY(-40)
	}))
	if err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the wheel scrolls the page", fmt.Sprintf("scrollY < %v", before))
}

func TestAPageFollowsALogThatGrows(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan("a/one", "a/two"))
	b.Status(1, build.Running, "")
	b.Print(1, "line 1")
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 600), chromedp.Navigate(s.URL+"/builds/7")); err != nil {
		t.Fatal(err)
	}
	const endInSight = box + `.getBoundingClientRect().bottom <= innerHeight`
	wait(browser, t, "the log is shown", rowInSight+`("1:1") && `+endInSight)
	for i := range 40 {
		b.Print(1, fmt.Sprintf("line %d", i+2))
	}
	wait(browser, t, "the page follows the end", rowInSight+`("1:41") && scrollY > 0 && `+endInSight)
	if err := chromedp.Run(browser, chromedp.Evaluate("scrollTo(0, 0)", nil)); err != nil {
		t.Fatal(err)
	}
	b.Print(1, "line 42")
	wait(browser, t, "the new line is there", `document.getElementById("1:42") && scrollY === 0`)
}

// TestASearchOfALogGoesOn where the server has ended it because its time was over, and says when it fails.
func TestASearchOfALogGoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	numbered(t, s, 1000)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.URL+"/builds/7"),
		chromedp.WaitVisible("#log-search")); err != nil {
		t.Fatal(err)
	}
	const server = `{
		const plain = window.fetch, form = document.getElementById("log-search").form, late = Promise.withResolvers();
		window.fetch = (...given) => {
			const q = new URL(given[0], location.href).searchParams;
			switch (q.get("q") + q.get("after")) {
				case "late": return late.promise;
				case "fails": return Promise.reject(new TypeError("away"));
				case "long": return Promise.resolve(new Response('{"matches": [{"stepId": 1, "logId": 7}], "next": "1:7"}'));
				case "long1:7": return Promise.resolve(new Response('{"matches": [{"stepId": 1, "logId": 3}]}'));
			}
			return plain(...given);
		};
		window.search = (text) => {
			form.elements["log-search"].value = text;
			form.requestSubmit();
		};
		search("late");
		search("fails");
		late.resolve(new Response('{"matches": []}'));
	}`
	if err := chromedp.Run(browser, chromedp.Evaluate(server, nil)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "it says that it has failed",
		`document.querySelector(".logtools output").value.startsWith("the search failed; try again")`)
	if err := chromedp.Run(browser, chromedp.Evaluate(`search("long")`, nil)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "both matches are found",
		`document.querySelector(".logtools output").value === "1 of 2" && document.querySelector(".row.found")?.id === "1:3"`)
}

// TestRowsThatDoNotComeAreAskedForAFewTimes: the page reports that the log is longer than it is.
func TestRowsThatDoNotComeAreAskedForAFewTimes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	numbered(t, s, 1000).Status(1, build.Completed, "")
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.URL+"/builds/7?step=1"),
		chromedp.WaitVisible("#log-search")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the end is shown", rowInSight+`("1:1000")`)
	const longer = `{
		const plain = window.fetch, soon = window.setTimeout;
		window.asked = 0;
		window.fetch = (...given) => { if (String(given[0]).includes("after=1000&")) window.asked++; return plain(...given); };
		window.setTimeout = (act, after) => soon(act, after === 2000 ? 1 : after);
		window.dispatchEvent(new Event("pagehide")); // the live view would correct the number
		document.getElementById("log-1").dataset.lines = "1200";
		document.getElementById("content").dispatchEvent(new Event("updated"));
	}`
	const frames = `new Promise((resolve) => { let n = 0; const next = () => (n++ < 300 ? requestAnimationFrame(next) : resolve(window.asked)); next(); })`
	if err := chromedp.Run(browser, chromedp.Evaluate(longer, nil)); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the rows were asked for", "window.asked >= 5")
	var asked int
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	if err := chromedp.Run(browser, chromedp.Evaluate(frames, &asked, await)); err != nil || asked != 5 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

// scrolling turns the wheel for 300 frames, then drags the bar to 60 places. It returns the durations
// of the frames in milliseconds, ascending, the durations of tasks above 50 ms, and the number of
// frames with a missing row.
const scrolling = `new Promise((resolve) => {
	const box = document.querySelector("#log-1 .loglines"), frames = [], long = [];
	let empty = [0, 0], n = 0, last = performance.now();
	const observer = new PerformanceObserver((list) => { for (const e of list.getEntries()) long.push(Math.round(e.duration)); });
	observer.observe({ type: "longtask" });
	const frame = (now) => {
		frames.push(now - last);
		last = now;
		const bounds = box.getBoundingClientRect();
		if ([...box.querySelectorAll(".row:not([data-at])")].some((r) => r.getBoundingClientRect().bottom > bounds.top && r.getBoundingClientRect().top < bounds.bottom)) empty[n < 300 ? 0 : 1]++;
		if (n < 300) box.scrollTop -= 120;
		else if (n < 660 && n % 6 === 0) box.scrollTop = box.scrollHeight * (((n * 7919) % 1000) / 1000);
		if (n++ < 700) return requestAnimationFrame(frame);
		observer.disconnect();
		frames.sort((a, b) => a - b);
		resolve({ Frames: frames.length, Median: frames[frames.length >> 1], P99: frames[Math.floor(frames.length * 0.99)], Worst: frames.at(-1), Long: long, Empty: empty });
	};
	requestAnimationFrame(frame);
})`

// TestALogOfAMillionLinesScrolls reports how smoothly; docs/performance.md has the figures.
func TestALogOfAMillionLinesScrolls(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const lines = 1_000_000
	b := numbered(t, s, lines)
	b.Status(1, build.Completed, "")
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.URL+"/builds/7?step=1"),
		chromedp.WaitVisible("#log-search")); err != nil {
		t.Fatal(err)
	}
	wait(browser, t, "the end is shown", rowInSight+`("1:1000000")`)
	var took struct {
		Frames             int
		Median, P99, Worst float64
		Long, Empty        []int
	}
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	if err := chromedp.Run(browser, chromedp.Evaluate(scrolling, &took, await)); err != nil {
		t.Fatal(err)
	}
	t.Logf(
		"%d lines: %d frames, median %.1f ms, 99 %% within %.1f ms, worst %.1f ms; tasks longer than 50 ms: %v ms; frames "+
			"with rows not there yet: %d of 300 by wheel, %d of 400 by bar",
		lines, took.Frames, took.Median, took.P99, took.Worst, took.Long, took.Empty[0], took.Empty[1])
	var nodes int
	if err := chromedp.Run(browser, chromedp.Evaluate(box+`.querySelectorAll("*").length`, &nodes)); err != nil || nodes > 2000 {
		t.Errorf("%v: the log has %d elements", err, nodes)
	}
	for _, line := range []int{1, 499_999, 1_000_000} {
		link := fmt.Sprintf("#1:%d", line)
		if err := chromedp.Run(browser, chromedp.Evaluate(fmt.Sprintf("location.hash = %q", link), nil)); err != nil {
			t.Fatal(err)
		}
		wait(browser, t, link+" is shown", fmt.Sprintf(`%s("1:%d")`, rowInSight, line))
	}
}
