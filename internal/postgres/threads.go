package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

const threadColumns = `t.status, t.seq, t.attempt, t.spent, t.lost, t.throttled, t.run_at, t.claimed_by, t.lease, t.started_at, t.cancel_at,
	coalesce(t.draining, false), t.deadline, coalesce(t.progress, 0)`

// thread reads threadColumns; all are NULL for an action that has ended.
func (r *reader) thread() action.Thread {
	return action.Thread{Status: action.Status(r.int()), Seq: r.int(), Attempt: r.int(), Spent: r.int(), Lost: r.int(), Throttled: r.int(),
		RunAt: r.time(), ClaimedBy: r.id(), Lease: r.time(), StartedAt: r.time(), CancelAt: r.time(), Draining: r.bool(), Deadline: r.time(),
		Progress: r.int()}
}

// LockThreads locks and reads the live rows among ids, in the order of ids.
func (t *tx) LockThreads(ids []action.ID) (map[action.ID]action.Thread, error) {
	type locked struct {
		id action.ID
		action.Thread
	}
	rows, err := read(t, func(r *reader) (locked, error) { return locked{r.id(), r.thread()}, nil },
		"SELECT t.id, "+threadColumns+" FROM thread t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE", uuids(ids))
	threads := make(map[action.ID]action.Thread, len(rows))
	for _, r := range rows {
		threads[r.id] = r.Thread
	}
	return threads, err
}

// LiveKeys finds live actions by their unique keys.
func (t *tx) LiveKeys(keys []string) (map[string]action.ID, error) {
	type keyed struct {
		key string
		id  action.ID
	}
	rows, err := query(t, func(row pgx.Row) (k keyed, err error) {
		err = row.Scan(&k.key, idOf{&k.id})
		return k, err
	}, "SELECT unique_key, id FROM thread WHERE unique_key = ANY ($1)", keys)
	found := make(map[string]action.ID, len(rows))
	for _, r := range rows {
		found[r.key] = r.id
	}
	return found, err
}

// claim takes ready rows in one statement, and writes that those run which are not to be handed off. The picked rows
// are fenced off by a materialised CTE, so that no more are updated than were requested, and each is updated at the
// place where it was locked. Picked and claimed are never joined by id: hash and merge joins are off here, and
// comparing each row with each costs the square of the claim. LIMIT 1 reports that an action is in one partition,
// which the planner would otherwise multiply by their number. When the parameters of all exceed $7 bytes,
// lanes take turns until they do. The size of a text is known without reading it. Nothing is taken of a lane that may
// start nothing now.
const claim = `WITH want AS (
	SELECT * FROM unnest($3::text[], $4::int[], $6::timestamptz[], $8::boolean[]) AS w (lane, n, floor, metered)
	WHERE NOT EXISTS (SELECT FROM limiter b WHERE b.key IN (w.lane COLLATE "C", split_part(w.lane, '/', 1) || '/*' COLLATE "C")
		AND (` + closed + ` OR NOT w.metered AND b.key = w.lane AND ` + blocked + `))),
picked AS MATERIALIZED (
	SELECT p.place, p.rank, coalesce(octet_length(a.parameters::text), 0) AS bytes, a.* FROM want w CROSS JOIN LATERAL (
		SELECT t.ctid AS place, t.rank, t.id, t.created_at FROM thread t WHERE t.lane = w.lane AND t.ready AND t.rank >= coalesce(w.floor, '-infinity')
		ORDER BY t.rank, t.id LIMIT w.n FOR UPDATE SKIP LOCKED) AS p
	CROSS JOIN LATERAL (SELECT * FROM action a WHERE a.id = p.id AND a.created_at = p.created_at LIMIT 1) AS a
	WHERE EXISTS (SELECT 1 FROM instance WHERE id = $1 AND lease_until > now())),
claimed AS (
	UPDATE thread t SET ready = false, attempt = attempt + 1, claimed_by = $1,
		status = CASE WHEN t.lane = ANY ($5) THEN t.status ELSE 3 END, seq = CASE WHEN t.lane = ANY ($5) THEN t.seq ELSE t.seq + 1 END,
		lease = now() + attempt_limit, started_at = CASE WHEN t.lane = ANY ($5) THEN started_at ELSE coalesce(started_at, now()) END
	FROM picked a
	WHERE t.ctid = a.place AND ((SELECT sum(bytes) FROM picked) <= $7 OR a.place IN (
		SELECT place FROM (
			SELECT place, sum(bytes) OVER (ORDER BY nth, lane ROWS UNBOUNDED PRECEDING) - bytes AS before
			FROM (SELECT place, lane, bytes, row_number() OVER (PARTITION BY lane ORDER BY rank, id) AS nth FROM picked) AS turns) AS sums
		WHERE before < $7))
	RETURNING ` + threadColumns + ", t.rank, " + actionColumns + `),
logged AS (
	INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source)
	SELECT id, created_at, seq, status, attempt, spent, now(), $2 FROM claimed WHERE status = 3)
SELECT * FROM claimed`

