package proof

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
)

// warnEvery is the time in which a warning is written once. Clusters keep Events for as long by default.
const warnEvery = time.Hour

// Warn writes a warning Event on a pipeline, unless any process has written the same one in this hour: its name is made from them. One
// that cannot be written is logged, since it is for people only.
func (c Checker) Warn(ctx context.Context, pipeline, reason, message string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.warn(ctx, pipeline, resource.Event{Warning: true, Reason: reason, Message: message}); err != nil {
		c.Log.Warn("event not written", obs.KeyPipeline, pipeline, obs.KeyReason, reason, obs.Error(err))
	}
}

func (c Checker) warn(ctx context.Context, pipeline string, e resource.Event) error {
	namespace, name, err := split(pipeline)
	if err != nil {
		return err
	}
	object, err := c.Management.Resource(v1alpha1.Resource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read pipeline %s: %w", pipeline, err)
	}
	now := time.Now()
	event := e.Object(resource.Pipeline{Namespace: namespace, Name: name, UID: string(object.GetUID())}, now)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d", object.GetUID(), e.Reason, e.Message, now.Truncate(warnEvery).Unix()))
	event.SetName(fmt.Sprintf("%s.%x", name, sum[:8]))
	_, err = c.Management.In(namespace).Events().Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
