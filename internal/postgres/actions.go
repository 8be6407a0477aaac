package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: actions, their threads, their events and their ends.
//
// Each statement takes many rows, as one array for each column. Rows of partitioned tables are
// looked up by created_at as well as by id. An id contains that time, so the planner opens one
// partition instead of all.

// InsertThreads stores live rows. When an id or a unique key is live already the transaction runs
// again, and then finds that row (errors.go).
func (t *tx) InsertThreads(rows []queue.ThreadRow) error {
	return t.do(`INSERT INTO thread (id, created_at, lane, status, ready, rank, run_at, seq, attempt, spent, lost, throttled,
			attempt_limit, deadline, draining, unique_key)
		SELECT id, created_at, lane, status, ready, rank, run_at, seq, attempt, spent, lost, throttled, attempt_limit, deadline, false, unique_key
		FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::smallint[], $5::boolean[], $6::timestamptz[], $7::timestamptz[], $8::int[], $9::int[],
			$10::smallint[], $11::smallint[], $12::smallint[], $13::interval[], $14::timestamptz[], $15::text[])
			AS n (id, created_at, lane, status, ready, rank, run_at, seq, attempt, spent, lost, throttled, attempt_limit, deadline, unique_key)`,
		ids(rows, func(r *queue.ThreadRow) action.ID { return r.ID }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.ID.Time() }),
		texts(rows, func(r *queue.ThreadRow) string { return r.Lane }),
		smallints(rows, func(r *queue.ThreadRow) int { return int(r.Thread.Status) }),
		bools(rows, func(r *queue.ThreadRow) bool { return r.Ready }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Rank }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Thread.RunAt }),
		ints(rows, func(r *queue.ThreadRow) int { return r.Thread.Seq }),
		ints(rows, func(r *queue.ThreadRow) int { return r.Thread.Attempt }),
		smallints(rows, func(r *queue.ThreadRow) int { return r.Thread.Spent }),
		smallints(rows, func(r *queue.ThreadRow) int { return r.Thread.Lost }),
		smallints(rows, func(r *queue.ThreadRow) int { return r.Thread.Throttled }),
		spans(rows, func(r *queue.ThreadRow) time.Duration { return r.AttemptLimit }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Thread.Deadline }),
		optionals(rows, func(r *queue.ThreadRow) string { return r.UniqueKey }))
}

// scanID reads a column of ids.
func scanID(row pgx.Row) (id action.ID, err error) {
	err = row.Scan(idOf{&id})
	return id, err
}

// InsertActions stores the immutable rows.
func (t *tx) InsertActions(actions []action.Action) error {
	policies := make([]string, len(actions))
	subscribers, answers := make([]string, len(actions)), make([]string, len(actions))
	for i, a := range actions {
		policy, err := json.Marshal(a.Policy)
		if err != nil {
			return fmt.Errorf("encode the policy of action %s: %w", a.ID, err)
		}
		policies[i] = string(policy)
		if a.Subscriber != nil {
			raw, _ := json.Marshal(a.Subscriber) // texts always marshal
			subscribers[i] = string(raw)
		}
		if a.Answer != nil {
			raw, _ := json.Marshal(a.Answer) // texts always marshal
			answers[i] = string(raw)
		}
	}
	step := func(a *action.Action) action.StepRef {
		if a.Step == nil {
			return action.StepRef{}
		}
		return *a.Step
	}
	number := func(a *action.Action, n int64) (int64, bool) { return n, a.Step != nil }
	return t.do(`INSERT INTO action (id, created_at, kind, name, handler, lane, priority, unique_key, parent_id, retry_of, parameters,
			policy, delivery, run_at, created_by, trace, parameters_ref, pipeline, deployment, target, event_name, revision, definition_version,
			version, cache_key, subscriber, answer, width)
		SELECT id, uuid_v7_time(id), kind, name, handler, lane, priority, unique_key, parent_id, retry_of, parameters::json,
			policy::json, delivery, run_at, created_by, trace, parameters_ref, pipeline, deployment, target, event, revision, definition,
			version, cache_key, subscriber::json, answer::json, width
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::uuid[], $9::uuid[], $10::text[],
			$11::text[], $12::text[], $13::timestamptz[], $14::text[], $15::text[], $16::text[],
			$17::text[], $18::bigint[], $19::text[], $20::text[], $21::bigint[], $22::bigint[],
			$23::int[], $24::uuid[], $25::text[], $26::text[], $27::int[])
			AS n (id, kind, name, handler, lane, priority, unique_key, parent_id, retry_of, parameters,
			policy, delivery, run_at, created_by, trace, parameters_ref, pipeline, deployment, target, event, revision, definition, version, cache_key,
			subscriber, answer, width)`,
		ids(actions, func(a *action.Action) action.ID { return a.ID }),
		texts(actions, func(a *action.Action) string { return a.Kind }),
		texts(actions, func(a *action.Action) string { return a.Name }),
		texts(actions, func(a *action.Action) string { return a.Handler }),
		texts(actions, func(a *action.Action) string { return a.Lane }),
		smallints(actions, func(a *action.Action) int { return *a.Priority }),
		optionals(actions, func(a *action.Action) string { return a.UniqueKey }),
		ids(actions, func(a *action.Action) action.ID { return a.ParentID }),
		ids(actions, func(a *action.Action) action.ID { return a.RetryOf }),
		optionals(actions, func(a *action.Action) string { return string(a.Parameters) }),
		texts(policies, self),
		texts(actions, func(a *action.Action) string { return string(a.Delivery) }),
		times(actions, func(a *action.Action) time.Time { return a.RunAt }),
		texts(actions, func(a *action.Action) string { return a.CreatedBy }),
		texts(actions, func(a *action.Action) string { return a.Trace }),
		texts(actions, func(a *action.Action) string { return a.ParametersRef }),
		optionals(actions, func(a *action.Action) string { return step(a).Pipeline }),
		bigints(actions, func(a *action.Action) (int64, bool) { return number(a, step(a).Deployment) }),
		optionals(actions, func(a *action.Action) string { return step(a).Target }),
		optionals(actions, func(a *action.Action) string { return step(a).Event }),
		bigints(actions, func(a *action.Action) (int64, bool) { return number(a, step(a).Revision) }),
		bigints(actions, func(a *action.Action) (int64, bool) { return number(a, int64(step(a).Version)) }),
		ints(actions, func(a *action.Action) int { return a.Version }),
		ids(actions, func(a *action.Action) action.ID { return a.CacheKey }),
		optionals(subscribers, self),
		optionals(answers, self),
		ints(actions, func(a *action.Action) int { return a.Width }))
}

