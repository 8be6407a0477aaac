//go:build services

package ogc_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// TestTheJobAPIOnPostgreSQL takes the way of a client on the other driver; the rest is the same code.
func TestTheJobAPIOnPostgreSQL(t *testing.T) {
	t.Parallel()
	driver, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(driver, ledger.Options{})
	if err := l.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := serve(t, l, t.TempDir(), webhook.Guard{})
	id := w.execute("mirror", `{`+features+`, "output": {"count": 1}}`)
	w.until(id, "successful")
	w.ask(http.MethodPost, "/processes/mirror/execution", `{"inputs": {`+features+`}}`).want(t, http.StatusSeeOther)
	if a := w.get("/jobs/"+id+"/results/count").want(t, http.StatusOK); string(a.body) != "1" {
		t.Errorf("result %s", a.body)
	}
	if found, _ := w.listed("?status=successful&processID=mirror&minDuration=0"); !slices.Contains(found, id) {
		t.Errorf("listed %v", found)
	}
	w.ask(http.MethodDelete, "/jobs/"+id, "").want(t, http.StatusOK)
	if found, _ := w.listed("?status=dismissed"); !slices.Contains(found, id) {
		t.Errorf("dismissed: %v", found)
	}
	w.problem(w.get("/jobs/"+id+"/results"), http.StatusGone, "waybill:dismissed")
	w.ask(http.MethodPost, "/processes/mirror/execution", `{"inputs": {`+features+`}}`).want(t, http.StatusCreated)
}
