package server

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
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Execution is a job that somebody wants of a process.
type Execution struct {
	Process     string
	Inputs      json.RawMessage     // a JSON object
	Answer      action.Answer       // how its results are wanted
	Subscriber  *action.Subscriber  // whom its beginning and end are told; nil: nobody
	Idempotency *ledger.Idempotency // who sends the same again gets the same job; nil: everybody is new
	By          string
}

// Processes lists what jobs can be made of, by id.
func (s *Service) Processes(context.Context) ([]config.Process, error) {
	all := slices.Collect(maps.Values(s.offers.Processes()))
	slices.SortFunc(all, func(a, b config.Process) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Process is one of them; fault.NoSuchProcess, with the nearest id as the hint, when there is none.
func (s *Service) Process(_ context.Context, id string) (config.Process, error) {
	all := s.offers.Processes()
	if w, ok := all[id]; ok {
		return w, nil
	}
	return config.Process{}, fault.New(fault.NoSuchProcess, "there is no process %q", id).
		WithHint("processes are described under workflows in server.yaml").
		WithNearest(id, slices.Sorted(maps.Keys(all)))
}

// Execute stores a job, or finds the one that answers for the same payload: then Created is false. fault.InvalidParameters with
// every fault of the inputs (fault.Problems); fault.IdempotencyKeyReused when the idempotency key stood for another request.
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
	return s.enqueueOnce(ctx, e.Idempotency, job, ledger.ReturnExisting)
}

// PrepareJob is config.Process.Prepare. What is large enough to be kept beside the log is decoded a few at a time, since that takes
// many times its size.
func (s *Service) PrepareJob(ctx context.Context, w config.Process, inputs json.RawMessage) (action.Action, error) {
	leave, err := s.acquireDecoding(ctx, inputs)
	if err != nil {
		return action.Action{}, err
	}
	defer leave()
	return w.Prepare(inputs)
}

const (
	decodesAtOnce  = 2 // of large inputs
	decodePatience = 10 * time.Second
)

// acquireDecoding waits until inputs may be decoded; the caller calls leave once they are.
func (s *Service) acquireDecoding(ctx context.Context, inputs json.RawMessage) (leave func(), err error) {
	if len(inputs) <= blob.Inline {
		return func() {}, nil
	}
	return s.decoding.Acquire(ctx)
}

// Parameters are an action's, wherever they are kept.
func (s *Service) Parameters(ctx context.Context, a action.Action) (json.RawMessage, error) {
	return blob.Load(ctx, s.blobs, a.Parameters, a.ParametersRef)
}

// Output is what an ended action made, wherever it is kept; nil: nothing. An end may be recorded while its output cannot be
// stored: what is not there yet is fault.Unavailable.
func (s *Service) Output(ctx context.Context, state ledger.ActionState) (json.RawMessage, error) {
	output, err := blob.Load(ctx, s.blobs, state.Output, state.OutputRef)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Unavailable, "the output of action %s is not stored yet: %w", state.ID, err).WithHint("ask again later")
	}
	return output, err
}

// Jobs lists jobs by query, whose Kind it sets.
func (s *Service) Jobs(ctx context.Context, q ledger.ActionQuery) ([]ledger.ActionState, error) {
	q.Kind = config.KindJob
	return s.ledger.Actions(ctx, q)
}

// Job is one of them; fault.NoSuchAction for an action that is none.
func (s *Service) Job(ctx context.Context, id action.ID) (ledger.ActionState, error) {
	state, err := s.ledger.Action(ctx, id)
	if err == nil && state.Kind != config.KindJob {
		err = fault.New(fault.NoSuchAction, "there is no job %s", id)
	}
	return state, err
}

// AwaitJob waits until a job has ended, or for some time, and says where it stands then.
func (s *Service) AwaitJob(ctx context.Context, id action.ID, patience time.Duration) (ledger.ActionState, error) {
	waiter, deadline := s.Waiter(), time.Now().Add(patience)
	for {
		state, err := s.Job(ctx, id)
		left := time.Until(deadline)
		if err != nil || state.Thread.Status.Ended() || left <= 0 {
			return state, err
		}
		if err := waiter.Wait(ctx, min(left, followPoll), ledger.TopicAction); err != nil {
			return state, err
		}
	}
}

// DismissJob cancels a job that lives, and deletes the results of one that has ended: the action itself keeps its end.
// The second time is as good as the first.
func (s *Service) DismissJob(ctx context.Context, id action.ID, by string) (ledger.ActionState, error) {
	state, err := s.Job(ctx, id)
	if err != nil {
		return state, err
	}
	if state.Thread.Status.Live() {
		err := s.ledger.Cancel(ctx, id, ledger.CancelNow)
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

// deleteBlobs deletes what an action's attempts and observers have left in the blob store. Parameters stay, so that the action
// can be retried.
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

// CacheEntries lists what the payload cache knows, in the order of keys.
func (s *Service) CacheEntries(ctx context.Context, q ledger.CacheQuery) ([]ledger.CacheEntry, error) {
	return s.ledger.CacheEntries(ctx, q)
}

// CacheEntry is one of them; fault.NotFound when there is none.
func (s *Service) CacheEntry(ctx context.Context, key action.ID) (ledger.CacheEntry, error) {
	return s.ledger.CacheEntry(ctx, key)
}

// CacheKey is the key of a process's inputs, whether the cache knows it or not; fault.NotFound for a process without a cache.
func (s *Service) CacheKey(ctx context.Context, w config.Process, inputs json.RawMessage) (action.ID, error) {
	leave, err := s.acquireDecoding(ctx, inputs)
	if err != nil {
		return action.ID{}, err
	}
	defer leave()
	return w.CacheKey(inputs)
}

// ExpireCache has an entry's job, once it has ended, answer for nothing from a moment on; a zero time: now.
func (s *Service) ExpireCache(ctx context.Context, key action.ID, at time.Time) (ledger.CacheEntry, error) {
	return s.ledger.ExpireCache(ctx, key, at)
}
