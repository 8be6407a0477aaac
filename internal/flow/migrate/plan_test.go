package migrate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/flow/migrate"
	"github.com/waybill-dev/waybill/internal/services"
)

// find returns a cluster with some objects, and an empty log.
func find(t *testing.T, text string) *migrate.Found {
	t.Helper()
	f := &migrate.Found{Log: action.DerivedID(time.Unix(1, 0), "log"), Rows: map[string]*services.Instance{}}
	into := map[string]*migrate.Objects{"ServiceInstance": &f.Instances, "ServiceClass": &f.Classes, "ServicePlan": &f.Plans,
		"ServiceBroker": &f.ServiceBrokers, "Application": &f.Applications, "EventActivation": &f.Activations, "Channel": &f.Channels,
		"Subscription": &f.Subscriptions, "Broker": &f.Brokers, "PeerAuthentication": &f.Policies, "Namespace": &f.Namespaces,
		"EventFlow": &f.Flows, "Deployment": &f.Deployments}
	for name, objects := range into {
		objects.Kind = kinds[name]
	}
	for _, o := range parse(t, text) {
		if objects := into[o.GetKind()]; objects != nil {
			objects.Items = append(objects.Items, *o)
		}
	}
	return f
}

// outline returns the tasks of a plan as text.
func outline(tasks []migrate.Task) string {
	var b strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&b, "%s: %s", t.Title(), t.State)
		if t.Reason != "" {
			b.WriteString(": " + t.Reason)
		}
		b.WriteString("\n")
		for _, s := range t.Steps {
			b.WriteString("  " + s.Text + "\n")
		}
		for _, n := range t.Notes {
			b.WriteString("  note: " + n + "\n")
		}
	}
	return b.String()
}

func settings() migrate.Settings {
	return migrate.Settings{User: "platform", Ignore: []string{"kyma-system"}, Integration: []string{"kyma-integration"}}
}

