package ogc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/webhook"
)

func httptestServer(t *testing.T, handler http.Handler) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// listed returns the ids of a list of jobs.
func (w *world) listed(query string) ([]string, ogc.JobList) {
	w.t.Helper()
	var list ogc.JobList
	w.get("/jobs"+query).want(w.t, http.StatusOK).into(w.t, &list)
	ids := []string{}
	for _, job := range list.Jobs {
		ids = append(ids, job.JobID)
	}
	return ids, list
}

func relOf(list ogc.JobList, rel string) string {
	for _, l := range list.Links {
		if l.Rel == rel {
			u, err := url.Parse(l.Href)
			if err == nil {
				return "?" + u.RawQuery
			}
		}
	}
	return ""
}

func TestJobsAreFiltered(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	good := w.execute("mirror", `{"payload": {"n": 1}}`)
	bad := w.execute("mirror", `{"payload": {"n": 2}, "outcome": "fatal", "error": "no"}`)
	quick := w.execute("quick", `{}`)
	running := w.execute("wait", `{}`)
	w.until(good, "successful")
	w.until(bad, "failed")
	w.until(quick, "successful")
	created := w.until(running, "running").Created.Format("2006-01-02T15:04:05.000Z07:00")
	for query, want := range map[string][]string{
		"":                                  {running, quick, bad, good},
		"?processID=mirror":                 {bad, good},
		"?processID=mirror&processID=quick": {quick, bad, good},
		"?processID=mirror,wait&status=failed&status=running&status=successful": {running, bad, good},
		"?type=process&status=failed":                                           {bad},
		"?status=successful&status=running":                                     {running, quick, good},
		"?status=accepted":                                                      {},
		"?waybillStatus=failed":                                                 {bad},
		"?waybillStatus=RUNNING&status=failed":                                  {},
		"?limit=1":                                                              {running},
		"?limit=99999":                                                          {running, quick, bad, good},
		"?datetime=" + created:                                                  {running},
		"?datetime=" + created + "/..":                                          {running},
		"?datetime=../2020-01-01T00:00:00Z":                                     {},
		"?minDuration=0&maxDuration=3600":                                       {running, quick, bad, good},
		"?minDuration=3600":                                                     {},
		"?maxDuration=3600&status=failed":                                       {bad},
		"?" + strings.Repeat("processID=mirror&status=failed&", 1000):           {bad},
	} {
		got, _ := w.listed(query)
		if strings.HasPrefix(query, "?datetime=20") { // several jobs may have been created in one millisecond
			got = slices.DeleteFunc(got, func(id string) bool { return id != running })
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for query, named := range map[string]string{"?state=failed": `unknown query parameter "state"`, "?stats=x": `"stats"`,
		"?status=done": "status=done", "?limit=0": "limit=0", "?limit=x": "limit=x",
		"?datetime=now": "datetime=now", "?datetime=../..": "datetime=../..", "?minDuration=long": "minDuration=long",
		"?maxDuration=-1":     "maxDuration=-1",
		"?waybillStatus=done": "waybillStatus=done", "?type=workflow": "type=workflow", "?after=x": "after=x", "?f=xml": "f=xml",
		"?processID=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u": "processID"} {
		if p := w.problem(w.get("/jobs"+query), http.StatusBadRequest, invalid); !strings.Contains(p.Detail, named) {
			t.Errorf("%s: %q does not name %s", query, p.Detail, named)
		}
	}
}

// TestPagesDoNotShiftWhileJobsAreAdded: a reader who pages through the list sees every job that existed at the start once.
func TestPagesDoNotShiftWhileJobsAreAdded(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	var want []string
	for i := range 7 {
		want = append([]string{w.execute("mirror", fmt.Sprintf(`{"payload": {"n": %d}}`, i))}, want...)
	}
	var seen []string
	var last ogc.JobList
	for query, i := "?limit=3", 0; query != ""; i++ {
		ids, list := w.listed(query)
		seen, last, query = append(seen, ids...), list, relOf(list, "next")
		w.execute("mirror", fmt.Sprintf(`{"payload": {"later": %d}}`, i))
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("forwards (-want +got):\n%s", diff)
	}
	back, list := w.listed(relOf(last, "prev"))
	if diff := cmp.Diff(want[3:6], back); diff != "" {
		t.Errorf("back (-want +got):\n%s", diff)
	}
	if again, _ := w.listed(relOf(list, "next")); !cmp.Equal(again, want[6:]) {
		t.Errorf("and forwards again: %v", again)
	}
	first, list := w.listed(relOf(list, "prev"))
	if diff := cmp.Diff(want[:3], first); diff != "" || relOf(list, "prev") == "" {
		t.Errorf("to the first, and newer ones are there (-want +got):\n%s", diff)
	}
}

func TestEveryDocumentIsAPageWithItsLinks(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	id := w.execute("mirror", `{`+features+`, "output": {"count": 1, "features": []}}`)
	w.until(id, "successful")
	var list ogc.CacheList
	w.get("/cache").into(t, &list)
	for _, path := range []string{"/conformance", "/api", "/processes", "/processes/mirror",
		"/processes/mirror/inputsschema", "/processes/mirror/outputsschema", "/jobs", "/jobs/" + id,
		"/jobs/" + id + "/results", "/jobs/" + id + "/results/count", "/jobs/" + id + "/inputs", "/cache", "/cache/" + list.Entries[0].Key} {
		var document struct{ Links []ogc.Link }
		a := w.get(path)
		if !strings.Contains(path, "/results") {
			a.into(t, &document)
		}
		for name, page := range map[string]answer{"f": w.get(path + "?f=html"),
			"Accept": w.get(path, header{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"})} {
			page.want(t, http.StatusOK)
			if kind := page.Header.Get("Content-Type"); kind != "text/html; charset=utf-8" ||
				!strings.HasPrefix(string(page.body), "<!doctype html>") {
				t.Errorf("%s by %s is %s", path, name, kind)
			}
			if name == "Accept" {
				for _, l := range document.Links {
					if !strings.Contains(string(page.body), `href="`+strings.ReplaceAll(l.Href, "&", "&amp;")+`"`) {
						t.Errorf("%s: the page has no link to %s", path, l.Href)
					}
				}
			}
		}
		if a := w.get(path+"?f=json", header{"Accept", "text/html"}).
			want(t, http.StatusOK); strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s?f=json is a page", path)
		}
	}
	if page := w.get("/jobs/none?f=html"); page.StatusCode != http.StatusNotFound ||
		!strings.Contains(string(page.body), "job &#34;none&#34; not found") {
		t.Errorf("%s: %s", page.Status, page.body)
	}
	if page := w.get("/", header{"Accept", "text/html"}).want(t, http.StatusOK); !strings.Contains(string(page.body), "Pipelines") {
		t.Error("the first page for people is not Waybill's")
	}
}

func TestMethodsAndAccess(t *testing.T) {
	t.Parallel()
	w := start(t, webhook.Guard{})
	a := w.ask(http.MethodDelete, "/processes", "")
	w.problem(a, http.StatusMethodNotAllowed, "waybill:method_not_allowed")
	if a.Header.Get("Allow") != "GET" {
		t.Errorf("Allow: %s", a.Header.Get("Allow"))
	}
	w.problem(w.ask(http.MethodPost, "/processes/mirror/execution", "{}", header{"Authorization", "Bearer wrong"}),
		http.StatusUnauthorized, "waybill:unauthorized")
	head, err := http.Head(w.server.URL + "/jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer head.Body.Close()
	if head.StatusCode != http.StatusOK || head.Header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %s, %v", head.Status, head.Header)
	}
}
