package kubetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
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

// request describes a request for objects of the client's kind.
func (c client) request(verb, name string, subresources []string) Request {
	return Request{
		Verb:        verb,
		Resource:    c.resource.Resource,
		Subresource: strings.Join(subresources, "/"),
		Namespace:   c.namespace,
		Name:        name,
	}
}

// serve does a request between the hooks before and after it.
func serve[T any](ctx context.Context, c client, r Request, do func(Kind) (T, error)) (answer T, err error) {
	if err := c.api.receive(ctx, r); err != nil {
		return answer, err
	}
	answer, err = locked(c, r, do)
	if lost := c.api.done(r); lost != nil {
		var none T
		return none, lost
	}
	return answer, err
}

// locked does a request while the API is locked, if the kind has such requests.
func locked[T any](c client, r Request, do func(Kind) (T, error)) (none T, err error) {
	c.api.mutex.Lock()
	defer c.api.mutex.Unlock()
	kind, is := c.api.kinds[c.resource]
	switch {
	case !is, r.Subresource != "" && (r.Subresource != "status" || !kind.Status), kind.Cluster && c.namespace != "":
		return none, c.notServed(r)
	}
	return do(kind.Kind)
}

// notServed returns the error of client-go for the 404 of a path that the API server does not serve.
func (c client) notServed(r Request) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, r.Verb, c.resource.GroupResource(), r.Name, "404 page not found", 0, true)
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
	r := c.request("create", given.GetName(), subresources)
	return serve(ctx, c, r, func(kind Kind) (*unstructured.Unstructured, error) {
		made := given.DeepCopy()
		if kind.Answer != nil {
			spec, _, _ := unstructured.NestedMap(made.Object, "spec")
			made.Object["status"] = kind.Answer(spec)
			return made, nil
		}
		if made.GetName() == "" && made.GetGenerateName() != "" {
			made.SetName(made.GetGenerateName() + strings.ToLower(rand.Text()[:5]))
		}
		return c.create(kind, made, len(o.DryRun) > 0)
	})
}

// create stores a new object. The caller holds the mutex.
func (c client) create(kind Kind, made *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
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
	if err := c.checkAnnotations(kind, made); err != nil {
		return nil, err
	}
	dropEmpty(made)
	made.SetNamespace(c.namespace)
	made.SetUID("")
	made.SetCreationTimestamp(metav1.Time{})
	made.SetDeletionTimestamp(nil)
	made.SetGeneration(0)
	identify(made)
	if !kind.plain {
		made.SetGeneration(1)
	}
	if kind.Status {
		delete(made.Object, "status")
	}
	if c.resource == Pods {
		made.Object["status"] = map[string]any{"phase": "Pending"}
	}
	if dry {
		return made, nil
	}
	return c.api.store(c.at(made.GetName()), made).DeepCopy(), nil
}

// maxAnnotations bounds the bytes of an object's annotations.
const maxAnnotations = 256 << 10

func (c client) checkAnnotations(kind Kind, object *unstructured.Unstructured) error {
	size := 0
	for key, value := range object.GetAnnotations() {
		size += len(key) + len(value)
	}
	if size <= maxAnnotations {
		return nil
	}
	return c.invalid(kind, object.GetName(), field.TooLong(field.NewPath("metadata", "annotations"), "", maxAnnotations))
}

func (c client) Get(
	ctx context.Context,
	name string,
	_ metav1.GetOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	r := c.request("get", name, subresources)
	return serve(ctx, c, r, func(Kind) (*unstructured.Unstructured, error) {
		found := c.api.objects[c.at(name)]
		if found == nil {
			return nil, c.notFound(name)
		}
		return found.DeepCopy(), nil
	})
}

func (c client) Update(
	ctx context.Context,
	given *unstructured.Unstructured,
	_ metav1.UpdateOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	r := c.request("update", given.GetName(), subresources)
	return serve(ctx, c, r, func(kind Kind) (*unstructured.Unstructured, error) {
		now := c.api.objects[c.at(given.GetName())]
		switch {
		case now == nil:
			return nil, c.notFound(given.GetName())
		case given.GetResourceVersion() == "" && !kind.Unconditional:
			return nil, c.invalid(
				kind,
				given.GetName(),
				field.Invalid(field.NewPath("metadata", "resourceVersion"), "0x0", "must be specified for an update"),
			)
		case given.GetUID() != "" && given.GetUID() != now.GetUID():
			return nil, c.otherUID(given.GetName(), given.GetUID(), now.GetUID())
		}
		return c.replace(kind, given.DeepCopy(), r.Subresource != "")
	})
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
	if err := c.check(kind, now, next); err != nil {
		return nil, err
	}
	for _, name := range []string{
		"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
	} {
		keep(next, now, "metadata", name)
	}
	if status {
		keep(next, now, "spec")
	} else if kind.Status {
		keep(next, now, "status")
	}
	dropEmpty(next)
	next.SetNamespace(c.namespace)
	next.SetResourceVersion(now.GetResourceVersion())
	if sameObject(now, next) {
		return now.DeepCopy(), nil
	}
	if !kind.plain && !status && !sameContent(now, next) {
		next.SetGeneration(now.GetGeneration() + 1)
	}
	if now.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 &&
		(next.GetDeletionGracePeriodSeconds() == nil || *next.GetDeletionGracePeriodSeconds() == 0) {
		c.api.objects[at] = next // watches see the deletion alone
		c.api.store(at, nil)
		return next.DeepCopy(), nil
	}
	return c.api.store(at, next).DeepCopy(), nil
}