// Claim takes ready rows for the owner, and returns them in the order of their rank.
func (t *tx) Claim(owner queue.Instance, wants []queue.Want) (claimed []queue.Claimed, full bool, err error) {
	type ranked struct {
		queue.Claimed
		rank time.Time
	}
	began, alone := time.Now(), len(t.kept) <= t.begins
	from := column(wants, func(w queue.Want) time.Time { return t.floors.of(w.Lane, began) })
	rows, err := read(t, func(r *reader) (c ranked, err error) {
		c.Thread, c.rank = r.thread(), r.time()
		c.Action, err = r.action()
		return c, err
	}, claim, uuid(owner.ID), owner.Name, column(wants, func(w queue.Want) string { return w.Lane }),
		column(wants, func(w queue.Want) int32 { return int32(w.N) }), handOffs(wants), times(from, func(at *time.Time) time.Time { return *at }),
		queue.MaxClaimBytes, column(wants, func(w queue.Want) bool { return w.Metered }))
	bytes := 0
	highest := make(map[string]time.Time, len(wants))
	for i := range rows {
		r := &rows[i]
		if bytes += len(r.Parameters); r.rank.After(highest[r.Lane]) {
			highest[r.Lane] = r.rank
		}
	}
	if err == nil && alone { // else what took long may be what was kept
		t.floors.learn(wants, from, highest, len(rows), time.Since(began), began)
	}
	slices.SortStableFunc(rows, func(a, b ranked) int { return a.rank.Compare(b.rank) })
	return column(rows, func(r ranked) queue.Claimed { return r.Claimed }), bytes >= queue.MaxClaimBytes, err
}

// handOffs returns the lanes whose work is to be handed off.
func handOffs(wants []queue.Want) []string {
	lanes := []string{}
	for _, w := range wants {
		if w.HandOff {
			lanes = append(lanes, w.Lane)
		}
	}
	return lanes
}

// visited are lanes with ready work, lane > $6: a skip scan of thread_claim over each part of $1 to $3, which ends after
// $7 lanes, and those of $4 that have some at their floor, $5, or after it. Lanes of a handler that is blocked as a whole
// are not visited.
const visited = `SELECT lanes.lane, part.handler, part.n AS part, lanes.n FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS part (handler, low, high, n)
	CROSS JOIN LATERAL (
		WITH RECURSIVE found AS (
			SELECT * FROM (SELECT lane, 1 AS n FROM thread WHERE ready AND lane > $6 COLLATE "C" AND lane >= part.low COLLATE "C"
				AND lane < part.high COLLATE "C" ORDER BY lane LIMIT 1) AS first
			UNION ALL
			SELECT next.lane, found.n + 1 FROM found CROSS JOIN LATERAL (
				SELECT lane FROM thread WHERE ready AND lane > found.lane AND lane < part.high COLLATE "C" ORDER BY lane LIMIT 1) AS next
			WHERE found.n < $7)
		SELECT lane, n FROM found) AS lanes
	WHERE NOT EXISTS (SELECT FROM limiter b WHERE b.key = part.handler || '/*' COLLATE "C" AND ` + blocked + `)
	UNION ALL
	SELECT high.lane COLLATE "C", split_part(high.lane, '/', 1), 0, 0 FROM unnest($4::text[], $5::timestamptz[]) AS high (lane, floor)
	WHERE high.lane > $6 COLLATE "C" AND EXISTS (SELECT FROM thread t WHERE t.ready AND t.lane = high.lane AND t.rank >= high.floor)
		AND NOT EXISTS (SELECT FROM limiter b WHERE b.key = split_part(high.lane, '/', 1) || '/*' COLLATE "C" AND ` + blocked + `)`

