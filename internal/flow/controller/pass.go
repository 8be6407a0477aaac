package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/obs"
)

// pass is one look at a flow and its needs, and the writes that follow.
type pass struct {
	*Controller
	flow *v1alpha1.EventFlow
	log  *slog.Logger // names the flow
	used set[key]     // needs of the flow
	kept set[key]     // shared objects that the flow keeps its claims on
}

// handle handles a flow by its name.
func (c *Controller) handle(ctx context.Context, name string) (again time.Duration, err error) {
	if !c.leads.Load() {
		return 0, nil // all flows are handled when it does
	}
	namespace, bare, _ := strings.Cut(name, "/")
	f := c.flows.get(namespace, bare)
	p := &pass{Controller: c, used: set[key]{}, kept: set[key]{}}
	defer p.forgetUnused(name)
	switch {
	case f == nil:
		c.queue.Forget(name)
		return 0, nil
	case f.fault != nil && f.DeletionTimestamp == nil:
		c.log.Warn("flow cannot be read", obs.KeyFlow, name, obs.Error(f.fault))
		return 0, nil
	}
	p.flow, p.log = f.EventFlow, c.log.With(obs.KeyFlow, name, obs.KeyFlowUID, f.UID)
	defer func() {
		if c.flows.live(namespace, bare, f.UID) == nil {
			c.memory.Forget(f.UID) // it may have left while this pass wrote to it
		}
	}()
	if flow.ConditionOf(f.Status, v1alpha1.ConditionReady).Status == metav1.ConditionTrue {
		c.memory.Of(f.UID).wasReady = true
	}
	if m := c.memory.Of(f.UID); isOlderVersion(f.ResourceVersion, m.written) && time.Since(m.at) < trust {
		p.used = nil
		return 0, nil // our own write wakes it
	}
	if wait := c.memory.Of(f.UID).pause(time.Now()); wait > 0 {
		c.queue.AddAfter(name, wait)
		p.used = nil
		return 0, nil
	}
	defer c.cfg.Metrics.Pass(time.Now(), &err)
	err = p.run(ctx)
	if errors.Is(err, errUnseen) {
		p.used = nil // all needs stay
		return 0, nil
	}
	return 0, err
}

// mostPasses bounds the passes over a flow in a second. Two instances, one of whose informers is late, undo each other's writes until it
// has caught up; the bound keeps them from doing so at full speed.
const mostPasses = 20

// pause counts a pass, and returns how long it has to wait.
func (m *memory) pause(now time.Time) time.Duration {
	if now.Sub(m.since) >= time.Second {
		m.since, m.passes = now, 0
	}
	if m.passes++; m.passes <= mostPasses {
		return 0
	}
	return m.since.Add(time.Second).Sub(now)
}

// run makes the pass.
func (p *pass) run(ctx context.Context) error {
	switch {
	case p.flow.DeletionTimestamp != nil:
		return p.remove(ctx)
	case p.flow.Spec.Suspend:
		return p.report(ctx, nil, outcome{})
	case !slices.Contains(p.flow.Finalizers, v1alpha1.Finalizer):
		return p.patchFinalizers(ctx, append(slices.Clone(p.flow.Finalizers), v1alpha1.Finalizer))
	}
	return p.reconcile(ctx)
}

// need notes that the state of the flow depends on something, before that is read.
func (p *pass) need(k key) key {
	for _, one := range []key{k, kindKey(k.GroupKind)} {
		p.used[one] = struct{}{}
		p.needs.add(p.name(), one)
	}
	return k
}

// forgetUnused ends the needs that this pass did not have, and the informers of kinds that no flow names any more.
func (p *pass) forgetUnused(name string) {
	if p.used == nil {
		return
	}
	for _, k := range p.needs.usesOf(name) {
		if _, used := p.used[k]; used {
			continue
		}
		if p.needs.remove(name, k) && k.aspect == byKind && !isPermanent(k.GroupKind) {
			p.cache.unfollow(k.GroupKind)
			p.kindChanged(k.GroupKind) // wakes a flow that has named it since
		}
	}
}

// look finds an object on which the flow depends.
func (p *pass) look(kind schema.GroupKind, namespace, name string) (flow.Seen, error) {
	return p.cache.get(p.need(key{GroupKind: kind, namespace: namespace, name: name}))
}

// objects returns a client for the objects of an installed kind in a namespace.
func (c *Controller) objects(of schema.GroupKind, namespace string) (dynamic.ResourceInterface, error) {
	k, installed := c.cache.find(of)
	if !installed {
		return nil, errUnseen // its removal wakes the flow
	}
	return c.counted(k.Kind, c.cfg.Cluster.Resource(k.gvr()).Namespace(namespace)), nil
}

// patchFinalizers stores the finalizers of the flow.
func (p *pass) patchFinalizers(ctx context.Context, finalizers []string) error {
	return p.patchFlow(ctx, map[string]any{"metadata": map[string]any{
		"resourceVersion": p.flow.ResourceVersion, "uid": string(p.flow.UID), "finalizers": finalizers,
	}})
}

// patchFlow changes the flow, or its status.
func (p *pass) patchFlow(ctx context.Context, patch map[string]any, parts ...string) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	objects := p.counted(v1alpha1.Kind, p.cfg.Cluster.Resource(v1alpha1.Resource()).Namespace(p.flow.Namespace))
	written, err := objects.Patch(ctx, p.flow.Name, types.MergePatchType, text, metav1.PatchOptions{}, parts...)
	if err != nil {
		return fmt.Errorf("write %s: %w", p.self(), err)
	}
	m := p.memory.Of(p.flow.UID)
	m.written, m.at = written.GetResourceVersion(), time.Now()
	return nil
}

// name returns the name of the flow in the queue.
func (p *pass) name() string { return p.flow.Namespace + "/" + p.flow.Name }

// self names the flow.
func (p *pass) self() flow.Ref {
	return flow.Ref{GroupVersionKind: schema.GroupVersionKind{Group: v1alpha1.Group, Version: v1alpha1.Version, Kind: v1alpha1.Kind},
		Namespace: p.flow.Namespace, Name: p.flow.Name}
}
