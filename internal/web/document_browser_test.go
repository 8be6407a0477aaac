//go:build services

package web_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web"
)

const processes = `
workflows:
  mirror:
    title: Mirror items
    description: Copies every feature of a collection into another catalog, and notifies the publisher.
    version: 2
    handler: noop
    sync: 30s
    cache: true
    inputSchema:
      type: object
      required: [payload]
      properties:
        payload: {type: object, description: "A feature collection, as the catalog gives it."}
        mode: {type: string, enum: [fast, slow], default: fast}
    outputSchema: {type: object, properties: {features: {type: array}, count: {type: integer}}}
  reproject-everything-into-another-coordinate-system: {handler: noop}
`

// serveJobs starts a site with processes, and with a job in every state.
func serveJobs(t *testing.T) (s *site, jobs map[string]action.ID) {
	t.Helper()
	w := alone(t) // no conductor, which would rescue the claims of this test
	configuration, err := config.Read("server.yaml", []byte(processes))
	if err != nil {
		t.Fatal(err)
	}
	w.Service = service.New(w.Ledger, w.Blobs,
		service.Options{Offers: service.Offers{Processes: func() map[string]config.Process { return configuration.Processes }}})
	pages := ogc.New(ogc.Config{Service: w.Service, Pages: web.New(w.Service), Version: "test"})
	s = listen(t, w, pages)
	jobs = map[string]action.ID{}
	host := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-a"}
	if err := w.Ledger.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	for _, job := range []struct {
		name    string
		outcome action.Outcome
	}{
		{"successful", action.Outcome{Kind: action.Done, Output: json.RawMessage(`{"count": 2, "features": [{"id": "a"}, {"id": "b"}]}`)}},
		{"failed", action.Outcome{Kind: action.Fatal,
			Error: "the catalog has no collection \"sentinel-2-l2a-cogs-with-a-long-name\"\nstatus 404"}},
		{"waits", action.Outcome{Kind: action.Retry, Error: "500 in 112 ms: \"database locked\""}},
		{"running", action.Outcome{}},
	} {
		made, err := w.Service.RunProcess(t.Context(), "mirror", json.RawMessage(`{"payload": {"job": "`+job.name+`"}}`), "ana")
		if err != nil {
			t.Fatal(err)
		}
		jobs[job.name] = made.ID
		s.work(t, host, job.outcome)
	}
	return s, jobs
}

func TestJobPagesFitDeskAndPhone(t *testing.T) {
	t.Parallel()
	s, jobs := serveJobs(t)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Service.CacheEntries(t.Context(), queue.CacheQuery{})
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	at := func(name string) string { return "/jobs/" + jobs[name].String() }
	for _, page := range []struct{ name, path, selector string }{
		{"processes", "/processes", "#process-mirror"},
		{"process", "/processes/mirror", "#h-outputs"},
		{"process-schema", "/processes/mirror/inputsschema", "#document"},
		{"jobs", "/jobs", "#jobs .t-failed"},
		{"jobs-filtered", "/jobs?status=failed&processID=mirror", "#jobs .t-failed"},
		{"job-successful", at("successful"), ".t-finished"},
		{"job-failed", at("failed"), ".failure pre"},
		{"job-running", at("running"), ".t-running"},
		{"job-waits", at("waits"), ".reason"},
		{"job-results", at("successful") + "/results", "#output-features"},
		{"job-result", at("successful") + "/results/count", "#document"},
		{"job-inputs", at("failed") + "/inputs", "#document"},
		{"cache", "/cache", "#cache a"},
		{"cache-entry", "/cache/" + entries[0].Key.String(), ".facts"},
		{"api", "/api", "#document summary"},
		{"conformance", "/conformance", ".plain code"},
		{"job-missing", "/jobs/nonsense", ".fault"},
	} {
		look(browser, t, s.URL+page.path, page.selector, page.name)
	}
}

func TestAJobsPageFollowsIt(t *testing.T) {
	t.Parallel()
	s, jobs := serveJobs(t)
	browser := browsertest.Start(t)
	err := chromedp.Run(browser,
		chromedp.Navigate(s.login()),
		chromedp.Navigate(s.URL+"/jobs/"+jobs["running"].String()),
		chromedp.WaitVisible("#link.on", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-running", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ledger.Cancel(t.Context(), jobs["waits"], queue.CancelNow); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/jobs"), chromedp.WaitVisible("#link.on", chromedp.ByQuery),
		chromedp.WaitVisible("#job-"+jobs["waits"].String()+" .t-ended", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Service.DismissJob(t.Context(), jobs["successful"], "ana"); err != nil {
		t.Fatal(err)
	}
	var words string
	if err := chromedp.Run(browser, chromedp.WaitVisible("#job-"+jobs["successful"].String()+" .t-ended", chromedp.ByQuery),
		chromedp.Text("#job-"+jobs["successful"].String(), &words, chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(words, "dismissed") {
		t.Errorf("the row says %q", words)
	}
}
