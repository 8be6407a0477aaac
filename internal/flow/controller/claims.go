package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// isShared reports whether flows share the objects of a kind by claims.
func isShared(o *flow.Object) bool {
	switch o.Kind.GroupKind() {
	case subscriptions, brokers, peerAuthentications:
		return true
	}
	return false
}

// noteClaims keeps the relation of claims up to date, and has the sweeper look at an object whose claims have changed.
func (c *Controller) noteClaims(was, now *flow.Object) {
	latest := now
	if now == nil {
		latest = was
	}
	if !isShared(latest) {
		return
	}
	k := keyOf(latest)
	before, after := claimsOf(was), claimsOf(now)
	for uid := range before {
		if _, kept := after[uid]; !kept {
			c.claims.remove(uid, k)
		}
	}
	sweep := was == nil || !maps.Equal(before, after)
	for uid, one := range after {
		c.claims.add(uid, k) // also if nothing differs, since events may be missing in between
		sweep = sweep || c.flows.live(one.Namespace, one.Name, uid) == nil
	}
	if now != nil && sweep {
		c.sweeps.Add(k)
	}
}

// onlyClaimsDiffer reports whether two states of a shared object differ in nothing but claims and versions.
func onlyClaimsDiffer(was, now *flow.Object) bool {
	if !isShared(now) || maps.Equal(was.Annotations, now.Annotations) {
		return false
	}
	before, after := *was, *now
	before.Annotations, after.Annotations = withoutClaims(was), withoutClaims(now)
	before.ResourceVersion = after.ResourceVersion
	return reflect.DeepEqual(before, after)
}

func withoutClaims(o *flow.Object) map[string]string {
	rest := maps.Clone(o.Annotations)
	maps.DeleteFunc(rest, func(name, _ string) bool { return strings.HasPrefix(name, v1alpha1.ClaimPrefix) })
	return rest
}

// wakeClaimants wakes the flows whose claims on an object were added, changed or removed. If it is a Subscription it wakes its other
// claimants too, since another flow may decide the delivery now.
func (c *Controller) wakeClaimants(was, now *flow.Object) {
	before, after := claimsOf(was), claimsOf(now)
	for _, one := range []struct{ claims, others map[types.UID]claim.Claim }{{before, after}, {after, before}} {
		for uid, its := range one.claims {
			if one.others[uid] != its || now.Kind.GroupKind() == subscriptions {
				c.queue.Add(its.Namespace + "/" + its.Name)
			}
		}
	}
}

// claimsOf returns the claims on an object, by UID; of nil none.
func claimsOf(o *flow.Object) map[types.UID]claim.Claim {
	if o == nil {
		return nil
	}
	all := map[types.UID]claim.Claim{}
	for _, one := range claim.Of(o) {
		all[one.UID] = one
	}
	return all
}

// shares returns shared objects, whose claims are judged by whether their flows exist.
func (c *Controller) shares(objects dynamic.ResourceInterface) claim.Objects {
	return claim.Objects{ResourceInterface: objects, Live: c.exists}
}

// exists reports whether the flow of a claim exists. Only the API server can deny it.
func (c *Controller) exists(ctx context.Context, one claim.Claim) (bool, error) {
	if c.flows.live(one.Namespace, one.Name, one.UID) != nil {
		return true, nil
	}
	found, err := c.cfg.Cluster.Resource(v1alpha1.Resource()).Namespace(one.Namespace).Get(ctx, one.Name, metav1.GetOptions{})
	if kube.IsAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read EventFlow %s/%s: %w", one.Namespace, one.Name, err)
	}
	return found.GetUID() == one.UID, nil
}