// InsertEvents appends to the histories of actions.
func (t *tx) InsertEvents(events []action.Event) error {
	return t.do(`INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source, until, code, error, ref)
		SELECT id, created_at, seq, status, attempt, spent, at, source, until, code, error, ref
		FROM unnest($1::uuid[], $2::timestamptz[], $3::int[], $4::smallint[], $5::int[], $6::smallint[], $7::timestamptz[], $8::text[], $9::timestamptz[],
			$10::text[], $11::text[], $12::text[]) AS n (id, created_at, seq, status, attempt, spent, at, source, until, code, error, ref)`,
		ids(events, func(e *action.Event) action.ID { return e.ActionID }),
		times(events, func(e *action.Event) time.Time { return e.ActionID.Time() }),
		ints(events, func(e *action.Event) int { return e.Seq }),
		smallints(events, func(e *action.Event) int { return int(e.Status) }),
		ints(events, func(e *action.Event) int { return e.Attempt }),
		smallints(events, func(e *action.Event) int { return e.Spent }),
		times(events, func(e *action.Event) time.Time { return e.At }),
		texts(events, func(e *action.Event) string { return e.Source }),
		times(events, func(e *action.Event) time.Time { return e.Until }),
		optionals(events, func(e *action.Event) string { return e.Code }),
		optionals(events, func(e *action.Event) string { return e.Error }),
		optionals(events, func(e *action.Event) string { return e.Ref }))
}

