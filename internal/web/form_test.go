package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/browsertest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/web"
)

const scheduled = `
schedules:
  nightly: {cron: "0 3 * * mon-fri", timezone: Europe/Stockholm, handler: noop}
  hourly: {cron: "0 * * * *", handler: noop}
`

// serveActions is a site without a conductor, with schedules, and with an instance that the test has claim and end actions.
func serveActions(t *testing.T) (*site, ledger.Instance) {
	t.Helper()
	w := alone(t)
	configuration, err := config.Read("server.yaml", []byte(scheduled))
	if err != nil {
		t.Fatal(err)
	}
	w.Service = server.NewService(w.Ledger, w.Blobs, server.ServiceOptions{Offers: server.Offers{
		Schedules: func() map[string]config.Schedule { return configuration.Schedules },
		Handlers: func() server.Handlers {
			return server.Handlers{"noop": func(json.RawMessage) (action.Action, error) {
				return action.Action{Kind: "action", Name: "noop", Handler: "noop", Lane: "noop", Delivery: action.AtLeastOnce, Policy: action.Policy{Retries: 2}}, nil
			}}
		},
	}})
	s := listen(t, w, web.New(w.Service))
	host := ledger.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-a"}
	if err := w.Ledger.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	return s, host
}

// add enqueues an action.
func (s *site) add(t *testing.T) action.ID {
	t.Helper()
	made, err := s.Service.AddAction(t.Context(), server.NewAction{Handler: "noop", By: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// is fails the test unless the action has the status.
func (s *site) is(t *testing.T, id action.ID, want action.Status) {
	t.Helper()
	v, err := s.Service.Action(t.Context(), id)
	if err != nil || v.Thread.Status != want {
		t.Errorf("action %s is %s, %v; want %s", id, v.Thread.Status, err, want)
	}
}

func TestButtonsRetryCancelSnoozeAndReplayActions(t *testing.T) {
	t.Parallel()
	s, host := serveActions(t)
	const text = "the target has no such collection\nstatus 404"
	failed := s.add(t)
	s.work(t, host, action.Outcome{Kind: action.Fatal, Error: text})
	second := s.add(t)
	s.work(t, host, action.Outcome{Kind: action.Fatal, Error: "again"})
	browser := browsertest.Start(t)
	var said int
	var retried string
	err := chromedp.Run(browser,
		chromedp.Navigate(s.login()),
		chromedp.Navigate(s.URL+"/actions/"+failed.String()),
		chromedp.WaitVisible("#error pre", chromedp.ByQuery),
		chromedp.Evaluate(`document.body.innerText.split("no such collection").length - 1`, &said),
		chromedp.Click("#ask-retry summary", chromedp.ByQuery),
		chromedp.WaitVisible("#ask-retry .hint", chromedp.ByQuery),
		chromedp.Click("#ask-retry button", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-waiting", chromedp.ByQuery),
		chromedp.Location(&retried),
		chromedp.Click("#ask-snooze summary", chromedp.ByQuery),
		chromedp.SendKeys("#for-snooze", "2h", chromedp.ByQuery),
		chromedp.Click("#ask-snooze button", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-backoff", chromedp.ByQuery),
		chromedp.Click("#ask-cancel summary", chromedp.ByQuery),
		chromedp.Click("#ask-cancel button", chromedp.ByQuery),
		chromedp.WaitVisible(".title .t-ended", chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	if said != 1 {
		t.Errorf("the page says the error %d times", said)
	}
	again, err := action.ParseID(retried[strings.LastIndex(retried, "/")+1:])
	if err != nil {
		t.Fatal(err)
	}
	s.is(t, again, action.Canceled)
	if v, err := s.Service.Action(t.Context(), again); err != nil || v.RetryOf != failed || v.CreatedBy != "ana" {
		t.Errorf("retry of %s by %s, %v", v.RetryOf, v.CreatedBy, err)
	}
	var words string
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/actions/replay")); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.RunResponse(browser, chromedp.Click("#filter button", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	// The new page is asked by script: nodes that were looked up while it replaced the former one may be gone.
	_, err = chromedp.RunResponse(browser,
		chromedp.Evaluate(`document.querySelector("#h-consequence").innerText`, &words),
		chromedp.Evaluate(`document.querySelector("#replay button").click()`, nil))
	if err == nil {
		err = chromedp.Run(browser, chromedp.WaitVisible("#replayed", chromedp.ByQuery))
	}
	if err != nil || words != "2 actions in this range" {
		t.Fatal(words, err)
	}
	all, err := s.Service.Actions(t.Context(), ledger.ActionQuery{RetryOf: second})
	if err != nil || len(all) != 1 || all[0].CreatedBy != "ana" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestButtonsSteerLanes(t *testing.T) {
	t.Parallel()
	s, _ := serveActions(t)
	browser := browsertest.Start(t)
	if err := chromedp.Run(browser, chromedp.Navigate(s.login()), chromedp.Navigate(s.URL+"/lanes"),
		chromedp.Click("#ask-pause summary", chromedp.ByQuery),
		chromedp.SendKeys("#input-lane-pause", "notify/hooks.example.org", chromedp.ByQuery),
		chromedp.SendKeys("#for-pause", "2h", chromedp.ByQuery),
		chromedp.SendKeys("#reason-pause", "maintenance", chromedp.ByQuery),
		chromedp.Click("#ask-pause button", chromedp.ByQuery),
		chromedp.WaitVisible("#lanes .t-held", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	limits, err := s.Service.Limits(t.Context())
	if err != nil || len(limits) != 1 || limits[0].PausedBy != "ana" || limits[0].Reason != "maintenance" || limits[0].PauseUntil.IsZero() {
		t.Fatalf("%+v, %v", limits, err)
	}
	for _, on := range screens() {
		look(browser, t, s.URL+"/lanes", "#lanes .t-held", "lane-page", on)
		look(browser, t, s.URL+"/schedules", "#schedule-nightly", "schedules", on)
		look(browser, t, s.URL+"/actions/replay?status=failed&status=timed_out", "#h-consequence", "replay", on)
	}
	if err := chromedp.Run(browser, chromedp.Navigate(s.URL+"/lanes"),
		chromedp.Click(`details[id="ask-resume-notify/hooks.example.org"] summary`, chromedp.ByQuery),
		chromedp.Click(`details[id="ask-resume-notify/hooks.example.org"] button`, chromedp.ByQuery),
		chromedp.WaitVisible("#lanes .none, #lanes .t-backoff", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	if limits, err = s.Service.Limits(t.Context()); err != nil || len(limits) > 0 && limits[0].PausedBy != "" {
		t.Errorf("%+v, %v", limits, err)
	}
}

// Forms do nothing for a browser that is not logged in, for another site's page, and with fields out of bounds.
func TestFormsRefuseStrangersOtherSitesAndLongFields(t *testing.T) {
	t.Parallel()
	s, host := serveActions(t)
	id := s.add(t)
	s.work(t, host, action.Outcome{Kind: action.Fatal, Error: "no"})
	live := s.add(t)
	paths := []string{"/actions/" + id.String() + "/retry", "/actions/" + live.String() + "/cancel", "/actions/" + live.String() + "/snooze",
		"/actions/replay", "/lanes/pause", "/lanes/resume", "/lanes/enable", "/lanes/reset", "/deployments/greeter/1/hold"}
	fields := url.Values{"lane": {"noop"}, "for": {"30m"}, "status": {"failed"}}
	for _, c := range []struct {
		name, token, origin string
		fields              url.Values
		want                int
	}{
		{"a stranger", "", "", fields, http.StatusUnauthorized},
		{"another site", "a-token-of-the-home", "https://evil.example", fields, http.StatusForbidden},
		{"a long field", "a-token-of-the-home", "", url.Values{"lane": {strings.Repeat("x", 2000)}}, http.StatusBadRequest},
	} {
		for _, path := range paths {
			if got := s.post(t, path, c.token, c.origin, c.fields); got != c.want {
				t.Errorf("%s: POST %s: %d, want %d", c.name, path, got, c.want)
			}
		}
	}
	s.is(t, live, action.Pending)
	if limits, err := s.Service.Limits(t.Context()); err != nil || len(limits) != 0 {
		t.Errorf("%+v, %v", limits, err)
	}
}

// post sends a form and returns the status of the answer.
func (s *site) post(t *testing.T, path, token, origin string, fields url.Values) int {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the form was not answered"))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Listener.Addr().String()+path, strings.NewReader(fields.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if origin != "" {
		request.Header.Set("Origin", origin)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
