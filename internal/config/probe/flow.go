package probe

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
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
		{Group: flow.GroupEventing, Kind: "Broker"},
		{Group: flow.GroupMessaging, Kind: "Channel"},
		{Group: flow.GroupMessaging, Kind: "Subscription"},
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
	_, err := cluster.Served(ctx, kind)
	if fault.Is(err, fault.NotFound) {
		return absent(err)
	}
	return refusedBy(err, "look for the kind "+kind.Kind)
}
