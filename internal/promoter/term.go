package promoter

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store"
)

// pipelines is the resource of Pipelines.
var pipelines = schema.GroupVersionResource{Group: "pipelines.weave.works", Version: "v1alpha1", Resource: "pipelines"}

// Times of a term.
const (
	lookLimit  = time.Minute            // bounds one look at a pipeline
	lookAgain  = 10 * time.Minute       // between two looks at a pipeline at rest
	mergeWakes = 50 * time.Millisecond  // wake-ups of a pipeline within it are one
	firstRetry = 500 * time.Millisecond // after a failed look
)

// term is the time in which an instance leads.
type term struct {
	*Promoter
	objects  dynamic.NamespaceableResourceInterface
	informer *watch.Informer[*unstructured.Unstructured]
	queue    *watch.Queue[string] // names of pipelines, such as apps:podinfo
	pool     *pool.Pool
	polls    *proposals
	marks    *marks
	branches *branches
	owners   *owners
	checks   *checks
	clusters *watch.Queue[string] // names of clusters whose state has changed

	views *views

	mu      sync.Mutex
	memory  map[string]*memory   // by the name of the pipeline
	heads   map[string]int64     // the newest known sequences of the pipelines' rows
	changes map[string]time.Time // time of the oldest change, by the pipeline that waits for a look
	looking map[string]time.Time // time of the beginning, by the pipeline that is looked at
}

// memory holds the known state of one pipeline besides the log. The one worker that has the pipeline changes it.
type memory struct {
	uid         string
	last        resource.Pipeline // the last definition, for announcing the end of runs when it is deleted
	state       promotions.State  // the log at the last look
	first       time.Time         // time of the first look
	seen        map[promotion.TargetID]promotion.Seen
	latest      promotion.Revision
	latestSince time.Time
	status      *v1alpha1.PipelineStatus        // the last written one; nil: none was
	view        string                          // the last one, as JSON
	verdicts    map[promotion.EnvName]string    // the last ones, in short; nil: none were made
	broken      map[promotion.EnvName]time.Time // times at which environments failed
	standing    obs.Standing                    // state that metrics show; under term.mu
	written     string                          // resource version after the last status; under term.mu
	generation  int64                           // definition of the last look; under term.mu
}

func newTerm(p *Promoter) (*term, error) {
	t := &term{Promoter: p, objects: p.cfg.Management.Resource(pipelines), memory: map[string]*memory{}, heads: map[string]int64{},
		changes: map[string]time.Time{}, looking: map[string]time.Time{}, branches: newBranches()}
	t.queue = watch.NewQueue(watch.QueueConfig[string]{Workers: p.cfg.Workers,
		Retry:  loop.Backoff{First: firstRetry, Most: time.Minute},
		Handle: t.next, Failed: t.failed})
	t.polls = newProposals(t)
	t.views = newViews(t)
	t.marks = newMarks(t)
	t.clusters = watch.NewQueue(watch.QueueConfig[string]{Workers: 1, Retry: loop.Backoff{First: time.Second, Most: time.Minute},
		Handle: t.reportCluster, Failed: t.clusterFailed})
	t.pool = pool.New(pool.Config{Clusters: p.cfg.Clusters, Dial: p.cfg.Dial, Check: p.cfg.Check, Log: p.log, Changed: func(users []string) {
		for _, name := range users {
			t.wake(name)
		}
	}, ClustersChanged: func(names []string) {
		for _, name := range names {
			t.clusters.Add(name)
		}
	}})
	t.checks, t.owners = newChecks(t), newOwners(t)
	var err error
	if t.checks.jobs, err = t.checks.newJobs(); err != nil {
		return nil, fmt.Errorf("watch Jobs: %w", err)
	}
	t.informer, err = watch.New(watch.Config[*unstructured.Unstructured]{Objects: t.objects, Resync: p.cfg.LookAgain,
		Decode: func(one *unstructured.Unstructured) *unstructured.Unstructured {
			one.SetManagedFields(nil)
			return one
		},
		Changed: t.objectChanged,
		Gone: func(one *unstructured.Unstructured) {
			t.keepBranches(resource.Pipeline{Namespace: one.GetNamespace(), Name: one.GetName()})
			t.queue.Add(nameOf(one))
		},
		Interrupted: func(err error) {
			t.log.Warn("watching pipelines was interrupted; it resumes by itself", obs.Error(err))
		}})
	if err != nil {
		return nil, fmt.Errorf("watch pipelines: %w", err)
	}
	return t, nil
}

