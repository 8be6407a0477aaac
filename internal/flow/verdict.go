package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// is returns the part in a state.
func (p Part) is(status metav1.ConditionStatus, reason, message string) Part {
	p.Status, p.Reason, p.Message = status, reason, cut(message, mostMessage)
	return p
}

func (p Part) yes(reason string) Part { return p.is(metav1.ConditionTrue, reason, "") }

func (p Part) no(reason, message string) Part { return p.is(metav1.ConditionFalse, reason, message) }

func (p Part) unknown(reason, message string) Part {
	return p.is(metav1.ConditionUnknown, reason, message)
}

// absence returns why an object cannot be used.
func (s Seen) absence() Absence {
	if s.Absence == Present && s.Object == nil {
		return NotFound
	}
	return s.Absence
}

// object returns the object if it can be used, else nil.
func (s Seen) object() *Object {
	if s.Absence != Present {
		return nil
	}
	return s.Object
}

// absent returns the message about an object that cannot be used.
func (s Seen) absent() string {
	switch s.absence() {
	case NotAllowed:
		return Clean(s.Why)
	case NotInstalled:
		return s.Ref.String() + ": the kind " + s.Ref.Kind + " of " + group(s.Ref) + " is not installed"
	}
	return s.Ref.String() + " not found"
}

// group names the group of an object.
func group(r Ref) string {
	if r.Group == "" {
		return "Kubernetes"
	}
	return r.Group
}

// Ref returns the reference to the object.
func (o *Object) Ref() Ref { return Ref{o.Kind, o.Namespace, o.Name} }

// report returns the name of an object with the reason and message that it reports.
func (o *Object) report() string {
	text := o.Ref().String()
	if o.deleting() {
		text += " is being deleted"
	}
	for _, part := range []string{o.Ready.Reason, o.Ready.Message} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// working reports whether an object is ready. The status of a Broker counts only with the generation that it is about.
func (o *Object) working() bool {
	return o.Ready.Status == metav1.ConditionTrue && (o.Ready.Current || !isBroker(o.Kind))
}
