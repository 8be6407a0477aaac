package show

import (
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

// Flows returns the rows of a list of EventFlows.
func Flows(found []flowview.Flow, now time.Time) []string {
	var t table
	t.add("FLOW", "SOURCE", "SINK", "STATUS", "REASON", "READY", "SERVICE INSTANCE", "CREATED", "MESSAGE")
	for _, f := range found {
		t.add(f.Namespace+"/"+f.Name, dash(OneLine(f.Source)), dash(OneLine(f.SinkURI)), f.Combined.Status, dash(OneLine(f.Combined.Reason)),
			f.Ready, aloneText(f.ServiceInstance), Ago(now, f.CreatedAt), cut(OneLine(messageOf(f)), reasonWidth))
	}
	return t.lines()
}

// aloneText returns the status of a service instance by the cluster's object.
func aloneText(of *flowview.ServiceInstance) string {
	switch {
	case of == nil:
		return "-"
	case of.Name != "":
		return of.Alone.Status
	case of.Unread != "":
		return "not read"
	}
	return "no object"
}

// messageOf returns why flow and service instance do not run; "" if they do.
func messageOf(f flowview.Flow) string {
	if f.Combined.Status == flowview.Running {
		return ""
	}
	return f.Combined.Message
}

// Flow returns an EventFlow with its service instance, its conditions, its parts, and the flows that share them.
func Flow(f service.FlowView, now time.Time) []string {
	var t table
	t.add("flow", f.Namespace+"/"+f.Name)
	t.add("source", dash(OneLine(f.Source)))
	t.add("sink", dash(OneLine(f.SinkURI)))
	t.add("status", reasonedText(f.Combined))
	t.addText("message", f.Combined.Message)
	t.add("ready", strings.TrimSpace(f.Ready+" "+f.Reason))
	t.add("created", Ago(now, f.CreatedAt))
	if !f.DeletingAt.IsZero() {
		t.add("being deleted", "since "+Ago(now, f.DeletingAt))
	}
	if f.Suspended {
		t.add("suspended", "the controller writes nothing for this flow")
	}
	if f.Message != "" && f.Message != f.Combined.Message {
		t.add("of the flow", OneLine(f.Message))
	}
	addServiceInstance(&t, f.ServiceInstance)
	if f.Operation != nil {
		t.add("operation", operationText(*f.Operation)+" "+f.Operation.Action.String())
		t.addText("  error", f.Operation.Error)
	}
	t.addText("operation", f.OperationUnread)
	lines := t.lines()
	if len(f.Conditions) > 0 {
		lines = append(append(lines, ""), conditionLines(f.Conditions, now)...)
	}
	if len(f.Parts) > 0 {
		lines = append(append(lines, ""), partLines(f.Parts)...)
	}
	if len(f.Neighbours) > 0 {
		lines = append(lines, "", "shares parts with "+strings.Join(f.Neighbours, ", "))
	}
	return lines
}

// reasonedText returns a status with its reason.
func reasonedText(c flowview.Combined) string {
	return strings.TrimSpace(c.Status + " " + OneLine(c.Reason))
}

// addServiceInstance adds the service instance of a flow and the cluster's object for it.
func addServiceInstance(t *table, of *flowview.ServiceInstance) {
	if of == nil {
		return
	}
	t.add("service instance", OneLine(of.ID))
	switch {
	case of.Name != "":
		t.add("  object", OneLine(of.APIVersion+" "+of.Namespace+"/"+of.Name))
		t.add("  alone", strings.TrimSuffix(reasonedText(of.Alone)+": "+OneLine(of.Alone.Message), ": "))
	case of.Unread != "":
		t.add("  object", OneLine(of.Unread))
	default:
		t.add("  object", "none")
	}
}

func conditionLines(list []flowview.Condition, now time.Time) []string {
	var t table
	t.add("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")
	for _, c := range list {
		t.add(OneLine(c.Type), OneLine(c.Status), OneLine(c.Reason), Ago(now, c.Since), OneLine(c.Message))
	}
	return t.lines()
}

func partLines(list []flowview.Part) []string {
	var t table
	t.add("PART", "OBJECT", "MADE FOR FLOWS", "CLAIMS")
	for _, p := range list {
		var claims []string
		for _, c := range p.Claims {
			claims = append(claims, OneLine(c.Policy+" "+c.Flow))
		}
		t.add(p.Role, OneLine(p.Kind+" "+p.Namespace+"/"+p.Name), partState(p), strings.Join(claims, ", "))
	}
	return t.lines()
}

// partState returns whether a part was created for flows, or why that is not known.
func partState(p flowview.Part) string {
	switch {
	case p.State != "":
		return OneLine(p.State)
	case p.Managed:
		return "yes"
	case !p.Shared(): // not read
		return "-"
	}
	return "no"
}