// UpdateThreads writes the present state of live actions. A row that is not live is an error.
func (t *tx) UpdateThreads(rows []queue.ThreadRow) error {
	done, err := t.count(`UPDATE thread SET status = n.status, ready = n.ready, rank = n.rank, run_at = n.run_at, seq = n.seq, attempt = n.attempt,
			spent = n.spent, lost = n.lost, throttled = n.throttled, claimed_by = n.claimed_by, lease = n.lease, started_at = n.started_at,
			cancel_at = n.cancel_at, draining = n.draining, progress = n.progress
		FROM (SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::boolean[], $4::timestamptz[], $5::timestamptz[], $6::int[], $7::int[],
			$8::smallint[], $9::smallint[], $10::smallint[], $11::uuid[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
			$15::boolean[], $16::smallint[]) AS n (id, status, ready, rank, run_at, seq, attempt, spent, lost, throttled, claimed_by, lease,
			started_at, cancel_at, draining, progress)`+located+`) AS n
		WHERE thread.ctid = n.place`,
		ids(rows, func(r *queue.ThreadRow) action.ID { return r.ID }),
		smallints(rows, func(r *queue.ThreadRow) int { return int(r.Thread.Status) }),
		bools(rows, func(r *queue.ThreadRow) bool { return r.Ready }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Rank }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Thread.RunAt }),
		ints(rows, func(r *queue.ThreadRow) int { return r.Thread.Seq }),
		ints(rows, func(r *queue.ThreadRow) int { return r.Thread.Attempt }),
		smallints(rows, func(r *queue.ThreadRow) int { return r.Thread.Spent }),
		smallints(rows, func(r *queue.ThreadRow) int { return r.Thread.Lost }),
		smallints(rows, func(r *queue.ThreadRow) int { return r.Thread.Throttled }),
		ids(rows, func(r *queue.ThreadRow) action.ID { return r.Thread.ClaimedBy }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Thread.Lease }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Thread.StartedAt }),
		times(rows, func(r *queue.ThreadRow) time.Time { return r.Thread.CancelAt }),
		bools(rows, func(r *queue.ThreadRow) bool { return r.Thread.Draining }),
		smallints(rows, func(r *queue.ThreadRow) int { return r.Thread.Progress }))
	if err == nil && int(done) != len(rows) {
		err = fmt.Errorf("update %d threads: %d are live", len(rows), done)
	}
	return err
}

// located finds the live row of each n by its key, whatever the planner believes about the table:
// since the join is by place, the planner cannot join n and thread in the other order.
//
// A row that changes in the meantime has another place and is not found. PostgreSQL 15.15, 16.11 and 17.7 check the
// place again after they have waited for a row. On an earlier server only the conditions on claim and attempt keep an
// end from another claim.
const located = ` CROSS JOIN LATERAL (SELECT ctid AS place FROM thread WHERE id = n.id OFFSET 0) AS p`

// end ends many actions in one statement: it records exactly the rows that it deleted. $1 is the
// owner of the fence, or NULL.
const end = `WITH n AS (
	SELECT * FROM unnest($2::uuid[], $3::smallint[], $4::int[], $5::int[], $6::smallint[], $7::smallint[], $8::timestamptz[], $9::text[],
		$10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[], $16::boolean[], $17::timestamptz[])
		AS n (id, status, seq, attempt, spent, lost, at, source, code, error, ref, output, output_ref, ended_at, job, began)` + located + `),
ended AS (
	DELETE FROM thread t USING n
	WHERE t.ctid = n.place AND ($1::uuid IS NULL OR (t.claimed_by IS NOT DISTINCT FROM $1 AND t.attempt = n.attempt AND t.seq = n.seq - 1))
	RETURNING t.created_at, t.lane, coalesce(t.started_at, n.began) AS started_at, n.*),
logged AS (
	INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source, code, error, ref)
	SELECT id, created_at, seq, status, attempt, spent, coalesce(at, now()), source, code, error, ref FROM ended)
INSERT INTO thread_done (id, created_at, lane, status, seq, attempt, spent, lost, started_at, finished_at, code, error, ref, output, output_ref, job)
SELECT id, created_at, lane, status, seq, attempt, spent, lost, started_at, coalesce(ended_at, now()), coalesce(code, ''), coalesce(error, ''), coalesce(ref, ''),
	output::json, coalesce(output_ref, ''), job FROM ended RETURNING id`

// EndThreads deletes the live rows, stores the last states and appends the events of the ends. It
// returns the ids of the actions that ended. With an owner, the fence is a condition of the DELETE,
// so nothing is read first and an end that comes too late changes nothing.
func (t *tx) EndThreads(owner action.ID, rows []queue.Ending) ([]action.ID, error) {
	var began *array // only the end of work that was handed off may bring the news that it began
	if owner.IsZero() {
		began = times(rows, func(r *queue.Ending) time.Time { return r.Thread.StartedAt })
	}
	ended, err := query(t, scanID, end, uuid(owner),
		ids(rows, func(r *queue.Ending) action.ID { return r.Event.ActionID }),
		smallints(rows, func(r *queue.Ending) int { return int(r.Thread.Status) }),
		ints(rows, func(r *queue.Ending) int { return r.Thread.Seq }),
		ints(rows, func(r *queue.Ending) int { return r.Thread.Attempt }),
		smallints(rows, func(r *queue.Ending) int { return r.Thread.Spent }),
		smallints(rows, func(r *queue.Ending) int { return r.Thread.Lost }),
		t.unlessNow(rows, func(r *queue.Ending) time.Time { return r.Event.At }),
		texts(rows, func(r *queue.Ending) string { return r.Event.Source }),
		optionals(rows, func(r *queue.Ending) string { return r.Event.Code }),
		optionals(rows, func(r *queue.Ending) string { return r.Event.Error }),
		optionals(rows, func(r *queue.Ending) string { return r.Event.Ref }),
		optionals(rows, func(r *queue.Ending) string { return string(r.Output) }),
		optionals(rows, func(r *queue.Ending) string { return r.OutputRef }),
		t.unlessNow(rows, func(r *queue.Ending) time.Time { return r.At }),
		bools(rows, func(r *queue.Ending) bool { return r.Job }), began)
	if err == nil && owner.IsZero() && len(ended) != len(rows) {
		err = fmt.Errorf("end %d actions: %d are live", len(rows), len(ended))
	}
	return ended, err
}

