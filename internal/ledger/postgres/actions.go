package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// InsertThreads stores live rows and returns the ids of those whose id and unique key are not live already.
func (t *tx) InsertThreads(rows []ledger.ThreadRow) ([]action.ID, error) {
	return query(t, scanID, `INSERT INTO thread (id, created_at, lane, status, ready, rank, run_at, seq, attempt, spent, lost, throttled,
			attempt_limit, deadline, draining, unique_key)
		SELECT id, created_at, lane, status, ready, rank, run_at, seq, attempt, spent, lost, throttled, attempt_limit, deadline, false, unique_key
		FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::smallint[], $5::boolean[], $6::timestamptz[], $7::timestamptz[], $8::int[], $9::int[],
			$10::smallint[], $11::smallint[], $12::smallint[], $13::interval[], $14::timestamptz[], $15::text[])
			AS n (id, created_at, lane, status, ready, rank, run_at, seq, attempt, spent, lost, throttled, attempt_limit, deadline, unique_key)
		ON CONFLICT DO NOTHING RETURNING id`,
		column(rows, func(r ledger.ThreadRow) pgtype.UUID { return uuid(r.ID) }),
		column(rows, func(r ledger.ThreadRow) time.Time { return r.ID.Time() }),
		column(rows, func(r ledger.ThreadRow) string { return r.Lane }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Status) }),
		column(rows, func(r ledger.ThreadRow) bool { return r.Ready }),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Rank) }),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Thread.RunAt) }),
		column(rows, func(r ledger.ThreadRow) int32 { return int32(r.Thread.Seq) }),
		column(rows, func(r ledger.ThreadRow) int32 { return int32(r.Thread.Attempt) }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Spent) }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Lost) }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Throttled) }),
		column(rows, func(r ledger.ThreadRow) pgtype.Interval {
			return pgtype.Interval{Microseconds: r.AttemptLimit.Microseconds(), Valid: r.AttemptLimit > 0}
		}),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Thread.Deadline) }),
		column(rows, func(r ledger.ThreadRow) pgtype.Text { return optional(r.UniqueKey) }))
}

func scanID(row pgx.Row) (id action.ID, err error) {
	err = row.Scan(idOf{&id})
	return id, err
}

// InsertActions stores the immutable rows.
func (t *tx) InsertActions(actions []action.Action) error {
	policies := make([]string, len(actions))
	subscribers := make([]pgtype.Text, len(actions))
	for i, a := range actions {
		policy, err := json.Marshal(a.Policy)
		if err != nil {
			return fmt.Errorf("encode the policy of action %s: %w", a.ID, err)
		}
		policies[i] = string(policy)
		if a.Subscriber != nil {
			raw, _ := json.Marshal(a.Subscriber) // texts always marshal
			subscribers[i] = document(raw)
		}
	}
	step := func(a action.Action) action.Step {
		if a.Step == nil {
			return action.Step{}
		}
		return *a.Step
	}
	number := func(a action.Action, n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: a.Step != nil} }
	_, err := t.exec(`INSERT INTO action (id, created_at, kind, name, handler, lane, priority, unique_key, parent_id, retry_of, parameters,
			policy, delivery, run_at, created_by, trace, parameters_ref, pipeline, deployment, target, event_name, revision, definition_version,
			version, cache_key, subscriber)
		SELECT id, uuid_v7_time(id), kind, name, handler, lane, priority, unique_key, parent_id, retry_of, parameters::json,
			policy::json, delivery, run_at, created_by, trace, parameters_ref, pipeline, deployment, target, event, revision, definition,
			version, cache_key, subscriber::json
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::uuid[], $9::uuid[], $10::text[],
			$11::text[], $12::text[], $13::timestamptz[], $14::text[], $15::text[], $16::text[],
			$17::text[], $18::bigint[], $19::text[], $20::text[], $21::bigint[], $22::bigint[],
			$23::int[], $24::uuid[], $25::text[])
			AS n (id, kind, name, handler, lane, priority, unique_key, parent_id, retry_of, parameters,
			policy, delivery, run_at, created_by, trace, parameters_ref, pipeline, deployment, target, event, revision, definition, version, cache_key,
			subscriber)`,
		column(actions, func(a action.Action) pgtype.UUID { return uuid(a.ID) }),
		column(actions, func(a action.Action) string { return a.Kind }),
		column(actions, func(a action.Action) string { return a.Name }),
		column(actions, func(a action.Action) string { return a.Handler }),
		column(actions, func(a action.Action) string { return a.Lane }),
		column(actions, func(a action.Action) int16 { return int16(*a.Priority) }),
		column(actions, func(a action.Action) pgtype.Text { return optional(a.UniqueKey) }),
		column(actions, func(a action.Action) pgtype.UUID { return uuid(a.ParentID) }),
		column(actions, func(a action.Action) pgtype.UUID { return uuid(a.RetryOf) }),
		column(actions, func(a action.Action) pgtype.Text { return document(a.Parameters) }),
		policies,
		column(actions, func(a action.Action) string { return string(a.Delivery) }),
		column(actions, func(a action.Action) pgtype.Timestamptz { return stamp(a.RunAt) }),
		column(actions, func(a action.Action) string { return a.CreatedBy }),
		column(actions, func(a action.Action) string { return a.Trace }),
		column(actions, func(a action.Action) string { return a.ParametersRef }),
		column(actions, func(a action.Action) pgtype.Text { return optional(step(a).Pipeline) }),
		column(actions, func(a action.Action) pgtype.Int8 { return number(a, step(a).Deployment) }),
		column(actions, func(a action.Action) pgtype.Text { return optional(step(a).Target) }),
		column(actions, func(a action.Action) pgtype.Text { return optional(step(a).Event) }),
		column(actions, func(a action.Action) pgtype.Int8 { return number(a, step(a).Revision) }),
		column(actions, func(a action.Action) pgtype.Int8 { return number(a, int64(step(a).Version)) }),
		column(actions, func(a action.Action) int32 { return int32(a.Version) }),
		column(actions, func(a action.Action) pgtype.UUID { return uuid(a.CacheKey) }),
		subscribers)
	return err
}

