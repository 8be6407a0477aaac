package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

const role = "flow"

// Config configures a Controller.
type Config struct {
	Cluster      *kube.Cluster
	Applications []string // integration namespaces, whose Channels are open to source.application
	// Elect has one instance at a time work, by a Lease in the cluster's namespace. Without it every instance works, which is
	// correct, and makes more requests.
	Elect    bool
	Identity string       // name of this instance in the Lease
	Workers  int          // flows handled at a time; default 4
	Log      *slog.Logger // default: none
	Metrics  *obs.Flow    // nil: none
}

// Controller reconciles the EventFlows of a cluster. Make it with New, run it once.
type Controller struct {
	cfg    Config
	log    *slog.Logger
	cache  *cache
	flows  *flows
	queue  *watch.Queue[string] // flows, by namespace/name
	sweeps *watch.Queue[key]    // shared objects
	needs  needs
	claims claims
	memory watch.Memory[memory]
	leads  atomic.Bool // this instance works

	definitions *watch.Informer[*definition]
}

// memory keeps facts about a flow besides its object.
type memory struct {
	written  string    // version of the object after our last write
	at       time.Time // time of that write
	wasReady bool      // the flow has been ready while this process ran
	created  time.Time // time of the last creation of an object for the flow
	since    time.Time // begin of the second in which passes are counted
	passes   int       // number in this second
	deleted  set[types.UID]
}

// firstDeletes notes that the flow has deleted an object, and reports whether that is new: an informer may show it late.
func (m *memory) firstDeletes(object types.UID) bool {
	if m.deleted == nil {
		m.deleted = set[types.UID]{}
	}
	_, known := m.deleted[object]
	m.deleted[object] = struct{}{}
	return !known
}

// eventFlow is a flow as the informer keeps it.
type eventFlow struct {
	*v1alpha1.EventFlow
	fault error // the object does not have the form of a flow
}

// New makes a controller.
func New(cfg Config) *Controller {
	if cfg.Workers <= 0 {
		cfg.Workers = defaultWorkers
	}
	c := &Controller{cfg: cfg, log: obs.Component(cfg.Log, role)}
	c.cache = &cache{cluster: cfg.Cluster, changed: c.objectChanged, opened: c.kindChanged, broken: c.interrupted, kinds: builtin(),
		followers: map[schema.GroupKind]*follower{}, answers: map[key]answer{}}
	c.flows = &flows{Controller: c}
	retry := loop.Backoff{First: 5 * time.Millisecond, Most: 5 * time.Minute}
	c.queue = watch.NewQueue(watch.QueueConfig[string]{Workers: cfg.Workers, Retry: retry, Handle: c.handle,
		Failed: func(name string, err error, again time.Duration) {
			c.log.Warn("pass failed", obs.KeyFlow, name, obs.KeyRetryIn, again.String(), obs.Error(err))
		}})
	c.sweeps = watch.NewQueue(watch.QueueConfig[key]{Workers: 1, Retry: retry, Handle: c.sweep,
		Failed: func(k key, err error, again time.Duration) {
			c.log.Warn("shared object not swept", obs.KeyName, k.namespace+"/"+k.name, obs.KeyRetryIn, again.String(), obs.Error(err))
		}})
	c.definitions = watch.Must(watch.New(watch.Config[*definition]{
		Objects: cfg.Cluster.Resource(definitions),
		Resync:  resync,
		Decode:  decodeDefinition,
		Changed: c.definitionChanged,
		Gone:    func(d *definition) { c.uninstall(d.GroupKind()) },

		Interrupted: func(err error) { c.interrupted("CustomResourceDefinition", err) },
	}))
	return c
}

const defaultWorkers = 4

// Run reconciles until ctx ends, and returns nil.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	defer c.cache.running.Wait() // last, since loops begin informers
	defer loops.Wait()
	defer cancel()
	c.cache.ctx = ctx
	loops.Go(func() { c.queue.Run(ctx) })
	loops.Go(func() { c.sweeps.Run(ctx) })
	loops.Go(func() { c.definitions.Run(ctx) })
	if !c.definitions.AwaitSync(ctx) {
		return nil
	}
	return c.lead(ctx)
}

// Synced reports whether the state of the cluster has been seen.
func (c *Controller) Synced() bool {
	return c.definitions.Synced() && c.cache.synced() && c.flows.synced()
}

// interrupted logs that objects cannot be followed.
func (c *Controller) interrupted(kind string, err error) {
	c.log.Warn("objects cannot be followed", obs.KeyName, kind, obs.Error(err))
}

func decodeFlow(o *unstructured.Unstructured) *eventFlow {
	o.SetManagedFields(nil)
	f := &eventFlow{EventFlow: &v1alpha1.EventFlow{}}
	if f.fault = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, f.EventFlow); f.fault != nil {
		f.EventFlow = &v1alpha1.EventFlow{}
		f.Name, f.Namespace, f.UID, f.ResourceVersion = o.GetName(), o.GetNamespace(), o.GetUID(), o.GetResourceVersion()
		f.DeletionTimestamp, f.Finalizers = o.GetDeletionTimestamp(), o.GetFinalizers()
	}
	return f
}

// definitionChanged takes note of a kind that is installed or has changed.
func (c *Controller) definitionChanged(d *definition) {
	switch {
	case d.Version == "" || d.cluster:
		c.uninstall(d.GroupKind())
	case d.GroupKind() == eventFlows:
		c.flows.install(d.kind)
	default:
		c.cache.install(d.kind, isPermanent(d.GroupKind()))
	}
}

// uninstall takes note of a kind that is not installed any more.
func (c *Controller) uninstall(of schema.GroupKind) {
	if of == eventFlows {
		c.flows.remove()
		return
	}
	c.cache.remove(of)
}

// kindChanged wakes the flows whose state depends on whether a kind can be read, and has the sweeper see its objects: until all
// were reported it has passed over each.
func (c *Controller) kindChanged(of schema.GroupKind) {
	for _, k := range c.cache.all(func(o *flow.Object) bool { return isShared(o) && o.Kind.GroupKind() == of }) {
		c.sweeps.Add(k)
	}
	for _, name := range c.needs.usersOf(kindKey(of)) {
		c.queue.Add(name)
	}
}

// objectChanged wakes the flows that a change of an object concerns.
func (c *Controller) objectChanged(was, now *flow.Object) {
	c.noteClaims(was, now)
	if was != nil && now != nil && onlyClaimsDiffer(was, now) {
		c.wakeClaimants(was, now)
		return
	}
	for _, state := range []*flow.Object{was, now} {
		if state != nil {
			c.wakeUsers(state)
		}
	}
}

// wakeUsers wakes the flows whose state depends on an object.
func (c *Controller) wakeUsers(o *flow.Object) {
	keys := []key{keyOf(o), {GroupKind: o.Kind.GroupKind(), aspect: byNamespace, namespace: o.Namespace}}
	if link := o.Labels[v1alpha1.LinkLabel]; link != "" {
		keys = append(keys, key{GroupKind: o.Kind.GroupKind(), aspect: byLink, namespace: o.Namespace, name: link})
	}
	if application := o.Labels[applicationLabel]; application != "" {
		keys = append(keys, key{GroupKind: o.Kind.GroupKind(), aspect: byApplication, name: application})
	}
	for _, k := range keys {
		for _, name := range c.needs.usersOf(k) {
			c.queue.Add(name)
		}
	}
}

// applicationLabel is the label of a Channel with the name of the application whose events it carries.
const applicationLabel = "application-name"
