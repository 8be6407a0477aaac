package pool

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Attributes of log lines.
const (
	keyCluster = "cluster"
	keyState   = "state"
	keyReason  = "reason"
)

// Config configures a Pool.
type Config struct {
	// Clusters are those that the operator named, with their configurations, which may run programs and read files. ""
	// is the management cluster. Leaves are found as GitopsClusters there, by NAMESPACE/NAME.
	Clusters map[string]*rest.Config

	// Changed receives the users who know other things of their objects than before. It must not block. One call is
	// made at a time.
	Changed func(users []string)
	// ClustersChanged receives the clusters whose Status has changed, in the same way. nil: it is not called.
	ClustersChanged func(names []string)

	Dial dialer // makes network connections; nil: TCP
	// Check refuses addresses of the GitopsClusters, whose kubeconfigs tenants write; nil: all may be reached.
	Check func(netip.Addr) error
	Log   *slog.Logger // default: none
}

// Want names one object that a user needs.
type Want struct {
	Cluster   string                  // "": the management cluster
	GVK       schema.GroupVersionKind // any served version of the kind is good
	Namespace string
	Name      string

	Label      string // the label whose value is needed; "": none
	Annotation string // the annotation whose value is needed; "": none
}

// value returns the key of the value that is needed beside the state; "" for none.
func (w Want) value() string {
	switch {
	case w.Label != "":
		return labelKey + w.Label
	case w.Annotation != "":
		return annotationKey + w.Annotation
	}
	return ""
}

func (w Want) key(source bool) kindKey { return kindKey{w.GVK.GroupKind(), source} }

// State is the knowledge of an object.
type State struct {
	App     promotion.AppState  // not valid with Unseen
	Unseen  promotion.Unseen    // why the state is unknown; "": it is known
	Message string              // explains Unseen
	Last    *promotion.AppState // with Unseen: the last known state, for display only; nil: none
}

// Status is the state of a cluster.
type Status struct {
	Name    string
	Phase   Phase            // "" with Unseen ClusterNotFound, ClusterNotReady, Forbidden or NotSynced
	Unseen  promotion.Unseen // why its objects are unknown; "": it is connected
	Message string
	Since   time.Time // start of the phase; zero: there is none
	// SetReady means that no other controller sets the condition Ready of the GitopsCluster, so that its status should
	// be set from this one.
	SetReady bool
}

// Pool keeps connections to clusters. Make it with New, run it once.
type Pool struct {
	clusters map[string]*rest.Config
	config   Config
	dial     dialer
	log      *slog.Logger
	metrics  *Metrics
	wake     chan struct{} // has room for one

	mutex         sync.Mutex
	users         map[user]*subject
	inUse         map[string]*cluster
	dirty         map[string]struct{} // users to wake
	dirtyClusters map[string]struct{}
	leads         map[string]struct{} // clusters whose origin may have changed
	pending       []*link             // links that do not run yet
}

// New returns a pool. It connects to nothing until it runs.
func New(c Config) *Pool {
	return &Pool{
		clusters:      c.Clusters,
		config:        c,
		dial:          c.Dial,
		log:           obs.Or(c.Log),
		metrics:       newMetrics(),
		wake:          make(chan struct{}, 1),
		users:         map[user]*subject{},
		inUse:         map[string]*cluster{},
		dirty:         map[string]struct{}{},
		dirtyClusters: map[string]struct{}{},
		leads:         map[string]struct{}{},
	}
}

// Use declares everything that a user needs, in place of its last declaration, and returns at once the knowledge of
// each. Later news are reported by Changed.
func (p *Pool) Use(name string, wants []Want) []State {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.use(user{name: name}, wants)
	states := make([]State, len(wants))
	for i, w := range wants {
		states[i] = p.state(w)
	}
	return states
}

// Forget ends the needs of a user.
func (p *Pool) Forget(name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.use(user{name: name}, nil)
	delete(p.dirty, name)
}

// State returns the knowledge of an object in use.
func (p *Pool) State(w Want) State {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.state(w)
}

