package journal

import (
	"encoding/json"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// A step that takes work is an action with the step's unique key. The journal and the queue meet in two places: a pass
// stores, drains and cancels such actions (Options.Steps), and the end of one appends its entry (OnEnd).

// applySteps gives a decision's steps to the queue. A step's unique key has the deployment's uuid in it
// and not its number, because every pipeline counts from 1. A deployment that does not exist
// is fault.Internal: the engine decided for it.
func (t *txn) applySteps(head *HeadRow, c Change) error {
	if len(c.Actions)+len(c.Drain)+len(c.Cancel) == 0 {
		return nil
	}
	uuids, err := t.deploymentIDs(head, c)
	if err != nil {
		return err
	}
	start := make([]action.Action, len(c.Actions))
	for i, a := range c.Actions {
		if a.Step == nil {
			return fault.New(fault.Internal, "action %s of a pass names no step", a.Name)
		}
		id, ok := uuids[a.Step.Deployment]
		if !ok {
			return fault.New(fault.Internal, "deployment %s#%d not found", head.Pipeline, a.Step.Deployment)
		}
		a.UniqueKey = a.Step.UniqueKey(id.String())
		start[i] = a
	}
	keys := func(steps []pipeline.StepKey) []string {
		all := make([]string, len(steps))
		for i, s := range steps {
			all[i] = action.StepRef{Target: s.Target, Event: s.Event}.UniqueKey(uuids[s.Deployment].String())
		}
		return all
	}
	return t.core.options.Steps(t.Tx, start, keys(c.Drain), keys(c.Cancel))
}

// deploymentIDs reads the ids of the deployments that a decision's steps belong to, by number. One
// statement reads all, since a pass may start steps of many deployments.
func (t *txn) deploymentIDs(head *HeadRow, c Change) (map[int64]action.ID, error) {
	var numbers []int64
	for _, a := range c.Actions {
		if a.Step != nil {
			numbers = append(numbers, a.Step.Deployment)
		}
	}
	for _, s := range slices.Concat(c.Drain, c.Cancel) {
		numbers = append(numbers, s.Deployment)
	}
	slices.Sort(numbers)
	return t.DeploymentIDs(head.ID, slices.Compact(numbers))
}

// OnEnd locks the pipelines whose steps the actions are. It is called before their threads are locked; in a pass it
// finds its pipeline locked, and locks nothing. record appends the entries of such steps' ends to the deployment log;
// ends of other actions add nothing there and lock no head. record is called in the same transaction, after the
// threads have ended.
func (j *Journal) OnEnd(tx *store.Tx, actions []*action.Action) (record func([]action.EndedAction) error, err error) {
	var names []string
	for _, a := range actions {
		if a.Step != nil && !slices.Contains(names, a.Step.Pipeline) {
			names = append(names, a.Step.Pipeline)
		}
	}
	if len(names) == 0 {
		return func([]action.EndedAction) error { return nil }, nil
	}
	t := j.in(tx)
	// A pass ends steps of its own pipeline only. A second lock after its first could deadlock with a
	// transaction that takes the heads in the order of their ids.
	if t.heads == nil {
		if err := t.lock(false, names...); err != nil {
			return nil, err
		}
	}
	return t.appendEnds, nil
}

// appendEnds appends the entries of steps that have ended, one pipeline after the other, and writes
// the heads. A pass that has caused the ends writes its head once more, from the same HeadRow.
func (t *txn) appendEnds(ended []action.EndedAction) error {
	entries := map[string][]pipeline.Entry{}
	for _, e := range ended {
		if step := e.Action.Step; step != nil {
			entries[step.Pipeline] = append(entries[step.Pipeline], entryOf(e))
		}
	}
	for _, head := range t.heads {
		if len(entries[head.Pipeline]) == 0 {
			continue
		}
		if err := t.append(head, entries[head.Pipeline]); err != nil {
			return err
		}
		if err := t.UpdateHead(*head); err != nil {
			return err
		}
	}
	return nil
}

// entryOf returns the deployment log's entry for the end of a step's action. Only success is a fact and completes the
// step. Everything else is a note, after which the engine may start the step again.
func entryOf(end action.EndedAction) pipeline.Entry {
	step := end.Action.Step
	e := pipeline.Entry{Pipeline: step.Pipeline, Deployment: step.Deployment, Target: step.Target,
		Revision: step.Revision, Version: step.Version}
	if end.Thread.Status == action.Successful {
		e.Class, e.Event, e.Detail = pipeline.Fact, step.Event, factDetail(end)
		return e
	}
	e.Class, e.Event = pipeline.Note, pipeline.StepFailed
	if end.Thread.Status == action.Canceled {
		e.Event = pipeline.StepCanceled
	}
	e.Detail, _ = json.Marshal(pipeline.StepDetail{Event: step.Event, Action: end.Action.ID.String(),
		Status: end.Thread.Status.String(), Error: end.Event.Error}) // strings always marshal
	return e
}

// factDetail returns the keys of the outcome's output, with the action and its attempts: attempt counts
// all claims, spent those that counted against the limit of retries. These keys replace keys of the
// output with the same names.
func factDetail(end action.EndedAction) json.RawMessage {
	detail := map[string]any{}
	if len(end.Output) > 0 && json.Unmarshal(end.Output, &detail) != nil {
		detail = map[string]any{"output": store.CleanJSON(end.Output)} // not a JSON object
	}
	if detail == nil {
		detail = map[string]any{} // the output was null
	}
	detail["action"] = end.Action.ID
	detail["attempt"] = end.Thread.Attempt
	detail["spent"] = end.Thread.Spent
	raw, _ := json.Marshal(detail) // what was read as JSON can be written as JSON
	return raw
}
