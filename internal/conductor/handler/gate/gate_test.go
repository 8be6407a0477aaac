package gate

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// log has one gate, smoke, after the stage prod of revision r1.
type log struct {
	label    string // label of the revision; "": r1
	request  pipeline.GateRequest
	job      *pipeline.GateJob // nil: the request
	snapshot string
	blobs    files
	away     error
}

func (l log) Definition(context.Context, string, int) (pipeline.Definition, error) {
	smoke := pipeline.Gate{Name: "smoke", HTTP: &l.request}
	if l.job != nil {
		smoke = pipeline.Gate{Name: "smoke", Job: l.job}
	}
	return pipeline.Definition{Pipeline: "greeter", Vars: map[string]string{"path": "readyz"}, Stages: []pipeline.Stage{{Name: "prod",
		Vars: map[string]string{"word": "well"}, Gates: []pipeline.Gate{{Name: "calm", HTTP: &pipeline.GateRequest{}}, smoke}}}}, l.away
}

func (l log) Revision(context.Context, string, string, int64) (pipeline.RegisteredRevision, error) {
	return pipeline.RegisteredRevision{Label: cmp.Or(l.label, "r1"), Snapshot: l.snapshot}, nil
}

var local = []string{"127.0.0.0/8"}

// attempt makes one attempt at a gate of prod.
func attempt(ctx context.Context, l log, event string) action.Outcome {
	return Handler{Ledger: l, Blobs: l.blobs}.Do(ctx, conductor.Attempt{Number: 1, Action: action.Action{Handler: "gate",
		Policy: action.Policy{Initial: action.Duration(time.Minute)},
		Step:   &action.StepRef{Pipeline: "greeter", Deployment: 1, Target: "greeter/prod", Event: event, Revision: 1, Version: 1}}})
}

// TestAnswersOfAGate: an answer that fits passes it, another spends an attempt, and none spends none.
func TestAnswersOfAGate(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz/prod/r1":
			fmt.Fprint(w, "all is well")
		case "/moved":
			http.Redirect(w, r, "/readyz/prod/r1", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(target.Close)
	good := target.URL + "/${path}/${stage}/${revision}"
	for _, c := range []struct {
		name    string
		request pipeline.GateRequest
		want    action.OutcomeKind
		text    string
	}{
		{"passes", pipeline.GateRequest{URL: good, Status: []int{200}, AllowNetworks: local}, action.Done, ""},
		{"passes with its text", pipeline.GateRequest{URL: good, Status: []int{201, 200}, Body: "is ${word}",
			AllowNetworks: local}, action.Done, ""},
		{"another text", pipeline.GateRequest{URL: good, Status: []int{200}, Body: "ill", AllowNetworks: local},
			action.Retry, `answered 200 without "ill" in its body`},
		{"another status", pipeline.GateRequest{URL: target.URL + "/broken", Status: []int{200, 204}, AllowNetworks: local},
			action.Retry, "answered 503, want 200 or 204"},
		{"a redirect is not followed", pipeline.GateRequest{URL: target.URL + "/moved", Status: []int{200},
			AllowNetworks: local}, action.Retry, "answered 302, want 200"},
		{"no answer", pipeline.GateRequest{URL: target.URL + "/cut", Status: []int{200}, AllowNetworks: local}, action.RetryAfter,
			"/cut: "},
		{"no connection", pipeline.GateRequest{URL: "http://127.0.0.1:1/", Status: []int{200}, AllowNetworks: local},
			action.RetryAfter, "connection refused"},
		{"an address that the guard refuses", pipeline.GateRequest{URL: good, Status: []int{200}}, action.Fatal,
			"allowNetworks lets networks through"},
		{"a variable that is not set", pipeline.GateRequest{URL: "http://${host}/", Status: []int{200}}, action.Fatal,
			"${host} is not set"},
		{"no URL", pipeline.GateRequest{URL: "readyz", Status: []int{200}}, action.Fatal, "is not an address"},
		{"no network", pipeline.GateRequest{URL: good, Status: []int{200}, AllowNetworks: []string{"10"}}, action.Fatal, "allowNetworks: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := attempt(t.Context(), log{request: c.request}, "gate-passed/smoke")
			if o.Kind != c.want || !strings.Contains(o.Error, c.text) {
				t.Errorf("%s %s: %q, want %s: %q", o.Kind, o.Code, o.Error, c.want, c.text)
			}
			if later := time.Until(o.At); o.Kind == action.RetryAfter && (later <= 0 || later > time.Minute) {
				t.Errorf("asks again in %s, want its interval", later)
			}
		})
	}
}

// TestALabelAsksNoOtherAddress: the person who registers a revision does not choose which server judges it.
func TestALabelAsksNoOtherAddress(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.RequestURI }))
	t.Cleanup(target.Close)
	own := strings.TrimPrefix(target.URL, "http://")
	for label, want := range map[string]string{"v1.2_3-4~x": "/of/v1.2_3-4~x?all=1",
		"a/../../x y": "/of/a%2F..%2F..%2Fx%20y?all=1", "x?all=0&y=1#": "/of/x%3Fall%3D0%26y%3D1%23?all=1"} {
		o := attempt(t.Context(), log{label: label, request: pipeline.GateRequest{URL: target.URL + "/of/${revision}?all=1",
			Status: []int{200}, AllowNetworks: local}}, "gate-passed/smoke")
		if o.Kind != action.Done {
			t.Fatalf("%s: %s %s", label, o.Kind, o.Error)
		}
		if got := <-asked; got != want {
			t.Errorf("%s asks %s, want %s", label, got, want)
		}
	}
	for _, label := range []string{own + "/", own + "#", own + "?", "x@" + own + "/"} {
		o := attempt(t.Context(), log{label: label, request: pipeline.GateRequest{URL: "http://${revision}.example.invalid/",
			Status: []int{200}, AllowNetworks: local}}, "gate-passed/smoke")
		if o.Kind != action.Fatal || len(asked) > 0 {
			t.Errorf("%s: %s %s, want an address that is refused", label, o.Kind, o.Error)
		}
	}
}

// TestAGateThatIsNotThere: a row that the log cannot return now is requested again, a missing one never comes.
func TestAGateThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log   log
		event string
		want  action.OutcomeKind
	}{
		"another gate":   {log{}, "gate-passed/gone", action.Fatal},
		"a log away":     {log{away: fault.New(fault.Unavailable, "no connection")}, "gate-passed/smoke", action.RetryAfter},
		"a version gone": {log{away: fault.New(fault.NotFound, "no version")}, "gate-passed/smoke", action.Fatal},
	} {
		if o := attempt(t.Context(), c.log, c.event); o.Kind != c.want || o.Error == "" {
			t.Errorf("%s: %s: %q, want %s", name, o.Kind, o.Error, c.want)
		}
	}
}

// TestAGateIsCanceled: the request is given up, and the conductor decides the outcome.
func TestAGateIsCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel(conductor.ErrCanceled)
		<-r.Context().Done()
	}))
	t.Cleanup(target.Close)
	o := attempt(ctx, log{request: pipeline.GateRequest{URL: target.URL, Status: []int{200}, AllowNetworks: local}}, "gate-passed/smoke")
	if o.Kind != action.Retry || o.Error != conductor.ErrCanceled.Error() {
		t.Errorf("%s: %q", o.Kind, o.Error)
	}
}
