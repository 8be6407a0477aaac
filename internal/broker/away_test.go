package broker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/fault"
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
			w.send(provision("new").with("plan_id", "none")).want(400, "InvalidRequest")
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
		r.Header.Set(identityHeader, "request-1")
		answered := httptest.NewRecorder()
		b.ServeHTTP(answered, r)
		return answered.Code
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if status := ask(left); status != http.StatusServiceUnavailable || log.Len() > 0 {
		t.Errorf("%d, log:\n%s", status, &log)
	}
	w.away.set(errors.New("broken"))
	if status := ask(t.Context()); status != http.StatusInternalServerError || !strings.Contains(log.String(), "request-1") ||
		!strings.Contains(log.String(), "broken") {
		t.Errorf("%d, log:\n%s", status, &log)
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