// Get reads a whole object from its cluster. The cluster has to be in use; one that is not connected is
// fault.Unavailable, an object that does not exist is fault.NotFound.
func (p *Pool) Get(ctx context.Context, w Want) (*unstructured.Unstructured, error) {
	c, in, err := p.resourceOf(w)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestLimit, fmt.Errorf("no answer within %s", requestLimit))
	defer cancel()
	object, err := c.objects.Resource(in).Namespace(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fault.New(fault.NotFound, "read %s %s/%s: %w", w.GVK.Kind, w.Namespace, w.Name, err)
	case err != nil:
		return nil, fault.New(fault.Unavailable, "read %s %s/%s: %w", w.GVK.Kind, w.Namespace, w.Name, err)
	}
	return object, nil
}

// resourceOf returns the connection and the resource for an object.
func (p *Pool) resourceOf(w Want) (*connection, schema.GroupVersionResource, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	c := p.inUse[w.Cluster]
	if c == nil || c.origin.why != "" || c.current == nil || c.current.connection == nil {
		return nil, schema.GroupVersionResource{}, fault.New(fault.Unavailable, "cluster %q is not connected", w.Cluster)
	}
	k := c.current.kinds[w.key(false)]
	if k == nil || !k.resolved {
		return nil, schema.GroupVersionResource{}, fault.New(fault.Unavailable, "cluster %q: kind %s is not known yet",
			w.Cluster, w.GVK.Kind)
	}
	return c.current.connection, k.in.GroupVersionResource, nil
}

// Clusters returns the states of all clusters in use, by name.
func (p *Pool) Clusters() []Status {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var all []Status
	for _, name := range slices.Sorted(maps.Keys(p.inUse)) {
		all = append(all, p.inUse[name].status())
	}
	return all
}

// Server returns the configuration of a cluster in use; nil while it is not known.
func (p *Pool) Server(name string) *rest.Config {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if c := p.inUse[name]; c != nil {
		return c.origin.config
	}
	return nil
}

func (c *cluster) status() Status {
	s := Status{Name: c.name, Unseen: c.origin.why, Message: c.origin.message, SetReady: c.origin.setReady}
	l := c.front()
	if s.Unseen != "" || l == nil {
		return s
	}
	s.Phase, s.Message, s.Since = l.phase, l.message, l.since
	switch l.phase {
	case Disconnected:
		s.Unseen = promotion.ClusterUnreachable
	case Connecting, Syncing:
		s.Unseen = promotion.NotSynced
	}
	return s
}

// state returns the knowledge of an object. The caller holds the mutex.
func (p *Pool) state(w Want) State {
	c := p.inUse[w.Cluster]
	if c == nil {
		return State{Unseen: promotion.NotSynced, Message: "the cluster is not in use"}
	}
	s := c.see(w.key(false), types.NamespacedName{Namespace: w.Namespace, Name: w.Name})
	state := State{Unseen: s.why, Message: s.message}
	if last, ok := s.last.(*packed); ok {
		app := last.unpack()
		state.Last = &app
	}
	app, ok := s.value.(*packed)
	if !ok {
		return state
	}
	state.App = app.unpack()
	if key := w.value(); key != "" {
		value, known := s.values[key]
		if !known {
			return State{Unseen: promotion.NotSynced, Message: "it is being read", Last: &state.App}
		}
		state.App.Value = value
	}
	return state
}

// use replaces the declaration of a user. The caller holds the mutex.
func (p *Pool) use(by user, wants []Want) {
	s := p.users[by]
	if s == nil {
		s = &subject{user: by}
		p.users[by] = s
	}
	was := s.uses
	s.uses = make([]use, 0, len(wants))
	named := make(map[Want]bool, len(wants))
	changed := map[*cluster]bool{}
	for _, w := range wants { // first, so that objects that stay in use never go
		if !named[w] {
			named[w] = true
			u, touched := p.add(s, w)
			s.uses = append(s.uses, u)
			changed[u.object.demand.cluster] = changed[u.object.demand.cluster] || touched
		}
	}
	for _, u := range was {
		if c := u.object.demand.cluster; p.remove(s, u) {
			changed[c] = true
		}
	}
	if len(s.uses) == 0 {
		delete(p.users, by)
	}
	for c, touched := range changed {
		if touched {
			c.poke()
			p.poke()
		}
	}
}

