package broker_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

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
