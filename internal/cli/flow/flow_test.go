package flow

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

// flowLog answers the operations on flows from its fields.
type flowLog struct {
	clitest.Log

	flows     []flowview.Flow
	operation *service.ServiceOperation // newest one of each service instance
}

// Call performs an operation.
func (f *flowLog) Call(ctx context.Context, d operation.Description, in, out any) error {
	c := f.Served()
	operation.Serve(c, operation.ListFlows, func(_ context.Context, in *operation.FlowsInput) ([]flowview.Flow, error) {
		return f.flows, f.Record("List", in.Namespace, in.Status, in.After, in.Limit)
	})
	operation.Serve(c, operation.GetFlow, func(_ context.Context, in *operation.FlowPath) (v service.FlowView, err error) {
		if err := f.Record("Show", in.Namespace, in.Name); err != nil {
			return v, err
		}
		return service.FlowView{Flow: f.flows[0], Operation: f.operation}, nil
	})
	return c.Call(ctx, d, in, out)
}

func runs() clitest.Runs[*flowLog] {
	return clitest.Runs[*flowLog]{
		"flow list": func(ctx context.Context, f *flowLog, o *clitest.Output) error {
			return runList(ctx, listOptions{Flows: logReader{f}, Query: operation.FlowsInput{Limit: 20}, Out: o.Printer, Now: clitest.Noon})
		},
		"flow show": func(ctx context.Context, f *flowLog, o *clitest.Output) error {
			return runShow(ctx, showOptions{Flows: logReader{f}, Name: "shop/orders", Out: o.Printer, Now: clitest.Noon})
		},
	}
}

func TestFlowsReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	runs().WantErrors(t, func() *flowLog { return &flowLog{Log: clitest.Log{Err: clitest.ErrAway}} },
		func(f *flowLog) []string { return f.Calls })
}

func TestEmptyListOfFlows(t *testing.T) {
	t.Parallel()
	runs().WantEmpty(t, func() *flowLog { return &flowLog{} }, map[string]string{
		"flow list": "no EventFlows; examples/flow/orders.yaml is one to begin with"})
}

func TestEmptyListOfASelection(t *testing.T) {
	t.Parallel()
	for _, query := range []operation.FlowsInput{{Namespace: "shop", Limit: 9}, {Status: "Failed", Limit: 9}, {After: "a/b", Limit: 9}} {
		o := clitest.NewOutput(clitest.AsText)
		if err := runList(t.Context(), listOptions{Flows: logReader{&flowLog{}}, Query: query, Out: o.Printer, Now: clitest.Noon}); err != nil {
			t.Fatal(err)
		}
		o.Want(t, "", "no EventFlow fits\n")
	}
}

// TestALimitThatNoPageHasIsRefused before anything is read, from a log too.
func TestALimitThatNoPageHasIsRefused(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{-1, 0, service.MostFlows + 1} {
		f, o := &flowLog{}, clitest.NewOutput(clitest.AsText)
		err := runList(t.Context(), listOptions{Flows: logReader{f}, Query: operation.FlowsInput{Limit: limit}, Out: o.Printer, Now: clitest.Noon})
		if !fault.Is(err, fault.Invalid) || len(f.Calls) > 0 {
			t.Errorf("%d: got %v after %q", limit, err, f.Calls)
		}
	}
}

// unready returns a flow whose Broker is not ready, and which shares it.
func unready() flowview.Flow {
	since := clitest.Noon().Add(-time.Minute)
	return flowview.Flow{Namespace: "shop", Name: "orders", CreatedAt: clitest.Noon().Add(-time.Hour), Source: "commerce",
		SinkURI: "http://broker.example/shop/default", Ready: "False", Reason: "BrokerNotReady", Message: "Broker shop/default:\nno address",
		Combined: flowview.Combined{Status: "Failed", Reason: "BrokerNotReady", Message: "Broker shop/default:\nno address"},
		Conditions: []flowview.Condition{{Type: "Ready", Status: "False", Reason: "BrokerNotReady", Message: "no address", Since: since},
			{Type: "SourceReady", Status: "True", Reason: "SourceReady", Since: since}},
		Parts: []flowview.Part{
			{Role: "source", Kind: "HTTPSource", Namespace: "kyma-integration", Name: "commerce"},
			{Role: "subscription", Kind: "Subscription", Namespace: "kyma-integration", Name: "ef-1", State: "gone"},
			{Role: "broker", Kind: "Broker", Namespace: "shop", Name: "default", Managed: true, Claims: []flowview.Claim{
				{Flow: "shop/orders", UID: "u1", Policy: "WhenUnused"}, {Flow: "shop/returns", UID: "u2", Policy: "Retain"}}},
			{Role: "broker", Kind: "Broker", Namespace: "shop", Name: "foreign"},
		},
		Neighbours: []string{"shop/returns"}}
}

