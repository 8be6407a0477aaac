package show

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
)

// ServiceInstances returns the rows of a list of service instances.
func ServiceInstances(found []service.ServiceInstanceView, now time.Time) []string {
	var t table
	t.add("SERVICE INSTANCE", "STATE", "SERVICE", "PLAN", "USER", "CHANGED", "OPERATION", "ERROR")
	for _, x := range found {
		t.add(OneLine(x.ID), x.State, OneLine(x.Service), OneLine(x.Plan), x.User, Ago(now, x.ChangedAt), x.Operation.Verb+" "+x.Operation.Action.String(),
			cut(OneLine(x.Operation.Error), reasonWidth))
	}
	return t.lines()
}

// ServiceInstance returns a service instance with its operation and its attributes: those that are applied, and others
// that its platform wants.
func ServiceInstance(x service.ServiceInstanceView, now time.Time) []string {
	var t table
	t.add("service instance", OneLine(x.ID))
	t.add("state", x.State)
	t.add("service", OneLine(x.Service))
	t.add("plan", OneLine(x.Plan))
	t.add("user", x.User)
	t.add("changed", Ago(now, x.ChangedAt))
	op := x.Operation
	t.add("operation", operationText(op))
	t.addText("error", op.Error)
	if !op.NextAt.IsZero() {
		t.add("next attempt", Clock(now, op.NextAt))
	}
	t.addText("output", op.Text)
	if f := x.Flow; f != nil {
		name := "none"
		if f.Name != "" {
			name = f.Namespace + "/" + f.Name
		}
		t.add("flow", OneLine(name))
		t.add("status", strings.TrimSuffix(reasonedText(f.Combined)+": "+OneLine(f.Combined.Message), ": "))
	}
	t.addText("flow", x.FlowUnread)
	for _, own := range x.Audit {
		t.add("audit", operationText(own)+", action "+own.Action.String())
		t.addText("  error", own.Error)
	}
	if reflect.DeepEqual(x.Asked, x.Applied) {
		addAttributes(&t, "applied", x.Applied)
	} else {
		addAttributes(&t, "asked for", x.Asked)
		addAttributes(&t, "applied", x.Applied)
	}
	if op.Handler == "" {
		return t.lines() // the action is not kept any more
	}
	return append(t.lines(), "waybill action show "+op.Action.String()+" has its attempts")
}

// operationText returns an operation with its handler and how far it is.
func operationText(op service.ServiceOperation) string {
	text := fmt.Sprintf("%s %s", op.Verb, strings.ToLower(op.Status.String()))
	if op.Handler == "" {
		return text
	}
	return fmt.Sprintf("%s %s by %s", text, attemptsText(op.Status, op.Spent, op.Attempts), op.Handler)
}

// addAttributes adds the attributes that a service instance has been given or has.
func addAttributes(t *table, called string, a *service.ServiceAttributes) {
	if a == nil {
		return
	}
	t.add(called, OneLine(a.Service+" "+a.Plan+" "+a.Maintenance))
	if len(a.Parameters) > 0 {
		t.add("  parameters", string(a.Parameters))
	}
	for _, place := range [][2]string{
		{"  platform", a.Platform}, {"  namespace", a.Namespace}, {"  organization", a.Organization}, {"  space", a.Space},
	} {
		t.addText(place[0], place[1])
	}
}
