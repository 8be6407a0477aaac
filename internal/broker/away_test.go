package broker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// TestTheLogIsAway: platforms repeat a 503, and nothing is stored by it. The catalog needs no log.
func TestTheLogIsAway(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		operation := w.reach("ready", "demo")
		w.send(bind("demo", "b")).want(201, "")
		before := w.stored()
		all := []request{provision("new"), provision("demo"), update("demo", 4), update("demo", 4).with("plan_id", "large"), deprovision("demo"),
			get("demo"), poll("demo", operation), poll("demo", "update"), bind("demo", "c"), getBinding("demo", "b"), unbind("demo", "b"),
			{method: http.MethodGet, path: bindingPath("demo", "b") + "/last_operation"}}
		for _, away := range []error{fault.New(fault.LedgerUnavailable, "the disk is full"), fault.New(fault.Unavailable, "away"),
			context.DeadlineExceeded} {
			w.away.set(away)
			for _, r := range all {
				a := w.send(r).want(http.StatusServiceUnavailable, "Unavailable")
				if got := a.header.Get("Retry-After"); got != "5" {
					t.Errorf("%s: Retry-After %q", a, got)
				}
			}
			w.send(fetchCatalog).want(200, "")
			w.send(provision("new").as("stranger", "x")).want(401, "Unauthorized")
			w.send(provision("new").with("plan_id", "")).want(400, "InvalidRequest")
			w.send(provision("new").with("plan_id", "none")).want(503, "Unavailable") // it may be one that was provisioned before the plan left
			w.away.set(nil)
			w.unchanged(before)
			w.send(getBinding("demo", "b")).want(200, "")
			w.send(getBinding("demo", "c")).want(404, "NotFound")
		}
		w.away.set(errors.New("a password: secret"))
		a := w.send(provision("new")).want(http.StatusInternalServerError, "InternalError")
		if a.body != `{"error":"InternalError","description":"the broker failed; its log says why"}` {
			t.Errorf("%s: the answer has the error of the program", a)
		}
		w.away.set(nil)
		w.unchanged(before)
	})
}

// TestAClientLeaves: that is not a fault of the broker, so its log has no line. A fault has one, with the request's identity.
func TestAClientLeaves(t *testing.T) {
	t.Parallel()
	w := serve(t, openSQLite)
	var log bytes.Buffer
	b := broker.New(broker.Config{Ledger: w.away, Catalog: w.catalog, Handlers: w.handlersNow, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Users: func() map[string]broker.User { return *w.users.Load() }})
	ask := func(ctx context.Context) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v2/service_instances/demo", nil)
		r.SetBasicAuth(user, password)
		r.Header.Set(versionHeader, "2.17")
		r.Header.Set(identityHeader, "request-1"+strings.Repeat("x", 1000))
		answered := httptest.NewRecorder()
		b.ServeHTTP(answered, r)
		return answered.Code
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if status := ask(left); status != http.StatusServiceUnavailable || log.Len() > 0 {
		t.Errorf("%d, log:\n%s", status, &log)
	}
	w.away.set(fault.New(fault.LedgerUnavailable, "the disk is full"))
	if status := ask(t.Context()); status != http.StatusServiceUnavailable || !strings.Contains(log.String(), "request-1") {
		t.Errorf("%d, log:\n%s", status, &log)
	}
	log.Reset()
	w.away.set(errors.New("broken"))
	if status := ask(t.Context()); status != http.StatusInternalServerError || !strings.Contains(log.String(), "request-1xxx") ||
		strings.Contains(log.String(), strings.Repeat("x", 200)) ||
		!strings.Contains(log.String(), "broken") {
		t.Errorf("%d, log:\n%s", status, &log)
	}
}

// TestChangesAreLogged once, with the identity of the request. Requests that change nothing are not.
func TestChangesAreLogged(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	var log bytes.Buffer
	w.broker.Store(broker.New(broker.Config{Ledger: w.away, Catalog: w.catalog, Handlers: w.handlersNow, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Users: func() map[string]broker.User { return *w.users.Load() }, Tombstone: func() time.Duration { return time.Hour }}))
	sends := func(r request, want ...string) {
		t.Helper()
		log.Reset()
		a := w.send(r)
		if a.status == http.StatusAccepted {
			want = append(want, "action_id="+a.operation().String())
		}
		if lines := strings.Count(log.String(), "\n"); lines != min(1, len(want)) {
			t.Errorf("%s is logged as\n%s", a, &log)
		}
		if len(want) > 0 {
			want = append(want, "by=platform", "instance=demo", "ref="+a.header.Get(identityHeader))
		}
		for _, text := range want {
			if !strings.Contains(log.String(), text) {
				t.Errorf("%s is logged without %s:\n%s", a, text, &log)
			}
		}
	}
	sends(provision("demo"), "doing=provision")
	w.finish("demo", done("made"))
	sends(provision("demo"))
	sends(provision("demo").with("plan_id", "none"))
	sends(get("demo"))
	sends(poll("demo", ""))
	sends(update("demo", 0).with("parameters", nil).with("context", fields{"a": 1}), "doing=context")
	sends(update("demo", 4), "doing=update")
	w.finish("demo", done("changed"))
	sends(bind("demo", "b"), `doing="bind b"`)
	sends(bind("demo", "b"))
	sends(unbind("demo", "b"), `doing="unbind b"`)
	sends(deprovision("demo"), "doing=deprovision")
}

// late is a log that decides about a request and has it done once its caller has an error.
type late struct {
	broker.Ledger
	size int // bytes of the requests
	done sync.WaitGroup
}

func (l *late) Operate(_ context.Context, key ledger.ServiceKey, decide func(ledger.ServiceState) (ledger.ServiceChange, error)) error {
	l.size += key.Size
	_, _ = decide(ledger.ServiceState{})
	begun := make(chan struct{})
	l.done.Go(func() {
		close(begun)
		_, _ = decide(ledger.ServiceState{})
	})
	<-begun
	return fault.New(fault.LedgerUnavailable, "the database did not answer")
}

// TestADecisionThatMayNotBeStoredIsNoAnswer: a deprovision is not answered 410, and no leftovers are searched for.
func TestADecisionThatMayNotBeStoredIsNoAnswer(t *testing.T) {
	t.Parallel()
	w := serve(t, openSQLite)
	l := &late{Ledger: w.ledger}
	w.broker.Store(broker.New(broker.Config{Ledger: l, Catalog: w.catalog, Handlers: w.handlersNow, Flows: broker.NewFlows(w.api),
		Log: slog.New(slog.DiscardHandler), Users: func() map[string]broker.User { return *w.users.Load() }}))
	w.api.Before(func(r kubetest.Request) error {
		t.Errorf("the cluster is asked for %q", r.Namespace)
		return nil
	})
	size := 0
	for _, r := range []request{deprovision("demo"), provision("demo"), update("demo", 4), unbind("demo", "b")} {
		w.send(r).want(503, "Unavailable")
		size += len(r.text())
	}
	l.done.Wait()
	if l.size != size {
		t.Errorf("the requests have %d bytes for the log, want %d", l.size, size)
	}
}

// TestAPersonHasRepeatedAnOperation: the live action of the service instance is not its last operation.
func TestAPersonHasRepeatedAnOperation(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	w.reach("provision failed", "demo")
	before := w.stored()
	w.away.set(fault.New(fault.DuplicateKey, "action 1 works on the same already"))
	w.send(provision("demo")).want(422, "ConcurrencyError")
	w.away.set(nil)
	w.unchanged(before)
}
