package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Bounds of watching.
const (
	maxNamespaces = 8                // watches per namespace of a kind in a cluster; beyond that, one of all namespaces
	grace         = 2 * time.Second  // how long an unused watch or cluster stays
	kindRetry     = 30 * time.Second // interval at which an unknown kind is requested again
	spareObjects  = 1000             // unused objects of a kind that are kept for a while
	spareTime     = 30 * time.Second
	brokenAfter   = time.Minute // how long requests of a watch may fail before its objects count as unknown
)

// seen is the kept part of one object: an application's state, a GitopsCluster or a Secret.
type seen struct {
	version string
	value   any               // *packed, *gitopsCluster or *credentials; nil: only the key is kept
	values  map[string]string // the requested labels and annotations, by their keys
}

// isEqual reports whether users see no difference between two versions of an object.
func (s seen) isEqual(other seen) bool {
	return reflect.DeepEqual(s.value, other.value) && maps.Equal(s.values, other.values)
}

// object is one object of a kind.
type object struct {
	seen
	since   time.Time // time of the read
	loading bool
}

// kind is one kind of objects in one link. The pool's mutex guards its fields.
type kind struct {
	link *link
	key  kindKey

	in        resource
	resolved  bool
	resolving bool
	wanted    string    // the version searched last
	retry     time.Time // time of the next search for an unknown kind
	message   string    // why it is not resolved

	wideForbidden bool // this account may not watch all namespaces
	watchers      map[scope]*watcher
	old           []*watcher // those of another version
	objects       map[types.NamespacedName]*object
}

// decode returns the kept part of an object, outside of the lock.
func (k *kind) decode(o *unstructured.Unstructured) seen {
	s := seen{version: o.GetResourceVersion()}
	switch {
	case !k.key.source:
		s.value, s.values = pack(AppState(o)), k.requested(o)
	case k.key.Kind == secretKind.Kind:
		s.value = readCredentials(o)
	default:
		s.value = readGitopsCluster(o)
	}
	return s
}

// requested returns the labels and annotations that users request.
func (k *kind) requested(o *unstructured.Unstructured) map[string]string {
	k.link.pool.mutex.Lock()
	demand := k.link.cluster.demands[k.key]
	var keys []string
	if demand != nil {
		keys = demand.keys
	}
	k.link.pool.mutex.Unlock()
	if len(keys) == 0 {
		return nil
	}
	found := make(map[string]string, len(keys))
	for _, key := range keys {
		var value string
		if name, ok := strings.CutPrefix(key, labelKey); ok {
			value = o.GetLabels()[name]
		} else if name, ok := strings.CutPrefix(key, annotationKey); ok {
			value = o.GetAnnotations()[name]
		}
		found[key] = cut(value, maxText+1) // one more shows that it is too long
	}
	return found
}

// heard notes that a watch works.
func (k *kind) heard(w *watcher) {
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	k.hears(w)
}

// hears is heard for callers that hold the mutex.
func (k *kind) hears(w *watcher) {
	k.link.heard = true
	if w.broken {
		k.link.cluster.change(func() { w.broken = false })
	}
	w.failing, w.message = time.Time{}, ""
}

// replace receives all objects of a watch.
func (k *kind) replace(w *watcher, list []*decoded) {
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if w.stopped {
		return
	}
	k.link.cluster.change(func() {
		k.hears(w)
		w.synced, w.forbidden = true, false
		there := make(map[types.NamespacedName]bool, len(list))
		for _, one := range list {
			at := types.NamespacedName{Namespace: one.Namespace, Name: one.Name}
			there[at] = true
			k.store(at, one.kept)
		}
		for at := range k.objects {
			if w.scope.covers(at) && !there[at] {
				delete(k.objects, at)
			}
		}
	})
	k.link.poke()
}

// set receives an object of a watch.
func (k *kind) set(w *watcher, one *decoded) {
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if w.stopped {
		return
	}
	at := types.NamespacedName{Namespace: one.Namespace, Name: one.Name}
	now := k.objects[at]
	if now != nil && isOlder(one.kept.version, now.version) || k.covering(at) != w {
		return // it was read since, or another watch has replaced this one
	}
	if now != nil && now.isEqual(one.kept) { // as most events do
		k.hears(w)
		k.store(at, one.kept)
		return
	}
	k.link.cluster.changeObject(k.key, at, func() {
		k.hears(w)
		k.store(at, one.kept)
	})
}

