package probe

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
)

// flowKinds searches for the kinds that EventFlows need, in the cluster of the section flow, and for those that the broker's layout
// of Applications needs. Any account may list kinds.
func (l *looker) flowKinds(ctx context.Context, cfg config.Config) {
	if cfg.Flow == nil {
		return
	}
	at := []string{"flow"}
	cluster, err := kube.Open(kube.Config{Kubeconfig: cfg.Flow.Kubeconfig, Context: cfg.Flow.Context, Hint: "name a file: flow.kubeconfig"})
	if err != nil {
		l.look(ctx, append(at, "kubeconfig"), func(context.Context) error { return absent(err) })
		return
	}
	kinds := []schema.GroupVersionKind{
		{Group: v1alpha1.Group, Version: v1alpha1.Version, Kind: v1alpha1.Kind},
		{Group: flow.GroupEventing, Version: "v1", Kind: "Broker"},
		{Group: flow.GroupMessaging, Version: "v1", Kind: "Subscription"},
	}
	for _, kind := range kinds {
		l.look(ctx, at, func(ctx context.Context) error { return installed(ctx, cluster, kind) })
	}
	if cfg.Broker != nil && cfg.Broker.Layout != "" {
		kind := schema.GroupVersionKind{Group: flow.GroupConnector, Version: "v1alpha1", Kind: "Application"}
		l.look(ctx, []string{"broker", "layout"}, func(ctx context.Context) error { return installed(ctx, cluster, kind) })
	}
}

// installed searches for a kind.
func installed(ctx context.Context, cluster *kube.Cluster, kind schema.GroupVersionKind) error {
	client, err := discovery.NewDiscoveryClientForConfig(cluster.Config())
	if err != nil {
		return absent(err)
	}
	var list metav1.APIResourceList
	err = client.RESTClient().Get().AbsPath("/apis", kind.Group, kind.Version).Do(ctx).Into(&list)
	if err != nil && !apierrors.IsNotFound(err) {
		return refusedBy(err, "look for kinds of "+kind.GroupVersion().String())
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
		return absent(fmt.Errorf("the cluster does not have the kind %s of %s", kind.Kind, kind.GroupVersion()))
	}
	return nil
}
