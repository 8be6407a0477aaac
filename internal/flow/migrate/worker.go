package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// worker performs a task.
type worker struct {
	*Migration
	*Task
	found *Found
}

// run performs the steps of a task, and sets its state.
func (w *worker) run(ctx context.Context) error {
	if w.State != Planned {
		return nil
	}
	for i := range w.Steps {
		w.cfg.Progress(w.Task, &w.Steps[i])
		if err := w.do(ctx, &w.Steps[i]); err != nil {
			return fmt.Errorf("%s: %w", w.Steps[i].Text, err)
		}
	}
	last := w.Steps[len(w.Steps)-1].Verb
	switch {
	case w.Name == "":
		w.State = Finished
	case last == RemoveFlow, last == ForgetRow:
		w.State = Reverted
	default:
		return w.await(ctx)
	}
	return nil
}

// do performs a step. Done twice, it has the same effect.
func (w *worker) do(ctx context.Context, s *Step) error {
	switch s.Verb {
	case InsertRow:
		return w.insertRow(ctx)
	case ForgetRow:
		return w.forgetRow(ctx)
	case CreateFlow:
		return w.createFlow(ctx, s.on)
	case LabelFlow:
		return w.patch(ctx, s.on, fields{"metadata": fields{"annotations": w.marks(), "labels": w.labels()}})
	case Adopt:
		return w.adopt(ctx, s.on)
	case Return:
		return w.objects(s.on).Return(ctx, claim.Adoption{Name: s.on.name, UID: s.on.uid, Claim: w.claim(s.on.GroupVersionResource), Labels: s.on.labels})
	case Release:
		_, err := w.objects(s.on).Release(ctx, s.on.name, s.on.uid, w.uid)
		return err
	case RemovePolicy:
		return w.removePolicy(ctx, s.on)
	case RemoveInjection, RestoreInjection:
		return w.setInjection(ctx, s.on, s.Verb == RemoveInjection)
	case Redirect, RestoreBroker:
		return w.setBroker(ctx, s.on, s.Verb == Redirect)
	case Resume, Suspend:
		return w.suspend(ctx, s.on, s.Verb == Suspend)
	case RemoveFlow:
		return w.removeFlow(ctx, s.on)
	}
	return fault.New(fault.Internal, "the step %q is not known", s.Verb)
}

// fields is a part of a merge patch.
type fields map[string]any

// suspend suspends or resumes the flow, which may have been created since the plan, and records in the same write whether its migration
// has ended.
func (w *worker) suspend(ctx context.Context, at object, suspended bool) error {
	at.uid = w.uid
	ended := any("true")
	if suspended {
		ended = nil
	}
	return w.patch(ctx, at, fields{"spec": fields{"suspend": suspended}, "metadata": fields{"annotations": fields{annotationEnded: ended}}})
}

// patch changes an object, unless another object has its name by now.
func (w *worker) patch(ctx context.Context, at object, change fields) error {
	meta, _ := change["metadata"].(fields)
	if meta = maps.Clone(meta); meta == nil {
		meta = fields{}
	}
	meta["uid"] = string(at.uid)
	change["metadata"] = meta
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	_, err = w.objects(at).Patch(ctx, at.name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// remove deletes an object, unless another object has its name by now. A missing one is not an error.
func (w *worker) remove(ctx context.Context, at object) error {
	err := w.objects(at).Delete(ctx, at.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &at.uid}})
	if kube.IsAbsent(err) {
		return nil
	}
	return err
}

// marks returns the annotations that name the service instance of a flow.
func (w *worker) marks() map[string]string {
	return flow.InstanceAnnotations(w.ID, w.found.Log.String(), w.operation)
}

// labels returns the label by which a deprovision finds the flow.
func (w *worker) labels() map[string]string {
	return map[string]string{flow.LabelInstance: flow.InstanceHash(w.ID)}
}

// createFlow creates the flow, suspended and with its finalizer.
func (w *worker) createFlow(ctx context.Context, at object) error {
	spec := fields{"source": fields{"application": w.Application}, "suspend": true,
		"sink": fields{"broker": fields{"name": flow.DefaultBroker, "provisioning": string(v1alpha1.Managed), "deletionPolicy": string(v1alpha1.WhenUnused)}}}
	if w.mesh {
		spec["meshPolicy"] = string(v1alpha1.PermissiveMetrics)
	}
	annotations := w.marks()
	annotations[flow.AnnotationMigrated] = w.Name
	body, err := json.Marshal(fields{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "spec": spec, "metadata": fields{
		"namespace": at.namespace, "name": at.name, "annotations": annotations,
		"labels": w.labels(), "finalizers": []string{v1alpha1.Finalizer}}})
	if err != nil {
		return fmt.Errorf("write the flow: %w", err)
	}
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON(body); err != nil {
		return fmt.Errorf("write the flow: %w", err)
	}
	if made, err = w.objects(at).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	w.uid = made.GetUID()
	return nil
}