// closed is the condition that a limiter, b, is paused or disabled now.
const closed = `(b.disabled_at IS NOT NULL OR b.paused_by <> '' AND (b.pause_until IS NULL OR b.pause_until > now()))`

// blocked is the condition that a limiter, b, lets nothing start now: it is paused, disabled, or slowed without a token.
const blocked = `(b.slowed > 0 OR b.paused_by <> '' OR b.disabled_at IS NOT NULL)
	AND (b.disabled_at IS NOT NULL OR b.paused_by <> '' AND (b.pause_until IS NULL OR b.pause_until > now())
		OR b.slowed > 0 AND b.tokens + b.slowed * extract(epoch FROM now() - b.refilled_at)::float8 < 1)`

// free is the condition that a visited lane, v, is one of its handler's and not blocked.
const free = `(v.lane = v.handler OR starts_with(v.lane, v.handler || '/'))
	AND NOT EXISTS (SELECT FROM limiter b WHERE b.key = v.lane AND ` + blocked + `)`

// page is the statement of Lanes: the lane up to which all were visited, NULL at the end, and the free ones, at most
// $8.
const page = `WITH visited AS MATERIALIZED (` + visited + `),
	cut AS (SELECT min(last) AS lane FROM (SELECT max(lane) AS last FROM visited GROUP BY part HAVING max(n) = $7) AS parts)
	SELECT cut.lane, ARRAY(SELECT v.lane FROM visited v WHERE (cut.lane IS NULL OR v.lane <= cut.lane) AND ` + free +
	` ORDER BY v.lane LIMIT $8) FROM cut`

// anyReady reports whether a lane is free, or may be among those that were not visited.
const anyReady = `EXISTS (WITH visited AS MATERIALIZED (` + visited + `) SELECT FROM visited v WHERE v.n = $7 OR ` + free + `)`

// readyOf returns the arguments of visited for handlers.
func (f *floors) readyOf(handlers []string, after string) []any {
	high, ranks := f.high(time.Now())
	parts := stretches(handlers, high)
	own := high[:0:0]
	ownRanks := ranks[:0:0]
	for i, lane := range high {
		if slices.ContainsFunc(handlers, func(h string) bool { return lane == h || strings.HasPrefix(lane, h+"/") }) {
			own, ownRanks = append(own, lane), append(ownRanks, ranks[i])
		}
	}
	return []any{column(parts, func(s stretch) string { return s.handler }), column(parts, func(s stretch) string { return s.low }),
		column(parts, func(s stretch) string { return s.high }), own, ownRanks, after, queue.LanesVisited}
}

// Lanes lists free lanes with ready work after a lane, in order, and the lane to continue after.
func (t *tx) Lanes(handlers []string, after string, limit int) (lanes []string, next string, err error) {
	_, err = query(t, func(row pgx.Row) (none struct{}, err error) {
		return none, row.Scan(textOf{&next}, &lanes)
	}, page, append(t.floors.readyOf(handlers, after), limit)...)
	if len(lanes) == limit {
		next = lanes[limit-1]
	}
	return lanes, next, err
}

// passable is the condition of the index thread_deadline: a claim that ends before its deadline cannot pass it.
const passable = `deadline IS NOT NULL AND cancel_at IS NULL
	AND (claimed_by IS NULL OR lease IS NULL OR deadline < lease)`

