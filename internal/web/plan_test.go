package web_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/servertest"
)

// The page of a plan has the steps of one more deployment, those of active deployments, and the
// consequences of a failure.
func TestPlanPageShowsWhatWouldHappen(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, servertest.Definition)
	const path = "/pipelines/greeter/plan"
	first := s.page(t, path, "")
	has(t, first, "13 steps never ran here", "prod/east/elm", "<b>#1</b>")
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	has(t, s.page(t, "/pipelines/greeter", ""), `href="/pipelines/greeter/plan"`)
	failing := s.page(t, path+"?fail=prod%2Feast%2Felm%3Atest&from=2h", "")
	has(t, failing, "test fails</span>", "the stage fails", `value="prod/east/elm:test"`, "<b>#2</b>", "after 2h00m")
	if again := s.page(t, path+"?revision=3f2c9a1", ""); strings.Contains(again, "never ran here") || strings.Contains(again, ">build<") {
		t.Error("a revision that is there is built again, or has steps without a time")
	}
	s.Script.Hold("beta/all/oak host-deployed")
	running := s.Ship(t, "greeter", "88d0e17")
	has(t, s.page(t, path, ""), `<a href="/deployments/greeter/2">#2</a>`, "<b>#3</b>")
	s.Script.Release("beta/all/oak host-deployed")
	s.Until(t, running, "ends", servertest.Ended)
	for query, want := range map[string]int{
		"?fail=nowhere":         http.StatusNotFound,
		"?fail=prod:x":          http.StatusNotFound,
		"?from=yesterday":       http.StatusBadRequest,
		"?revision=none":        http.StatusNotFound,
		"?fail=%3Cb%3E&from=2h": http.StatusNotFound,
	} {
		if got := s.get(t, path+query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	late := s.page(t, path+"?from=360d", "") // a product with nanoseconds would overflow
	if rects := regexp.MustCompile(`<rect[^>]* x="(-?[0-9]+)"[^>]* width="([0-9]+)"`).FindAllStringSubmatch(late, -1); len(rects) == 0 {
		t.Error("no bars of a plan in a year")
	} else {
		for _, rect := range rects {
			if x, err := strconv.Atoi(rect[1]); err != nil || x < 990 || x > 1000 {
				t.Errorf("a bar of a plan that begins in a year is at %s", rect[1])
			}
		}
	}
	if got := s.get(t, "/pipelines/nowhere/plan"); got != http.StatusNotFound {
		t.Errorf("of no pipeline: %d", got)
	}
}