// unlessNow returns a column of times, NULL as a whole when all are the transaction's. The
// statement then takes now() instead.
func (t *tx) unlessNow(rows []queue.Ending, at func(*queue.Ending) time.Time) *array {
	for i := range rows {
		if !at(&rows[i]).Equal(t.now) {
			return times(rows, at)
		}
	}
	return nil
}

// actionColumns are the columns of an action, in the order of reader.action.
const actionColumns = `a.id, a.created_at, a.kind, a.name, a.handler, a.lane, a.priority, a.unique_key, a.parent_id, a.retry_of, a.parameters::text,
	a.policy::text, a.delivery, a.run_at, a.created_by, a.trace, a.parameters_ref, a.version, a.cache_key, a.pipeline, a.deployment, a.target, a.event_name, a.revision, a.definition_version,
	a.subscriber::text, a.answer::text, a.width`

// action reads actionColumns.
func (r *reader) action() (action.Action, error) {
	a := action.Action{ID: r.id(), CreatedAt: r.time(), Kind: r.text(), Name: r.text(), Handler: r.text(), Lane: r.text(),
		Priority:  new(r.int()),
		UniqueKey: r.text(), ParentID: r.id(), RetryOf: r.id(), Parameters: r.document()}
	var err error
	if a.Policy, err = r.policies(); err != nil {
		return a, fmt.Errorf("decode the policy of action %s: %w", a.ID, err)
	}
	a.Delivery, a.RunAt, a.CreatedBy = action.Delivery(r.text()), r.time(), r.text()
	a.Trace, a.ParametersRef, a.Version, a.CacheKey = r.text(), r.text(), r.int(), r.id()
	if isStep := !r.null(); isStep {
		a.Step = &action.StepRef{Pipeline: r.text(), Deployment: int64(r.int()), Target: r.text(), Event: r.text(),
			Revision: int64(r.int()), Version: r.int()}
	} else {
		r.next += 6
	}
	if subscriber := r.value(); subscriber != nil {
		if err := json.Unmarshal(subscriber, &a.Subscriber); err != nil {
			return a, fmt.Errorf("decode the subscriber of action %s: %w", a.ID, err)
		}
	}
	if answer := r.value(); answer != nil {
		if err := json.Unmarshal(answer, &a.Answer); err != nil {
			return a, fmt.Errorf("decode the answer of action %s: %w", a.ID, err)
		}
	}
	a.Width = r.int()
	return a, nil
}

// Actions reads the immutable rows of those ids that exist. Only the primary key gives the order: of a partition that was vacuumed
// while it was empty all indexes cost the same, and a plan with an index in which the id comes last reads the whole of it for each id.
func (t *tx) Actions(ids []action.ID) ([]action.Action, error) {
	return read(t, (*reader).action, "SELECT "+actionColumns+` FROM unnest($1::uuid[], $2::timestamptz[]) AS want (id, at)
		CROSS JOIN LATERAL (SELECT * FROM action a WHERE a.id >= want.id AND a.id <= want.id AND a.created_at = want.at
		ORDER BY a.id LIMIT 1) AS a`, uuids(ids), createdAt(ids))
}

// createdAt returns the times that ids contain, which decide their partitions.
func createdAt(ids []action.ID) *array {
	return times(ids, func(id *action.ID) time.Time { return id.Time() })
}

// Events reads an action's history in the order of seq.
func (t *tx) Events(id action.ID) ([]action.Event, error) {
	return query(t, func(row pgx.Row) (e action.Event, err error) {
		e.ActionID = id
		var status int16
		err = row.Scan(&e.Seq, &status, &e.Attempt, &e.Spent, timeOf{&e.At}, &e.Source, timeOf{&e.Until}, textOf{&e.Code},
			textOf{&e.Error}, textOf{&e.Ref})
		e.Status = action.Status(status)
		return e, err
	}, `SELECT seq, status, attempt, spent, at, source, until, code, error, ref FROM event
		WHERE action_id = $1 AND created_at = $2 ORDER BY seq`, uuid(id), id.Time())
}