// choices returns the conditions of queue.Choice; $1 is the owner.
func choices(c queue.Choice) (string, error) {
	switch c {
	case queue.DeadClaims:
		return "claimed_by <> $1 AND id IN (SELECT id " + foreign + ")", nil
	case queue.OverdueClaims:
		return "claimed_by = $1 AND lease < now()", nil
	case queue.CancelAsked:
		return "claimed_by = $1 AND cancel_at IS NOT NULL", nil
	case queue.ClaimsOf:
		return "claimed_by = $1", nil
	case queue.StopAsked:
		return "cancel_at IS NOT NULL AND claimed_by IS NULL AND status IN (2, 3) AND run_at <= now() AND $1::uuid IS NOT DISTINCT FROM $1", nil
	}
	return "", fmt.Errorf("choice %d of threads not found", c)
}

// Select finds live actions by their state; owner is used by some of the choices.
func (t *tx) Select(choice queue.Choice, owner action.ID, limit int) ([]action.ID, error) {
	condition, err := choices(choice)
	if err != nil {
		return nil, err
	}
	return query(t, scanID, "SELECT id FROM (SELECT id FROM thread WHERE "+condition+" LIMIT $2) AS found ORDER BY id",
		pgtype.UUID{Bytes: owner, Valid: true}, limit)
}

// MakeReady lets those be claimed whose time has come, at most limit, and returns their lanes.
func (t *tx) MakeReady(limit int) ([]string, error) {
	return query(t, func(row pgx.Row) (lane string, err error) {
		err = row.Scan(&lane)
		return lane, err
	}, `WITH made AS (UPDATE thread SET ready = true WHERE id = ANY (ARRAY(
		SELECT id FROM thread WHERE NOT ready AND claimed_by IS NULL AND status IN (1, 4) AND run_at <= now()
		ORDER BY run_at LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING lane) SELECT DISTINCT lane FROM made`, limit)
}

// NextDue returns the earliest time that a thread waits for, deadlines up to and including after left out; zero:
// none, or a deadline that is a minute away at least. Those are not searched for: most are days away, and an action
// that has ended leaves an entry there until it is vacuumed.
func (t *tx) NextDue(after time.Time) (time.Time, error) {
	due, err := query(t, func(row pgx.Row) (at time.Time, err error) {
		err = row.Scan(timeOf{&at})
		return at, err
	}, `SELECT least(
		(SELECT min(run_at) FROM thread WHERE NOT ready AND claimed_by IS NULL AND status IN (1, 4)),
		(SELECT min(deadline) FROM thread WHERE deadline < now() + interval '1 minute' AND deadline > coalesce($1::timestamptz, '-infinity') AND `+
		passable+`))`, stamp(after))
	if err != nil || len(due) == 0 {
		return time.Time{}, err
	}
	return due[0], nil
}

// PastDeadline lists live actions whose deadline has passed and that have not been asked to stop yet, after a place.
func (t *tx) PastDeadline(after queue.Deadline, limit int) ([]queue.Deadline, error) {
	return query(t, func(row pgx.Row) (d queue.Deadline, err error) {
		err = row.Scan(timeOf{&d.At}, idOf{&d.ID})
		return d, err
	}, `SELECT deadline, id FROM thread WHERE deadline <= now() AND (deadline, id) > (coalesce($1::timestamptz, '-infinity'), $2::uuid) AND `+
		passable+`
		ORDER BY deadline, id LIMIT $3`, stamp(after.At), pgtype.UUID{Bytes: after.ID, Valid: true}, limit)
}

func scanState(r *reader) (state queue.ActionState, err error) {
	state.Thread = r.thread()
	if state.Action, err = r.action(); err != nil {
		return state, err
	}
	ended := !r.null()
	end := action.Thread{Status: action.Status(r.int()), Seq: r.int(), Attempt: r.int(), Spent: r.int(), Lost: r.int(),
		StartedAt: r.time(), RunAt: state.RunAt}
	if ended {
		state.Thread = end
	}
	state.FinishedAt, state.Code, state.Error, state.Ref = r.time(), r.text(), r.text(), r.text()
	state.Output, state.OutputRef, state.Dismissed, state.UpdatedAt, state.EnqueuedAt = r.document(), r.text(), r.time(), r.time(), r.time()
	return state, nil
}
