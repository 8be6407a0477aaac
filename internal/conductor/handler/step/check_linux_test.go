package step

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestChecks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/named" && r.Host+r.Header.Get("X-Probe") == "shop.example.net1" {
			return // as services that refuse any other name do
		}
		if r.URL.Path != "/ready" {
			rw.WriteHeader(http.StatusTeapot)
			return
		}
		_, _ = rw.Write([]byte("all is ok here"))
	}))
	t.Cleanup(server.Close)
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.done(1, pipeline.HostReplicated)
	timeout := action.Duration(5 * time.Second)
	address := strings.TrimPrefix(server.URL, "http://")
	w.test = []pipeline.Check{{HTTP: server.URL + "/ready", Status: []int{200}, Body: "ok", Timeout: timeout},
		{TCP: address, Timeout: timeout},
		{Run: []string{"grep", "revision 1", "data/words.txt"}, Timeout: timeout},
		{HTTP: server.URL + "/named", Status: []int{200},
			Headers: map[string]string{"host": "shop.example.net", "X-Probe": "1"}, Timeout: timeout}}
	if out := w.done(1, pipeline.HostTested); out.Text != "4 checks passed" {
		t.Errorf("%+v", out)
	}
	for want, check := range map[string]pipeline.Check{
		"418 I'm a teapot, want 200 or 204": {HTTP: server.URL + "/", Status: []int{200, 204}},
		`does not contain "bad"`:            {HTTP: server.URL + "/ready", Status: []int{200}, Body: "bad"},
		"does not accept 127.0.0.1:1":       {TCP: "127.0.0.1:1"},
	} {
		check.Timeout = timeout
		w.test = []pipeline.Check{check}
		noted := w.noted()
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan action.Outcome, 1)
		go func() { ended <- w.do(ctx, 1, pipeline.HostTested) }()
		until(t, "a round of the checks has failed", func() bool { return w.noted() > noted })
		cancel(conductor.ErrAttemptTimeout)
		w.wantOutcome(<-ended, action.Retry, want)
	}
}

// TestAServiceStaysUpWhenItsNextProgramIsNotExecutable: the release is refused before anything is switched.
func TestAServiceStaysUpWhenItsNextProgramIsNotExecutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.ship(1)
	w.register(2, "greeter.tar.gz", pack(t, map[string]string{"greeter": "#!/bin/sh\n" + forever + "\n"}))
	w.wantOutcome(w.do(t.Context(), 2, pipeline.HostReplicated), action.Fatal,
		"artifact greeter.tar.gz of revision r2: ./greeter, which service.exec starts, is not executable")
	w.wantRuns(1)
}

// TestAChecksRedirectIsFollowedWithinTheService: any program may answer at another address.
func TestAChecksRedirectIsFollowedWithinTheService(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			http.Redirect(rw, r, "/login", http.StatusFound)
		case "/away":
			http.Redirect(rw, r, other.URL+"/home?token=1", http.StatusMovedPermanently)
		case "/around":
			http.Redirect(rw, r, "/around", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	a := &attempt{Target: definition.Target{Host: pipeline.Host{Name: "oak"}}, host: &command.Local{}}
	for _, c := range []struct {
		path string
		want []int
		err  string
	}{
		{"/", []int{200}, ""},
		{"/", []int{302}, ""},
		{"/away", []int{301}, ""},
		{"/away", []int{200}, "/away answers 301 Moved Permanently to " + other.URL + "/home, want 200"},
		{"/around", []int{200}, "it redirects more than 10 times"},
	} {
		err := a.check(t.Context(), &pipeline.Check{HTTP: server.URL + c.path, Status: c.want, Timeout: action.Duration(time.Minute)})
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasSuffix(err.Error(), c.err)) {
			t.Errorf("%s, want %v: %v", c.path, c.want, err)
		}
	}
}

// The program of a check decides: the attempt ends with its failure, long before the attempt's time
// does.
func TestProgramThatFailsATestEndsItsAttempt(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		w.done(1, pipeline.HostReplicated)
		for status, kind := range map[string]action.OutcomeKind{"1": action.Retry, "78": action.Fatal} {
			w.test = []pipeline.Check{{Run: []string{"sh", "-c",
				"echo because >&2; echo >>../../shared/rounds; exit " + status}, Timeout: action.Duration(time.Minute)}}
			w.wantOutcome(w.do(t.Context(), 1, pipeline.HostTested), kind, "sh on host oak ended with exit status "+status, "because")
		}
		if got := w.read("shared/rounds"); got != "\n\n" {
			t.Errorf("the programs have run as %q, want each once", got)
		}
		w.test = []pipeline.Check{{Run: []string{"sleep", "300"}, Timeout: action.Duration(time.Second)}}
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostTested), action.Retry, "sleep on host oak was ended after its timeout of 1s")
		w.timeout = 3 * time.Second // without a timeout of its own it has the attempt's
		w.test[0].Timeout = 0
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostTested), action.Retry, "sleep on host oak was ended after 1s, by attemptTimeout (3s)")
		w.timeout = time.Minute
		w.test = []pipeline.Check{{Run: []string{"sh", "-c", "mkdir ../../shared/again 2>/dev/null && exit 75 || exit 0"},
			Timeout: action.Duration(time.Minute)}}
		w.done(1, pipeline.HostTested)
	})
}

func TestFailingTestSaysWhyBeforeItsAttemptEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shells["dash"](t))
	w.revise(1, forever)
	w.done(1, pipeline.HostReplicated)
	w.test = []pipeline.Check{{Run: []string{"sh", "-c", "echo the database is away; exit 75"}, Timeout: action.Duration(5 * time.Second)}}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan action.Outcome, 1)
	go func() { ended <- w.do(ctx, 1, pipeline.HostTested) }()
	reports := func() []pipeline.Entry {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.reports
	}
	until(t, "the test says why it is not done", func() bool { return len(reports()) > 0 })
	cancel(conductor.ErrCanceled)
	w.wantOutcome(<-ended, action.Stopped)
	got := reports()
	if len(got) != 1 || got[0].Pipeline != "greeter" || got[0].Target != "greeter/beta/all/oak" || got[0].Deployment != 1 {
		t.Errorf("reports %+v", got)
	}
	var detail pipeline.StepDetail
	if err := json.Unmarshal(got[0].Detail, &detail); err != nil {
		t.Fatal(err)
	}
	if detail.Event != pipeline.HostTested || !strings.Contains(detail.Error, "exit status 75") ||
		!strings.Contains(detail.Error, "the database is away") {
		t.Errorf("detail %+v", detail)
	}
}
