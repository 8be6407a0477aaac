package promoter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// clusterResource is the resource of GitopsClusters.
var clusterResource = schema.GroupVersionResource{Group: "gitops.weave.works", Version: "v1alpha1", Resource: "gitopsclusters"}

// reportCluster sets the condition Ready of a GitopsCluster from its connection, if no other controller does.
func (t *term) reportCluster(ctx context.Context, name string) (again time.Duration, err error) {
	for _, status := range t.pool.Clusters() {
		if status.Name == name && status.SetReady {
			return 0, t.setReady(ctx, status)
		}
	}
	return 0, nil
}

// setReady writes the condition Ready and keeps other conditions: the list may have no keys in the installed definition.
func (t *term) setReady(ctx context.Context, s pool.Status) error {
	if s.Unseen == promotion.NotSynced {
		return nil // it is being connected
	}
	namespace, name, _ := strings.Cut(s.Name, "/")
	objects := t.cfg.Management.Resource(clusterResource).Namespace(namespace)
	object, err := objects.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it was deleted
	}
	if err != nil {
		return fmt.Errorf("read cluster %s: %w", s.Name, err)
	}
	condition := map[string]any{"type": "Ready", "status": "True", "reason": "Connected", "message": "Waybill is connected",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	if s.Unseen != "" {
		condition["status"], condition["reason"], condition["message"] = "False", string(s.Unseen), s.Message
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	at := slices.IndexFunc(conditions, func(one any) bool {
		known, ok := one.(map[string]any)
		return ok && known["type"] == "Ready"
	})
	if at < 0 {
		conditions, at = append(conditions, map[string]any{}), len(conditions)
	} else if known, _ := conditions[at].(map[string]any); known["status"] == condition["status"] &&
		known["message"] == condition["message"] {
		return nil
	}
	conditions[at] = condition
	if err := unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"); err != nil {
		return fmt.Errorf("status of cluster %s: %w", s.Name, err)
	}
	if _, err := objects.UpdateStatus(ctx, object, metav1.UpdateOptions{FieldManager: resource.FieldManager}); err != nil {
		return fmt.Errorf("write the status of cluster %s: %w", s.Name, err)
	}
	return nil
}

func (t *term) clusterFailed(name string, err error, again time.Duration) {
	t.log.Warn("status of a cluster not written", obs.KeyName, name, obs.Error(err), obs.KeyRetryIn, again.String())
}