// InsertEvents appends to the histories of actions.
func (t *tx) InsertEvents(events []action.Event) error {
	_, err := t.exec(`INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source, until, code, error, ref)
		SELECT id, created_at, seq, status, attempt, spent, at, source, until, code, error, ref
		FROM unnest($1::uuid[], $2::timestamptz[], $3::int[], $4::smallint[], $5::int[], $6::smallint[], $7::timestamptz[], $8::text[], $9::timestamptz[],
			$10::text[], $11::text[], $12::text[]) AS n (id, created_at, seq, status, attempt, spent, at, source, until, code, error, ref)`,
		column(events, func(e action.Event) pgtype.UUID { return uuid(e.ActionID) }),
		column(events, func(e action.Event) time.Time { return e.ActionID.Time() }),
		column(events, func(e action.Event) int32 { return int32(e.Seq) }),
		column(events, func(e action.Event) int16 { return int16(e.Status) }),
		column(events, func(e action.Event) int32 { return int32(e.Attempt) }),
		column(events, func(e action.Event) int16 { return int16(e.Spent) }),
		column(events, func(e action.Event) pgtype.Timestamptz { return stamp(e.At) }),
		column(events, func(e action.Event) string { return e.Source }),
		column(events, func(e action.Event) pgtype.Timestamptz { return stamp(e.Until) }),
		column(events, func(e action.Event) pgtype.Text { return optional(e.Code) }),
		column(events, func(e action.Event) pgtype.Text { return optional(e.Error) }),
		column(events, func(e action.Event) pgtype.Text { return optional(e.Ref) }))
	return err
}

