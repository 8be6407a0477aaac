//go:build services

package web_test

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// graph is a pipeline with a diamond, a second row of branches, and a line that skips a tier.
const graph = `pipeline: graph
service: {manager: process, exec: [./greeter]}
retry: {backoff: {retries: 0}}
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/greeter.tar.gz}
- {name: a, after: [build], hosts: ["local://a"]}
- {name: b, after: [build], hosts: ["local://b"]}
- {name: c, after: [a, b], hosts: ["local://c"]}
- {name: d, after: [a, b], hosts: ["local://d"]}
- {name: e, after: [c, d, build], hosts: ["local://e"]}
`

// drawn returns the pairs of stages that the lines of a track join, from left to right.
const drawn = `(() => {
	const near = (x, y, side) => {
		for (const cell of document.querySelectorAll(".station, .past")) {
			const box = cell.getBoundingClientRect();
			if (Math.abs(box[side] - x) < 3 && Math.abs((box.top + box.bottom) / 2 - y) < 3) return cell.dataset.stage || "past";
		}
		return "nothing";
	};
	return [...document.querySelectorAll(".lines path")].map((path) => {
		const at = (length) => path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
		const from = at(0), to = at(path.getTotalLength());
		return near(from.x, from.y, "right") + " > " + near(to.x, to.y, "left");
	});
})()`

func TestPipelineIsDrawnAsItsGraph(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, graph)
	s.Until(t, s.Ship(t, "graph", "3f2c9a1"), "ends", servertest.Ended)
	s.Script.End("b/all/b host-deployed", action.Outcome{Kind: action.Fatal, Error: "not healthy within 60s"})
	s.Script.Hold("a/all/a host-deployed")
	failing := s.Ship(t, "graph", "5b01c3e")
	s.Until(t, failing, "fails at b", func(v service.DeploymentView) bool { return len(v.Failures) == 1 && v.State.Live == 1 })
	browser := browsertest.Start(t)
	want := []string{"build > a", "build > b", "build > past",
		"a > c", "b > c", "a > d", "b > d", "past > past", "c > e", "d > e", "past > e"}
	slices.Sort(want)
	for name, page := range map[string]string{"graphs": "/", "graph": "/pipelines/graph"} {
		look(browser, t, s.URL+page, ".station[data-stage=e]", name, func(on screen) {
			if on.width < 720 {
				return // text replaces the lines
			}
			var lines []string
			if err := chromedp.Run(browser, chromedp.Evaluate(drawn, &lines)); err != nil {
				t.Fatal(err)
			}
			slices.Sort(lines)
			if diff := cmp.Diff(want, lines); diff != "" {
				t.Errorf("%s on a %s: %s", page, on.name, diff)
			}
		})
	}
	s.Script.Release("a/all/a host-deployed")
	s.Until(t, failing, "ends", servertest.Ended)
	err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/pipelines/graph"),
		chromedp.WaitVisible(".station.t-failed[data-stage=b]", chromedp.ByQuery),
		chromedp.WaitVisible(".station.t-finished[data-stage=a]", chromedp.ByQuery),
		chromedp.Navigate(s.URL+"/deployments/graph/2"),
		chromedp.WaitVisible(".sum progress.t-failed", chromedp.ByQuery))
	if err != nil {
		t.Error(err)
	}
}
