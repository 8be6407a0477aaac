package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Execution is a request for a job of a process.
type Execution struct {
	Process     string
	Inputs      json.RawMessage    // a JSON object
	Answer      action.Answer      // how the client wants the results
	Subscriber  *action.Subscriber // addresses that get the job's start and end; nil: none
	Idempotency *queue.Idempotency // a repeated request gets the same job; nil: each request is new
	By          string
}

// Processes returns the processes that can be executed, by id.
func (s *Service) Processes(context.Context) ([]config.Process, error) {
	all := slices.Collect(maps.Values(s.offers.Processes()))
	slices.SortFunc(all, func(a, b config.Process) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Process returns one process, or fault.NoSuchProcess with the nearest id as the hint.
func (s *Service) Process(_ context.Context, id string) (config.Process, error) {
	all := s.offers.Processes()
	if w, ok := all[id]; ok {
		return w, nil
	}
	return config.Process{}, fault.New(fault.NoSuchProcess, "process %q not found", id).
		WithHint("processes are described under workflows in server.yaml").
		WithNearest(id, slices.Sorted(maps.Keys(all)))
}

// Execute stores a job. If the payload cache has one for the same payload it returns that, and Created is false. Errors are
// fault.InvalidParameters with every fault of the inputs (fault.Problems), and fault.IdempotencyKeyReused if another request
// had the idempotency key.
func (s *Service) Execute(ctx context.Context, e Execution) (AddedAction, error) {
	w, err := s.Process(ctx, e.Process)
	if err != nil {
		return AddedAction{}, err
	}
	job, err := s.PrepareJob(ctx, w, e.Inputs)
	if err != nil {
		return AddedAction{}, BadParameters(err)
	}
	job.CreatedBy, job.Subscriber = e.By, e.Subscriber
	if e.Answer.Response != "" || len(e.Answer.Outputs) > 0 {
		job.Answer = &e.Answer
	}
	if len(job.Parameters) > blob.Inline {
		if job, err = s.offloadParameters(ctx, job); err != nil {
			return AddedAction{}, err
		}
	}
	return s.enqueue(ctx, job, queue.EnqueueOptions{Idempotency: e.Idempotency})
}

// PrepareJob returns the action of a job (see config.Process.Prepare). Only a few large inputs are decoded at a time, since
// decoding takes many times their size.
func (s *Service) PrepareJob(ctx context.Context, w config.Process, inputs json.RawMessage) (action.Action, error) {
	leave, err := s.AcquireDecoding(ctx, inputs)
	if err != nil {
		return action.Action{}, err
	}
	defer leave()
	return w.Prepare(inputs)
}

const (
	decodesAtOnce  = 2 // large inputs decoded at a time
	decodePatience = 10 * time.Second
)

// AcquireDecoding waits until inputs may be decoded. The caller calls leave when they are.
func (s *Service) AcquireDecoding(ctx context.Context, inputs json.RawMessage) (leave func(), err error) {
	if len(inputs) <= blob.Inline {
		return func() {}, nil
	}
	return s.decoding.Acquire(ctx)
}

// Parameters returns an action's parameters, from the log or the blob store.
func (s *Service) Parameters(ctx context.Context, a action.Action) (json.RawMessage, error) {
	return blob.Load(ctx, s.blobs, a.Parameters, a.ParametersRef)
}

// Output returns the output of an ended action, from the log or the blob store; nil: none. An end may be recorded before its
// output can be stored: until then the error is fault.Unavailable.
func (s *Service) Output(ctx context.Context, state queue.ActionState) (json.RawMessage, error) {
	output, err := blob.Load(ctx, s.blobs, state.Output, state.OutputRef)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Unavailable, "the output of action %s is not stored yet: %w", state.ID, err).WithHint("ask again later")
	}
	return output, err
}

// Jobs returns the jobs that a query selects. It sets the query's Kind.
func (s *Service) Jobs(ctx context.Context, q queue.ActionQuery) ([]queue.ActionState, error) {
	q.Kind = config.KindJob
	return s.ledger.Actions(ctx, q)
}

// Job returns one job, or fault.NoSuchAction for any other action.
func (s *Service) Job(ctx context.Context, id action.ID) (queue.ActionState, error) {
	state, err := s.ledger.Action(ctx, id)
	if err == nil && state.Kind != config.KindJob {
		err = fault.New(fault.NoSuchAction, "job %s not found", id)
	}
	return state, err
}

// AwaitJob waits until a job has ended, at most for patience, and returns its state then.
func (s *Service) AwaitJob(ctx context.Context, id action.ID, patience time.Duration) (queue.ActionState, error) {
	waiter, deadline := s.Waiter(), time.Now().Add(patience)
	for {
		state, err := s.Job(ctx, id)
		left := time.Until(deadline)
		if err != nil || state.Thread.Status.Ended() || left <= 0 {
			return state, err
		}
		if err := waiter.Wait(ctx, min(left, followPoll), store.TopicAction); err != nil {
			return state, err
		}
	}
}

// DismissJob cancels a live job, or deletes the results of an ended one, whose action keeps its end. It is idempotent.
func (s *Service) DismissJob(ctx context.Context, id action.ID, by string) (queue.ActionState, error) {
	state, err := s.Job(ctx, id)
	if err != nil {
		return state, err
	}
	if state.Thread.Status.Live() {
		err := s.ledger.Cancel(ctx, id, queue.CancelNow)
		if err == nil {
			return s.Job(ctx, id)
		}
		if !fault.Is(err, fault.Terminal) {
			return state, err
		}
	}
	if err := s.ledger.Dismiss(ctx, id, by); err != nil {
		return state, err
	}
	if err := s.deleteBlobs(ctx, state.Action); err != nil {
		return state, err
	}
	return s.Job(ctx, id)
}

// deleteBlobs deletes what an action's attempts and observers left in the blob store. The parameters stay, so that the
// action can be retried.
func (s *Service) deleteBlobs(ctx context.Context, a action.Action) error {
	parameters, err := s.Parameters(ctx, a)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := s.blobs.Clear(ctx, path.Dir(parametersKey(a.ID))); err != nil {
		return fmt.Errorf("delete what job %s left: %w", a.ID, err)
	}
	if a.ParametersRef == "" || parameters == nil {
		return nil
	}
	_, _, err = blob.Offload(ctx, s.blobs, a.ParametersRef, parameters)
	return err
}

// CacheEntries returns the entries of the payload cache, in the order of keys.
func (s *Service) CacheEntries(ctx context.Context, q queue.CacheQuery) ([]queue.CacheEntry, error) {
	return s.ledger.CacheEntries(ctx, q)
}

// CacheEntry returns one entry of the payload cache, or fault.NotFound.
func (s *Service) CacheEntry(ctx context.Context, key action.ID) (queue.CacheEntry, error) {
	return s.ledger.CacheEntry(ctx, key)
}

// CacheKey returns the key of a process's inputs, which the cache need not have; fault.NotFound for a process without a cache.
func (s *Service) CacheKey(ctx context.Context, w config.Process, inputs json.RawMessage) (action.ID, error) {
	leave, err := s.AcquireDecoding(ctx, inputs)
	if err != nil {
		return action.ID{}, err
	}
	defer leave()
	return w.CacheKey(inputs)
}

// ExpireCache makes the ended job of an entry stop answering for its payload from a time on; zero: now.
func (s *Service) ExpireCache(ctx context.Context, key action.ID, at time.Time) (queue.CacheEntry, error) {
	return s.ledger.ExpireCache(ctx, key, at)
}
