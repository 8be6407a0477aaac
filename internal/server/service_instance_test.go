package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/services"
)

// provision stores a service instance whose operation is an action that waits.
func provision(t *testing.T, s *testServer, id string) action.ID {
	t.Helper()
	return provisionIn(t, s, id, `{"credentials":"{\"a\":1}"}`)
}

// provisionIn stores one whose plan has some work.
func provisionIn(t *testing.T, s *testServer, id, work string) (operated action.ID) {
	t.Helper()
	err := s.Ledger.Operate(t.Context(), ledger.ServiceKey{Instance: id}, func(state ledger.ServiceState) (ledger.ServiceChange, error) {
		operated = action.RandomID(state.Now)
		row := services.Instance{ID: id, User: "shop", Operation: operated, Verb: services.Provision,
			Asked: json.RawMessage(`{"serviceId":"folder","planId":"small","space":"s","parameters":"{\"password\":\"pw\"}",` +
				`"context":"{\"namespace\":\"n\"}","work":` + work + `}`)}
		return ledger.ServiceChange{Row: &row, Start: &ledger.ServiceOperation{Verb: services.Provision,
			Action: action.Action{ID: operated, Handler: "make-folder", Policy: action.Policy{Retries: 2}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return operated
}

// TestServiceInstancesAreListedAndShown: a list has the states, and parameters are shown with a token only.
func TestServiceInstancesAreListedAndShown(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	provision(t, s, "a")
	operated := provision(t, s, "b/c")
	first, err := operation.ListServiceInstances.Call(t.Context(), s.client(), operation.ServiceInstancesInput{Limit: 1})
	if err != nil || len(first) != 1 || first[0].ID != "a" {
		t.Fatalf("the first page is %+v, %v", first, err)
	}
	next, err := operation.ListServiceInstances.Call(t.Context(), s.client(), operation.ServiceInstancesInput{After: "a"})
	if err != nil || len(next) != 1 {
		t.Fatalf("the second page is %+v, %v", next, err)
	}
	got := next[0]
	if got.ID != "b/c" || got.State != "being provisioned" || got.Service != "folder" || got.Plan != "small" || got.User != "shop" ||
		got.ChangedAt.IsZero() || got.Asked != nil || got.Operation.Action != operated || got.Operation.Status != action.Pending ||
		got.Operation.Handler != "make-folder" || got.Operation.Attempts != 3 {
		t.Errorf("listed as %+v", got)
	}
	shown, err := operation.GetServiceInstance.Call(t.Context(), s.client(), operation.ServiceInstancePath{ID: "b/c"})
	if err != nil || shown.Asked == nil || string(shown.Asked.Parameters) != `{"password":"pw"}` || shown.Asked.Space != "s" ||
		string(shown.Asked.Context) != `{"namespace":"n"}` || shown.Applied != nil {
		t.Errorf("shown as %+v, %v", shown, err)
	}
	for _, path := range []string{"", "/b%2Fc"} {
		status, body, _ := s.ask(t, http.MethodGet, "/api/v1/service-instances"+path, "")
		if status != http.StatusOK || !strings.Contains(body, `"id": "b/c"`) && !strings.Contains(body, `"id":"b/c"`) {
			t.Errorf("%q without a token: %d %s", path, status, body)
		}
		if strings.Contains(body, "password") || strings.Contains(body, "namespace") || strings.Contains(body, "credentials") {
			t.Errorf("%q without a token shows what the platform has sent: %s", path, body)
		}
	}
	for path, want := range map[string]int{"/nope": http.StatusNotFound, "?limit=101": http.StatusBadRequest, "?after=%00": http.StatusBadRequest,
		"/" + strings.Repeat("x", 256): http.StatusBadRequest} {
		if status, body, _ := s.ask(t, http.MethodGet, "/api/v1/service-instances"+path, ""); status != want {
			t.Errorf("%q: %d %s, want %d", path, status, body, want)
		}
	}
}

// TestAuditsOfServiceInstancesAreShown: only the operations that began after the newest one of the platform.
func TestAuditsOfServiceInstancesAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	repair := func() (id action.ID) {
		t.Helper()
		err := s.Ledger.Operate(t.Context(), ledger.ServiceKey{Instance: "a"}, func(state ledger.ServiceState) (ledger.ServiceChange, error) {
			id = action.RandomID(state.Now)
			return ledger.ServiceChange{Start: &ledger.ServiceOperation{Verb: services.Repair,
				Action: action.Action{ID: id, Handler: "eventflow", Policy: action.Policy{Retries: action.Unbounded}}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	shown := func() []service.ServiceOperation {
		t.Helper()
		got, err := operation.GetServiceInstance.Call(t.Context(), s.client(), operation.ServiceInstancePath{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return got.Audit
	}
	provision(t, s, "a")
	if got := shown(); len(got) != 0 {
		t.Errorf("without an audit: %+v", got)
	}
	id := repair()
	if got := shown(); len(got) != 1 || got[0].Action != id || got[0].Verb != "repair" || got[0].Handler != "eventflow" || got[0].Attempts != 0 {
		t.Errorf("with a repair: %+v", got)
	}
}
