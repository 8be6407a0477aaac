package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Served returns the resource of a kind of custom resources, in the version of the kind, or in the best one that the cluster serves if
// that is "". Any account may list kinds. A kind that is not served is fault.NotFound.
func (c *Cluster) Served(ctx context.Context, kind schema.GroupVersionKind) (found schema.GroupVersionResource, err error) {
	group := metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{Version: kind.Version}}}
	name := kind.GroupVersion().String()
	if kind.Version == "" {
		name = kind.Group
		if err := c.document(ctx, &group, kind.Group); err != nil {
			return found, err
		}
	}
	slices.SortFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	for _, v := range group.Versions {
		var list metav1.APIResourceList
		if err := c.document(ctx, &list, kind.Group, v.Version); err != nil {
			return found, err
		}
		for _, resource := range list.APIResources {
			if resource.Kind == kind.Kind && !strings.Contains(resource.Name, "/") { // else a subresource
				return schema.GroupVersionResource{Group: kind.Group, Version: v.Version, Resource: resource.Name}, nil
			}
		}
	}
	return found, fault.New(fault.NotFound, "the cluster does not have the kind %s of %s", kind.Kind, name)
}

// document reads a document about kinds into an empty object, which stays empty if the cluster does not have it.
func (c *Cluster) document(ctx context.Context, into runtime.Object, path ...string) error {
	err := c.discovery.RESTClient().Get().AbsPath(append([]string{"/apis"}, path...)...).Do(ctx).Into(into)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the kinds of %s: %w", path[0], err)
	}
	return nil
}
