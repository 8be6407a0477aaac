package flowview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// reader reads flows of a cluster. instances returns the objects of platforms, which may be limited to a namespace for callers with
// rights there alone.
type reader struct {
	cluster   *kube.Cluster
	instances func(ctx context.Context, namespace string) (instances, error)
}

// directly returns a reader whose every answer is read from the cluster.
func directly(cluster *kube.Cluster) reader {
	return reader{cluster, func(ctx context.Context, namespace string) (instances, error) {
		return readInstances(ctx, cluster, namespace)
	}}
}

// List reads the flows of a namespace, or of all if it is "", in the order of namespaces and names.
func List(ctx context.Context, cluster *kube.Cluster, namespace string) ([]Flow, error) {
	return directly(cluster).list(ctx, namespace)
}

// Get reads a flow, and the claims on its Broker and its Subscription. An unknown one is fault.NotFound.
func Get(ctx context.Context, cluster *kube.Cluster, namespace, name string) (Flow, error) {
	return directly(cluster).get(ctx, namespace, name)
}

func (r reader) list(ctx context.Context, namespace string) (views []Flow, err error) {
	if namespace != "" && !flow.IsNamespace(namespace) {
		return nil, fault.New(fault.Invalid, "namespace %q: want the name of a namespace", namespace)
	}
	known, err := r.instances(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for object, err := range kube.List(ctx, r.cluster.Resource(v1alpha1.Resource()).Namespace(namespace), metav1.ListOptions{}) {
		if errors.Is(err, kube.ErrMany) {
			return nil, fault.New(fault.Refused, "the cluster has more than %d EventFlows", kube.MostObjects).
				WithHint("waybill flow list -n NAMESPACE --context NAME")
		}
		if err != nil {
			return nil, readError(err, "list EventFlows")
		}
		view, read := decode(object)
		combine(&view, &read, known, false)
		views = append(views, view)
	}
	slices.SortFunc(views, compare)
	return views, nil
}

func compare(a, b Flow) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (r reader) get(ctx context.Context, namespace, name string) (Flow, error) {
	if !flow.IsNamespace(namespace) || len(validation.IsDNS1123Subdomain(name)) > 0 { // they are parts of a path
		return Flow{}, notFound(fmt.Sprintf("EventFlow %s/%s", namespace, name))
	}
	object, err := r.cluster.Resource(v1alpha1.Resource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Flow{}, readError(err, fmt.Sprintf("EventFlow %s/%s", namespace, name))
	}
	view, read := decode(object)
	var known instances
	if view.ServiceInstance != nil {
		if known, err = r.instances(ctx, namespace); err != nil {
			return Flow{}, err
		}
	}
	combine(&view, &read, known, false)
	view.Conditions = conditions(read.Status)
	if view.Parts, err = readParts(ctx, r.cluster, read.Status); err != nil {
		return Flow{}, err
	}
	view.Neighbours = neighbours(view.Parts, namespace+"/"+name)
	return view, nil
}

// readParts returns the objects that carry the events of a flow, in their order.
func readParts(ctx context.Context, cluster *kube.Cluster, status v1alpha1.EventFlowStatus) (parts []Part, err error) {
	if s := status.Source; s != nil {
		parts = append(parts, Part{Role: "source", Kind: s.Kind, Namespace: s.Namespace, Name: s.Name})
	}
	if c := status.Channel; c != nil {
		parts = append(parts, Part{Role: "channel", Kind: cmp.Or(c.Kind, "Channel"), Namespace: c.Namespace, Name: c.Name})
	}
	var shared []wanted
	if s := status.Subscription; s != nil {
		shared = append(shared, wanted{"subscription", "Subscription", subscriptions, s.Namespace, s.Name, s.UID})
	}
	if b := status.Broker; b != nil {
		shared = append(shared, wanted{"broker", "Broker", brokers, b.Namespace, b.Name, b.UID})
	}
	for _, w := range shared {
		part, err := claimed(ctx, cluster, w)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// The resources of objects that flows share, in the version that nearly all clusters serve.
var (
	brokers       = schema.GroupVersionResource{Group: flow.GroupEventing, Version: "v1", Resource: "brokers"}
	subscriptions = schema.GroupVersionResource{Group: flow.GroupMessaging, Version: "v1", Resource: "subscriptions"}
)

// wanted names an object in the status of a flow.
type wanted struct {
	role, kind           string
	resource             schema.GroupVersionResource
	namespace, name, uid string
}

// read reads an object, in another version of its kind if the cluster does not serve the usual one.
func (w wanted) read(ctx context.Context, cluster *kube.Cluster) (*unstructured.Unstructured, error) {
	object, err := cluster.Resource(w.resource).Namespace(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
	if !isKindMissing(err) {
		return object, err
	}
	served, err := cluster.Served(ctx, schema.GroupVersionKind{Group: w.resource.Group, Kind: w.kind})
	if err != nil {
		return nil, err
	}
	return cluster.Resource(served).Namespace(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
}

// isKindMissing reports whether the API server does not serve the path of a request.
func isKindMissing(err error) bool { return apierrors.IsNotFound(err) && !kube.IsAbsent(err) }

// claimed reads an object that flows share. One that is gone or may not be read is a part with a state.
func claimed(ctx context.Context, cluster *kube.Cluster, w wanted) (Part, error) {
	part := Part{Role: w.role, Kind: w.kind, Namespace: w.namespace, Name: w.name}
	object, err := w.read(ctx, cluster)
	switch {
	case apierrors.IsNotFound(err):
		part.State = "gone"
		return part, nil
	case fault.Is(err, fault.NotFound):
		part.State = err.Error()
		return part, nil
	case apierrors.IsForbidden(err):
		part.State = flow.Cut("may not be read: " + err.Error())
		return part, nil
	case err != nil:
		return part, readError(err, fmt.Sprintf("%s %s/%s", w.kind, w.namespace, w.name))
	case w.uid != "" && string(object.GetUID()) != w.uid:
		part.State = "replaced"
	}
	part.Managed = claim.Managed(object)
	part.Claims = claimsOn(object)
	return part, nil
}

// claimsOn returns the claims on an object, by namespace and name of their flows.
func claimsOn(object *unstructured.Unstructured) (views []Claim) {
	for _, c := range claim.Of(object) {
		view := Claim{UID: string(c.UID), Policy: string(c.Policy)}
		if c.Name != "" {
			view.Flow = c.Namespace + "/" + c.Name
		}
		views = append(views, view)
	}
	slices.SortStableFunc(views, func(a, b Claim) int { return strings.Compare(a.Flow, b.Flow) })
	return views
}

// neighbours returns the flows with claims on the parts, except the flow own.
func neighbours(parts []Part, own string) (flows []string) {
	for _, part := range parts {
		for _, c := range part.Claims {
			if c.Flow != own && c.Flow != "" {
				flows = append(flows, c.Flow)
			}
		}
	}
	slices.Sort(flows)
	return slices.Compact(flows)
}

// readError returns an error of a reader for one of the API server.
func readError(err error, doing string) error {
	switch {
	case isKindMissing(err):
		return fault.New(fault.NotFound, "the cluster does not have the kind EventFlow").WithHint("kubectl apply -f config/flow/crd.yaml")
	case apierrors.IsNotFound(err):
		return notFound(doing)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fault.New(fault.Refused, "%s: %w", doing, err).WithHint("config/flow/rbac.yaml has the rights of the role api")
	default:
		return fault.New(fault.Unavailable, "%s: %w", doing, err)
	}
}

func notFound(title string) error {
	return fault.New(fault.NotFound, "%s not found", title).WithHint("waybill flow list")
}