// add adds a use. It reports whether the cluster has more to do. The caller holds the mutex.
func (p *Pool) add(by *subject, w Want) (u use, changed bool) {
	c := p.inUse[w.Cluster]
	if c == nil {
		c = &cluster{pool: p, name: w.Cluster, demands: map[kindKey]*demand{}}
		c.origin = origin{why: promotion.NotSynced, message: "not connected yet"}
		p.inUse[w.Cluster] = c
		p.leads[c.name] = struct{}{}
		changed = true
	}
	d := c.demand(w.key(by.source))
	at := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	u = use{object: d.object(at), version: w.GVK.Version, value: w.value()}
	changed = d.count(u, 1) || len(u.object.users) == 0 || changed
	u.object.users = append(u.object.users, by)
	if !changed && u.value == "" {
		return u, false
	}
	for _, l := range []*link{c.current, c.next} {
		if l != nil && l.kinds[d.key] != nil {
			l.load(l.kinds[d.key], at)
		}
	}
	return u, changed
}

// remove ends a use. It reports whether the cluster has less to do. The caller holds the mutex.
func (p *Pool) remove(by *subject, u use) (changed bool) {
	o, d := u.object, u.object.demand
	i := slices.Index(o.users, by)
	o.users = slices.Delete(o.users, i, i+1)
	changed = d.count(u, -1)
	if len(o.users) > 0 {
		return changed
	}
	delete(d.wanted, o.at)
	if len(d.wanted) == 0 {
		delete(d.cluster.demands, d.key)
	}
	if len(d.cluster.demands) == 0 {
		d.cluster.unused = time.Now()
	}
	return true
}

// demand returns the demand of a kind, at first an empty one. The caller adds to it.
func (c *cluster) demand(key kindKey) *demand {
	d := c.demands[key]
	if d == nil {
		d = &demand{
			cluster:  c,
			key:      key,
			versions: map[string]int{},
			requests: map[string]int{},
			wanted:   map[types.NamespacedName]*wanted{},
		}
		c.demands[key] = d
	}
	return d
}

// poke wakes Run.
func (p *Pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run connects to the clusters in use until ctx ends, and ends all connections then.
func (p *Pool) Run(ctx context.Context) error {
	var links sync.WaitGroup
	defer links.Wait()
	for {
		again := p.step(ctx, &links)
		p.report()
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step follows the objects that lead to clusters, starts links, and removes unused clusters. It returns the time until
// the next step.
func (p *Pool) step(ctx context.Context, links *sync.WaitGroup) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for len(p.leads) > 0 { // following one may use the management cluster for the first time
		leads := p.leads
		p.leads = map[string]struct{}{}
		for name := range leads {
			if c := p.inUse[name]; c != nil {
				to, sources := p.originOf(name)
				p.use(user{name: name, source: true}, sources)
				c.lead(to)
			}
		}
	}
	again := p.removeUnused()
	for _, l := range p.pending {
		if !l.stopped {
			own, cancel := context.WithCancel(ctx)
			l.cancel = cancel
			links.Go(func() {
				defer cancel()
				l.run(own)
			})
		}
	}
	p.pending = nil
	return again
}

// removeUnused removes clusters that have been unused for a while. It returns the time until the next look. The caller
// holds the mutex.
func (p *Pool) removeUnused() time.Duration {
	again := time.Hour
	for name, c := range p.inUse {
		if len(c.demands) > 0 {
			continue
		}
		if left := grace - time.Since(c.unused); left > 0 {
			again = min(again, left)
			continue
		}
		c.drop()
		delete(p.inUse, name)
		p.use(user{name: name, source: true}, nil)
		p.dirtyClusters[name] = struct{}{}
	}
	return again
}

// report calls the callbacks.
func (p *Pool) report() {
	p.mutex.Lock()
	users, clusters := slices.Sorted(maps.Keys(p.dirty)), slices.Sorted(maps.Keys(p.dirtyClusters))
	clear(p.dirty)
	clear(p.dirtyClusters)
	p.mutex.Unlock()
	if len(users) > 0 && p.config.Changed != nil {
		p.config.Changed(users)
	}
	if len(clusters) > 0 && p.config.ClustersChanged != nil {
		p.config.ClustersChanged(clusters)
	}
}
