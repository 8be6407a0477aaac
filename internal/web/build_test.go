package web_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// read returns the status and the text of a page.
func read(t *testing.T, s *site, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + s.Listener.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(page)
}

// colourful are lines as test programs print them.
var colourful = []string{
	"\x1b[1m=== RUN   TestCheckout\x1b[0m", "\x1b[31m--- FAIL: TestCheckout\x1b[0m (0.00s)",
	"    cart_test.go:41: total = \x1b[33m12\x1b[0m, want \x1b[32m15\x1b[0m",
	"\x1b[38;2;255;120;0mrgb\x1b[0m \x1b[38;5;63m256\x1b[0m \x1b[44;97m on blue \x1b[0m \x1b[7minverse\x1b[0m " +
		"\x1b[2mdim\x1b[0m", "plain <script>alert(1)</script> & more", "",
}

// brokenBuild makes a build with a step of each end, and returns its id.
func brokenBuild(t *testing.T, s *site) string {
	t.Helper()
	b := servertest.NewBuild(t, s.Builds, "41", servertest.BuildPlan("lint/vet", "lint/format", "test/unit", "test/race", "image/shop"))
	b.Status(0, build.Running, "")
	b.Run(1, build.Completed, "vet is happy")
	b.Run(2, build.Completed)
	b.Status(3, build.Running, "")
	for i := range 300 {
		b.Print(3, fmt.Sprintf("ok  \tshop/package%d\t0.0%ds", i, i))
	}
	b.Print(3, colourful...)
	b.Append(3, build.Entry{Text: []byte("cannot open cart.db\u202e\x1b]0;title\x07"), Marks: build.Marks{Stderr: true}},
		build.Entry{Text: []byte("attempt 2 begins"), Marks: build.Marks{Waybill: true}})
	b.Artifact(3, "out/report <b>.html", "<p>hello")
	b.Tests(3, testresult.Result{Suite: "shop/cart", Name: "TestCheckout <i>", Outcome: testresult.Failed,
		Message: "total = 12,\x1b[31m want 15", File: "cart_test.go", Line: 41},
		testresult.Result{Suite: "shop/cart", Name: "TestRetry", Outcome: testresult.Flaky, Message: "connection reset"},
		testresult.Result{Name: "TestSum", Outcome: testresult.Passed})
	b.Status(3, build.Failed, "exit status 1")
	b.Run(4, build.Canceled)
	b.Status(5, build.Skipped, "test/unit failed")
	b.Status(0, build.Failed, "test/unit failed")
	b.Kill()
	return "41"
}

func TestAFailedBuildOpensAtItsFailedStep(t *testing.T) {
	t.Parallel()
	s := serve(t)
	status, page := read(t, s, "/builds/"+brokenBuild(t, s))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, page)
	}
	for _, want := range []string{
		`data-step="3" data-lines="308"`, "<strong>shop/cart TestCheckout &lt;i&gt;</strong>",
		`<code class="at">cart_test.go</code><code class="at">:41</code>`, "total = 12, want 15",
		`<span class="f1">--- FAIL: TestCheckout</span> (0.00s)`, "plain &lt;script&gt;alert(1)&lt;/script&gt; &amp; more",
		`class="row e" id="3:307"`, `class="row w" id="3:308"`,
		"report &lt;b&gt;.html", "test/unit failed", "1 of 3 tests failed, 1 flaky",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(page, " open>"); n != 1 || !strings.Contains(page, `id="log-3" data-step="3"`) {
		t.Errorf("%d logs are open", n)
	}
	if strings.ContainsAny(page, "\x1b\x07\u202e") || strings.Contains(page, "<script>alert") || strings.Contains(page, "style=") {
		t.Error("foreign text is markup, or has control characters")
	}
}

func TestALogIsReadWithoutScriptPageByPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan("a/one"))
	b.Status(0, build.Running, "")
	b.Status(1, build.Running, "")
	lines := make([]string, 1800)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d", i+1)
	}
	b.Print(1, lines...)
	_, page := read(t, s, "/builds/7?step=1&after=500&time=since")
	for _, want := range []string{`id="1:501"`, `id="1:1000"`, "?after=0&amp;step=1&amp;time=since#log-1",
		"?after=1000&amp;step=1", "?after=1300&amp;step=1", `<span class="at">0.00s</span>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, `id="1:500"`) || strings.Contains(page, `id="1:1001"`) {
		t.Error("the page has more rows than 501 to 1000")
	}
	status, rows := read(t, s, "/builds/7/rows?step=1&after=1799&limit=10")
	if status != http.StatusOK || strings.Count(rows, `class="row`) != 1 || !strings.Contains(rows, "line 1800") {
		t.Errorf("%d %s", status, rows)
	}
	for _, path := range []string{"/builds/7/rows?step=1&limit=501", "/builds/7/rows?step=1",
		"/builds/7/rows?step=9&limit=1", "/builds/9", "/builds/7?step=x", "/builds/7?step=1&after=-1"} {
		if status, _ := read(t, s, path); status != http.StatusNotFound && status != http.StatusBadRequest {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestTheListOfBuildsIsFiltered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	brokenBuild(t, s)
	servertest.NewBuild(t, s.Builds, "42", servertest.BuildPlan("a/one")).Status(0, build.Running, "")
	for query, want := range map[string][2]bool{"": {true, true}, "?status=Failed": {true, false},
		"?q=lint": {true, false}, "?q=nothing": {false, false}} {
		_, page := read(t, s, "/builds"+query)
		if got := [2]bool{strings.Contains(page, `id="build-41"`), strings.Contains(page, `id="build-42"`)}; got != want {
			t.Errorf("%s lists %v, want %v", query, got, want)
		}
	}
}

func TestABuildOfManyStepsIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	paths := make([]string, 2000)
	for i := range paths {
		paths[i] = fmt.Sprintf("test/step%d", i)
	}
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan(paths...))
	b.Status(0, build.Running, "")
	b.Run(1500, build.Failed, "broken")
	_, page := read(t, s, "/builds/7")
	if len(page) > 1<<20 || !strings.Contains(page, "and 1960 steps more") || !strings.Contains(page, `id="1500:1"`) ||
		strings.Count(page, `class="steplog"`) != stepsOnPage+1 {
		t.Errorf("%d bytes, %d logs", len(page), strings.Count(page, `class="steplog"`))
	}
	if !strings.Contains(page, `href="/builds/7?from=1601"`) || !strings.Contains(page, `href="/builds/7?from=1201"`) {
		t.Error("the pages of further steps have no address")
	}
}