// UpdateThreads writes where live actions stand now.
func (t *tx) UpdateThreads(rows []ledger.ThreadRow) error {
	done, err := t.exec(`UPDATE thread SET status = n.status, ready = n.ready, rank = n.rank, run_at = n.run_at, seq = n.seq, attempt = n.attempt,
			spent = n.spent, lost = n.lost, throttled = n.throttled, claimed_by = n.claimed_by, lease = n.lease, started_at = n.started_at,
			cancel_at = n.cancel_at, draining = n.draining, progress = n.progress
		FROM (SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::boolean[], $4::timestamptz[], $5::timestamptz[], $6::int[], $7::int[],
			$8::smallint[], $9::smallint[], $10::smallint[], $11::uuid[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
			$15::boolean[], $16::smallint[]) AS n (id, status, ready, rank, run_at, seq, attempt, spent, lost, throttled, claimed_by, lease,
			started_at, cancel_at, draining, progress)`+located+`) AS n
		WHERE thread.ctid = n.place`,
		column(rows, func(r ledger.ThreadRow) pgtype.UUID { return uuid(r.ID) }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Status) }),
		column(rows, func(r ledger.ThreadRow) bool { return r.Ready }),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Rank) }),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Thread.RunAt) }),
		column(rows, func(r ledger.ThreadRow) int32 { return int32(r.Thread.Seq) }),
		column(rows, func(r ledger.ThreadRow) int32 { return int32(r.Thread.Attempt) }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Spent) }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Lost) }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Throttled) }),
		column(rows, func(r ledger.ThreadRow) pgtype.UUID { return uuid(r.Thread.ClaimedBy) }),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Thread.Lease) }),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Thread.StartedAt) }),
		column(rows, func(r ledger.ThreadRow) pgtype.Timestamptz { return stamp(r.Thread.CancelAt) }),
		column(rows, func(r ledger.ThreadRow) bool { return r.Thread.Draining }),
		column(rows, func(r ledger.ThreadRow) int16 { return int16(r.Thread.Progress) }))
	if err == nil && int(done) != len(rows) {
		err = fmt.Errorf("update %d threads: %d are live", len(rows), done)
	}
	return err
}

// located finds the live row of each n by its key, whatever the planner believes of the table: joined by place, n and
// thread cannot be joined the other way round. A row that changes meanwhile has another place, and is not found.
const located = ` CROSS JOIN LATERAL (SELECT ctid AS place FROM thread WHERE id = n.id OFFSET 0) AS p`

// end is the end of many actions in one statement: what was deleted is what is written down.
const end = `WITH n AS (
	SELECT * FROM unnest($2::uuid[], $3::smallint[], $4::int[], $5::int[], $6::smallint[], $7::smallint[], $8::timestamptz[], $9::text[],
		$10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[])
		AS n (id, status, seq, attempt, spent, lost, at, source, code, error, ref, output, output_ref, ended_at)` + located + `),
ended AS (
	DELETE FROM thread t USING n
	WHERE t.ctid = n.place AND ($1::uuid IS NULL OR (t.claimed_by IS NOT DISTINCT FROM $1 AND t.attempt = n.attempt AND t.seq = n.seq - 1))
	RETURNING t.created_at, t.lane, t.started_at, n.*),
logged AS (
	INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source, code, error, ref)
	SELECT id, created_at, seq, status, attempt, spent, coalesce(at, now()), source, code, error, ref FROM ended)
INSERT INTO thread_done (id, created_at, lane, status, seq, attempt, spent, lost, started_at, finished_at, code, error, ref, output, output_ref)
SELECT id, created_at, lane, status, seq, attempt, spent, lost, started_at, coalesce(ended_at, now()), coalesce(code, ''), coalesce(error, ''), coalesce(ref, ''),
	output::json, coalesce(output_ref, '') FROM ended RETURNING id`

// EndThreads deletes the live rows, stores the last states and appends the events of the ends.
func (t *tx) EndThreads(owner action.ID, rows []ledger.Ending) ([]action.ID, error) {
	ended, err := query(t, scanID, end, uuid(owner),
		column(rows, func(r ledger.Ending) pgtype.UUID { return uuid(r.Event.ActionID) }),
		column(rows, func(r ledger.Ending) int16 { return int16(r.Thread.Status) }),
		column(rows, func(r ledger.Ending) int32 { return int32(r.Thread.Seq) }),
		column(rows, func(r ledger.Ending) int32 { return int32(r.Thread.Attempt) }),
		column(rows, func(r ledger.Ending) int16 { return int16(r.Thread.Spent) }),
		column(rows, func(r ledger.Ending) int16 { return int16(r.Thread.Lost) }),
		t.unlessNow(column(rows, func(r ledger.Ending) time.Time { return r.Event.At })),
		column(rows, func(r ledger.Ending) string { return r.Event.Source }),
		sparse(rows, func(r ledger.Ending) string { return r.Event.Code }),
		sparse(rows, func(r ledger.Ending) string { return r.Event.Error }),
		sparse(rows, func(r ledger.Ending) string { return r.Event.Ref }),
		sparse(rows, func(r ledger.Ending) string { return string(r.Output) }),
		sparse(rows, func(r ledger.Ending) string { return r.OutputRef }),
		t.unlessNow(column(rows, func(r ledger.Ending) time.Time { return r.At })))
	if err == nil && owner.IsZero() && len(ended) != len(rows) {
		err = fmt.Errorf("end %d actions: %d are live", len(rows), len(ended))
	}
	return ended, err
}

