package migrate

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/services"
)

// PlanRevert returns the steps that take a migration back, for each flow that it has created, and for each namespace after these. The
// flow goes last: until then a repeated revert finds it. Its row goes shortly before, since a broker removes the flow of a row that is
// gone, and creates that of a row that is not.
func PlanRevert(f *Found, s Settings) (tasks []Task) {
	p := planner{Found: f, Settings: s}
	var flows []*unstructured.Unstructured
	namespaces, forgotten := map[string]bool{}, map[string][]Task{}
	for _, c := range f.candidates(s.Ignore) {
		row, name := f.Rows[c.id], flow.InstanceFlow(c.id)
		if isInserted(row) && f.Flows.find(c.GetNamespace(), name) == nil {
			t := Task{Namespace: c.GetNamespace(), Name: c.GetName(), ID: c.id, Flow: name, State: Planned}
			p.forget(&t, row)
			namespaces[t.Namespace] = true
			forgotten[t.Namespace] = append(forgotten[t.Namespace], t)
		}
	}
	for i := range f.Flows.Items {
		if one := &f.Flows.Items[i]; isMigrated(one) && !slices.Contains(s.Ignore, one.GetNamespace()) {
			flows, namespaces[one.GetNamespace()] = append(flows, one), true
		}
	}
	for _, objects := range []Objects{f.Namespaces, f.ServiceBrokers} {
		for i := range objects.Items {
			if name := namespaceOf(&objects.Items[i]); isRecorded(&objects.Items[i]) && !slices.Contains(s.Ignore, name) {
				namespaces[name] = true
			}
		}
	}
	slices.SortFunc(flows, compareNames)
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		tasks = append(tasks, forgotten[namespace]...)
		for _, one := range flows {
			if one.GetNamespace() == namespace {
				tasks = append(tasks, p.revert(one))
			}
		}
		tasks = append(tasks, p.restore(namespace)...)
	}
	return tasks
}

// isMigrated reports whether a migration has created a flow.
func isMigrated(o *unstructured.Unstructured) bool {
	_, is := o.GetAnnotations()[flow.AnnotationMigrated]
	return is
}

// isRecorded reports whether a Namespace or a ServiceBroker has a record of its former state.
func isRecorded(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[annotationInjection] != "" || o.GetAnnotations()[annotationFormer] != ""
}

// namespaceOf returns the namespace of an object, or the name of a Namespace.
func namespaceOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace()
}

// revert plans the removal of a flow.
func (p *planner) revert(found *unstructured.Unstructured) Task {
	annotations := found.GetAnnotations()
	t := Task{Namespace: found.GetNamespace(), Name: annotations[flow.AnnotationMigrated], ID: annotations[flow.AnnotationID],
		Application: text(found.Object, "spec", "source", "application"), Flow: found.GetName(), State: Planned,
		uid: found.GetUID(), finalizers: found.GetFinalizers()}
	row := p.Rows[t.ID]
	state := stateOf(row)
	switch {
	case annotations[flow.AnnotationLog] != p.Log.String():
		t.end(Skipped, "the flow belongs to the log %s, and this one is %s", annotations[flow.AnnotationLog], p.Log)
	case found.GetDeletionTimestamp() != nil:
		t.end(Skipped, "the flow is being deleted")
	case t.Flow != flow.InstanceFlow(t.ID), row != nil && namespaceOfFlow(row) != t.Namespace: // any author of flows can write the annotations
		t.end(Skipped, "the flow is not that of the service instance %s, which it names", t.ID)
	case row != nil && state != osb.Gone && state != osb.Ready && state != osb.UpdateFailed:
		t.end(Skipped, "the service instance is %s by this broker", state)
	}
	if t.State == Skipped {
		return t
	}
	at := on(p.Flows.Kind, found)
	if suspended, _, _ := unstructured.NestedBool(found.Object, "spec", "suspend"); !suspended || isEnded(found) {
		t.add(Suspend, at, "suspend EventFlow %s/%s", t.Namespace, t.Flow)
	}
	for _, kind := range []Objects{p.Subscriptions, p.Policies, p.Brokers, p.Activations} {
		p.giveBack(&t, kind)
	}
	if row != nil && state != osb.Gone {
		p.forget(&t, row)
	}
	t.add(RemoveFlow, at, "remove the finalizer of EventFlow %s/%s, and delete it", t.Namespace, t.Flow)
	return t
}

// forget plans the end of a row.
func (p *planner) forget(t *Task, row *services.Instance) {
	t.operation = row.Operation
	t.add(ForgetRow, object{}, "mark the row of service instance %s as gone", t.ID)
}

// giveBack plans the return of the objects of a kind that a flow, or its service instance, claims.
func (p *planner) giveBack(t *Task, kind Objects) {
	mine := t.claim(kind.Kind)
	for i := range kind.Items {
		o := &kind.Items[i]
		elsewhere := kind.Kind == flow.Activations() && o.GetNamespace() != t.Namespace
		if elsewhere || !claim.Has(o, mine.UID) {
			continue
		}
		at := on(kind.Kind, o)
		if kind.Kind == p.Subscriptions.Kind && p.repeats(t, o) {
			t.add(Release, at, "release %s, whose events the old broker's takes", title(o))
			continue
		}
		at.labels = map[string]string{v1alpha1.LinkLabel: ""}
		t.add(Return, at, "remove claim and marks from %s", title(o))
	}
}

// repeats reports whether the controller has made a Subscription beside one of the old broker: an event would arrive twice.
func (p *planner) repeats(t *Task, o *unstructured.Unstructured) bool {
	from := channelIn(o)
	return o.GetName() == flow.SubscriptionName(o.GetLabels()[v1alpha1.LinkLabel]) &&
		slices.ContainsFunc(p.Subscriptions.Items, func(old unstructured.Unstructured) bool {
			channel := channelIn(&old)
			return isOf(&old, t) && old.GetDeletionTimestamp() == nil &&
				channel.GroupKind() == from.GroupKind() && channel.Namespace == from.Namespace && channel.Name == from.Name
		})
}

// restore plans the return of a namespace to its former state.
func (p *planner) restore(namespace string) []Task {
	t := Task{Namespace: namespace, State: Planned}
	if o := p.Namespaces.find("", namespace); o != nil && isRecorded(o) {
		t.add(RestoreInjection, on(p.Namespaces.Kind, o), "restore the label %s of %s", o.GetAnnotations()[annotationInjection], title(o))
	}
	for i := range p.ServiceBrokers.Items {
		if o := &p.ServiceBrokers.Items[i]; o.GetNamespace() == namespace && isRecorded(o) {
			t.add(RestoreBroker, on(p.ServiceBrokers.Kind, o), "point %s to its former address", title(o))
		}
	}
	if t.Steps == nil {
		return nil
	}
	return []Task{t}
}