// adopt has the flow take over an object. One that has been deleted since it was read needs nothing: the controller removes newer
// Subscriptions of a link, and creates a missing Broker. If another object has its name, the command is to be repeated.
func (w *worker) adopt(ctx context.Context, at object) error {
	added, err := w.objects(at).Adopt(ctx, claim.Adoption{Name: at.name, UID: at.uid, Claim: w.claim(at.GroupVersionResource), Labels: at.labels})
	switch {
	case err != nil:
		return err
	case added.Outcome == claim.Rejected:
		return fault.New(fault.Refused, "the API server refuses: %s", added.Text)
	case added.Outcome == claim.Replaced:
		return fault.New(fault.Conflict, "the object is %s by now: repeat the command", added.Outcome)
	}
	return nil
}

// removePolicy has the flow open the port that the old mesh policy opens, and deletes that.
func (w *worker) removePolicy(ctx context.Context, at object) error {
	place := object{GroupVersionResource: v1alpha1.Resource(), namespace: w.Namespace, name: w.Flow, uid: w.uid}
	if err := w.patch(ctx, place, fields{"spec": fields{"meshPolicy": string(v1alpha1.PermissiveMetrics)}}); err != nil {
		return err
	}
	return w.remove(ctx, at)
}

// setInjection removes the labels that have Knative create a Broker, and records them in the same write; or it restores them.
func (w *worker) setInjection(ctx context.Context, at object, remove bool) error {
	found, err := w.objects(at).Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	labels, recorded := fields{}, any(nil)
	if remove {
		var names []string
		for _, name := range injectionLabels {
			if found.GetLabels()[name] == labelEnabled {
				labels[name], names = nil, append(names, name)
			}
		}
		if names == nil {
			return nil
		}
		recorded = strings.Join(names, ",")
	} else {
		for name := range strings.SplitSeq(found.GetAnnotations()[annotationInjection], ",") {
			if slices.Contains(injectionLabels[:], name) {
				labels[name] = labelEnabled
			}
		}
	}
	return w.patch(ctx, at, fields{"metadata": fields{"labels": labels, "annotations": fields{annotationInjection: recorded}}})
}

// setBroker points a ServiceBroker to this broker, and records its former address in the same write; or it restores that.
func (w *worker) setBroker(ctx context.Context, at object, redirect bool) error {
	found, err := w.objects(at).Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	spec, _, _ := unstructured.NestedMap(found.Object, "spec")
	have := map[string]any{"url": spec["url"], "authInfo": spec["authInfo"]}
	former, next := any(nil), maps.Clone(have)
	if redirect {
		if former = found.GetAnnotations()[annotationFormer]; former == "" {
			record, err := json.Marshal(have)
			if err != nil {
				return fmt.Errorf("write the annotation %s: %w", annotationFormer, err)
			}
			former = string(record)
		}
		next["url"] = w.cfg.urlOf(at.namespace)
		if w.cfg.BrokerSecret != "" {
			next["authInfo"] = map[string]any{"basic": map[string]any{"secretRef": map[string]any{"name": w.cfg.BrokerSecret}}}
		}
	} else if err := json.Unmarshal([]byte(found.GetAnnotations()[annotationFormer]), &next); err != nil {
		return fmt.Errorf("read the annotation %s: %w", annotationFormer, err)
	}
	return w.patch(ctx, at, fields{"metadata": fields{"annotations": fields{annotationFormer: former}}, "spec": flow.MergePatch(have, next)})
}

// removeFlow deletes a flow that has no claims any more. Its finalizer goes first, so that no controller has to run.
func (w *worker) removeFlow(ctx context.Context, at object) error {
	kept := slices.DeleteFunc(slices.Clone(w.finalizers), func(one string) bool { return one == v1alpha1.Finalizer })
	if err := w.patch(ctx, at, fields{"metadata": fields{"finalizers": kept}}); err != nil && !kube.IsAbsent(err) {
		return err
	}
	return w.remove(ctx, at)
}

// pollEvery is the time between two looks at a flow that is not ready yet.
const pollEvery = time.Second

// await waits until the flow is ready, or will not be without a change by a person, and sets the state of the task.
func (w *worker) await(ctx context.Context) error {
	place := object{GroupVersionResource: v1alpha1.Resource(), namespace: w.Namespace, name: w.Flow}
	for until := time.Now().Add(w.cfg.Wait); ; {
		found, err := w.objects(place).Get(ctx, w.Flow, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read EventFlow %s/%s: %w", w.Namespace, w.Flow, err)
		}
		if w.judge(found); w.State == Ready || isStalled(found) || !time.Now().Before(until) {
			return nil
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