// unlessNow is a column of times: NULL as a whole when all are the transaction's.
func (t *tx) unlessNow(times []time.Time) []time.Time {
	if slices.ContainsFunc(times, func(at time.Time) bool { return !at.Equal(t.now) }) {
		return times
	}
	return nil
}

const actionColumns = `a.id, a.created_at, a.kind, a.name, a.handler, a.lane, a.priority, a.unique_key, a.parent_id, a.retry_of, a.parameters::text,
	a.policy::text, a.delivery, a.run_at, a.created_by, a.trace, a.parameters_ref, a.version, a.cache_key, a.pipeline, a.deployment, a.target, a.event_name, a.revision, a.definition_version,
	a.subscriber::text`

// action reads actionColumns.
func (r *reader) action() (action.Action, error) {
	a := action.Action{ID: r.id(), CreatedAt: r.time(), Kind: r.text(), Name: r.text(), Handler: r.text(), Lane: r.text(), Priority: new(r.int()),
		UniqueKey: r.text(), ParentID: r.id(), RetryOf: r.id(), Parameters: r.document()}
	var err error
	if a.Policy, err = r.policies(); err != nil {
		return a, fmt.Errorf("decode the policy of action %s: %w", a.ID, err)
	}
	a.Delivery, a.RunAt, a.CreatedBy = action.Delivery(r.text()), r.time(), r.text()
	a.Trace, a.ParametersRef, a.Version, a.CacheKey = r.text(), r.text(), r.int(), r.id()
	if isStep := !r.null(); isStep {
		a.Step = &action.Step{Pipeline: r.text(), Deployment: int64(r.int()), Target: r.text(), Event: r.text(), Revision: int64(r.int()), Version: r.int()}
	} else {
		r.next += 6
	}
	if subscriber := r.value(); subscriber != nil {
		if err := json.Unmarshal(subscriber, &a.Subscriber); err != nil {
			return a, fmt.Errorf("decode the subscriber of action %s: %w", a.ID, err)
		}
	}
	return a, nil
}

// Actions reads the immutable rows of those ids that exist.
func (t *tx) Actions(ids []action.ID) ([]action.Action, error) {
	return read(t, (*reader).action, "SELECT "+actionColumns+` FROM unnest($1::uuid[], $2::timestamptz[]) AS want (id, at)
		CROSS JOIN LATERAL (SELECT * FROM action a WHERE a.id = want.id AND a.created_at = want.at OFFSET 0) AS a`, uuids(ids), times(ids))
}

// times are the ids' own times, which name their partitions.
func times(ids []action.ID) []time.Time { return column(ids, action.ID.Time) }

// Events is an action's history in the order of seq.
func (t *tx) Events(id action.ID) ([]action.Event, error) {
	return query(t, func(row pgx.Row) (e action.Event, err error) {
		e.ActionID = id
		var status int16
		err = row.Scan(&e.Seq, &status, &e.Attempt, &e.Spent, timeOf{&e.At}, &e.Source, timeOf{&e.Until}, textOf{&e.Code}, textOf{&e.Error}, textOf{&e.Ref})
		e.Status = action.Status(status)
		return e, err
	}, `SELECT seq, status, attempt, spent, at, source, until, code, error, ref FROM event
		WHERE action_id = $1 AND created_at = $2 ORDER BY seq`, uuid(id), id.Time())
}

// EventsSince reads the events of all actions from a moment on, in the order of (at, action, seq).
func (t *tx) EventsSince(since time.Time, limit int) ([]action.Event, error) {
	return query(t, func(row pgx.Row) (e action.Event, err error) {
		var status int16
		err = row.Scan(idOf{&e.ActionID}, &e.Seq, &status, &e.Attempt, &e.Spent, timeOf{&e.At}, &e.Source, timeOf{&e.Until}, textOf{&e.Code},
			textOf{&e.Error}, textOf{&e.Ref})
		e.Status = action.Status(status)
		return e, err
	}, `SELECT action_id, seq, status, attempt, spent, at, source, until, code, error, ref FROM event WHERE at >= $1
		UNION ALL SELECT id, 0, 1, 0, 0, enqueued_at, created_by, NULL, '', '', '' FROM action WHERE enqueued_at >= $1
		ORDER BY at, action_id, seq LIMIT $2`, stamp(since), limit)
}
