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

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web"
)

const scheduled = `
schedules:
  nightly: {cron: "0 3 * * mon-fri", timezone: Europe/Stockholm, handler: noop}
  hourly: {cron: "0 * * * *", handler: noop}
`

// serveActions starts a site with schedules and without a conductor. The test claims and ends actions with its own instance.
func serveActions(t *testing.T) (*site, queue.Instance) {
	t.Helper()
	w := alone(t)
	configuration, err := config.Read("server.yaml", []byte(scheduled))
	if err != nil {
		t.Fatal(err)
	}
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{Offers: service.Offers{
		Schedules: func() map[string]config.Schedule { return configuration.Schedules },
		Handlers: func() service.Handlers {
			return service.Handlers{"noop": func(json.RawMessage) (action.Action, error) {
				return action.Action{Kind: "action", Name: "noop", Handler: "noop", Lane: "noop", Delivery: action.AtLeastOnce,
					Policy: action.Policy{Retries: 2}}, nil
			}}
		},
	}})
	s := listen(t, w, web.New(w.Service))
	host := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-a"}
	if err := w.Ledger.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	return s, host
}

// add enqueues an action.
func (s *site) add(t *testing.T) action.ID {
	t.Helper()
	made, err := s.Service.AddAction(t.Context(), service.NewAction{Handler: "noop", By: "ana"})
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

// Forms do nothing for a browser that is not logged in, for another site's page, and with fields out of bounds.
func TestFormsRefuseStrangersOtherSitesAndLongFields(t *testing.T) {
	t.Parallel()
	s, host := serveActions(t)
	id := s.add(t)
	s.work(t, host, action.Outcome{Kind: action.Fatal, Error: "no"})
	live := s.add(t)
	paths := []string{"/actions/" + id.String() + "/retry", "/actions/" + live.String() + "/cancel", "/actions/" + live.String() + "/snooze",
		"/actions/replay", "/lanes/pause", "/lanes/resume", "/lanes/enable", "/lanes/reset", "/deployments/greeter/1/hold",
		"/deployments/greeter/1/stages/prod/approve", "/deployments/greeter/1/stages/prod/reject", "/deployments/greeter/1/skip",
		"/deployments/greeter/1/again", "/deployments/greeter/1/accept", "/pipelines/greeter/rollback",
		"/pipelines/greeter/catch-up", "/pipelines/greeter/freeze", "/pipelines/greeter/thaw"}
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
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the form was not answered"))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Listener.Addr().String()+path,
		strings.NewReader(fields.Encode()))
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