// want requires a plan.
func want(t *testing.T, f *migrate.Found, plan string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(plan, "\n"), outline(migrate.Plan(f, settings()))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestThePlanHasTheStepsInTheirOrder: both forms of catalogs, one namespace, a shared Subscription.
func TestThePlanHasTheStepsInTheirOrder(t *testing.T) {
	t.Parallel()
	want(t, find(t, shop), `
shop/orders: planned
  insert the row of service instance id-orders, of user platform
  create EventFlow shop/event-flow-id-orders, suspended
  adopt Subscription kyma-integration/brokersub-1
  adopt Broker shop/default
  adopt EventActivation shop/svc-orders
  remove PeerAuthentication shop/shop-broker, which the flow's own policy replaces
  remove the label knative-eventing-injection from Namespace shop
  resume EventFlow shop/event-flow-id-orders, and wait until it is ready
shop/returns: planned
  insert the row of service instance id-returns, of user platform
  create EventFlow shop/event-flow-id-returns, suspended
  adopt Subscription kyma-integration/brokersub-1
  adopt Broker shop/default
  resume EventFlow shop/event-flow-id-returns, and wait until it is ready
`)
}

// base is a namespace with one service instance and nothing to adopt. The status of the service instance is missing.
const base = `
{kind: Application, metadata: {name: commerce}, spec: {services: [{id: svc, entries: [{type: Events}]}]}}
---
{kind: ServiceClass, metadata: {name: c, namespace: shop}, spec: {serviceBrokerName: application-broker, externalID: svc}}
---
{kind: ServicePlan, metadata: {name: p, namespace: shop}, spec: {externalID: svc-plan}}
---
{kind: Channel, metadata: {name: x, namespace: kyma-integration, labels: {application-name: commerce}}}
---
`

// instance returns the service instance of base with a status.
func instance(status string) string {
	return `{kind: ServiceInstance, metadata: {name: i, namespace: shop}, spec: {externalID: id, serviceClassRef: {name: c}, servicePlanRef: {name: p}}, status: ` +
		status + `}
---
`
}

const ready = `{conditions: [{type: Ready, status: "True"}]}`

// steps returns the plan of base with more steps between the creation and the resumption of the flow.
func steps(between string) string {
	return `
shop/i: planned
  insert the row of service instance id, of user platform
  create EventFlow shop/event-flow-id, suspended
` + between + `  resume EventFlow shop/event-flow-id, and wait until it is ready
`
}

func TestServiceInstancesThatAreNotReadyAreLeftOut(t *testing.T) {
	t.Parallel()
	for status, why := range map[string]string{
		`{conditions: [{type: Failed, status: "True", reason: Bad}]}`:                                  "Failed Bad",
		`{conditions: [{type: Ready, status: "False", reason: ProvisionCallFailed}]}`:                  "Failed ProvisionCallFailed",
		`{currentOperation: Deprovision, conditions: [{type: Ready, status: "True", reason: Fine}]}`:   "Deprovisioning Fine",
		`{currentOperation: Provision, conditions: [{type: Ready, status: "False", reason: Working}]}`: "Provisioning Working",
		`{}`: "Pending",
	} {
		want(t, find(t, base+instance(status)), "shop/i: skipped: the service instance is not ready: "+why+"\n")
	}
}

func TestOtherServiceInstancesAreNotSelected(t *testing.T) {
	t.Parallel()
	f := find(t, strings.ReplaceAll(base, "type: Events", "type: API")+instance(ready))
	want(t, f, "")
	f = find(t, strings.ReplaceAll(base+instance(ready), "namespace: shop", "namespace: kyma-system"))
	want(t, f, "")
	f = find(t, strings.ReplaceAll(base, "serviceBrokerName: application-broker", "serviceBrokerName: other")+instance(ready))
	want(t, f, "")
	f = find(t, strings.ReplaceAll(base, "id: svc,", "id: other,")+instance(ready))
	want(t, f, "shop/i: skipped: no Application has the service svc\n")
	want(t, find(t, ""), "")
}

// TestObjectsThatAreNotTheOldBrokersStay as they are, with a note where one may expect otherwise.
func TestObjectsThatAreNotTheOldBrokersStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ objects, between string }{
		{"", ""},
		{`{kind: Broker, metadata: {name: default, namespace: shop}}`, "note: Broker shop/default was not injected by Knative: it stays as it is"},
		{`{kind: Broker, metadata: {name: default, namespace: shop, labels: {eventing.knative.dev/injected: "true"}}}`, "adopt Broker shop/default"},
		{`{kind: Broker, metadata: {name: default, namespace: shop, deletionTimestamp: "2026-01-01T00:00:00Z", labels: {eventing.knative.dev/injected: "true"}}}`,
			"note: Broker shop/default is being deleted"},
		{subscription("s", "kyma-integration", "x"), "adopt Subscription kyma-integration/s"},
		{subscription("s", "kyma-integration", "y"), "note: Subscription kyma-integration/s takes the events of another channel: it stays as it is"},
		{subscription("s", "elsewhere", "x"), ""},
		{`{kind: PeerAuthentication, metadata: {name: default-broker, namespace: shop}}`, ""},
		{`{kind: Namespace, metadata: {name: shop, labels: {eventing.knative.dev/injection: disabled}}}`, ""},
		{`{kind: Namespace, metadata: {name: shop, labels: {eventing.knative.dev/injection: enabled}}}`,
			"remove the label eventing.knative.dev/injection from Namespace shop"},
	} {
		plan := steps("")
		switch note := strings.HasPrefix(c.between, "note: "); {
		case note:
			plan += "  " + c.between + "\n"
		case c.between != "":
			plan = steps("  " + c.between + "\n")
		}
		want(t, find(t, base+instance(ready)+c.objects), plan)
	}
}

// subscription returns a Subscription of the old broker that takes the events of a channel.
func subscription(name, namespace, channel string) string {
	return `{kind: Subscription, metadata: {name: ` + name + `, namespace: ` + namespace + `, labels: {application-name: commerce, broker-namespace: shop}},
  spec: {channel: {apiVersion: messaging.knative.dev/v1beta1, kind: Channel, name: ` + channel + `}}}`
}

