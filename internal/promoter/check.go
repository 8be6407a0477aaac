package promoter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Times of checks.
const (
	checkLimit = time.Minute // bounds one check
	checkSoon  = time.Second // delay while a conductor has not handed the gate over
	jobAgain   = time.Minute // between two reads of a Job, which is watched besides
	checkers   = 4
)

// Bounds of the objects that an expression is about.
const (
	mostObject  = 1 << 20  // bytes of one, as JSON
	mostObjects = 16 << 20 // bytes of all
)

// checks answers the gates that the promoter observes: Jobs, and expressions over live objects. A conductor claims the action of such a
// gate and hands it over; its end, attempts and deadline are the queue's.
type checks struct {
	*term
	queue *watch.Queue[string]                        // ids of actions
	jobs  *watch.Informer[*unstructured.Unstructured] // nil: no gate has a Job
	first chan struct{}                               // closed with the first Job, from which on they are watched

	mu   sync.Mutex
	live map[string]check // by the id of the action
}

// check is a gate whose answer is not known.
type check struct {
	pipeline string
	targets  []pool.Want // applications of its environment
}

func newChecks(t *term) *checks {
	c := &checks{term: t, live: map[string]check{}, first: make(chan struct{})}
	c.queue = watch.NewQueue(watch.QueueConfig[string]{Workers: checkers, Retry: loop.Backoff{First: time.Second, Most: time.Minute},
		Handle: c.next, Failed: c.failed})
	return c
}

// newJobs returns an informer of the Jobs of gates.
func (c *checks) newJobs() (*watch.Informer[*unstructured.Unstructured], error) {
	return watch.New(watch.Config[*unstructured.Unstructured]{Objects: c.cfg.Management.Resource(kube.Jobs()), Labels: promotion.LabelGate,
		Decode: func(one *unstructured.Unstructured) *unstructured.Unstructured {
			kept := &unstructured.Unstructured{Object: map[string]any{}}
			kept.SetNamespace(one.GetNamespace())
			kept.SetName(one.GetName())
			kept.SetUID(one.GetUID())
			kept.SetResourceVersion(one.GetResourceVersion())
			return kept
		},
		Changed: func(one *unstructured.Unstructured) { c.wakeJob(one.GetName()) },
		Gone:    func(one *unstructured.Unstructured) { c.wakeJob(one.GetName()) },
		Interrupted: func(err error) {
			c.log.Warn("watching the Jobs of gates was interrupted; it resumes by itself", obs.Error(err))
		}})
}

// run works until ctx ends.
func (c *checks) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { c.queue.Run(ctx) })
	loops.Go(func() {
		select {
		case <-c.first:
			c.jobs.Run(ctx)
		case <-ctx.Done():
		}
	})
	loops.Wait()
}

// watchJobs begins to watch Jobs. An installation without gates that need them may lack the right.
func (c *checks) watchJobs() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.first:
	default:
		close(c.first)
	}
}

// wakeJob puts the gate of a Job in line.
func (c *checks) wakeJob(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.live[id]; known {
		c.queue.Add(id)
	}
}

// keep replaces the live gates of a pipeline.
func (c *checks) keep(pipeline string, live map[string]check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, one := range live {
		if _, known := c.live[id]; !known {
			c.queue.Add(id)
		}
		c.live[id] = one
	}
	for id, one := range c.live {
		if _, wanted := live[id]; one.pipeline == pipeline && !wanted {
			delete(c.live, id)
			c.queue.Forget(id)
		}
	}
}

// liveGates returns the gates of a look whose answers are not known.
func (l *look) liveGates() map[string]check {
	live := map[string]check{}
	for key, attempt := range l.state.Attempts {
		if key.Op == promotion.OpGate && attempt.Status == promotion.AttemptLive {
			live[attempt.ActionID] = check{l.pipeline.ID(), l.wants(l.environment(key.Env))}
		}
	}
	return live
}

