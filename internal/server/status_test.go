package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

// kinds returns the troubles of a status without their times and texts.
func kinds(v service.StatusView) (all []string) {
	for _, t := range v.Troubles {
		all = append(all, t.Kind+" "+t.Subject)
	}
	return all
}

// awaitTroubles returns the status once it has the wanted troubles.
func (s *testServer) awaitTroubles(t *testing.T, want []string) (v service.StatusView) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for waiter := s.Service.Waiter(); time.Now().Before(deadline); _ = waiter.Wait(t.Context(), 100*time.Millisecond, store.TopicAction) {
		var err error
		if v, err = operation.GetStatus.Call(t.Context(), s.client(), operation.Nothing{}); err != nil {
			t.Fatal(err)
		}
		if cmp.Equal(want, kinds(v)) {
			break
		}
	}
	if diff := cmp.Diff(want, kinds(v)); diff != "" {
		t.Fatal(diff)
	}
	return v
}

func TestStatusSaysWhatIsSlow(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	c, ctx := s.client(), t.Context()
	v, err := operation.GetStatus.Call(ctx, c, operation.Nothing{})
	// wait until the deployer has joined
	for view := s.Ledger.NewWaiter(); err == nil && len(v.Processes) == 0; v, err = operation.GetStatus.Call(ctx, c, operation.Nothing{}) {
		if err := view.Wait(ctx, store.TopicAction, time.Now().Add(20*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || !v.KeepsUp || len(v.Troubles) != 0 {
		t.Fatalf("at first: %+v, %v", v, err)
	}
	// An action without a conductor, one that waits for long, a lane that a person paused, and the reports of processes.
	if _, err := s.Ledger.Enqueue(ctx, action.Action{Kind: "action", Name: "mail", Handler: "mail",
		Delivery: action.AtLeastOnce}); err != nil {
		t.Fatal(err)
	}
	if _, err := operation.ChangeLimit.Call(ctx, c,
		operation.LaneInput{Lane: "notify/hooks.example.org", Body: operation.LimitBody{Command: "pause", Reason: "maintenance"}}); err != nil {
		t.Fatal(err)
	}
	s.Ledger.UpdateReport(func(r *queue.Report) {
		r.Stopped = map[string]string{"greeter": "two finishes"}
		r.Undeletable = map[string]string{"flows/x": "quota"}
		r.Reload = &queue.Reload{File: "server.yaml", Since: time.Now().UTC(), TriedAt: time.Now().UTC(),
			Faults: []string{"server.yaml:3:5: unknown key"}, Restart: []string{"ledger"}}
		r.Broker = &queue.Broker{URL: "http://127.0.0.1:7071/v2", Catalog: "catalog.yaml", Served: true, TriedAt: time.Now().UTC(),
			Faults: []string{"catalog.yaml:3:5: unknown key"}}
	})
	want := []string{"stopped greeter", "unserved mail", "catalog catalog.yaml", "lane notify/hooks.example.org", "undeletable flows/x",
		"reload server.yaml", "restart server.yaml"}
	v = s.awaitTroubles(t, want)
	if v.KeepsUp {
		t.Error("it keeps up, it says")
	}
	unserved := service.Trouble{Kind: "unserved", Subject: "mail", Text: "no process serves handler mail, which has 1 live action",
		Hint: "describe it in the server.yaml of a process that runs the role conductor"}
	if diff := cmp.Diff(unserved, v.Troubles[1], cmpopts.IgnoreFields(service.Trouble{}, "Since")); diff != "" {
		t.Error(diff)
	}
	const kept = "the catalog has faults, so the earlier one stays in force: catalog.yaml:3:5: unknown key"
	if c := v.Troubles[2]; c.Text != kept || !c.Warning {
		t.Errorf("%+v", c)
	}
	if !strings.HasPrefix(v.Troubles[3].Text, "lane notify/hooks.example.org is paused by ana: maintenance") {
		t.Errorf("%q", v.Troubles[3].Text)
	}
}

// A broker without any catalog serves no platform.
func TestStatusNamesABrokerWithoutACatalog(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	ctx := t.Context()
	s.Ledger.UpdateReport(func(r *queue.Report) {
		r.Broker = &queue.Broker{URL: "http://127.0.0.1:7071/v2", Catalog: "catalog.yaml", Faults: []string{"no such file"}}
	})
	if err := s.Ledger.Join(ctx, queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-b", Roles: []string{"broker"}}); err != nil {
		t.Fatal(err)
	}
	v, err := service.New(s.Ledger, s.Blobs, service.Options{}).Status(ctx)
	if err != nil || v.KeepsUp || len(v.Troubles) != 1 || v.Troubles[0].Kind != "catalog" || !strings.Contains(v.Troubles[0].Text, "503: no such file") {
		t.Errorf("%+v, %v", v.Troubles, err)
	}
	if !slices.ContainsFunc(v.Processes, func(p service.InstanceView) bool { return p.Broker == "http://127.0.0.1:7071/v2" }) {
		t.Errorf("no process has the broker's address: %+v", v.Processes)
	}
}

// A target that refuses work and a paused lane do not make everything late.
func TestStatusKeepsUpBesideATargetThatRefusesWork(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	ctx := t.Context()
	if _, err := s.Service.Limit(ctx, "hook/broken",
		queue.LimitCommand{Kind: "pause", By: "target", Reason: "503: target refuses work"}); err != nil {
		t.Fatal(err)
	}
	v, err := s.Service.Status(ctx)
	if err != nil || !v.KeepsUp || !slices.Equal(kinds(v), []string{"lane hook/broken"}) || !v.Troubles[0].Warning {
		t.Fatalf("%v, %+v, %v", v.KeepsUp, v.Troubles, err)
	}
}

func TestStatusNamesBlobStoresThatDiffer(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	ctx := t.Context()
	other := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-b"}
	s.Ledger.UpdateReport(func(r *queue.Report) { r.Blobs = &queue.BlobStore{ID: "one", URL: "s3://bucket"} })
	if err := s.Ledger.Join(ctx, other); err != nil { // with the reports of this process
		t.Fatal(err)
	}
	if v, err := s.Service.Status(ctx); err != nil || !v.KeepsUp {
		t.Fatalf("with one store: %+v, %v", v.Troubles, err)
	}
	s.Ledger.UpdateReport(func(r *queue.Report) { r.Blobs = &queue.BlobStore{ID: "two", URL: "/root/.waybill/blobs"} })
	v, err := service.New(s.Ledger, s.Blobs, service.Options{}).Status(ctx)
	if err != nil || v.KeepsUp || len(v.Troubles) != 1 || v.Troubles[0].Kind != "blobs" ||
		!strings.HasSuffix(v.Troubles[0].Text, "/root/.waybill/blobs, s3://bucket") {
		t.Errorf("%+v, %v", v.Troubles, err)
	}
}

// TestStatusWithoutTroublesHasAList: a reader of the JSON iterates over it.
func TestStatusWithoutTroublesHasAList(t *testing.T) {
	t.Parallel()
	v, err := serve(t, "127.0.0.1:7070").Service.Status(t.Context())
	if err != nil || v.Troubles == nil {
		t.Errorf("%#v, %v", v.Troubles, err)
	}
}

// Rows of a killed process stay in the embedded log. The process that has its lock decides whether they count.
func TestStatusKnowsThatNoProcessRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	service := service.New(s.Ledger, s.Blobs, service.Options{Holder: func() *service.Holder { return nil }})
	if _, err := s.Ledger.Enqueue(t.Context(), action.Action{Kind: "action", Name: "mail", Handler: "step2",
		Delivery: action.AtLeastOnce}); err != nil {
		t.Fatal(err)
	}
	v, err := service.Status(t.Context())
	if err != nil || len(v.Processes) != 0 || len(v.Troubles) != 1 ||
		v.Troubles[0].Hint != "start a conductor: waybill up, or waybill serve conductor" {
		t.Errorf("%+v, %v", v, err)
	}
}

// The attempts of an ended process, as after a restore, do not run anywhere. The status does not show them as waiting.
func TestStatusKnowsAttemptsOfEndedProcesses(t *testing.T) {
	t.Parallel()
	driver := sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db"))
	l := ledger.New(driver, ledger.Options{}) // without a conductor, which would take the attempt over
	defer func() { _ = l.Close() }()
	host := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host-a", Roles: []string{"conductor"},
		Handlers: []string{"mail"}}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Enqueue(t.Context(), action.Action{Kind: "action", Name: "mail", Handler: "mail",
		Policy: action.DefaultPolicy()}); err != nil {
		t.Fatal(err)
	}
	turned, err := l.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "mail", N: 1}})
	if err != nil || len(turned.Claimed) != 1 {
		t.Fatalf("claimed %d, %v", len(turned.Claimed), err)
	}
	service := service.New(l, nil, service.Options{Holder: func() *service.Holder { return nil }})
	v, err := service.Status(t.Context())
	if err != nil || len(v.Troubles) != 1 || v.Troubles[0].Text != "no process serves handler mail, which has 1 live action" ||
		v.Troubles[0].Hint != "start a conductor: waybill up, or waybill serve conductor; it also takes over the attempts of "+
			"processes that have ended" {
		t.Errorf("%+v, %v", v.Troubles, err)
	}
}

// TestInstancesAreReadAlone: every command requests the instances first, so that must neither look at services nor
// count actions.
func TestInstancesAreReadAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	s.Service.Inspect = func(context.Context, pipeline.Place, string) (step.State, bool, error) {
		t.Error("a program looked at a service")
		return step.State{}, false, nil
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the deployer has not joined within five minutes"))
	defer cancel()
	c := s.client()
	got, err := operation.ListInstances.Call(ctx, c, operation.Nothing{})
	// wait until the deployer has joined
	for view := s.Ledger.NewWaiter(); err == nil && len(got) == 0; got, err = operation.ListInstances.Call(ctx, c, operation.Nothing{}) {
		if err := view.Wait(ctx, store.TopicAction, time.Now().Add(20*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if got[0].State != "alive" || len(got[0].Roles) == 0 {
		t.Errorf("instances %+v", got)
	}
}