// remove receives an object that is gone.
func (k *kind) remove(w *watcher, at types.NamespacedName) {
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if w.stopped || k.covering(at) != w {
		return
	}
	k.link.cluster.changeObject(k.key, at, func() {
		k.hears(w)
		delete(k.objects, at)
	})
}

// isOlder reports whether a version is older than another of the same object; false if that is not known.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// store keeps an object: in full if users name it, or for a while. The caller holds the mutex.
func (k *kind) store(at types.NamespacedName, s seen) {
	wanted := k.link.cluster.wanted(k.key, at)
	now := k.objects[at]
	if now == nil {
		if wanted != nil {
			at = wanted.at // the same texts are kept
		} else if len(k.objects) >= maxObjects {
			return
		}
		now = &object{}
		k.objects[at] = now
	}
	if wanted == nil && len(k.objects) > spareObjects {
		s = seen{version: s.version}
	}
	now.seen, now.since, now.loading = s, time.Now(), false
	if wanted != nil {
		k.link.load(k, at)
	}
}

// reduce forgets all but the keys of unused objects. The caller holds the mutex.
func (k *kind) reduce(now time.Time) {
	for at, one := range k.objects {
		if one.value != nil && now.Sub(one.since) >= spareTime && !k.link.cluster.wants(k.key, at) {
			one.seen = seen{version: one.version}
		}
	}
}

// failed receives why a watch failed.
func (k *kind) failed(w *watcher, err error) {
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if w.stopped {
		return
	}
	k.link.cluster.change(func() {
		w.message = cut(err.Error(), maxText)
		if w.failing.IsZero() {
			w.failing = time.Now()
		}
		if apierrors.IsForbidden(err) {
			w.synced, w.forbidden = false, true
			k.wideForbidden = k.wideForbidden || w.scope == scope{}
		}
	})
	k.link.poke()
}

// unserved receives that the cluster does not serve the kind any more in the version of a watch.
func (k *kind) unserved(w *watcher) {
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if w.stopped || w.in != k.in {
		return
	}
	k.link.cluster.change(func() { k.forgetResource("the cluster serves it no more") })
	k.link.poke()
}

// forgetResource has the kind searched again. The caller holds the mutex.
func (k *kind) forgetResource(why string) {
	k.resolved, k.message, k.retry = false, why, time.Time{}
	for w := range k.all() {
		w.stop()
	}
	clear(k.watchers)
	k.old = nil
	clear(k.objects)
}

// all returns the watches and those that they replace. The caller holds the mutex.
func (k *kind) all() iter.Seq[*watcher] {
	return func(yield func(*watcher) bool) {
		for _, w := range k.old {
			if !yield(w) {
				return
			}
		}
		for _, w := range k.watchers {
			if !yield(w) {
				return
			}
		}
	}
}

// stop ends a watch. The caller holds the mutex.
func (w *watcher) stop() {
	w.stopped = true
	w.cancel()
}

// resolve searches the kind's resource, in a goroutine of its own.
func (k *kind) resolve(ctx context.Context, c *connection, version string) {
	found, served, err := c.resource(ctx, k.key.WithVersion(version))
	if k.key.GroupKind == secretKind.GroupKind() && !k.key.source {
		served, err = false, errSecrets
	}
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	k.resolving = false
	if ctx.Err() != nil || k.link.connection != c {
		return
	}
	k.link.cluster.change(func() { k.found(found, served, err, version) })
	k.link.poke()
}

// found receives the result of resolve. The caller holds the mutex.
func (k *kind) found(found resource, served bool, err error, version string) {
	k.wanted = version
	switch {
	case err != nil:
		k.message = cut(fmt.Sprintf("search kind %s: %v", k.key.GroupKind, err), maxText)
	case !served:
		k.message = cut(fmt.Sprintf("the cluster has no kind %s", k.key.WithVersion(version)), maxText)
	default:
		if k.resolved && k.in != found {
			k.readAgain()
		}
		k.in, k.resolved, k.message = found, true, ""
		return
	}
	k.retry = time.Now().Add(kindRetry)
}

