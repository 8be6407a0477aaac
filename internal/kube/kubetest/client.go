package kubetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
)

// client makes requests for the objects of a kind, in one namespace or in all.
type client struct {
	api       *API
	resource  schema.GroupVersionResource
	namespace string
}

func (c client) Namespace(namespace string) dynamic.ResourceInterface {
	c.namespace = namespace
	return c
}

func (c client) at(name string) key { return key{c.resource, c.namespace, name} }

// begin receives a request and locks the API, unless it fails. The caller unlocks it.
func (c client) begin(ctx context.Context, verb, name string, subresources []string) (Kind, error) {
	r := Request{
		Verb:        verb,
		Resource:    c.resource.Resource,
		Subresource: strings.Join(subresources, "/"),
		Namespace:   c.namespace,
		Name:        name,
	}
	if err := c.api.receive(ctx, r); err != nil {
		return Kind{}, err
	}
	kind, served := c.api.kinds[c.resource]
	if !served || len(subresources) > 0 && (r.Subresource != "status" || !kind.Status) {
		return Kind{}, c.notFound(name)
	}
	c.api.mutex.Lock()
	return kind, nil
}

func (c client) notFound(name string) error {
	return apierrors.NewNotFound(c.resource.GroupResource(), name)
}

func (c client) conflict(name, format string, args ...any) error {
	return apierrors.NewConflict(c.resource.GroupResource(), name, fmt.Errorf(format, args...))
}

func (c client) invalid(kind Kind, name string, err *field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, name, field.ErrorList{err})
}

// identify completes the identity of an object.
func identify(object *unstructured.Unstructured) {
	if object.GetUID() == "" {
		object.SetUID(uuid.NewUUID())
	}
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.Now())
	}
}

func (c client) Create(
	ctx context.Context,
	given *unstructured.Unstructured,
	o metav1.CreateOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	kind, err := c.begin(ctx, "create", given.GetName(), subresources)
	if err != nil {
		return nil, err
	}
	defer c.api.mutex.Unlock()
	made := given.DeepCopy()
	if kind.Answer != nil {
		spec, _, _ := unstructured.NestedMap(made.Object, "spec")
		made.Object["status"] = kind.Answer(spec)
		return made, nil
	}
	if made.GetName() == "" && made.GetGenerateName() != "" {
		made.SetName(made.GetGenerateName() + strings.ToLower(rand.Text()[:5]))
	}
	if made.GetName() == "" {
		return nil, c.invalid(
			kind,
			"",
			field.Required(field.NewPath("metadata", "name"), "name or generateName is required"),
		)
	}
	if c.api.objects[c.at(made.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(c.resource.GroupResource(), made.GetName())
	}
	made.SetNamespace(c.namespace)
	made.SetUID("")
	made.SetCreationTimestamp(metav1.Time{})
	made.SetDeletionTimestamp(nil)
	identify(made)
	if kind.Status {
		delete(made.Object, "status")
	}
	if c.resource == Pods {
		made.Object["status"] = map[string]any{"phase": "Pending"}
	}
	if len(o.DryRun) > 0 {
		return made, nil
	}
	return c.api.store(c.at(made.GetName()), made).DeepCopy(), nil
}

func (c client) Get(
	ctx context.Context,
	name string,
	_ metav1.GetOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	if _, err := c.begin(ctx, "get", name, subresources); err != nil {
		return nil, err
	}
	defer c.api.mutex.Unlock()
	found := c.api.objects[c.at(name)]
	if found == nil {
		return nil, c.notFound(name)
	}
	return found.DeepCopy(), nil
}

func (c client) Update(
	ctx context.Context,
	given *unstructured.Unstructured,
	_ metav1.UpdateOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	kind, err := c.begin(ctx, "update", given.GetName(), subresources)
	if err != nil {
		return nil, err
	}
	defer c.api.mutex.Unlock()
	if c.api.objects[c.at(given.GetName())] == nil {
		return nil, c.notFound(given.GetName())
	}
	if given.GetResourceVersion() == "" && !kind.Unconditional {
		return nil, c.invalid(
			kind,
			given.GetName(),
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "0x0", "must be specified for an update"),
		)
	}
	return c.replace(kind, given.DeepCopy(), len(subresources) > 0)
}

// UpdateStatus changes the status, and of a pod the labels too.
func (c client) UpdateStatus(
	ctx context.Context,
	given *unstructured.Unstructured,
	o metav1.UpdateOptions,
) (*unstructured.Unstructured, error) {
	return c.Update(ctx, given, o, "status")
}

