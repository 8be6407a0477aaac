// Package proof has the management cluster answer who approves: it reads the keys that sign approvals, and reviews tokens of
// Kubernetes and the rights of their users.
package proof

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
)

// Key is the name of the key of a Secret that signs approvals. Others are named KeyPrefix and more, so that keys can be replaced one
// after the other. Nothing else in a Secret is a key: it may have a user name, which is known.
const (
	Key       = "hmac-key"
	KeyPrefix = Key + "-"
)

// patience bounds a check.
const patience = 10 * time.Second

// Checker checks proofs with a management cluster.
type Checker struct {
	Management *kube.Cluster
	Log        *slog.Logger
}

// Keys returns the Secret whose keys sign approvals of an environment, as NAMESPACE/NAME, and its keys by name. An environment without
// one has none. The error is fault.NotFound for an unknown pipeline or environment.
func (c Checker) Keys(ctx context.Context, pipeline, environment string) (secret string, keys map[string][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	namespace, name, err := split(pipeline)
	if err != nil {
		return "", nil, err
	}
	object, err := c.Management.Resource(v1alpha1.Resource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil, notFound(pipeline)
	}
	if err != nil {
		return "", nil, fault.New(fault.Unavailable, "read pipeline %s: %w", pipeline, err)
	}
	parsed, _ := resource.Parse(object, resource.Options{Now: time.Now()})
	i := slices.IndexFunc(parsed.Environments, func(e resource.Environment) bool { return string(e.Name) == environment })
	if i < 0 {
		return "", nil, fault.New(fault.NotFound, "pipeline %s has no environment %q", pipeline, environment)
	}
	if secret = parsed.Environments[i].Secret; secret == "" {
		return "", nil, nil
	}
	data, _, err := c.Management.In(namespace).Secret(ctx, secret)
	switch {
	case fault.Is(err, fault.NotFound):
		return namespace + "/" + secret, nil, nil
	case err != nil:
		return "", nil, fault.New(fault.Unavailable, "read the keys of approvals: %w", err)
	}
	keys = map[string][]byte{}
	for name, value := range data {
		if len(value) > 0 && (name == Key || strings.HasPrefix(name, KeyPrefix)) {
			keys[name] = value
		}
	}
	return namespace + "/" + secret, keys, nil
}

// Approver returns the user of a token who may approve in an environment. The right is the verb approve of the resource
// pipelines/ENVIRONMENT with the pipeline's name. Errors: fault.Unauthorized for an unknown token; fault.NotFound for a user who may
// not read the pipeline either; fault.Forbidden for one who may not approve, or has the name of a group or key.
func (c Checker) Approver(ctx context.Context, token, pipeline, environment string) (who admission.Person, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	namespace, name, err := split(pipeline)
	if err != nil {
		return who, err
	}
	user, valid, err := c.Management.ReviewToken(ctx, token)
	if err != nil {
		return who, fault.New(fault.Unavailable, "have the management cluster check the token: %w", err)
	}
	if !valid {
		return who, fault.New(fault.Unauthorized, "the token is not valid, here or in the management cluster")
	}
	access := kube.Access{Verb: "approve", Group: v1alpha1.Group, Resource: "pipelines", Subresource: environment, Namespace: namespace, Name: name}
	allowed, err := c.Management.ReviewAccess(ctx, user, access)
	if err != nil {
		return who, fault.New(fault.Unavailable, "have the management cluster check the rights of %s: %w", user.Name, err)
	}
	if !allowed {
		return who, c.refusal(ctx, user, access)
	}
	if strings.HasPrefix(user.Name, "group:") || strings.HasPrefix(user.Name, "key:") {
		return who, fault.New(fault.Forbidden, "the user %q has the name of a group or a key, so its approval would not count", user.Name)
	}
	return admission.Person{Name: user.Name, Groups: user.Groups}, nil
}

// refusal returns why a user may not approve. One who may not read the pipeline does not learn that it exists.
func (c Checker) refusal(ctx context.Context, user kube.User, a kube.Access) error {
	pipeline := a.Namespace + ":" + a.Name
	read := a
	read.Verb, read.Subresource = "get", ""
	visible, err := c.Management.ReviewAccess(ctx, user, read)
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "have the management cluster check the rights of %s: %w", user.Name, err)
	case !visible:
		return notFound(pipeline)
	}
	return fault.New(fault.Forbidden, "%s may not approve in %s/%s", user.Name, pipeline, a.Subresource).
		WithHint("the right is the verb approve of pipelines/%s in the group %s", a.Subresource, a.Group)
}

func notFound(pipeline string) error {
	return fault.New(fault.NotFound, "pipeline %q not found", pipeline)
}

// split returns the namespace and the name of a pipeline. Names that no object can have are not found: they would be parts of an
// address.
func split(pipeline string) (namespace, name string, err error) {
	namespace, name, _ = strings.Cut(pipeline, ":")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", notFound(pipeline)
	}
	return namespace, name, nil
}
