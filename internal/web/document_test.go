package web_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/web"
)

const processes = `
workflows:
  mirror:
    title: Mirror items
    description: Copies every feature of a collection into another catalog, and tells the publisher.
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

// serveJobs is a site with processes, and a job in every state.
func serveJobs(t *testing.T) (s *site, jobs map[string]action.ID) {
	t.Helper()
	w := alone(t) // no conductor, which would take back what this test claims
	configuration, err := config.Read("server.yaml", []byte(processes))
	if err != nil {
		t.Fatal(err)
	}
	w.Service = server.NewService(w.Ledger, w.Blobs, server.ServiceOptions{Offers: server.Offers{Processes: func() map[string]config.Process { return configuration.Processes }}})
	pages := ogc.New(ogc.Config{Service: w.Service, Pages: web.New(w.Service), Version: "test"})
	s = listen(t, w, pages)
	jobs = map[string]action.ID{}
	host := ledger.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-a"}
	if err := w.Ledger.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	for _, job := range []struct {
		name    string
		outcome action.Outcome
	}{
		{"successful", action.Outcome{Kind: action.Done, Output: json.RawMessage(`{"count": 2, "features": [{"id": "a"}, {"id": "b"}]}`)}},
		{"failed", action.Outcome{Kind: action.Fatal, Error: "the catalog has no collection \"sentinel-2-l2a-cogs-with-a-long-name\"\nstatus 404"}},
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

// alone is a world in which nobody works.
func alone(t *testing.T) *servertest.World {
	t.Helper()
	dir := t.TempDir()
	driver, err := sqlite.Open(t.Context(), filepath.Join(dir, "waybill.db"))
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(driver)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	blobs, err := blob.Open(t.Context(), filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return &servertest.World{Ledger: l, Blobs: blobs}
}

// work claims the job that is ready, and ends its attempt unless the outcome is none.
func (s *site) work(t *testing.T, host ledger.Instance, o action.Outcome) {
	t.Helper()
	turned, err := s.Ledger.Turn(t.Context(), host, nil, []ledger.Want{{Lane: "noop", N: 1}})
	if err != nil || len(turned.Claimed) != 1 {
		t.Fatal(turned, err)
	}
	if o.Kind == 0 {
		return
	}
	done := ledger.Completion{ID: turned.Claimed[0].ID, Attempt: 1, Outcome: o}
	if _, err := s.Ledger.Turn(t.Context(), host, []ledger.Completion{done}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestJobPagesFitDeskAndPhone(t *testing.T) {
	t.Parallel()
	s, jobs := serveJobs(t)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login())); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Service.CacheEntries(t.Context(), ledger.CacheQuery{})
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	at := func(name string) string { return "/jobs/" + jobs[name].String() }
	for _, on := range screens() {
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
			look(browser, t, s.URL+page.path, page.selector, page.name, on)
		}
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
	if err := s.Ledger.Cancel(t.Context(), jobs["waits"], ledger.CancelNow); err != nil {
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