// replace stores a new state of an object: with its spec as it was, or with its status if that is a
// subresource. The caller holds the mutex.
func (c client) replace(kind Kind, next *unstructured.Unstructured, status bool) (*unstructured.Unstructured, error) {
	at := c.at(next.GetName())
	now := c.api.objects[at]
	switch {
	case next.GetUID() != "" && next.GetUID() != now.GetUID():
		return nil, c.conflict(
			at.name,
			"Precondition failed: UID in precondition: %s, UID in object meta: %s",
			next.GetUID(),
			now.GetUID(),
		)
	case next.GetResourceVersion() != "" && next.GetResourceVersion() != now.GetResourceVersion():
		return nil, c.conflict(
			at.name,
			"the object has been modified; please apply your changes to the latest version and try again",
		)
	}
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		keep(next, now, "metadata", name)
	}
	if status {
		keep(next, now, "spec")
	} else if kind.Status {
		keep(next, now, "status")
	}
	next.SetNamespace(c.namespace)
	next.SetResourceVersion(now.GetResourceVersion())
	if added := addedFinalizers(now, next); now.GetDeletionTimestamp() != nil && len(added) > 0 {
		return nil, c.invalid(
			kind,
			at.name,
			field.Forbidden(
				field.NewPath("metadata", "finalizers"),
				fmt.Sprintf(
					"no new finalizers can be added if the object is being deleted, found new finalizers %q",
					added,
				),
			),
		)
	}
	if sameObject(now, next) {
		return now.DeepCopy(), nil
	}
	if now.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 &&
		(next.GetDeletionGracePeriodSeconds() == nil || *next.GetDeletionGracePeriodSeconds() == 0) {
		c.api.objects[at] = next // watches see the deletion alone
		c.api.store(at, nil)
		return next.DeepCopy(), nil
	}
	return c.api.store(at, next).DeepCopy(), nil
}

func addedFinalizers(now, next *unstructured.Unstructured) []string {
	return slices.DeleteFunc(
		slices.Clone(next.GetFinalizers()),
		func(one string) bool { return slices.Contains(now.GetFinalizers(), one) },
	)
}

func (c client) Delete(ctx context.Context, name string, o metav1.DeleteOptions, subresources ...string) error {
	if _, err := c.begin(ctx, "delete", name, subresources); err != nil {
		return err
	}
	defer c.api.mutex.Unlock()
	now := c.api.objects[c.at(name)]
	if now == nil {
		return c.notFound(name)
	}
	if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != now.GetUID() {
		return c.conflict(
			name,
			"Precondition failed: UID in precondition: %s, UID in object meta: %s",
			*p.UID,
			now.GetUID(),
		)
	}
	if p := o.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != now.GetResourceVersion() {
		return c.conflict(
			name,
			"Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s",
			*p.ResourceVersion,
			now.GetResourceVersion(),
		)
	}
	if len(o.DryRun) > 0 {
		return nil
	}
	grace := c.grace(now, o.GracePeriodSeconds)
	if grace == 0 && len(now.GetFinalizers()) == 0 {
		c.api.store(c.at(name), nil)
		return nil
	}
	if since := now.GetDeletionTimestamp(); since != nil && *now.GetDeletionGracePeriodSeconds() <= grace {
		return nil // it is being deleted
	}
	next := now.DeepCopy()
	ends := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
	next.SetDeletionTimestamp(&ends)
	next.SetDeletionGracePeriodSeconds(&grace)
	c.api.store(c.at(name), next)
	return nil
}

// defaultGrace is the time for a pod to end, in seconds, if neither it nor its deletion names a time.
const defaultGrace = 30

// grace returns how long an object stays for its node, in seconds. A node has a pod that is bound
// to it and has not ended.
func (c client) grace(object *unstructured.Unstructured, given *int64) int64 {
	phase := fieldText(object, "status.phase")
	if c.resource != Pods || fieldText(object, "spec.nodeName") == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	if given != nil {
		return *given
	}
	if own, found, err := unstructured.NestedInt64(object.Object, "spec", "terminationGracePeriodSeconds"); found &&
		err == nil {
		return own
	}
	return defaultGrace
}

func (c client) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	kind, err := c.begin(ctx, "list", "", nil)
	if err != nil {
		return nil, err
	}
	defer c.api.mutex.Unlock()
	chosen, err := c.selector(kind, o)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{
		Object: map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind + "List"},
	}
	list.SetResourceVersion(c.api.text())
	for _, one := range c.api.sorted() {
		if chosen.has(one, c.api.objects[one]) {
			list.Items = append(list.Items, *c.api.objects[one].DeepCopy())
		}
	}
	return list, nil
}

func (c client) Patch(
	ctx context.Context,
	name string,
	form types.PatchType,
	patch []byte,
	_ metav1.PatchOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	kind, err := c.begin(ctx, "patch", name, subresources)
	if err != nil {
		return nil, err
	}
	defer c.api.mutex.Unlock()
	now := c.api.objects[c.at(name)]
	if now == nil {
		return nil, c.notFound(name)
	}
	next, err := patched(now, form, patch)
	if err != nil {
		return nil, err
	}
	if len(subresources) == 0 && next.GetName() != name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	return c.replace(kind, next, len(subresources) > 0)
}

var errNotServed = errors.New("kubetest: this request is not served")

func (c client) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return errNotServed
}

// Apply replaces the status, as if the caller owned all of it. It serves no other part of an object.
func (c client) Apply(
	ctx context.Context,
	name string,
	object *unstructured.Unstructured,
	_ metav1.ApplyOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	if !slices.Equal(subresources, []string{"status"}) {
		return nil, errNotServed
	}
	kind, err := c.begin(ctx, "patch", name, subresources)
	if err != nil {
		return nil, err
	}
	defer c.api.mutex.Unlock()
	now := c.api.objects[c.at(name)]
	if now == nil {
		return nil, c.notFound(name)
	}
	next := now.DeepCopy()
	next.SetUID(object.GetUID())
	next.Object["status"] = object.DeepCopy().Object["status"]
	return c.replace(kind, next, true)
}

func (c client) ApplyStatus(
	ctx context.Context,
	name string,
	object *unstructured.Unstructured,
	o metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	return c.Apply(ctx, name, object, o, "status")
}