// scopes returns the scopes that the demand needs. The caller holds the mutex.
func (k *kind) scopes(d *demand) []scope {
	var found []scope
	if k.key.source {
		for at := range d.wanted {
			found = append(found, scope{at.Namespace, at.Name})
		}
		return found
	}
	namespaces := map[string]bool{}
	for at := range d.wanted {
		namespaces[at.Namespace] = true
	}
	if !k.in.namespaced || len(namespaces) > maxNamespaces && !k.wideForbidden {
		return []scope{{}}
	}
	for namespace := range namespaces {
		found = append(found, scope{namespace: namespace})
	}
	slices.SortFunc(found, func(a, b scope) int { return cmp.Compare(a.namespace, b.namespace) })
	return found
}

// settled reports whether all watches have read their objects, may not, or have failed for long. A kind that fails does
// not delay other kinds, but it keeps a link from replacing a good one. The caller holds the mutex.
func (k *kind) settled() bool {
	if !k.resolved {
		return k.message != ""
	}
	for _, w := range k.watchers {
		if w.unneeded.IsZero() && !w.synced && !w.forbidden && !(w.broken && k.link != k.link.cluster.next) {
			return false
		}
	}
	return true
}

// look returns the knowledge of an object. The caller holds the mutex.
func (k *kind) look(at types.NamespacedName) sight {
	var last any
	one := k.objects[at]
	if one != nil {
		last = one.value
	}
	if !k.resolved {
		return sight{why: promotion.NotSynced, message: cmp.Or(k.message, "its kind is being searched"), last: last}
	}
	covering := k.covering(at)
	switch {
	case covering == nil:
		return sight{why: promotion.NotSynced, message: "its list is being read", last: last}
	case !covering.synced && covering.forbidden:
		return sight{why: promotion.Forbidden, message: covering.message, last: last}
	case !covering.synced, covering.broken:
		return sight{why: promotion.NotSynced, message: cmp.Or(covering.message, "its list is being read"), last: last}
	case one == nil:
		return sight{why: promotion.TargetNotFound, message: fmt.Sprintf("%s %s not found", k.key.Kind, at)}
	case one.value == nil:
		return sight{why: promotion.NotSynced, message: "it is being read"}
	}
	return sight{value: one.value, values: one.values}
}

// covering returns the best watch of an object; nil: there is none. The caller holds the mutex.
func (k *kind) covering(at types.NamespacedName) (best *watcher) {
	for w := range k.all() {
		if w.scope.covers(at) && (best == nil || w.rank() > best.rank()) {
			best = w
		}
	}
	return best
}

// rank orders watches that cover the same objects: those with objects first, and among equals the needed ones.
func (w *watcher) rank() (r int) {
	switch {
	case w.synced:
		r = 4
	case w.forbidden:
		r = 2
	}
	if w.unneeded.IsZero() && !w.replaced {
		r++
	}
	return r
}

// read reads an object that users have begun to name, in a goroutine of its own.
func (k *kind) read(ctx context.Context, c *connection, at types.NamespacedName) {
	limited, cancel := context.WithTimeoutCause(ctx, requestLimit, fmt.Errorf("no answer within %s", requestLimit))
	defer cancel()
	k.link.pool.mutex.Lock()
	in := k.in
	k.link.pool.mutex.Unlock()
	got, err := c.objects.Resource(in.GroupVersionResource).Namespace(at.Namespace).Get(limited, at.Name, metav1.GetOptions{})
	var s seen
	if err == nil {
		s = k.decode(got)
	}
	p := k.link.pool
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := k.objects[at]
	if now == nil || ctx.Err() != nil {
		return
	}
	now.loading = false
	if err != nil || isOlder(s.version, now.version) {
		return // it is tried again with the next probe
	}
	k.link.cluster.changeObject(k.key, at, func() { k.store(at, s) })
}

// newestVersion returns the version in which to search a kind: the newest of those that users name.
func newestVersion(versions map[string]int) string {
	newest := ""
	for version := range versions {
		if newest == "" || compareVersions(version, newest) > 0 {
			newest = version
		}
	}
	return newest
}

// errSecrets means that a tenant has named a Secret as an application, whose labels and content others may not see.
var errSecrets = errors.New("a Secret is not an application")

// kindKey names a kind in a cluster. Applications and the objects that lead to clusters are followed separately.
type kindKey struct {
	schema.GroupKind
	source bool
}
