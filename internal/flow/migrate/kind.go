package migrate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// kind is a kind of objects that a migration reads.
type kind struct {
	group, resource string
	versions        []string // the preferred one first
	labels, fields  string   // selectors; "": all objects
}

// reads returns the kinds that a migration reads, and where their objects go.
func (f *Found) reads() map[*Objects]kind {
	return map[*Objects]kind{
		&f.Instances:      {flow.GroupCatalog, "serviceinstances", []string{"v1beta1"}, "", ""},
		&f.Classes:        {flow.GroupCatalog, "serviceclasses", []string{"v1beta1"}, "", ""},
		&f.Plans:          {flow.GroupCatalog, "serviceplans", []string{"v1beta1"}, "", ""},
		&f.ServiceBrokers: {flow.GroupCatalog, "servicebrokers", []string{"v1beta1"}, "", "metadata.name=" + OldBroker},
		&f.Applications:   {flow.GroupConnector, "applications", []string{"v1alpha1"}, "", ""},
		&f.Activations:    {flow.GroupConnector, flow.Activations().Resource, []string{"v1alpha1"}, "", ""},
		&f.Channels:       {flow.GroupMessaging, "channels", []string{"v1", "v1beta1", "v1alpha1"}, applicationLabel, ""},
		&f.Subscriptions:  {flow.GroupMessaging, "subscriptions", []string{"v1", "v1beta1", "v1alpha1"}, "", ""},
		&f.Brokers:        {flow.GroupEventing, "brokers", []string{"v1", "v1beta1", "v1alpha1"}, "", "metadata.name=" + flow.DefaultBroker},
		&f.Policies:       {flow.GroupSecurity, "peerauthentications", []string{"v1", "v1beta1"}, "", ""},
		&f.FormerPolicies: {"authentication.istio.io", "policies", []string{"v1alpha1"}, "", ""},
		&f.Namespaces:     {"", "namespaces", []string{"v1"}, "", ""},
		&f.Flows:          {v1alpha1.Group, "eventflows", []string{v1alpha1.Version}, "", ""},
		&f.Deployments:    {"apps", "deployments", []string{"v1"}, "", "metadata.name=" + OldBroker},
	}
}

// list reads all objects of a kind, of the first version that the cluster serves.
func (m *Migration) list(ctx context.Context, of kind) (Objects, error) {
	for _, version := range of.versions {
		found := Objects{Kind: schema.GroupVersionResource{Group: of.group, Version: version, Resource: of.resource}}
		for one, err := range kube.List(ctx, m.cfg.Cluster.Resource(found.Kind), metav1.ListOptions{LabelSelector: of.labels, FieldSelector: of.fields}) {
			if apierrors.IsNotFound(err) {
				found.Kind = schema.GroupVersionResource{} // this version is not served
				break
			}
			if err != nil {
				return Objects{}, fmt.Errorf("list %s: %w", found.Kind.GroupResource(), err)
			}
			found.Items = append(found.Items, *one)
		}
		if found.Installed() {
			return found, nil
		}
	}
	return Objects{}, nil
}

// clusterInfo are the places where the Service Catalog may keep its id of the cluster.
var clusterInfo = [...]string{"kyma-system", "default"}

// clusterID reads the id that the Service Catalog sends to brokers as organization; "": none was found.
func (m *Migration) clusterID(ctx context.Context) (string, error) {
	maps := m.cfg.Cluster.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	for _, namespace := range clusterInfo {
		found, err := maps.Namespace(namespace).Get(ctx, "cluster-info", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read ConfigMap %s/cluster-info: %w", namespace, err)
		}
		if id := text(found.Object, "data", "id"); id != "" {
			return id, nil
		}
	}
	return "", nil
}

// claim returns the claim that the flow of a task has on objects of a kind. An EventActivation is claimed by the service instance.
func (t *Task) claim(of schema.GroupVersionResource) claim.Claim {
	if of == flow.Activations() {
		return flow.InstanceClaim(t.Namespace, t.ID)
	}
	return claim.Claim{UID: t.uid, Policy: v1alpha1.WhenUnused, Namespace: t.Namespace, Name: t.Flow}
}

// objects returns a client for an object, and those that share its namespace.
func (m *Migration) objects(at object) claim.Objects {
	c := claim.Objects{ResourceInterface: m.cfg.Cluster.Resource(at.GroupVersionResource), Live: m.exists}
	if at.namespace != "" {
		c.ResourceInterface = m.cfg.Cluster.Resource(at.GroupVersionResource).Namespace(at.namespace)
	}
	if at.GroupVersionResource == flow.Activations() {
		c.Live = claim.Lasting
	}
	return c
}

// exists reports whether the flow of a claim exists.
func (m *Migration) exists(ctx context.Context, one claim.Claim) (bool, error) {
	found, err := m.cfg.Cluster.Resource(v1alpha1.Resource()).Namespace(one.Namespace).Get(ctx, one.Name, metav1.GetOptions{})
	if kube.IsAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read EventFlow %s/%s: %w", one.Namespace, one.Name, err)
	}
	return found.GetUID() == one.UID, nil
}
