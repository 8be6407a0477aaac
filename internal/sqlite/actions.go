package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: actions, their threads, their events and their ends.
//
// Nothing here takes a lock. A transaction that writes has the only writer connection from its
// BEGIN, so what it has read cannot change before it writes.

// InsertThreads stores live rows. A unique key that is live already makes the INSERT fail.
func (t *tx) InsertThreads(threads []queue.ThreadRow) error {
	values := make([][]any, len(threads))
	for i, r := range threads {
		values[i] = []any{id(r.ID), r.Lane, text(r.UniqueKey), r.AttemptLimit.Microseconds(), r.Thread.Status, r.Ready, micros(r.Rank),
			micros(r.Thread.RunAt), r.Thread.Seq, r.Thread.Attempt, r.Thread.Spent, r.Thread.Lost, r.Thread.Throttled,
			r.Thread.Draining, micros(r.Thread.Deadline)}
	}
	return t.insert(table{name: "thread", columns: []string{"id", "lane", "unique_key", "attempt_limit", "status", "ready", "rank",
		"run_at", "seq", "attempt", "spent", "lost", "throttled", "draining", "deadline"}}, values)
}

// scanID reads a column of ids.
func scanID(s scanner) (i action.ID, err error) {
	err = s.Scan(ident{&i})
	return i, err
}

// InsertActions stores the immutable rows, at the recorded position of this transaction.
func (t *tx) InsertActions(actions []action.Action) error {
	position, err := t.position()
	if err != nil {
		return err
	}
	values := make([][]any, len(actions))
	for i, a := range actions {
		policy, err := json.Marshal(a.Policy)
		if err != nil {
			return fmt.Errorf("write policy of action %s: %w", a.ID, err)
		}
		var subscriber, answer []byte
		if a.Subscriber != nil {
			subscriber, _ = json.Marshal(a.Subscriber) // texts always marshal
		}
		if a.Answer != nil {
			answer, _ = json.Marshal(a.Answer) // texts always marshal
		}
		step := make([]any, 6)
		if s := a.Step; s != nil {
			step = []any{s.Pipeline, s.Deployment, s.Target, s.Event, s.Revision, s.Version}
		}
		values[i] = append([]any{id(a.ID), micros(a.CreatedAt), micros(t.now), a.Kind, a.Name, a.Handler, a.Lane, *a.Priority, a.UniqueKey,
			id(a.ParentID), id(a.RetryOf), document(a.Parameters), string(policy), string(a.Delivery), micros(a.RunAt),
			a.CreatedBy, a.Trace, a.ParametersRef, a.Version, id(a.CacheKey),
			document(subscriber), document(answer), a.Width, position}, step...)
	}
	return t.insert(table{name: "action", columns: []string{"id", "created_at", "enqueued_at", "kind", "name", "handler", "lane", "priority",
		"unique_key", "parent_id", "retry_of", "parameters", "policy", "delivery", "run_at", "created_by", "trace",
		"parameters_ref", "version", "cache_key", "subscriber", "answer", "width", "tx",
		"pipeline", "deployment", "target", "event_name", "revision", "definition_version"}}, values)
}

// InsertEvents appends to the histories of actions, at the recorded position of this transaction.
func (t *tx) InsertEvents(events []action.Event) error {
	if len(events) == 0 {
		return nil
	}
	position, err := t.position()
	if err != nil {
		return err
	}
	values := make([][]any, len(events))
	for i, e := range events {
		values[i] = []any{id(e.ActionID), e.Seq, e.Status, e.Attempt, e.Spent, micros(e.At), e.Source, micros(e.Until),
			e.Code, e.Error, e.Ref, position}
	}
	return t.insert(table{name: "event", columns: []string{"action_id", "seq", "status", "attempt", "spent", "at", "source", "until",
		"code", "error", "ref", "tx"}}, values)
}

// UpdateThreads writes the present state of live actions, with one statement for each.
func (t *tx) UpdateThreads(threads []queue.ThreadRow) error {
	for _, r := range threads {
		_, err := t.exec(`UPDATE thread SET status = ?, ready = ?, rank = ?, run_at = ?, seq = ?, attempt = ?, spent = ?, lost = ?,
			throttled = ?, claimed_by = ?, lease = ?, started_at = ?, cancel_at = ?, draining = ?, deadline = ?, progress = ? WHERE id = ?`,
			r.Thread.Status, r.Ready, micros(r.Rank), micros(r.Thread.RunAt), r.Thread.Seq, r.Thread.Attempt, r.Thread.Spent, r.Thread.Lost,
			r.Thread.Throttled, id(r.Thread.ClaimedBy), micros(r.Thread.Lease), micros(r.Thread.StartedAt), micros(r.Thread.CancelAt),
			r.Thread.Draining, micros(r.Thread.Deadline), r.Thread.Progress, id(r.ID))
		if err != nil {
			return err
		}
	}
	return nil
}

