package caboose

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/obs"
)

// watcher looks after the workflows of one handler.
type watcher struct {
	*Caboose
	handler   string
	workflows dynamic.ResourceInterface
	namespace string
	informer  cache.SharedIndexInformer
	queue     workqueue.TypedDelayingInterface[string] // names; one worker at a time has each
	log       *slog.Logger

	mu     sync.Mutex
	memory map[types.UID]*memory
}

// memory is what is known of one workflow, so that nothing is asked twice. It is
// changed by the one worker that has the workflow.
type memory struct {
	ours     bool   // the action is there, and of this handler
	process  string // whose job it is; "": no job
	running  bool   // recorded as RUNNING
	progress int    // recorded with that, per cent
	archived bool
	recorded bool
	deleted  bool // the cluster has accepted it
	orphan   bool
	failures int       // in a row, of what was tried last
	againAt  time.Time // not earlier, even if all workflows are looked at meanwhile
	unkept   int       // tries to archive that failed
}

func newWatcher(c *Caboose, handler string, cluster *kube.Cluster) (*watcher, error) {
	w := &watcher{
		Caboose: c, handler: handler, namespace: cluster.Namespace,
		workflows: cluster.Resource(kube.Workflows()).Namespace(cluster.Namespace),
		queue:     workqueue.NewTypedDelayingQueue[string](),
		log:       c.log.With(obs.KeyHandler, handler),
		memory:    map[types.UID]*memory{},
	}
	w.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return w.workflows.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return w.workflows.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, c.cfg.Pace.Resync, cache.Indexers{})
	if err := w.informer.SetTransform(slim); err != nil {
		return nil, fmt.Errorf("watch workflows of %s: %w", handler, err)
	}
	err := w.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			w.log.Warn("watching workflows was interrupted; it resumes by itself", obs.Error(err))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch workflows of %s: %w", handler, err)
	}
	_, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.noticed,
		UpdateFunc: func(_, now any) { w.noticed(now) },
		DeleteFunc: w.gone,
	})
	if err != nil {
		return nil, fmt.Errorf("watch workflows of %s: %w", handler, err)
	}
	return w, nil
}

// run watches and works until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { w.informer.RunWithContext(ctx) })
	loops.Go(func() { w.missing(ctx) })
	for range w.cfg.Workers {
		loops.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	loops.Wait()
}

// noticed puts a workflow in line that may have changed.
func (w *watcher) noticed(object any) {
	if one, ok := object.(*unstructured.Unstructured); ok && w.owns(one.GetName()) {
		w.queue.Add(one.GetName())
	}
}

// gone forgets a workflow that the cluster does not have any more.
func (w *watcher) gone(object any) {
	if late, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = late.Obj
	}
	if one, ok := object.(*unstructured.Unstructured); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		if m := w.memory[one.GetUID()]; m != nil && m.orphan {
			w.metrics.Orphans.Dec()
		}
		w.nameStuck(one, nil)
		delete(w.memory, one.GetUID())
	}
}

// lookAgain puts all workflows in line: some are ours only now.
func (w *watcher) lookAgain() {
	for _, object := range w.informer.GetStore().List() {
		w.noticed(object)
	}
}

// known returns the memory of a workflow.
func (w *watcher) known(uid types.UID) *memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.memory[uid] == nil {
		w.memory[uid] = &memory{}
	}
	return w.memory[uid]
}

// next handles one workflow. It returns false when the queue is closed.
func (w *watcher) next(ctx context.Context) bool {
	name, over := w.queue.Get()
	if over {
		return false
	}
	defer w.queue.Done(name)
	object, there, err := w.informer.GetStore().GetByKey(w.namespace + "/" + name)
	if err != nil || !there || !w.owns(name) || ctx.Err() != nil {
		return true
	}
	one, ok := object.(*unstructured.Unstructured)
	if !ok {
		return true
	}
	m := w.known(one.GetUID())
	if time.Now().Before(m.againAt) {
		return true // it is in line for then
	}
	again, err := w.handle(ctx, one, m)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.failures++
		if again == 0 {
			again = min(w.cfg.Pace.RetryMax, w.cfg.Pace.Retry<<min(m.failures-1, 20))
		}
		w.log.Warn("workflow not done with", obs.KeyWorkflow, name, obs.Error(err), obs.KeyRetryIn, again.String())
		m.againAt = time.Now().Add(again)
		w.queue.AddAfter(name, again)
	default:
		m.failures = 0
	}
	return true
}

// callLimit bounds one look at a workflow.
const callLimit = time.Minute
