package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/obs"
)

// sweepLater has the sweeper look at a shared object.
func (c *Controller) sweepLater(k key) {
	name := k.Kind + " " + k.namespace + "/" + k.name
	c.mu.Lock()
	c.shared[name] = k
	c.mu.Unlock()
	c.sweeps.Add(name)
}

// sweep removes stale claims from a shared object, and deletes the object if nothing else is left. At rest it makes no request,
// since the flows of all claims are known.
func (c *Controller) sweep(ctx context.Context, name string) (time.Duration, error) {
	if !c.leads.Load() {
		return 0, nil // all shared objects are swept when it does
	}
	c.mu.Lock()
	k := c.shared[name]
	delete(c.shared, name)
	c.mu.Unlock()
	err := c.sweepObject(ctx, k)
	if err != nil {
		c.mu.Lock()
		c.shared[name] = k // it is swept again
		c.mu.Unlock()
	}
	return 0, err
}

func (c *Controller) sweepObject(ctx context.Context, k key) error {
	seen, err := c.cache.get(k)
	if err != nil || seen.Object == nil || !claim.Managed(seen.Object) || seen.Object.DeletionTimestamp != nil {
		return nil //nolint:nilerr // an object that is not seen yet is swept later
	}
	stale := len(seen.Object.Annotations) > 0
	for _, one := range claimsOf(seen.Object) {
		if stale = c.flows.live(one.Namespace, one.Name, one.UID) == nil; stale {
			break
		}
	}
	if !stale {
		return nil
	}
	objects, err := c.objects(k.GroupKind, k.namespace)
	if err != nil {
		return nil //nolint:nilerr // the kind was removed
	}
	left, err := c.shares(objects).Sweep(ctx, k.name, seen.Object.UID)
	if err != nil {
		return fmt.Errorf("sweep %s: %w", seen.Ref, err)
	}
	c.log.Info("shared object swept", obs.KeyRef, seen.Ref.String(), obs.KeyOutcome, left)
	c.cfg.Metrics.Swept()
	return nil
}
