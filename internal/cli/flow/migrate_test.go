package flow

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow/migrate"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// emptyLog has no rows, and takes all that are stored.
type emptyLog struct {
	stored int
	first  func() // called before a row is stored; nil: nothing is
}

func (l *emptyLog) ID(context.Context) (action.ID, error) {
	return action.DerivedID(clitest.Noon(), "log"), nil
}

func (l *emptyLog) Service(context.Context, ledger.ServiceKey) (ledger.ServiceState, error) {
	return ledger.ServiceState{}, nil
}

func (l *emptyLog) Operate(_ context.Context, _ ledger.ServiceKey, decide func(ledger.ServiceState) (ledger.ServiceChange, error)) error {
	if l.first != nil {
		l.first()
	}
	l.stored++
	_, err := decide(ledger.ServiceState{})
	return err
}

// catalogCluster has one service instance of the application broker.
func catalogCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	api := kubetest.New(t)
	for _, k := range []struct{ group, version, resource, kind, object string }{
		{v1alpha1.Group, v1alpha1.Version, "eventflows", v1alpha1.Kind, ""},
		{"applicationconnector.kyma-project.io", "v1alpha1", "applications", "Application",
			`{metadata: {name: commerce}, spec: {services: [{id: svc, entries: [{type: Events}]}]}}`},
		{"servicecatalog.k8s.io", "v1beta1", "serviceclasses", "ServiceClass",
			`{metadata: {name: c, namespace: shop}, spec: {serviceBrokerName: application-broker, externalID: svc}}`},
		{"servicecatalog.k8s.io", "v1beta1", "serviceinstances", "ServiceInstance",
			`{metadata: {name: orders, namespace: shop}, spec: {externalID: id, serviceClassRef: {name: c}}, status: {conditions: [{type: Ready, status: "True"}]}}`},
	} {
		resource := schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.resource}
		api.Install(kubetest.Kind{GroupVersionResource: resource, Kind: k.kind, Status: true, Cluster: k.resource == "applications"})
		if k.object == "" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(k.object), &o.Object); err != nil {
			t.Fatal(err)
		}
		o.SetAPIVersion(resource.GroupVersion().String())
		o.SetKind(k.kind)
		api.Add(resource, o)
	}
	return &kube.Cluster{Interface: api}
}

