package caboose

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// watcher looks after the workflows of one handler.
type watcher struct {
	*Caboose
	handler   string
	workflows dynamic.ResourceInterface
	namespace string
	informer  *watch.Informer[*unstructured.Unstructured]
	queue     *watch.Queue[string] // names of workflows
	memory    watch.Memory[memory]
	log       *slog.Logger
}

// memory holds the known state of one workflow, so that no request is repeated. It is changed by the one worker that
// has the workflow.
type memory struct {
	ours     bool   // the action is there, and of this handler
	process  string // whose job it is; "": no job
	running  bool   // recorded as RUNNING
	progress int    // recorded with that, per cent
	archived bool
	recorded bool
	deleted  bool // the cluster has accepted it
	orphan   bool
	unkept   int // tries to archive that failed
}

func newWatcher(c *Caboose, handler string, cluster *kube.Cluster) (*watcher, error) {
	w := &watcher{
		Caboose: c, handler: handler, namespace: cluster.Namespace,
		workflows: cluster.Resource(argo.Workflows()).Namespace(cluster.Namespace),
		log:       c.log.With(obs.KeyHandler, handler),
	}
	w.queue = watch.NewQueue(watch.QueueConfig[string]{Workers: c.cfg.Workers,
		Retry:  loop.Backoff{First: c.cfg.Pace.Retry, Most: c.cfg.Pace.RetryMax, Even: true},
		Handle: w.next, Failed: w.failed})
	var err error
	w.informer, err = watch.New(watch.Config[*unstructured.Unstructured]{Objects: w.workflows, Resync: c.cfg.Pace.Resync, Decode: slim,
		Changed: w.noticed, Gone: w.gone, Interrupted: w.interrupted})
	if err != nil {
		return nil, fmt.Errorf("watch workflows of %s: %w", handler, err)
	}
	return w, nil
}

// run watches and works until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { w.informer.Run(ctx) })
	loops.Go(func() { w.missing(ctx) })
	loops.Go(func() { w.queue.Run(ctx) })
	loops.Wait()
}

func (w *watcher) interrupted(err error) {
	w.log.Warn("watching workflows was interrupted; it resumes by itself", obs.Error(err))
}

// noticed puts a workflow in line that may have changed.
func (w *watcher) noticed(one *unstructured.Unstructured) {
	if w.owns(one.GetName()) {
		w.queue.Add(one.GetName())
	}
}

// gone forgets a workflow that the cluster does not have any more.
func (w *watcher) gone(one *unstructured.Unstructured) {
	if m := w.memory.Forget(one.GetUID()); m != nil && m.orphan {
		w.metrics.Orphans.Dec()
	}
	w.queue.Forget(one.GetName())
	w.nameStuck(one, nil)
}

// lookAgain puts all workflows in line: some are ours only now.
func (w *watcher) lookAgain() {
	for _, one := range w.informer.List() {
		w.noticed(one)
	}
}

// next handles one workflow.
func (w *watcher) next(ctx context.Context, name string) (again time.Duration, err error) {
	one, there := w.informer.Get(w.namespace, name)
	if !there || !w.owns(name) {
		return 0, nil
	}
	return w.handle(ctx, one, w.memory.Of(one.GetUID()))
}

func (w *watcher) failed(name string, err error, again time.Duration) {
	w.log.Warn("workflow not done with", obs.KeyWorkflow, name, obs.Error(err), obs.KeyRetryIn, again.String())
}

// callLimit bounds one look at a workflow.
const callLimit = time.Minute
