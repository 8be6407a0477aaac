package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/obs"
)

// sweep removes stale claims from a shared object, and deletes the object if nothing else is left. At rest it makes no request,
// since the flows of all claims are known. Until they are, it makes none either.
func (c *Controller) sweep(ctx context.Context, k key) (time.Duration, error) {
	if !c.leads.Load() || !c.flows.known() {
		return 0, nil // all shared objects are swept when it does, and they are
	}
	seen, err := c.cache.get(k)
	if err != nil || !c.isStale(seen.Object) {
		return 0, nil //nolint:nilerr // an object that is not seen yet is swept later
	}
	objects, err := c.objects(k.GroupKind, k.namespace)
	if err != nil {
		return 0, nil //nolint:nilerr // the kind was removed
	}
	left, err := c.shares(objects).Sweep(ctx, k.name, seen.Object.UID)
	switch {
	case err != nil:
		return 0, fmt.Errorf("sweep %s: %w", seen.Ref, err)
	case left != claim.Kept:
		c.log.Info("shared object swept", obs.KeyRef, seen.Ref.String(), obs.KeyOutcome, left)
		c.cfg.Metrics.Swept()
	}
	return 0, nil
}

// isStale reports whether a managed object has no claim, or one whose flow the informer does not have.
func (c *Controller) isStale(o *flow.Object) bool {
	if o == nil || !claim.Managed(o) || o.DeletionTimestamp != nil {
		return false
	}
	all := claimsOf(o)
	for _, one := range all {
		if c.flows.live(one.Namespace, one.Name, one.UID) == nil {
			return true
		}
	}
	return len(all) == 0
}

// sweepAll has the sweeper look at all shared objects.
func (c *Controller) sweepAll() {
	for _, k := range c.cache.all(isShared) {
		c.sweeps.Add(k)
	}
}
