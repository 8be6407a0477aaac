package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources of reviews. They are created to be answered, and never stored.
var (
	tokenReviews  = schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "tokenreviews"}
	accessReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
)

// maxToken bounds the bytes of a token that is reviewed.
const maxToken = 16 << 10

// User is a user of a cluster.
type User struct {
	Name   string
	UID    string
	Groups []string
	extra  map[string]any
}

// Access is one thing that a user may be allowed to do.
type Access struct {
	Verb, Group, Resource, Subresource string
	Namespace, Name                    string
}

// ReviewToken has the cluster check a token. valid is false for one that the cluster does not know.
func (c *Cluster) ReviewToken(ctx context.Context, token string) (user User, valid bool, err error) {
	if token == "" || len(token) > maxToken {
		return user, false, nil
	}
	answer, err := c.review(ctx, tokenReviews, "TokenReview", map[string]any{"token": token})
	if err != nil {
		return user, false, err
	}
	valid, _, _ = unstructured.NestedBool(answer, "authenticated")
	user.Name, _, _ = unstructured.NestedString(answer, "user", "username")
	user.UID, _, _ = unstructured.NestedString(answer, "user", "uid")
	user.Groups, _, _ = unstructured.NestedStringSlice(answer, "user", "groups")
	user.extra, _, _ = unstructured.NestedMap(answer, "user", "extra")
	return user, valid && user.Name != "", nil
}

// ReviewAccess has the cluster check a right of a user.
func (c *Cluster) ReviewAccess(ctx context.Context, u User, a Access) (allowed bool, err error) {
	groups := make([]any, len(u.Groups))
	for i, name := range u.Groups {
		groups[i] = name
	}
	answer, err := c.review(ctx, accessReviews, "SubjectAccessReview", map[string]any{
		"user": u.Name, "uid": u.UID, "groups": groups, "extra": u.extra,
		"resourceAttributes": map[string]any{"verb": a.Verb, "group": a.Group, "resource": a.Resource, "subresource": a.Subresource,
			"namespace": a.Namespace, "name": a.Name}})
	if err != nil {
		return false, err
	}
	allowed, _, _ = unstructured.NestedBool(answer, "allowed")
	denied, _, _ := unstructured.NestedBool(answer, "denied")
	return allowed && !denied, nil
}

// review returns the status of a review.
func (c *Cluster) review(ctx context.Context, of schema.GroupVersionResource, kind string, spec map[string]any) (map[string]any, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": of.GroupVersion().String(), "kind": kind, "spec": spec}}
	answer, err := c.Resource(of).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a %s: %w", kind, err)
	}
	status, _, err := unstructured.NestedMap(answer.Object, "status")
	if err != nil {
		return nil, fmt.Errorf("read a %s: %w", kind, err)
	}
	return status, nil
}