// nameOf returns the name of a Pipeline in Waybill, such as apps:podinfo.
func nameOf(one *unstructured.Unstructured) string { return one.GetNamespace() + ":" + one.GetName() }

// run works until ctx ends.
func (t *term) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { t.informer.Run(ctx) })
	loops.Go(func() {
		if err := t.pool.Run(ctx); err != nil {
			t.log.Error("following clusters ended", obs.Error(err))
		}
	})
	loops.Go(func() { t.owners.run(ctx) })
	loops.Go(func() {
		select {
		case <-t.owners.known: // else a pipeline could promote to the application of a stage
			t.queue.Run(ctx)
		case <-ctx.Done():
		}
	})
	loops.Go(func() { t.clusters.Run(ctx) })
	loops.Go(func() { t.polls.queue.Run(ctx) })
	loops.Go(func() { t.marks.queue.Run(ctx) })
	loops.Go(func() { t.checks.run(ctx) })
	loops.Go(func() { t.views.run(ctx) })
	loops.Go(func() { t.follow(ctx, func(name string) bool { return !promotions.OfStages(name) }) })
	loops.Wait()
}

// objectChanged puts a pipeline in line whose object has changed, but for the change that this instance has made: its status.
func (t *term) objectChanged(one *unstructured.Unstructured) {
	name := nameOf(one)
	t.mu.Lock()
	m := t.memory[name]
	own := m != nil && m.uid == string(one.GetUID()) && m.written == one.GetResourceVersion() && m.generation == one.GetGeneration()
	if own {
		m.written = "" // once: a resync counts
	}
	t.mu.Unlock()
	if own {
		return
	}
	p, _ := resource.Parse(one, t.options(time.Now()))
	t.keepBranches(p)
	t.queue.Add(name)
}

// keepBranches replaces the branches of a pipeline, and has those looked at again that collide with it, or did.
func (t *term) keepBranches(p resource.Pipeline) {
	for _, other := range t.branches.keep(p) {
		t.wake(other)
	}
}

// options returns the settings with which a definition is read.
func (t *term) options(now time.Time) resource.Options {
	return resource.Options{NoCrossNamespaceRefs: t.cfg.OneNamespace, AllowPlainHTTP: t.cfg.PlainHTTP, Now: now}
}

// followShare bounds the share of the time that follow reads for. It reads all heads, so in a busy log it waits between.
const followShare = 20

// follow puts the term's own pipelines in line whose rows in the log were changed by others, and answers calls.
func (t *term) follow(ctx context.Context, isOwn func(name string) bool) {
	changes, called := t.cfg.Changes(), map[promotions.Call]bool{}
	for ctx.Err() == nil {
		began := time.Now()
		heads, err := t.promotions.Heads(ctx)
		var calls []promotions.Call
		if err == nil {
			calls, err = t.promotions.Calls(ctx)
		}
		if err != nil {
			if ctx.Err() == nil {
				t.log.Warn("reading changed pipelines failed", obs.Error(err))
			}
			loop.Pause(ctx, time.Second)
			continue
		}
		for name, seq := range heads {
			if isOwn(name) && t.setHead(name, seq) {
				t.wake(name)
			}
		}
		calls = slices.DeleteFunc(calls, func(c promotions.Call) bool { return c.Host == "" && !isOwn(c.Name) })
		called = t.answer(calls, called)
		loop.Pause(ctx, followShare*time.Since(began))
		_ = changes.Wait(ctx, store.TopicPromotion, time.Now().Add(lookAgain)) // an early return is harmless
	}
}

// answer has one more look at the subjects of new calls: at pipelines, and at open proposals. It returns the calls that are known now.
func (t *term) answer(calls []promotions.Call, known map[promotions.Call]bool) map[promotions.Call]bool {
	now := make(map[promotions.Call]bool, len(calls))
	for _, c := range calls {
		now[c] = true
		switch {
		case known[c]:
		case c.Host == "":
			t.wake(c.Name)
		default:
			t.polls.call(c)
		}
	}
	return now
}

// setHead notes the sequence of a pipeline's rows, and reports whether it is news.
func (t *term) setHead(name string, seq int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, found := t.heads[name]
	t.heads[name] = seq
	return !found || known != seq
}

// wake puts a pipeline in line, so that wake-ups that come close together are one look.
func (t *term) wake(name string) {
	t.changed(name)
	t.queue.AddAfter(name, mergeWakes)
}

func (t *term) failed(name string, err error, again time.Duration) {
	t.log.Warn("pipeline not decided", obs.KeyPipeline, name, obs.Error(err), obs.KeyRetryIn, again.String())
}