// check returns an error if an object cannot have a new state.
func (c client) check(kind Kind, now, next *unstructured.Unstructured) error {
	added, metadata := addedFinalizers(now, next), field.NewPath("metadata")
	switch {
	case next.GetResourceVersion() != "" && next.GetResourceVersion() != now.GetResourceVersion():
		return c.conflict(
			now.GetName(),
			"the object has been modified; please apply your changes to the latest version and try again",
		)
	case next.GetUID() != "" && next.GetUID() != now.GetUID():
		return c.invalid(kind, now.GetName(), field.Invalid(metadata.Child("uid"), next.GetUID(), "field is immutable"))
	case now.GetDeletionTimestamp() != nil && len(added) > 0:
		return c.invalid(kind, now.GetName(), field.Forbidden(
			metadata.Child("finalizers"),
			fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %q", added),
		))
	}
	return c.checkAnnotations(kind, next)
}

func addedFinalizers(now, next *unstructured.Unstructured) []string {
	return slices.DeleteFunc(
		slices.Clone(next.GetFinalizers()),
		func(one string) bool { return slices.Contains(now.GetFinalizers(), one) },
	)
}

func (c client) Delete(ctx context.Context, name string, o metav1.DeleteOptions, subresources ...string) error {
	_, err := serve(ctx, c, c.request("delete", name, subresources), func(Kind) (struct{}, error) {
		return struct{}{}, c.remove(name, o)
	})
	return err
}

// otherUID returns the error about an object that is not the one with a UID.
func (c client) otherUID(name string, want, got types.UID) error {
	return c.conflict(name, "Precondition failed: UID in precondition: %s, UID in object meta: %s", want, got)
}

// remove deletes an object, or has it wait for its finalizers and its node. The caller holds the mutex.
func (c client) remove(name string, o metav1.DeleteOptions) error {
	now := c.api.objects[c.at(name)]
	if now == nil {
		return c.notFound(name)
	}
	if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != now.GetUID() {
		return c.otherUID(name, *p.UID, now.GetUID())
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
	since := now.GetDeletionTimestamp()
	if since != nil && *now.GetDeletionGracePeriodSeconds() <= grace {
		return nil // it is being deleted
	}
	next := now.DeepCopy()
	if since == nil && now.GetGeneration() > 0 {
		next.SetGeneration(now.GetGeneration() + 1)
	}
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
	r := c.request("list", "", nil)
	return serve(ctx, c, r, func(kind Kind) (*unstructured.UnstructuredList, error) {
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
	})
}

func (c client) Patch(
	ctx context.Context,
	name string,
	form types.PatchType,
	patch []byte,
	_ metav1.PatchOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	r := c.request("patch", name, subresources)
	return serve(ctx, c, r, func(kind Kind) (*unstructured.Unstructured, error) {
		now := c.api.objects[c.at(name)]
		if now == nil {
			return nil, c.notFound(name)
		}
		next, err := patched(now, form, patch)
		if err != nil {
			return nil, err
		}
		if r.Subresource == "" && next.GetName() != name {
			return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
		}
		return c.replace(kind, next, r.Subresource != "")
	})
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
	r := c.request("patch", name, subresources)
	return serve(ctx, c, r, func(kind Kind) (*unstructured.Unstructured, error) {
		now := c.api.objects[c.at(name)]
		if now == nil {
			return nil, c.notFound(name)
		}
		next := now.DeepCopy()
		next.SetUID(object.GetUID())
		next.Object["status"] = object.DeepCopy().Object["status"]
		return c.replace(kind, next, true)
	})
}

func (c client) ApplyStatus(
	ctx context.Context,
	name string,
	object *unstructured.Unstructured,
	o metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	return c.Apply(ctx, name, object, o, "status")
}