func TestAPlanChangesNothing(t *testing.T) {
	t.Parallel()
	l, o := &emptyLog{}, clitest.NewOutput(clitest.AsText)
	options := migrateOptions{migrateFlags: migrateFlags{Settings: migrate.Settings{User: "platform"}}, Cluster: catalogCluster(t), Log: l, Out: o.Printer}
	if err := runMigrate(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	o.Want(t, `shop/orders: planned
  insert the row of service instance id, of user platform
  create EventFlow shop/event-flow-id, suspended
  resume EventFlow shop/event-flow-id, and wait until it is ready
`, "")
	if l.stored > 0 {
		t.Error("a row was stored")
	}
}

// TestAFlowThatIsNotReadyIsAnExitStatus; the steps are printed as they are done.
func TestAFlowThatIsNotReadyIsAnExitStatus(t *testing.T) {
	t.Parallel()
	l, o := &emptyLog{}, clitest.NewOutput(clitest.AsText)
	options := migrateOptions{migrateFlags: migrateFlags{Settings: migrate.Settings{User: "platform"}, apply: true}, Cluster: catalogCluster(t), Log: l, Out: o.Printer}
	clitest.WantFault(t, runMigrate(t.Context(), options), fault.Failed, "not ready or failed: 1 of 1 service instances, 0 of 0 namespaces", "repeat the command once the reason is gone")
	o.Want(t, `shop/orders: insert the row of service instance id, of user platform
shop/orders: create EventFlow shop/event-flow-id, suspended
shop/orders: resume EventFlow shop/event-flow-id, and wait until it is ready
shop/orders: not ready: Pending: the role flow has not handled it yet
service instances: 1 not ready
`, "")
	if l.stored != 1 {
		t.Errorf("%d rows were stored", l.stored)
	}
}

// TestARevertIsPlannedFirst: the flow that a migration has created stays until the revert is applied.
func TestARevertIsPlannedFirst(t *testing.T) {
	t.Parallel()
	cluster := catalogCluster(t)
	run := func(f migrateFlags) string {
		f.User = "platform"
		o := clitest.NewOutput(clitest.AsText)
		err := runMigrate(t.Context(), migrateOptions{migrateFlags: f, Cluster: cluster, Log: &emptyLog{}, Out: o.Printer})
		if err != nil && !fault.Is(err, fault.Failed) {
			t.Fatal(err)
		}
		return o.Printed.String()
	}
	run(migrateFlags{apply: true})
	const remove = "remove the finalizer of EventFlow shop/event-flow-id, and delete it\n"
	for range 2 {
		if got := run(migrateFlags{revert: true}); got != "shop/orders: planned\n  suspend EventFlow shop/event-flow-id\n  "+remove {
			t.Errorf("got %q", got)
		}
	}
	if got := run(migrateFlags{revert: true, apply: true}); !strings.Contains(got, "shop/orders: "+remove+"shop/orders: reverted\n") {
		t.Errorf("got %q", got)
	}
}

// TestAnInterruptedMigrationPrintsItsTasks as a document too.
func TestAnInterruptedMigrationPrintsItsTasks(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	interrupt := fault.New(fault.Interrupted, "interrupted")
	o := clitest.NewOutput(clitest.AsJSON)
	options := migrateOptions{migrateFlags: migrateFlags{Settings: migrate.Settings{User: "platform"}, apply: true}, Cluster: catalogCluster(t),
		Log: &emptyLog{first: func() { stop(interrupt) }}, Out: o.Printer}
	err := runMigrate(ctx, options)
	if text := o.Printed.String(); !fault.Is(err, fault.Interrupted) || !strings.Contains(text, `"name": "orders"`) {
		t.Errorf("got %s, %v", text, err)
	}
}

// TestNamespacesAreNotCountedAsServiceInstances: each kind of task has its own count.
func TestNamespacesAreNotCountedAsServiceInstances(t *testing.T) {
	t.Parallel()
	one := func(name string, state migrate.State) migrate.Task {
		return migrate.Task{Namespace: "shop", Name: name, State: state}
	}
	for want, tasks := range map[string][]migrate.Task{
		"": {one("a", migrate.Ready), one("", migrate.Finished)},
		"not ready or failed: 1 of 2 service instances, 0 of 1 namespaces": {one("a", migrate.Ready), one("b", migrate.NotReady), one("", migrate.Skipped)},
		"not ready or failed: 0 of 1 service instances, 1 of 1 namespaces": {one("a", migrate.Ready), one("", migrate.Failed)},
	} {
		if err := unfinished(tasks); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNothingToMigrate(t *testing.T) {
	t.Parallel()
	for _, flags := range []migrateFlags{{}, {apply: true}, {revert: true}, {revert: true, apply: true}} {
		o := clitest.NewOutput(clitest.AsText)
		options := migrateOptions{migrateFlags: flags, Cluster: &kube.Cluster{Interface: kubetest.New(t)}, Log: &emptyLog{}, Out: o.Printer}
		if err := runMigrate(t.Context(), options); err != nil || !strings.HasPrefix(o.Printed.String(), "nothing to do") {
			t.Errorf("got %q, %v", o.Printed.String(), err)
		}
	}
}

func TestFlagsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	at := func(url string) migrate.Settings { return migrate.Settings{User: "platform", BrokerURL: url} }
	for want, f := range map[string]migrateFlags{
		"--user is missing":                        {},
		"--user is missing: the user":              {apply: true},
		"--broker-secret needs --broker-url":       {Settings: migrate.Settings{User: "platform", BrokerSecret: "login"}},
		"want an http or https URL without user":   {Settings: at("http://user@broker.example")},
		"--broker-url: want an http or https URL":  {Settings: at("broker.example")},
		"--broker-url: want an http or https URL ": {Settings: at("https://broker.example?a=b")},
	} {
		err := f.check(&cmdline.App{})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, good := range []migrateFlags{{Settings: at("https://broker.example/base"), wait: time.Second}, {revert: true}, {revert: true, apply: true}} {
		if err := good.check(&cmdline.App{}); err != nil {
			t.Error(err)
		}
	}
}