func TestListOfFlows(t *testing.T) {
	t.Parallel()
	ready := flowview.Flow{Namespace: "shop", Name: "returns", CreatedAt: clitest.Noon(), Source: "Channel returns", Ready: "True", Reason: "Ready",
		Message: "the flow is ready", Combined: flowview.Combined{Status: "Running", Reason: "Ready", Message: "the flow is ready"},
		ServiceInstance: &flowview.ServiceInstance{ID: "r", APIVersion: "services.cloud.sap.com/v1", Namespace: "shop", Name: "returns",
			Alone: flowview.Combined{Status: "Running"}}}
	f, o := &flowLog{flows: []flowview.Flow{unready(), ready}}, clitest.NewOutput(clitest.AsText)
	query := operation.FlowsInput{Namespace: "shop", Status: "Failed", After: "a/b", Limit: 7}
	if err := runList(t.Context(), listOptions{Flows: logReader{f}, Query: query, Out: o.Printer, Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "List shop Failed a/b 7")
	o.Want(t, ""+
		"FLOW          SOURCE           SINK                                STATUS   REASON          READY  SERVICE INSTANCE  CREATED     MESSAGE\n"+
		"shop/orders   commerce         http://broker.example/shop/default  Failed   BrokerNotReady  False  -                 1 hour ago  Broker shop/default: no address\n"+
		"shop/returns  Channel returns  -                                   Running  Ready           True   Running           just now\n", "")
}

// TestListShowsServiceInstancesThatCannotBeRead: and those without an object in the cluster.
func TestListShowsServiceInstancesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f, o := &flowLog{}, clitest.NewOutput(clitest.AsText)
	for _, of := range []flowview.ServiceInstance{{ID: "a"}, {ID: "b", Unread: "no right"}} {
		f.flows = append(f.flows, flowview.Flow{Namespace: "shop", Name: of.ID, CreatedAt: clitest.Noon(), Ready: "Unknown", ServiceInstance: &of})
	}
	if err := runs()["flow list"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	if text := o.Printed.String(); !strings.Contains(text, "Unknown  no object ") || !strings.Contains(text, "Unknown  not read ") {
		t.Errorf("got %s", text)
	}
}

func TestShowFlow(t *testing.T) {
	t.Parallel()
	f, o := &flowLog{flows: []flowview.Flow{unready()}}, clitest.NewOutput(clitest.AsText)
	if err := runs()["flow show"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Show shop orders")
	o.Want(t, `flow     shop/orders
source   commerce
sink     http://broker.example/shop/default
status   Failed BrokerNotReady
message  Broker shop/default: no address
ready    False BrokerNotReady
created  1 hour ago

CONDITION    STATUS  REASON          SINCE         MESSAGE
Ready        False   BrokerNotReady  1 minute ago  no address
SourceReady  True    SourceReady     1 minute ago

PART          OBJECT                                MADE FOR FLOWS  CLAIMS
source        HTTPSource kyma-integration/commerce  -
subscription  Subscription kyma-integration/ef-1    gone
broker        Broker shop/default                   yes             WhenUnused shop/orders, Retain shop/returns
broker        Broker shop/foreign                   no

shares parts with shop/returns
`, "")
	o = clitest.NewOutput(clitest.AsJSON)
	if err := runs()["flow show"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	clitest.WantValue(t, o, service.FlowView{Flow: unready()})
}

// TestShowFlowOfAServiceInstance: each alone, and the operation of the broker.
func TestShowFlowOfAServiceInstance(t *testing.T) {
	t.Parallel()
	x := unready()
	x.Conditions, x.Parts, x.Neighbours = nil, nil, nil
	x.Combined = flowview.Combined{Status: "Provisioning", Reason: "Started", Message: "the broker is at work"}
	id, err := action.ParseID(clitest.SomeAction)
	if err != nil {
		t.Fatal(err)
	}
	f := &flowLog{operation: &service.ServiceOperation{Action: id, Verb: "provision", Status: action.Running, Handler: "eventflow", Attempts: 3,
		Error: "the cluster:\nrefused"}}
	for _, c := range []struct {
		of   flowview.ServiceInstance
		want string
	}{
		{flowview.ServiceInstance{ID: "a/b", APIVersion: "servicecatalog.k8s.io/v1beta1", Namespace: "shop", Name: "orders", Alone: x.Combined},
			"  object          servicecatalog.k8s.io/v1beta1 shop/orders\n" +
				"  alone           Provisioning Started: the broker is at work\n"},
		{flowview.ServiceInstance{ID: "a/b"}, "  object          none\n"},
		{flowview.ServiceInstance{ID: "a/b", Unread: "no right"}, "  object          no right\n"},
	} {
		x.ServiceInstance = &c.of
		f.flows = []flowview.Flow{x}
		o := clitest.NewOutput(clitest.AsText)
		if err := runs()["flow show"](t.Context(), f, o); err != nil {
			t.Fatal(err)
		}
		o.Want(t, `flow              shop/orders
source            commerce
sink              http://broker.example/shop/default
status            Provisioning Started
message           the broker is at work
ready             False BrokerNotReady
created           1 hour ago
of the flow       Broker shop/default: no address
service instance  a/b
`+c.want+`operation         provision running 1/3 by eventflow `+clitest.SomeAction+`
  error           the cluster: refused
`, "")
	}
}

func TestShowFlowWhoseOperationIsNotRead(t *testing.T) {
	t.Parallel()
	o := clitest.NewOutput(clitest.AsText)
	if err := o.Printer.Lines(show.Flow(service.FlowView{Flow: unready(), OperationUnread: "the log:\nrefused"}, clitest.Noon())...); err != nil {
		t.Fatal(err)
	}
	if want := "\noperation  the log: refused\n"; !strings.Contains(o.Printed.String(), want) {
		t.Errorf("got %s, want %s", o.Printed.String(), want)
	}
}

func TestShowFlowThatIsSuspendedAndLeaves(t *testing.T) {
	t.Parallel()
	x := flowview.Flow{Namespace: "shop", Name: "orders", CreatedAt: clitest.Noon(), DeletingAt: clitest.Noon().Add(-time.Minute), Suspended: true,
		Ready: "Unknown", Combined: flowview.Combined{Status: "Deprovisioning"}}
	f, o := &flowLog{flows: []flowview.Flow{x}}, clitest.NewOutput(clitest.AsText)
	if err := runs()["flow show"](t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	o.Want(t, `flow           shop/orders
source         -
sink           -
status         Deprovisioning
ready          Unknown
created        just now
being deleted  since 1 minute ago
suspended      the controller writes nothing for this flow
`, "")
}

func TestNamesOfFlowsHaveANamespace(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders", "/orders", "shop/", "a/b/c", ""} {
		err := runShow(t.Context(), showOptions{Flows: logReader{&flowLog{}}, Name: name})
		clitest.WantFault(t, err, fault.Invalid, "want a namespace and a name", "waybill flow show shop/orders")
	}
}

// TestCommandsReadAClusterThemselves: they need no log.
func TestCommandsReadAClusterThemselves(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, kubetest.Kind{GroupVersionResource: v1alpha1.Resource(), Kind: v1alpha1.Kind})
	for _, namespace := range []string{"other", "shop"} {
		flow := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
			"metadata": map[string]any{"name": "orders", "namespace": namespace},
			"spec":     map[string]any{"source": map[string]any{"application": "commerce"}}}}
		if _, err := api.Resource(v1alpha1.Resource()).Namespace(namespace).Create(t.Context(), flow, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := clusterReader{&kube.Cluster{Interface: api}}
	o := clitest.NewOutput(clitest.AsJSON)
	err := runList(t.Context(), listOptions{Flows: r, Query: operation.FlowsInput{Namespace: "shop", Limit: 5}, Out: o.Printer, Now: clitest.Noon})
	if text := o.Printed.String(); err != nil || strings.Count(text, `"orders"`) != 1 || !strings.Contains(text, `"shop"`) {
		t.Errorf("got %s, %v", text, err)
	}
	if err := runShow(t.Context(), showOptions{Flows: r, Name: "shop/nope"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
	words, err := names(t.Context(), r)
	if err != nil || len(words) != 2 || words[0] != "other/orders\tPending" {
		t.Errorf("got %q, %v", words, err)
	}
}
