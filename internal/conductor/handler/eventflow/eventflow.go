// Package eventflow is the handler of service instances that are event flows: an action makes, changes or removes the EventFlow of
// one, and its EventActivation.
//
// An attempt is one look at the cluster and at most one round of changes. It keeps nothing: the cluster has the state, and each write
// names the version that it was decided on, so an attempt that was cut off anywhere is repeated with the same result. Until the
// operation has ended an attempt is repeated after a pause and spends nothing.
package eventflow

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/services"
)

// Handler does the operations of service instances that are event flows. Safe for concurrent use.
type Handler struct {
	Cluster *kube.Cluster
	Log     string // id of the log that has the service instances
}

var _ conductor.Handler = Handler{}

// Do makes one attempt at an operation.
func (h Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	order, err := readOrder(a.Action.Parameters)
	if err != nil {
		return action.Outcome{Kind: action.BadInput, Code: string(fault.InvalidParameters), Error: err.Error()}
	}
	t := try{Handler: h, Attempt: a, order: order}
	do := t.provision
	if order.Verb == services.Deprovision {
		do = t.deprovision
	}
	found, err := do(ctx)
	if err != nil {
		return failed(err)
	}
	return t.outcome(found)
}

// readOrder reads an action's parameters, and checks all that becomes a part of a request's path.
func readOrder(raw json.RawMessage) (order flow.Order, err error) {
	if err := json.Unmarshal(raw, &order); err != nil {
		return order, fmt.Errorf("read the order: %w", err)
	}
	switch order.Verb {
	case services.Deprovision:
	case services.Provision, services.Update, services.Repair:
		var spec map[string]any
		if json.Unmarshal(order.Spec, &spec) != nil || spec == nil {
			return order, fault.New(fault.Invalid, "spec: want the spec of an EventFlow")
		}
	default:
		return order, fault.New(fault.Invalid, "verb %q: want provision, update, deprovision or repair", order.Verb)
	}
	switch a := order.Activation; {
	case order.Instance == "" || len(order.Instance) > services.MostID:
		return order, fault.New(fault.Invalid, "instance: want an id of 1 to %d bytes", services.MostID)
	case !flow.IsNamespace(order.Namespace):
		return order, fault.New(fault.Invalid, "namespace %q: want the name of a namespace", order.Namespace)
	case a != nil && order.Verb != services.Deprovision && len(validation.IsDNS1123Subdomain(a.Service)) > 0:
		return order, fault.New(fault.Invalid, "activation.service %q: want a DNS subdomain, since an EventActivation gets this name", a.Service)
	}
	return order, nil
}

// try is one attempt at an order.
type try struct {
	Handler
	conductor.Attempt
	order flow.Order
}

// name returns the flow's name for people.
func (t try) name() string { return t.order.Namespace + "/" + flow.InstanceFlow(t.order.Instance) }

// mayWrite reports whether the action is certainly this attempt's. A write after the claim has ended could create again the objects
// that a later operation has removed, or remove those that it has created.
func (t try) mayWrite() bool { return t.Held == nil || t.Held() }

// lost is awaited by an attempt that may not write.
const lost = "the claim on the action may have ended"
