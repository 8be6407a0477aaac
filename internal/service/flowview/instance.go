package flowview

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
)

// Combined is the status of a flow together with its service instance, with the reason and text of the object that decided.
type Combined struct {
	Status  string `json:"status"` // NotFound, Pending, Provisioning, Running, Failed or Deprovisioning
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Running is the combined status of flows that need no one's attention.
const Running = string(flow.StatusRunning)

// Statuses returns the combined statuses that an existing flow can have.
func Statuses() []string {
	return []string{Running, string(flow.StatusProvisioning), string(flow.StatusPending), string(flow.StatusFailed),
		string(flow.StatusDeprovisioning)}
}

// ServiceInstance is the service instance that a flow was made for, and the object by which a platform in the cluster wants it.
type ServiceInstance struct {
	ID         string   `json:"id"`
	APIVersion string   `json:"apiVersion,omitempty"` // left out, like the rest, if the cluster has no object for it
	Namespace  string   `json:"namespace,omitempty"`
	Name       string   `json:"name,omitempty"`
	Alone      Combined `json:"alone,omitzero"`   // its status without the flow
	Unread     string   `json:"unread,omitempty"` // reason why objects of platforms could not be read
}

// platforms returns the kinds of objects by which platforms want service instances, each with the path of the service instance's id.
func platforms() []platform {
	return []platform{
		{schema.GroupVersionResource{Group: flow.GroupCatalog, Version: "v1beta1", Resource: "serviceinstances"}, []string{"spec", "externalID"}},
		{schema.GroupVersionResource{Group: flow.GroupOperator, Version: "v1", Resource: "serviceinstances"}, []string{"status", "instanceID"}},
	}
}

type platform struct {
	resource schema.GroupVersionResource
	id       []string
}

// instances holds the objects of platforms.
type instances struct {
	byID   map[string]*unstructured.Unstructured
	unread string // reason why some could not be read
}

// readInstances reads the objects of platforms in all namespaces, or in one if the caller may not read others. A kind that is not
// installed has none.
func readInstances(ctx context.Context, cluster *kube.Cluster, namespace string) (known instances, err error) {
	known.byID = map[string]*unstructured.Unstructured{}
	for _, p := range platforms() {
		objects := cluster.Resource(p.resource)
		err := known.read(ctx, p, objects)
		if apierrors.IsForbidden(err) && namespace != "" {
			err = known.read(ctx, p, objects.Namespace(namespace))
		}
		switch {
		case err == nil, apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err), errors.Is(err, kube.ErrMany):
			known.unread = flow.Cut("service instances of " + p.resource.Group + " cannot be read: " + err.Error())
		default:
			return instances{}, readError(err, "list service instances of "+p.resource.Group)
		}
	}
	return known, nil
}

// read keeps the objects of a platform.
func (i *instances) read(ctx context.Context, p platform, objects dynamic.ResourceInterface) error {
	for object, err := range kube.List(ctx, objects, metav1.ListOptions{}) {
		if err != nil {
			return err
		}
		i.add(p, object)
	}
	return nil
}

// add keeps an object with an id, without the parameters in its spec. Of objects with the same id the first one counts.
func (i *instances) add(p platform, object *unstructured.Unstructured) {
	id, _, _ := unstructured.NestedString(object.Object, p.id...)
	if _, known := i.byID[id]; id == "" || known {
		return
	}
	delete(object.Object, "spec")
	object.SetManagedFields(nil)
	i.byID[id] = object
}

// combine sets the combined status of a flow now; nil: it does not exist. The view has the id of its service instance. expected reports
// whether the log has that service instance, which is not gone; it counts for an absent flow only.
func combine(view *Flow, read *v1alpha1.EventFlow, known instances, expected bool) {
	now := time.Now()
	var object *unstructured.Unstructured
	if of := view.ServiceInstance; of != nil {
		of.Unread = known.unread
		if object = known.byID[of.ID]; object != nil {
			of.APIVersion, of.Namespace, of.Name = object.GetAPIVersion(), object.GetNamespace(), object.GetName()
			of.Alone, of.Unread = combined(flow.Combine(object, nil, false, now)), ""
		}
	}
	view.Combined = combined(flow.Combine(object, read, expected, now))
	if view.Combined.Reason == "" && view.Ready == "Unknown" { // an object without the form of a flow has no other text
		view.Combined.Message = cmp.Or(view.Combined.Message, view.Message)
	}
}

func combined(c flow.Combined) Combined {
	return Combined{Status: string(c.Status), Reason: flow.Cut(strings.TrimSpace(c.Reason)), Message: flow.Cut(c.Message)}
}
