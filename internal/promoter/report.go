package promoter

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// report writes the status and the Events of the pipeline's object, and the view for other processes, where their meaning
// has changed.
func (l *look) report(ctx context.Context, one *unstructured.Unstructured) error {
	observed := resource.Observed{Pipeline: l.pipeline, Faults: l.faults, Input: l.input, Plan: l.plan, RunIDs: map[int64]string{}}
	for number, id := range l.state.RunIDs {
		observed.RunIDs[number] = id.String()
	}
	if l.status == nil {
		last := resource.StatusOf(one)
		l.status = &last
	}
	status, changed := resource.Settle(*l.status, resource.Status(observed), l.now)
	if err := l.saveView(status.Conditions); err != nil { // first, since people act on a status that they see
		return err
	}
	if !changed {
		return nil
	}
	if err := l.apply(ctx, status); err != nil {
		return err
	}
	l.cfg.Metrics.StatusWritten()
	for _, event := range resource.Events(observed, *l.status) {
		l.event(ctx, event)
	}
	l.status = &status
	return nil
}

// apply writes the status by server-side apply.
func (l *look) apply(ctx context.Context, status v1alpha1.PipelineStatus) error {
	object := resource.Apply(l.pipeline, status)
	written, err := l.objects.Namespace(l.pipeline.Namespace).Apply(ctx, l.pipeline.Name, object,
		metav1.ApplyOptions{FieldManager: resource.FieldManager, Force: true}, "status")
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", l.pipeline.ID(), err)
	}
	l.term.mu.Lock()
	defer l.term.mu.Unlock()
	l.written, l.generation = written.GetResourceVersion(), l.pipeline.Generation
	return nil
}

// event writes an Event on the pipeline. One that cannot be written is logged: it is for people only.
func (l *look) event(ctx context.Context, e resource.Event) {
	object := e.Object(l.pipeline, l.now)
	object.SetGenerateName(l.pipeline.Name + ".")
	if _, err := l.cfg.Management.In(l.pipeline.Namespace).Events().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		l.log.Warn("event not written", obs.KeyPipeline, l.pipeline.ID(), obs.KeyReason, e.Reason, obs.Error(err))
	}
}

// saveView has the view of the pipeline stored.
func (l *look) saveView(conditions []metav1.Condition) error {
	view := promotions.Describe(l.input, l.plan)
	view.Pipeline = l.pipeline.ID()
	view.App = promotions.App{APIVersion: l.pipeline.App.Kind.GroupVersion().String(), Kind: l.pipeline.App.Kind.Kind, Name: l.pipeline.App.Name}
	for _, c := range conditions {
		view.Conditions = append(view.Conditions, promotions.ConditionView{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	l.addObserved(view.Observed)
	text, err := promotions.ViewDocument(view)
	if err != nil {
		return err
	}
	if text != l.view {
		l.view = text
		l.views.put(view)
	}
	return nil
}

// addObserved adds the parts that side effects need.
func (l *look) addObserved(o *promotions.Observed) {
	o.Hosts, o.Keys = map[promotion.EnvName]promotion.Host{}, map[promotion.EnvName]string{}
	for i, env := range l.pipeline.Environments {
		if env.Host != nil && i > 0 {
			o.Hosts[env.Name] = *env.Host
		}
		if env.Secret != "" {
			o.Keys[env.Name] = env.Secret
		}
	}
	for _, fault := range l.faults {
		o.Faults = append(o.Faults, fault.String())
	}
	if len(l.faults) > 0 { // nothing was decided
		o.Input = promotion.Input{Spec: l.pipeline.Spec, Seen: l.seen}.Observed()
	}
}