// EndThreads deletes the live rows, stores the last states and appends the events of the ends. It
// returns the ids of the actions that ended.
//
// With an owner, the fence is the owner, the attempt and the number of the event before the end.
// The threads are read and then deleted; no claim can come between, since this transaction is the
// only writer.
func (t *tx) EndThreads(owner action.ID, endings []queue.Ending) ([]action.ID, error) {
	ids := make([]action.ID, len(endings))
	for i, e := range endings {
		ids[i] = e.Event.ActionID
	}
	standing, err := t.LockThreads(ids)
	if err != nil {
		return nil, err
	}
	ended, events := make([]action.ID, 0, len(endings)), make([]action.Event, 0, len(endings))
	values := make([][]any, 0, len(endings))
	for _, e := range endings {
		is, live := standing[e.Event.ActionID]
		if !live && owner.IsZero() {
			return nil, fault.New(fault.Terminal, "action %s has ended already", e.Event.ActionID)
		}
		if !owner.IsZero() && (is.ClaimedBy != owner || is.Attempt != e.Thread.Attempt || is.Seq != e.Thread.Seq-1) {
			continue
		}
		ended, events = append(ended, e.Event.ActionID), append(events, e.Event)
		values = append(values, []any{id(e.Event.ActionID), e.Lane, e.Thread.Status, e.Thread.Seq, e.Thread.Attempt,
			e.Thread.Spent, e.Thread.Lost,
			micros(e.Thread.StartedAt), micros(e.At), e.Event.Code, e.Event.Error, e.Event.Ref, document(e.Output), e.OutputRef, e.Job})
	}
	if _, err := t.exec(`DELETE FROM thread WHERE id IN (`+listed+`)`, idList(ended)); err != nil {
		return nil, err
	}
	if err := t.InsertEvents(events); err != nil {
		return nil, err
	}
	return ended, t.insert(table{name: "thread_done", columns: []string{"id", "lane", "status", "seq", "attempt", "spent", "lost",
		"started_at", "finished_at", "code", "error", "ref", "output", "output_ref", "job"}}, values)
}

// actionColumns are the columns of an action, in the order of actionRow.to.
const actionColumns = `a.id, a.created_at, a.kind, a.name, a.handler, a.lane, a.priority, a.unique_key, a.parent_id, a.retry_of,
	a.parameters, a.policy, a.delivery, a.run_at, a.created_by, a.trace, a.parameters_ref, a.version, a.cache_key, a.subscriber, a.answer, a.width, a.pipeline, a.deployment, a.target, a.event_name, a.revision, a.definition_version`

// actionRow is an action as it is scanned: columns that need decoding are kept as they are stored.
type actionRow struct {
	action.Action
	parameters, pipeline, target, event sql.NullString
	subscriber, answer                  sql.NullString
	deployment, revision, definition    sql.NullInt64
	policy                              string
	priority                            int
}

// to returns where to scan actionColumns to.
func (r *actionRow) to() []any {
	return []any{ident{&r.ID}, moment{&r.CreatedAt}, &r.Kind, &r.Name, &r.Handler, &r.Lane, &r.priority, &r.UniqueKey, ident{&r.ParentID},
		ident{&r.RetryOf}, &r.parameters, &r.policy, &r.Delivery, moment{&r.RunAt}, &r.CreatedBy, &r.Trace, &r.ParametersRef,
		&r.Version, ident{&r.CacheKey}, &r.subscriber, &r.answer, &r.Width,
		&r.pipeline, &r.deployment, &r.target, &r.event, &r.revision, &r.definition}
}

// finish returns the action of the scanned columns.
func (r *actionRow) finish() (action.Action, error) {
	r.Priority = &r.priority
	if r.parameters.Valid {
		r.Parameters = json.RawMessage(r.parameters.String)
	}
	if r.subscriber.Valid {
		if err := json.Unmarshal([]byte(r.subscriber.String), &r.Subscriber); err != nil {
			return action.Action{}, fmt.Errorf("read subscriber of action %s: %w", r.ID, err)
		}
	}
	if r.answer.Valid {
		if err := json.Unmarshal([]byte(r.answer.String), &r.Answer); err != nil {
			return action.Action{}, fmt.Errorf("read the answer of action %s: %w", r.ID, err)
		}
	}
	if r.pipeline.Valid {
		r.Step = &action.StepRef{Pipeline: r.pipeline.String, Deployment: r.deployment.Int64, Target: r.target.String,
			Event: r.event.String, Revision: r.revision.Int64, Version: int(r.definition.Int64)}
	}
	if err := json.Unmarshal([]byte(r.policy), &r.Policy); err != nil {
		return action.Action{}, fmt.Errorf("read policy of action %s: %w", r.ID, err)
	}
	return r.Action, nil
}

// scanAction reads actionColumns.
func scanAction(s scanner) (action.Action, error) {
	var r actionRow
	if err := s.Scan(r.to()...); err != nil {
		return action.Action{}, err
	}
	return r.finish()
}

// Actions reads the immutable rows of those ids that exist.
func (t *tx) Actions(ids []action.ID) ([]action.Action, error) {
	return rows(t, scanAction, `SELECT `+actionColumns+` FROM action a WHERE a.id IN (`+listed+`)`, idList(ids))
}

// Events reads an action's history in the order of seq.
func (t *tx) Events(i action.ID) ([]action.Event, error) {
	scan := func(s scanner) (e action.Event, err error) {
		e.ActionID = i
		err = s.Scan(&e.Seq, &e.Status, &e.Attempt, &e.Spent, moment{&e.At}, &e.Source, moment{&e.Until}, &e.Code, &e.Error, &e.Ref)
		return e, err
	}
	return rows(t, scan,
		`SELECT seq, status, attempt, spent, at, source, until, code, error, ref FROM event WHERE action_id = ? ORDER BY seq`, id(i))
}
