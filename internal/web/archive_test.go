package web_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/web"
)

// TestThePageOfAnArchivedDeploymentHasItsLog: its steps are in no other place, and the page has no
// button that the server would refuse.
func TestThePageOfAnArchivedDeploymentHasItsLog(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		a := servertest.StartAging(t, t.TempDir())
		a.Grow(t, "r1", "r2", "r3", "r4", "r5", "r6")
		s := listen(t, a.World, web.New(a.Service))
		get := func(path string) string {
			t.Helper()
			response, err := http.Get("http://" + s.Listener.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d, %v", path, response.StatusCode, err)
			}
			return string(body)
		}
		page := get("/deployments/greeter/1")
		for _, want := range []string{"archived: its steps are in", `href="/pipelines/greeter/log?deployment=1"`,
			`id="stage-prod"`, "pipeline-finished-successfully"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		for _, unwanted := range []string{"facts</span>", `id="ask-cancel"`, `id="ask-retry"`} {
			if strings.Contains(page, unwanted) {
				t.Errorf("the page has %q", unwanted)
			}
		}
		if log := get("/pipelines/greeter/log?deployment=1&target=prod/east/elm"); !strings.Contains(log, "host-deployed") {
			t.Error("the log of the deployment lacks host-deployed of elm")
		}
		if log := get("/pipelines/greeter/log?class=change"); !regexp.MustCompile(`deployments-archived(?s:.*?)#1\b`).MatchString(log) {
			t.Error("the log of the pipeline does not say which deployments were archived")
		}
		if list := get("/pipelines/greeter/history?target=prod"); !strings.Contains(list, `href="/deployments/greeter/1"`) {
			t.Error("the history of prod lacks deployment 1")
		}
		// A page looks beyond positions without an entry to show, such as those of archived deployments.
		if log := get("/pipelines/greeter/log?deployment=2&before=300"); !strings.Contains(log, "pipeline-started") {
			t.Error("the page before entry 300 lacks the first entries of deployment 2, which are some 250 positions away")
		}
		if err := a.Blobs.Clear(t.Context(), "archives"); err != nil {
			t.Fatal(err)
		}
		page = get("/deployments/greeter/1")
		for _, want := range []string{`id="stage-prod"`, "is not in the blob store"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q without its archive", want)
			}
		}
	})
}