// TestRowsDecideWhetherAServiceInstanceIsMigrated.
func TestRowsDecideWhetherAServiceInstanceIsMigrated(t *testing.T) {
	t.Parallel()
	at := action.DerivedID(time.Unix(2, 0), "operation")
	mine := services.Instance{ID: "id", User: "platform", Operation: at, Verb: services.Provision, End: action.Successful,
		Asked: rowIn("shop")}
	other, live, failed, gone, elsewhere, folder := mine, mine, mine, mine, mine, mine
	elsewhere.Asked, folder.Asked = rowIn("store"), json.RawMessage(`{"work":{"handlers":{"provision":"make"}}}`)
	other.User, live.End, failed.End, gone.GoneAt = "other", 0, action.Failed, time.Unix(3, 0)
	const byHand = `{kind: EventFlow, metadata: {name: event-flow-id, namespace: shop, uid: u%s}, spec: {source: {application: commerce}, suspend: %t}%s}`
	form := strings.ReplaceAll(byHand, "uid: u", "uid: u, labels: {flow.waybill.dev/instance: "+flow.InstanceHash("id")+"}")
	migrated := fmt.Sprintf(`, annotations: {flow.waybill.dev/migrated-from: i, flow.waybill.dev/action: a, flow.waybill.dev/log: %s}`,
		action.DerivedID(time.Unix(1, 0), "log"))
	ended := strings.Replace(migrated, "{", "{flow.waybill.dev/migration-ended: t, ", 1)
	const readyFlow = `, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", observedGeneration: 1}]}`
	const insert = "shop/i: planned\n  insert the row of service instance id, of user platform\n"
	const label = "  write the label, the log and the operation to EventFlow shop/event-flow-id\n"
	const tail = "  resume EventFlow shop/event-flow-id, and wait until it is ready\n"
	for name, c := range map[string]struct {
		row  *services.Instance
		flow string
		want string
	}{
		"another user's":        {&other, "", "shop/i: skipped: the service instance belongs to user other of the broker\n"},
		"live":                  {&live, "", "shop/i: skipped: the service instance is being provisioned by this broker\n"},
		"failed":                {&failed, "", "shop/i: skipped: the service instance is not provisioned: that failed by this broker\n"},
		"gone":                  {&gone, "", steps("")},
		"killed after the row":  {&mine, "", "shop/i: planned\n  create EventFlow shop/event-flow-id, suspended\n" + tail},
		"killed after the flow": {&mine, fmt.Sprintf(form, migrated, true, ""), "shop/i: planned\n" + tail},
		"migrated":              {&mine, fmt.Sprintf(form, ended, false, readyFlow), "shop/i: ready\n"},
		"suspended since": {&mine, fmt.Sprintf(form, ended, true, readyFlow),
			"shop/i: skipped: EventFlow shop/event-flow-id was suspended after its migration\n"},
		"changed since": {&mine, strings.Replace(fmt.Sprintf(form, ended, false, readyFlow), "observedGeneration: 1}]", "observedGeneration: 0}]", 1),
			"shop/i: not ready: Pending: the role flow has not handled it yet\n"},
		"migrated, not ready": {&mine, fmt.Sprintf(form, ended, false, ""), "shop/i: not ready: Pending: the role flow has not handled it yet\n"},
		"elsewhere":           {&elsewhere, "", "shop/i: skipped: this broker has the service instance without a flow in this namespace\n"},
		"a folder":            {&folder, "", "shop/i: skipped: this broker has the service instance without a flow in this namespace\n"},
		"this broker's":       {&mine, fmt.Sprintf(form, "", false, readyFlow), "shop/i: present: this broker has provisioned it\n"},
		"of another plan": {&mine, strings.ReplaceAll(fmt.Sprintf(form, "", false, readyFlow), "commerce", "other"),
			"shop/i: present: this broker has provisioned it\n"},
		"of a lost log":              {nil, fmt.Sprintf(form, "", false, readyFlow), insert + label},
		"made by hand":               {nil, fmt.Sprintf(byHand, "", false, readyFlow), insert + label},
		"made by hand after the row": {&mine, fmt.Sprintf(byHand, "", false, readyFlow), "shop/i: planned\n" + label},
		"made by hand with another source": {nil, strings.ReplaceAll(fmt.Sprintf(byHand, "", false, readyFlow), "commerce", "other"),
			"shop/i: skipped: EventFlow shop/event-flow-id was not made for the service instance: it has another source or sink\n"},
		"made by hand with another sink": {nil, strings.ReplaceAll(fmt.Sprintf(byHand, "", false, readyFlow), "spec: {", "spec: {sink: {broker: {name: own}}, "),
			"shop/i: skipped: EventFlow shop/event-flow-id was not made for the service instance: it has another source or sink\n"},
		"another's": {nil, strings.ReplaceAll(fmt.Sprintf(form, "", false, readyFlow), flow.InstanceHash("id"), flow.InstanceHash("other")),
			"shop/i: skipped: EventFlow shop/event-flow-id has the label of another service instance\n"},
		"being deleted": {&mine, fmt.Sprintf(form, migrated+`, deletionTimestamp: "2026-01-01T00:00:00Z"`, true, ""),
			"shop/i: skipped: EventFlow shop/event-flow-id is being deleted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := find(t, base+instance(ready)+c.flow)
			f.Rows["id"] = c.row
			want(t, f, c.want)
		})
	}
}

