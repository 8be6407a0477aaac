package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/semaphore"
	"github.com/waybill-dev/waybill/internal/services"
)

// Flows reads the EventFlows that are service instances. Only the handler of operations writes them. Make it with NewFlows.
type Flows struct {
	Cluster dynamic.Interface
	reads   *semaphore.Semaphore // bounds the requests of platforms that wait for the cluster
}

// Bounds of reads. Further requests are refused soon, so that a cluster that hangs does not hold all connections of the broker.
const (
	readTime     = 15 * time.Second // one request to the API server
	readsAtATime = 20
	readPatience = 2 * time.Second
)

// NewFlows returns the flows of a cluster.
func NewFlows(cluster dynamic.Interface) *Flows {
	return &Flows{cluster, semaphore.New(readsAtATime, readPatience, "the cluster answers too slowly")}
}

// flowPolicy repeats attempts until the deadline of the operation: an API server that is away fails none.
func flowPolicy() action.Policy {
	return action.Policy{Retries: action.Unbounded, Initial: action.Duration(time.Second), Factor: 2, Max: action.Duration(time.Minute), Jitter: 0.1,
		AttemptTimeout: action.Duration(time.Minute)}
}

// flowAction returns the action of an operation of a flow.
func flowAction(verb services.Verb, instance string, f *osb.Flow) (a action.Action, err error) {
	order := flow.Order{Verb: verb, Instance: instance, Namespace: f.Namespace, Activation: f.Activation, WaitForReady: f.WaitForReady}
	if verb != services.Deprovision {
		order.Spec = json.RawMessage(f.Spec)
	}
	a = action.Action{Handler: flow.Handler, Lane: flow.Handler, Policy: flowPolicy(), Delivery: action.AtLeastOnce}
	a.Parameters, err = documentOf(order)
	return a, err
}

// credentials reads the address and the source of a flow, which its bindings get.
func (b *Broker) credentials(ctx context.Context, instance string, f *osb.Flow) (osb.Canonical, error) {
	name := flow.InstanceFlow(instance)
	if b.Flows == nil {
		return "", osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the service instance is a flow, and server.yaml has no section flow")
	}
	object, err := b.Flows.get(ctx, f.Namespace, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", unreadable(err)
	}
	if err == nil && object.GetLabels()[flow.LabelInstance] != flow.InstanceHash(instance) {
		object = &unstructured.Unstructured{} // it is not of this service instance
	}
	var found v1alpha1.EventFlow
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &found)
	}
	if err != nil || found.Status.SinkURI == "" {
		return "", osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the flow %s/%s has no address at present", f.Namespace, name)
	}
	values := map[string]any{"sinkUri": found.Status.SinkURI}
	if source := found.Spec.Source.Application; source != "" {
		values["source"] = source
	}
	return osb.CanonicalOf(values)
}

// leftover returns the flow of a service instance in the namespaces of a request; nil if none has one. The API server is read
// live: a wrong answer would make the platform forget the service instance.
func (f *Flows) leftover(ctx context.Context, instance string, scope osb.Scope) (*osb.Flow, error) {
	if !scope.MountAllowed() {
		return nil, nil
	}
	release, err := f.reads.Acquire(ctx)
	if err != nil {
		return nil, unreadable(err)
	}
	defer release()
	// The name and the label leave one flow for each namespace, however many have the label. One list is enough for a user of many namespaces.
	found, err := f.list(ctx, scope.Mount, metav1.ListOptions{LabelSelector: flow.InstanceSelector(instance),
		FieldSelector: "metadata.name=" + flow.InstanceFlow(instance)})
	if apierrors.IsNotFound(err) {
		return nil, nil // the kind is not installed
	}
	if err != nil {
		return nil, unreadable(err)
	}
	for _, one := range found.Items {
		if scope.Allows(one.GetNamespace()) {
			return &osb.Flow{Namespace: one.GetNamespace()}, nil
		}
	}
	return nil, nil
}

// get reads a flow for a request of a platform.
func (f *Flows) get(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	release, err := f.reads.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := bounded(ctx)
	defer cancel()
	return f.objects(namespace).Get(ctx, name, metav1.GetOptions{})
}

// list lists flows of a namespace; "": of all.
func (f *Flows) list(ctx context.Context, namespace string, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return f.objects(namespace).List(ctx, options)
}

// bounded bounds one request to the API server, which itself may keep a client waiting without end.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, readTime, fmt.Errorf("the cluster did not answer within %s", readTime))
}

// objects returns the EventFlows of a namespace; "": of all.
func (f *Flows) objects(namespace string) dynamic.ResourceInterface {
	return f.Cluster.Resource(v1alpha1.Resource()).Namespace(namespace)
}

// unreadable returns the error of a cluster that does not answer. A platform repeats its request then.
func unreadable(err error) error {
	return fmt.Errorf("read EventFlows: %w: %w", err,
		osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the cluster of the flows does not answer: send the request again"))
}