// next looks at one gate.
func (c *checks) next(ctx context.Context, id string) (again time.Duration, err error) {
	c.mu.Lock()
	one, live := c.live[id]
	c.mu.Unlock()
	parsed, err := action.ParseID(id)
	if err != nil || !live {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, fmt.Errorf("checking a gate took longer than %s", checkLimit))
	defer cancel()
	state, err := c.ledger.Action(ctx, parsed)
	if fault.Is(err, fault.NoSuchAction) || err == nil && !state.Thread.Status.Live() {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var work gateParameters
	if err := json.Unmarshal(state.Parameters, &work); err != nil || work.Gate == nil {
		return 0, nil // its handler reports the fault
	}
	thread := state.Thread
	handedOver := thread.Status == action.Queued || thread.Status == action.Running
	switch {
	case state.Handler != promotion.HandlerJob && state.Handler != promotion.HandlerExpression: // its handler answers
	case !handedOver || !thread.CancelAt.IsZero(): // waits for a conductor
		c.queue.AddAfter(id, max(time.Until(thread.RunAt), 0)+checkSoon)
	case state.Handler == promotion.HandlerJob:
		return 0, c.job(ctx, state, work)
	default:
		return 0, c.expression(ctx, state, work, one)
	}
	return 0, nil
}

// gateParameters is the common part of the parameters of gates: of a promotion.Work, and of a promotion.StageWork.
type gateParameters struct {
	Namespace string              `json:"namespace"`
	Gate      *promotion.GateWork `json:"gate"`
}

// job reads the Job of a gate, and records how it ended.
func (c *checks) job(ctx context.Context, state queue.ActionState, work gateParameters) error {
	c.watchJobs()
	id, ref := state.ID.String(), work.Namespace+"/"+state.ID.String()
	object, err := c.cfg.Management.Resource(kube.Jobs()).Namespace(work.Namespace).Get(ctx, id, metav1.GetOptions{})
	seen := queue.Observation{ID: state.ID, Source: role, Ref: ref}
	switch {
	case apierrors.IsNotFound(err):
		seen.Outcome = action.Outcome{Kind: action.Fatal, Code: "job_lost",
			Error: "the Job " + ref + " vanished before its end was seen; it may have run"}
	case err != nil:
		return fmt.Errorf("read the Job %s: %w", ref, err)
	default:
		seen.Outcome = outcomeOfJob(object)
		started, _, _ := unstructured.NestedString(object.Object, "status", "startTime")
		seen.Began = started != ""
	}
	c.queue.AddAfter(id, jobAgain)
	if seen.Outcome.Kind == 0 && (!seen.Began || state.Thread.Status == action.Running) {
		return nil
	}
	return c.observe(ctx, seen)
}

// outcomeOfJob returns how a Job has ended; zero: it has not.
func outcomeOfJob(job *unstructured.Unstructured) (o action.Outcome) {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["status"] != "True" {
			continue
		}
		text := fmt.Sprintf("Job %s/%s", job.GetNamespace(), job.GetName())
		switch condition["type"] {
		case "Complete":
			output, _ := json.Marshal(map[string]string{"detail": text + " is complete"}) // texts always marshal
			return action.Outcome{Kind: action.Done, Output: output}
		case "Failed":
			return action.Outcome{Kind: action.Fatal, Code: "job_failed",
				Error: fmt.Sprintf("%s failed: %v: %v", text, condition["reason"], condition["message"])}
		}
	}
	return o
}

// expression evaluates the expression of a gate. While an object cannot be read, the gate waits without an answer.
func (c *checks) expression(ctx context.Context, state queue.ActionState, work gateParameters, one check) error {
	id := state.ID.String()
	objects, err := c.objects(ctx, one.targets)
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotFound) {
		c.log.Info("gate has no answer", obs.KeyPipeline, one.pipeline, obs.KeyActionID, id, obs.KeyGate, work.Gate.Name, obs.Error(err))
		c.queue.AddAfter(id, work.Gate.Every)
		return nil
	}
	var holds bool
	var parsed *callback.Expression
	if err == nil {
		if parsed, err = callback.ParseExpression(work.Gate.CEL); err == nil {
			holds, err = parsed.Holds(objects)
		}
	}
	seen := queue.Observation{ID: state.ID, Source: role}
	_, isWrong := errors.AsType[*callback.FilterError](err)
	switch {
	case isWrong:
		seen.Outcome = action.Outcome{Kind: action.Fatal, Code: "expression", Error: err.Error()}
	case holds:
		text := fmt.Sprintf("true of %d objects", len(objects))
		output, _ := json.Marshal(map[string]string{"detail": text, "text": text}) // texts always marshal
		seen.Outcome = action.Outcome{Kind: action.Done, Output: output}
	case err != nil:
		seen.Outcome = action.Outcome{Kind: action.Retry, Code: "expression", Error: "the expression cannot be evaluated: " + err.Error()}
	default:
		seen.Outcome = action.Outcome{Kind: action.Retry, Code: "expression", Error: "the expression is false"}
	}
	c.queue.AddAfter(id, work.Gate.Every+checkSoon)
	return c.observe(ctx, seen)
}

// objects reads applications as they are now, without their managed fields. The error is fault.Invalid if they are too large.
func (c *checks) objects(ctx context.Context, targets []pool.Want) ([]any, error) {
	objects, total := make([]any, len(targets)), 0
	for i, target := range targets {
		object, err := c.pool.Get(ctx, target)
		if err != nil {
			return nil, err
		}
		object.SetManagedFields(nil)
		text, err := json.Marshal(object.Object)
		if err != nil {
			return nil, fault.New(fault.Invalid, "read %s %s/%s: %w", target.GVK.Kind, target.Namespace, target.Name, err)
		}
		if total += len(text); len(text) > mostObject || total > mostObjects {
			return nil, fault.New(fault.Invalid, "%s %s/%s has %d bytes, the objects up to it %d: want at most %d and %d",
				target.GVK.Kind, target.Namespace, target.Name, len(text), total, mostObject, mostObjects)
		}
		objects[i] = object.Object
	}
	return objects, nil
}

// observe records an answer. One about work that was not handed over in the meantime is given again.
func (c *checks) observe(ctx context.Context, seen queue.Observation) error {
	recorded, err := c.ledger.Observe(ctx, seen)
	if err == nil {
		err = recorded.Deferred.Err()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("record the answer of a gate: %w", err)
	}
	return err
}

func (c *checks) failed(id string, err error, again time.Duration) {
	c.log.Warn("gate not checked", obs.KeyActionID, id, obs.Error(err), obs.KeyRetryIn, again.String())
}