// stepsOnPage is the number of steps whose logs are on one page.
const stepsOnPage = 200

func TestADeploymentsPageShowsTheLogOfItsBuild(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, servertest.Definition)
	s.Script.Hold("build build-completed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	view := s.Until(t, ref, "builds", func(v service.DeploymentView) bool { return v.State.Live == 1 })
	id := view.Stages[0].Steps[0].Action.String()
	first := servertest.NewBuild(t, s.Builds, id+".1", servertest.BuildPlan("test/unit"))
	first.Run(1, build.Failed, "first")
	first.Status(0, build.Running, "")
	first.Status(0, build.Failed, "test/unit failed")
	first.Kill()
	b := servertest.NewBuild(t, s.Builds, id+".2", servertest.BuildPlan("lint/vet", "test/unit"))
	b.Status(0, build.Running, "")
	b.Run(1, build.Completed, "vet is happy")
	b.Status(2, build.Running, "")
	b.Print(2, colourful...)
	_, page := read(t, s, fmt.Sprintf("/deployments/greeter/%d", ref.Number))
	for _, want := range []string{`href="/builds/` + id + `.2"`, `href="/builds/` + id + `.1"`,
		`<span class="f1">--- FAIL: TestCheckout</span>`, "test/unit, 6 lines", "colours.css"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if _, page := read(t, s, "/builds/"+id+".2"); !strings.Contains(page, fmt.Sprintf(`href="/deployments/greeter/%d"`, ref.Number)) {
		t.Error("the build's page does not name its deployment")
	}
	if _, page := read(t, s, "/builds?pipeline=greeter"); strings.Count(page, "greeter#1") != 2 {
		t.Error("the list does not name the deployment twice")
	}
	s.Script.Release("build build-completed")
	s.Until(t, ref, "ends", servertest.Ended)
}

func TestAHugeLineIsCutOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := servertest.NewBuild(t, s.Builds, "7", servertest.BuildPlan("a/one"))
	b.Status(0, build.Running, "")
	b.Status(1, build.Running, "")
	b.Print(1, strings.Repeat("\x1b[31mx", 1<<20/6), "the next line")
	_, page := read(t, s, "/builds/7")
	if len(page) > 2<<20 || !strings.Contains(page, "bytes more</span>") || !strings.Contains(page, "the next line") ||
		strings.Contains(page, "\x1b") {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// TestTheFilterOfBuildsWorksWithoutScript: the filter stays in the form, and unusual fields are
// unfolded.
func TestTheFilterOfBuildsWorksWithoutScript(t *testing.T) {
	t.Parallel()
	s := serve(t)
	brokenBuild(t, s)
	for query, want := range map[string][]string{
		"": {`id="build-41"`, `<details class="morefilter">`},
		"?artifact=report&since=2020-01-01": {`id="build-41"`, `<details class="morefilter" open>`,
			`id="f-artifact" size="12" maxlength="200" value="report"`, `id="f-since" value="2020-01-01"`},
		"?test=checkout&stage=lint":   {`id="build-41"`},
		"?branch=none":                {"no build fits", `maxlength="1000" value="none"`},
		"?until=2020-01-01":           {"no build fits"},
		"?pipeline=shop&deployment=7": {`maxlength="200" value="shop"`, `<input type="hidden" name="deployment" value="7">`},
	} {
		status, page := read(t, s, "/builds"+query)
		for _, part := range want {
			if !strings.Contains(page, part) {
				t.Errorf("%s: %d, and the page has no %s", query, status, part)
			}
		}
	}
	if status, _ := read(t, s, "/builds?since=now"); status != http.StatusBadRequest {
		t.Errorf("a wrong day: %d", status)
	}
}

func TestAnErrorAboutBuildsLeadsBackToThem(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, want := range map[string]string{
		"/builds/99":              `<a href="/builds">All builds</a>`,
		"/deployments/greeter/99": `<a href="/">All pipelines</a>`,
	} {
		if status, page := read(t, s, path); status != http.StatusNotFound || !strings.Contains(page, want) {
			t.Errorf("%s: %d, and the page has no %s", path, status, want)
		}
	}
}