// rowIn returns the attributes of a service instance that is a flow in a namespace.
func rowIn(namespace string) json.RawMessage {
	return json.RawMessage(`{"serviceId":"svc","work":{"flow":{"namespace":"` + namespace + `"}}}`)
}

// TestIDsThatCannotBeMigratedAreLeftOut: authors of ServiceInstances choose them.
func TestIDsThatCannotBeMigratedAreLeftOut(t *testing.T) {
	t.Parallel()
	victim, evil := base+instance(ready), strings.NewReplacer("shop", "evil").Replace(base+instance(ready))
	const same = ": skipped: another ServiceInstance has the same spec.externalID\n"
	want(t, find(t, victim+evil), "evil/i"+same+"shop/i"+same)
	broken := strings.ReplaceAll(evil, ready, `{conditions: [{type: Failed, status: "True", reason: Bad}]}`)
	want(t, find(t, victim+broken), "evil/i: skipped: the service instance is not ready: Failed Bad"+steps(""))
	for _, id := range []string{strings.Repeat("x", 256), `"a\0"`} {
		want(t, find(t, strings.ReplaceAll(victim, "externalID: id,", "externalID: "+id+",")),
			"shop/i: skipped: no broker accepts its spec.externalID: it is too long, or no text\n")
	}
}

// TestARevertLeavesForgedFlowsAlone: their author, who may write annotations in one namespace, names a service instance of another.
func TestARevertLeavesForgedFlowsAlone(t *testing.T) {
	t.Parallel()
	const forged = `{kind: EventFlow, metadata: {name: %s, namespace: evil, uid: u, annotations: {flow.waybill.dev/migrated-from: i, flow.waybill.dev/id: id,
  flow.waybill.dev/log: %s}}}
---
{kind: EventActivation, metadata: {name: svc, namespace: shop, annotations: {claim.flow.waybill.dev/%s: WhenUnused shop/event-flow-id}}}
`
	row := &services.Instance{ID: "id", User: "platform", Operation: action.DerivedID(time.Unix(2, 0), "operation"), Verb: services.Provision,
		End: action.Successful, Asked: rowIn("shop")}
	for _, c := range []struct {
		name string
		row  *services.Instance
		want string
	}{
		{"event-flow-id", row, "evil/i: skipped: the flow is not that of the service instance id, which it names\n"},
		{"other", row, "evil/i: skipped: the flow is not that of the service instance id, which it names\n"},
		{"event-flow-id", nil, `evil/i: planned
  suspend EventFlow evil/event-flow-id
  remove the finalizer of EventFlow evil/event-flow-id, and delete it
`},
	} {
		f := find(t, fmt.Sprintf(forged, c.name, action.DerivedID(time.Unix(1, 0), "log"), flow.InstanceHash("id")))
		f.Rows["id"] = c.row
		if diff := cmp.Diff(c.want, outline(migrate.PlanRevert(f, settings()))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestDeploymentsThatMayRunAreFound(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]int{
		`spec: {replicas: 1}`: 1, `spec: {}`: 1, `spec: {replicas: 0}`: 0, `spec: {replicas: 0}, status: {replicas: 1}`: 1, `spec: {replicas: 0}, status: {}`: 0,
	} {
		f := find(t, `{kind: Deployment, metadata: {name: application-broker, namespace: kyma-system}, `+spec+`}`)
		if got := f.Running(); len(got) != want {
			t.Errorf("%s: got %v", spec, got)
		}
	}
}
