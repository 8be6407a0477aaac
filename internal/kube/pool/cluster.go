package pool

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// user demands objects.
type user struct {
	name   string
	source bool // name is that of a cluster, to which the objects lead
}

// subject is a user with its declaration.
type subject struct {
	user
	uses []use
}

// use is a use of an object by a user.
type use struct {
	object  *wanted
	version string
	value   string // key of the label or annotation that is needed; "": none
}

// wanted is an object that users name. It has few, so they are a list, with one element for each use.
type wanted struct {
	at     types.NamespacedName
	demand *demand
	users  []*subject
}

// demand is the use of the objects of one kind in one cluster.
type demand struct {
	cluster  *cluster
	key      kindKey
	versions map[string]int // how often each is named
	requests map[string]int // labels and annotations, by their keys
	keys     []string       // those of requests, sorted; replaced, never changed
	wanted   map[types.NamespacedName]*wanted
}

// Prefixes of the keys of labels and annotations.
const (
	labelKey      = "label "
	annotationKey = "annotation "
)

// satisfied reports whether the values have all that is requested.
func (d *demand) satisfied(values map[string]string) bool {
	if d == nil {
		return true
	}
	for _, key := range d.keys {
		if _, there := values[key]; !there {
			return false
		}
	}
	return true
}

// object returns an object that a user is about to use.
func (d *demand) object(at types.NamespacedName) *wanted {
	o := d.wanted[at]
	if o == nil {
		o = &wanted{at: at, demand: d}
		d.wanted[at] = o
	}
	return o
}

// count adds or removes the version and the value of a use. It reports whether others are needed than before.
func (d *demand) count(u use, n int) (changed bool) {
	before := len(d.versions) + len(d.requests)
	count(d.versions, u.version, n)
	if u.value != "" {
		count(d.requests, u.value, n)
	}
	if before == len(d.versions)+len(d.requests) {
		return false
	}
	d.keys = slices.Sorted(maps.Keys(d.requests))
	return true
}

func count[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] <= 0 {
		delete(counts, key)
	}
}

// sight is the knowledge of an object: its value, or why it is unknown and perhaps its last value.
type sight struct {
	value   any
	values  map[string]string
	why     promotion.Unseen
	message string
	last    any
}

// cluster is a cluster in use. The pool's mutex guards its fields.
type cluster struct {
	pool    *Pool
	name    string
	demands map[kindKey]*demand
	origin  origin

	current *link // nil: the origin is unknown or bad
	next    *link // the successor of current, until it has read everything
	unused  time.Time
}

// wants reports whether users name an object.
func (c *cluster) wants(key kindKey, at types.NamespacedName) bool {
	return c.wanted(key, at) != nil
}

// wanted returns an object that users name; nil: none does.
func (c *cluster) wanted(key kindKey, at types.NamespacedName) *wanted {
	if d := c.demands[key]; d != nil {
		return d.wanted[at]
	}
	return nil
}

// see returns the knowledge of an object.
func (c *cluster) see(key kindKey, at types.NamespacedName) sight {
	if c.origin.why != "" {
		return sight{why: c.origin.why, message: c.origin.message}
	}
	l := c.front()
	if l == nil {
		return sight{why: promotion.NotSynced, message: "not connected yet"}
	}
	var s sight
	if k := l.kinds[key]; k != nil {
		s = k.look(at)
	} else {
		s = sight{why: promotion.NotSynced, message: "its kind is being searched"}
	}
	if s.value == nil && s.last == nil && c.current != nil && c.current != l {
		if k := c.current.kinds[key]; k != nil && k.objects[at] != nil {
			s.last = k.objects[at].value
		}
	}
	lastValue := s.last
	if s.value != nil {
		lastValue = s.value
	}
	switch l.phase {
	case Connecting:
		return sight{why: promotion.NotSynced, message: cmp.Or(l.message, "connecting"), last: lastValue}
	case Disconnected:
		return sight{why: promotion.ClusterUnreachable, message: l.message, last: lastValue}
	}
	return s
}

// front returns the link that counts: the current one while it works, else its successor.
func (c *cluster) front() *link {
	if c.current != nil && (c.current.phase == Connected || c.current.phase == Syncing || c.next == nil) {
		return c.current
	}
	if c.next != nil {
		return c.next
	}
	return c.current
}

// views returns the knowledge of all objects in use.
func (c *cluster) views() map[kindKey]map[types.NamespacedName]sight {
	all := make(map[kindKey]map[types.NamespacedName]sight, len(c.demands))
	for key, d := range c.demands {
		all[key] = make(map[types.NamespacedName]sight, len(d.wanted))
		for at := range d.wanted {
			all[key][at] = c.see(key, at)
		}
	}
	return all
}

// change does f and wakes the users of the objects of which other things are known then.
func (c *cluster) change(f func()) {
	before := c.views()
	f()
	for key, objects := range c.views() {
		for at, now := range objects {
			if was, known := before[key][at]; !known || !reflect.DeepEqual(was, now) {
				c.wakeUsers(key, at)
			}
		}
	}
}

// changeObject is change for f that changes one object.
func (c *cluster) changeObject(key kindKey, at types.NamespacedName, f func()) {
	if !c.wants(key, at) {
		f()
		return
	}
	before := c.see(key, at)
	f()
	if !reflect.DeepEqual(before, c.see(key, at)) {
		c.wakeUsers(key, at)
	}
}

func (c *cluster) wakeUsers(key kindKey, at types.NamespacedName) {
	for _, by := range c.demands[key].wanted[at].users {
		if by.source {
			c.pool.leads[by.name] = struct{}{}
		} else {
			c.pool.dirty[by.name] = struct{}{}
		}
	}
	c.pool.poke()
}

// changed reports a new state of the cluster.
func (c *cluster) changed() {
	c.pool.dirtyClusters[c.name] = struct{}{}
	c.pool.poke()
}

// connected ends the reading of a link. A successor replaces the current link.
func (c *cluster) connected(l *link) {
	var old *link
	c.change(func() {
		l.enter(Connected, "")
		if l == c.next {
			old, c.current, c.next = c.current, l, nil
		}
	})
	if old != nil {
		old.stop()
		c.pool.metrics.reconnected(causeRotated)
	}
}

// lead connects to the origin, or ends the connection if there is none.
func (c *cluster) lead(to origin) {
	was := c.origin
	if same := to.why == was.why && to.message == was.message && to.setReady == was.setReady; !same {
		c.changed()
	}
	c.change(func() {
		c.origin = to
		switch {
		case to.config == nil:
			c.drop()
		case c.current == nil:
			c.current = c.newLink(to.config)
		case was.sum != to.sum:
			c.rotate(to)
		}
	})
}

// rotate makes a link with a new configuration.
func (c *cluster) rotate(to origin) {
	if c.next != nil {
		c.next.stop()
		c.next = nil
	}
	if c.current.phase == Connecting {
		c.current.stop()
		c.current = c.newLink(to.config)
		return
	}
	c.next = c.newLink(to.config)
}

// drop ends all connections.
func (c *cluster) drop() {
	for _, l := range []*link{c.current, c.next} {
		if l != nil {
			l.stop()
		}
	}
	c.current, c.next = nil, nil
}

// poke has the links look at the demand.
func (c *cluster) poke() {
	for _, l := range []*link{c.current, c.next} {
		if l != nil {
			l.poke()
		}
	}
}

// compareVersions compares versions of the API as Kubernetes does: v2 is newer than v2beta1.
func compareVersions(a, b string) int { return version.CompareKubeAwareVersionStrings(a, b) }
