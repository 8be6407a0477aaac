package broker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// instanceLog answers the operations on service instances from its fields.
type instanceLog struct {
	clitest.Log

	instances []service.ServiceInstanceView
}

// Call performs an operation.
func (f *instanceLog) Call(ctx context.Context, d operation.Description, in, out any) error {
	c := f.Served()
	operation.Serve(c, operation.ListServiceInstances, func(_ context.Context, in *operation.ServiceInstancesInput) ([]service.ServiceInstanceView, error) {
		return f.instances, f.Record("List", in.After, in.Limit)
	})
	operation.Serve(c, operation.GetServiceInstance, func(_ context.Context, in *operation.ServiceInstancePath) (v service.ServiceInstanceView, err error) {
		if err := f.Record("Show", in.ID); err != nil {
			return v, err
		}
		return f.instances[0], nil
	})
	return c.Call(ctx, d, in, out)
}

func runs() clitest.Runs[*instanceLog] {
	return clitest.Runs[*instanceLog]{
		"broker list": func(ctx context.Context, f *instanceLog, o *clitest.Output) error {
			return runList(ctx, listOptions{Log: f, Out: o.Printer, Now: clitest.Noon})
		},
		"broker show": func(ctx context.Context, f *instanceLog, o *clitest.Output) error {
			return runShow(ctx, showOptions{Log: f, ID: "demo-1", Out: o.Printer, Now: clitest.Noon})
		},
	}
}

func TestServiceInstancesReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	runs().WantErrors(t, func() *instanceLog { return &instanceLog{Log: clitest.Log{Err: clitest.ErrAway}} },
		func(f *instanceLog) []string { return f.Calls })
}

func TestEmptyListOfServiceInstances(t *testing.T) {
	t.Parallel()
	runs().WantEmpty(t, func() *instanceLog { return &instanceLog{} }, map[string]string{
		"broker list": "no service instances; platforms provision them at the role broker, which server.yaml describes under broker"})
}

// updating returns a service instance in the middle of an update that failed once.
func updating(t *testing.T) service.ServiceInstanceView {
	t.Helper()
	asked := service.ServiceAttributes{Service: "folder", Plan: "small", Maintenance: "1.4.0", Space: "s", Parameters: json.RawMessage(`{"size":3}`)}
	applied := service.ServiceAttributes{Service: "folder", Plan: "small", Space: "s"}
	return service.ServiceInstanceView{ID: "demo-1", State: "being updated", Service: "folder", Plan: "small", User: "shop",
		ChangedAt: clitest.Noon().Add(-time.Minute), Asked: &asked, Applied: &applied,
		Operation: service.ServiceOperation{Action: clitest.AnAction(t), Verb: "update", Status: action.Backoff, Handler: "change-folder",
			Spent: 1, Attempts: 6, NextAt: clitest.Noon().Add(5 * time.Second), Error: "exit status 1:\nno such folder"}}
}

func TestListOfServiceInstances(t *testing.T) {
	t.Parallel()
	x := updating(t)
	gone := service.ServiceInstanceView{ID: "old", State: "deleted", Service: "folder", Plan: "small", User: "shop",
		ChangedAt: clitest.Noon().Add(-48 * time.Hour), Operation: service.ServiceOperation{Action: x.Operation.Action, Verb: "deprovision"}}
	f, o := &instanceLog{instances: []service.ServiceInstanceView{x, gone}}, clitest.NewOutput(clitest.AsText)
	query := operation.ServiceInstancesInput{After: "d", Limit: 7}
	if err := runList(t.Context(), listOptions{Log: f, Query: query, Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "List d 7")
	o.Want(t, "SERVICE INSTANCE  STATE          SERVICE  PLAN   USER  CHANGED       OPERATION                                         ERROR\n"+
		"demo-1            being updated  folder   small  shop  1 minute ago  update "+clitest.SomeAction+"       exit status 1: no such folder\n"+
		"old               deleted        folder   small  shop  2 days ago    deprovision "+clitest.SomeAction+"\n", "")
}

// TestShowServiceInstanceWithAudits: the number of its attempts has no bound.
func TestShowServiceInstanceWithAudits(t *testing.T) {
	t.Parallel()
	x := updating(t)
	x.Audit = []service.ServiceOperation{{Action: clitest.AnAction(t), Verb: "repair", Status: action.Running, Handler: "eventflow", Spent: 2,
		Error: "the cluster:\nrefused"}}
	f, o := &instanceLog{instances: []service.ServiceInstanceView{x}}, clitest.NewOutput(clitest.AsText)
	if err := runs()["broker show"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	want := "audit             repair running 3 by eventflow, action " + clitest.SomeAction + "\n" +
		"  error           the cluster: refused\n"
	if !strings.Contains(o.Printed.String(), want) {
		t.Errorf("got %s, want %s", o.Printed.String(), want)
	}
}

func TestShowServiceInstance(t *testing.T) {
	t.Parallel()
	x := updating(t)
	f, o := &instanceLog{instances: []service.ServiceInstanceView{x}}, clitest.NewOutput(clitest.AsText)
	if err := runs()["broker show"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Show demo-1")
	o.Want(t, `service instance  demo-1
state             being updated
service           folder
plan              small
user              shop
changed           1 minute ago
operation         update backoff 1/6 by change-folder
error             exit status 1: no such folder
next attempt      `+show.Clock(clitest.Noon(), x.Operation.NextAt)+`
asked for         folder small 1.4.0
  parameters      {"size":3}
  space           s
applied           folder small
  space           s
waybill action show `+clitest.SomeAction+" has its attempts\n", "")
	x.Asked.Parameters = json.RawMessage(`{}`) // whose spaces are those of the output
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runs()["broker show"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	clitest.WantValue(t, o, x)
}

// TestShowServiceInstanceAtRest: the wanted attributes are applied, and the action is not kept any more.
func TestShowServiceInstanceAtRest(t *testing.T) {
	t.Parallel()
	x := updating(t)
	x.State, x.Asked = "ready", x.Applied
	x.Operation = service.ServiceOperation{Action: clitest.AnAction(t), Verb: "update", Status: action.Successful}
	f, o := &instanceLog{instances: []service.ServiceInstanceView{x}}, clitest.NewOutput(clitest.AsText)
	if err := runs()["broker show"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	o.Want(t, `service instance  demo-1
state             ready
service           folder
plan              small
user              shop
changed           1 minute ago
operation         update successful
applied           folder small
  space           s
`, "")
}

func TestCompletionWordsOfServiceInstances(t *testing.T) {
	t.Parallel()
	f := &instanceLog{instances: []service.ServiceInstanceView{updating(t)}}
	clitest.WantWords(t, map[string]clitest.Words{"ids": {Of: func() ([]string, error) { return ids(t.Context(), f) },
		Want: []string{"demo-1\tbeing updated"}}})
}

func TestAFullPageNamesTheNextOne(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]string{1: "these are the first 1; for the next ones: --after demo-1\n", 2: ""} {
		f, o := &instanceLog{instances: []service.ServiceInstanceView{updating(t)}}, clitest.NewOutput(clitest.AsText)
		options := listOptions{Log: f, Query: operation.ServiceInstancesInput{Limit: limit}, Out: o.Printer, Now: clitest.Noon}
		if err := runList(t.Context(), options); err != nil || o.Warned.String() != want {
			t.Errorf("limit %d: %q, %v; want %q", limit, o.Warned.String(), err, want)
		}
	}
}
