package sqlite

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: threads, that is the live actions, as claims and rounds read them.

// threadColumns are the columns of a thread, in the order of threadTo.
const threadColumns = `t.status, t.seq, t.attempt, t.spent, t.lost, t.throttled, t.run_at, t.claimed_by, t.lease,
	t.started_at, t.cancel_at, t.draining, t.deadline, t.progress`

// threadTo returns where to scan threadColumns to.
func threadTo(t *action.Thread) []any {
	return []any{&t.Status, &t.Seq, &t.Attempt, &t.Spent, &t.Lost, &t.Throttled, moment{&t.RunAt}, ident{&t.ClaimedBy}, moment{&t.Lease},
		moment{&t.StartedAt}, moment{&t.CancelAt}, &t.Draining, moment{&t.Deadline}, &t.Progress}
}

// identified is a thread with its action's id.
type identified struct {
	id action.ID
	action.Thread
}

// scanThread reads an id and threadColumns.
func scanThread(s scanner) (one identified, err error) {
	err = s.Scan(append([]any{ident{&one.id}}, threadTo(&one.Thread)...)...)
	return one, err
}

// LockThreads reads the live rows among ids. It needs no lock: the transaction is the only one that
// writes.
func (t *tx) LockThreads(ids []action.ID) (map[action.ID]action.Thread, error) {
	all, err := rows(t, scanThread, `SELECT t.id, `+threadColumns+` FROM thread t WHERE t.id IN (`+listed+`)`, idList(ids))
	found := make(map[action.ID]action.Thread, len(all))
	for _, one := range all {
		found[one.id] = one.Thread
	}
	return found, err
}

// LiveKeys finds live actions by their unique keys.
func (t *tx) LiveKeys(keys []string) (map[string]action.ID, error) {
	wanted, err := list(keys)
	if err != nil {
		return nil, err
	}
	type keyed struct {
		key string
		id  action.ID
	}
	scan := func(s scanner) (k keyed, err error) {
		err = s.Scan(&k.key, ident{&k.id})
		return k, err
	}
	all, err := rows(t, scan, `SELECT unique_key, id FROM thread WHERE unique_key IN (SELECT value FROM json_each(?))`, wanted)
	found := make(map[string]action.ID, len(all))
	for _, k := range all {
		found[k.key] = k.id
	}
	return found, err
}

// Claim takes ready rows for the owner, lane by lane, and stores the events of those that run. Each
// lane may use an equal share of the bytes that are left, so that the first lane does not take all
// of them; full reports that a lane may have more.
func (t *tx) Claim(owner queue.Instance, wants []queue.Want) (claimed []queue.Claimed, full bool, err error) {
	left := queue.MaxClaimBytes
	for i, w := range wants {
		if left <= 0 {
			full = true
			break
		}
		share := max(1, left/(len(wants)-i))
		some, err := t.claimLane(owner.ID, w, share)
		if err != nil {
			return nil, false, err
		}
		bytes := 0
		for i := range some {
			bytes += len(some[i].Parameters)
		}
		left -= bytes
		full = full || bytes >= share
		claimed = append(claimed, some...)
	}
	var began []action.Event
	for _, c := range claimed {
		if c.Thread.Status == action.Running {
			began = append(began, action.Event{ActionID: c.ID, Seq: c.Thread.Seq, Status: c.Thread.Status, Attempt: c.Thread.Attempt,
				Spent: c.Thread.Spent, At: t.now, Source: owner.Name})
		}
	}
	return claimed, full, t.InsertEvents(began)
}

// claimLane claims rows of one lane in one statement. Beside action.Next it is the one place that
// knows what a claim does; the suite compares the two. It claims until the parameters come to so
// many bytes, but at least one row, and nothing of a lane that may start nothing now.
func (t *tx) claimLane(owner action.ID, w queue.Want, bytes int) ([]queue.Claimed, error) {
	type claim struct {
		identified
		rank int64
	}
	scan := func(s scanner) (c claim, err error) {
		err = s.Scan(append([]any{ident{&c.id}, &c.rank}, threadTo(&c.Thread)...)...)
		return c, err
	}
	claims, err := rows(t, scan, `UPDATE thread AS t SET ready = 0, claimed_by = ?1, attempt = attempt + 1,
			status = CASE WHEN ?5 THEN status ELSE 3 END, seq = CASE WHEN ?5 THEN seq ELSE seq + 1 END,
			lease = CASE attempt_limit WHEN 0 THEN NULL ELSE ?2 + attempt_limit END, started_at = CASE WHEN ?5 THEN started_at ELSE coalesce(started_at, ?2) END
		WHERE id IN (SELECT id FROM (
			SELECT p.id, sum(coalesce(octet_length(a.parameters), 0)) OVER (ORDER BY p.rank, p.id ROWS UNBOUNDED PRECEDING)
				- coalesce(octet_length(a.parameters), 0) AS before
			FROM (SELECT id, rank FROM thread INDEXED BY thread_claim WHERE lane = ?3 AND ready = 1
				AND NOT EXISTS (SELECT 1 FROM limiter b WHERE b.key IN (?3, ?7) AND `+closed+`)
				AND (?8 OR NOT EXISTS (SELECT 1 FROM limiter b WHERE b.key = ?3 AND `+blocked+`))
				ORDER BY rank, id LIMIT ?4) AS p
			CROSS JOIN action a ON a.id = p.id) WHERE before < ?6)
		RETURNING id, rank, status, seq, attempt, spent, lost, throttled, run_at, claimed_by, lease,
			started_at, cancel_at, draining, deadline, progress`, id(owner), micros(t.now), w.Lane, w.N, w.HandOff, bytes,
		action.HandlerKey(action.HandlerOf(w.Lane)), w.Metered)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	slices.SortFunc(claims, func(a, b claim) int {
		if a.rank != b.rank {
			return cmp.Compare(a.rank, b.rank)
		}
		return slices.Compare(a.id[:], b.id[:])
	})
	ids := make([]action.ID, len(claims))
	for i, c := range claims {
		ids[i] = c.id
	}
	actions, err := t.Actions(ids)
	byID := make(map[action.ID]action.Action, len(actions))
	for _, a := range actions {
		byID[a.ID] = a
	}
	claimed := make([]queue.Claimed, len(claims))
	for i, c := range claims {
		claimed[i] = queue.Claimed{Action: byID[c.id], Thread: c.Thread}
	}
	return claimed, err
}

// Lanes lists the lanes of handlers with ready work after a lane, in order, without those that are
// blocked, and the lane to continue after. When one handler was not searched to its end, lanes
// beyond that point are dropped: the next page would otherwise start behind lanes that were never
// looked at.
func (t *tx) Lanes(handlers []string, after string, limit int) (lanes []string, next string, err error) {
	for _, h := range handlers {
		some, end, err := t.lanesOf(h, after)
		if err != nil {
			return nil, "", err
		}
		lanes = append(lanes, some...)
		if end != "" && (next == "" || end < next) {
			next = end
		}
	}
	slices.Sort(lanes)
	if next != "" { // lanes of a handler may be missing after this one
		i, found := slices.BinarySearch(lanes, next)
		if found {
			i++
		}
		lanes = lanes[:i]
	}
	if len(lanes) >= limit {
		lanes, next = lanes[:limit], lanes[limit-1]
	}
	return lanes, next, nil
}

// closed is the condition that a limiter, b, is paused or disabled at ?2.
const closed = `(b.disabled_at IS NOT NULL OR b.paused_by <> '' AND (b.pause_until IS NULL OR b.pause_until > ?2))`

// blocked is the condition that a limiter, b, allows no start at ?2: it is paused, disabled, or
// slowed without a token.
const blocked = `(` + closed + ` OR b.slowed > 0 AND b.tokens + b.slowed * (?2 - b.refilled_at) / 1e6 < 1)`

// lanesOf lists a handler's lanes with ready work that are not blocked: its own lane, then those
// below handler/. It uses a skip scan, one seek per lane ('0' follows '/'). When it has visited as
// many as it may, end is the last lane that it visited, else "".
func (t *tx) lanesOf(handler, after string) (lanes []string, end string, err error) {
	type visited struct {
		lane    string
		blocked bool
	}
	scan := func(s scanner) (v visited, err error) {
		err = s.Scan(&v.lane, &v.blocked)
		return v, err
	}
	all, err := rows(t, scan, `WITH RECURSIVE next (lane) AS (
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane = ?1 AND lane > ?4 LIMIT 1)
			UNION ALL
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane > max(?1 || '/', ?4) AND lane < ?1 || '0'
				ORDER BY lane LIMIT 1)
			UNION ALL
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane > next.lane AND lane < ?1 || '0'
				ORDER BY lane LIMIT 1)
			FROM next WHERE next.lane > ?1 || '/')
		SELECT lane, EXISTS (SELECT 1 FROM limiter b WHERE b.key = lane AND `+blocked+`) FROM next
		WHERE lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM limiter b WHERE b.key = ?1 || '/*' AND `+blocked+`) LIMIT ?3`,
		handler, micros(t.now), queue.LanesVisited, after)
	if len(all) == queue.LanesVisited {
		end = all[len(all)-1].lane
	}
	for _, v := range all {
		if !v.blocked {
			lanes = append(lanes, v.lane)
		}
	}
	return lanes, end, err
}

// chosen returns the condition of a choice; ?1 is the owner, ?2 the time.
func chosen(c queue.Choice) string {
	switch c {
	case queue.DeadClaims:
		return `claimed_by IS NOT NULL AND claimed_by <> ?1`
	case queue.OverdueClaims:
		return `claimed_by = ?1 AND lease < ?2`
	case queue.CancelAsked:
		return `claimed_by = ?1 AND cancel_at IS NOT NULL`
	case queue.ClaimsOf:
		return `claimed_by = ?1`
	case queue.StopAsked:
		return `cancel_at IS NOT NULL AND claimed_by IS NULL AND status IN (2, 3) AND run_at <= ?2`
	}
	return `0`
}

// Select finds live actions by their state; owner is used by some of the choices.
func (t *tx) Select(choice queue.Choice, owner action.ID, n int) ([]action.ID, error) {
	return rows(t, scanID, `SELECT id FROM thread WHERE `+chosen(choice)+` AND ?1 IS NOT NULL AND ?2 IS NOT NULL LIMIT ?3`,
		owner[:], micros(t.now), n)
}

// MakeReady makes at most n threads ready whose time has come, and returns their lanes.
func (t *tx) MakeReady(n int) ([]string, error) {
	scan := func(s scanner) (lane string, err error) {
		err = s.Scan(&lane)
		return lane, err
	}
	lanes, err := rows(t, scan, `UPDATE thread SET ready = 1 WHERE id IN (SELECT id FROM thread INDEXED BY thread_due
		WHERE ready = 0 AND claimed_by IS NULL AND status IN (1, 4) AND run_at <= ? LIMIT ?) RETURNING lane`, micros(t.now), n)
	slices.Sort(lanes)
	return slices.Compact(lanes), err
}

// NextDue returns the earliest time that a thread waits for, without deadlines up to and including
// after; zero if none waits.
func (t *tx) NextDue(after time.Time) (time.Time, error) {
	scan := func(s scanner) (at time.Time, err error) {
		err = s.Scan(moment{&at})
		return at, err
	}
	next, _, err := row(t, scan, `SELECT min(at) FROM (
		SELECT min(run_at) AS at FROM thread INDEXED BY thread_due WHERE ready = 0 AND claimed_by IS NULL AND status IN (1, 4)
		UNION ALL
		SELECT * FROM (SELECT deadline FROM thread INDEXED BY thread_deadline WHERE deadline > coalesce(?1, 0) AND cancel_at IS NULL
			ORDER BY deadline LIMIT 1))`, micros(after))
	return next, err
}

// PastDeadline lists live actions whose deadline has passed and that have not been asked to stop
// yet, in the order of deadlines and ids, after a place in it.
func (t *tx) PastDeadline(after queue.Deadline, limit int) ([]queue.Deadline, error) {
	return rows(t, func(s scanner) (d queue.Deadline, err error) {
		err = s.Scan(moment{&d.At}, ident{&d.ID})
		return d, err
	}, `SELECT deadline, id FROM thread INDEXED BY thread_deadline WHERE deadline <= ?1 AND cancel_at IS NULL
		AND (deadline, id) > (coalesce(?2, 0), ?3) ORDER BY deadline, id LIMIT ?4`, micros(t.now), micros(after.At), after.ID[:], limit)
}

// scanState reads an action with its thread or its end.
func scanState(s scanner) (queue.ActionState, error) {
	var (
		r                            actionRow
		state                        queue.ActionState
		status, seq, attempt         sql.NullInt64
		spent, lost, throttled       sql.NullInt64
		runAt, lease, started        time.Time
		cancelAt, deadline           time.Time
		claimedBy                    action.ID
		draining                     sql.NullBool
		doneStatus, doneSeq          sql.NullInt64
		doneAttempt, doneSpent       sql.NullInt64
		doneLost                     sql.NullInt64
		doneStarted                  time.Time
		progress                     sql.NullInt64
		code, errorText, ref, output sql.NullString
		outputRef                    sql.NullString
	)
	to := append(r.to(), &status, &seq, &attempt, &spent, &lost, &throttled, moment{&runAt}, ident{&claimedBy}, moment{&lease},
		moment{&started}, moment{&cancelAt}, &draining, moment{&deadline}, &progress,
		&doneStatus, &doneSeq, &doneAttempt, &doneSpent, &doneLost, moment{&doneStarted}, moment{&state.FinishedAt}, &code,
		&errorText, &ref, &output, &outputRef,
		moment{&state.Dismissed}, moment{&state.UpdatedAt}, moment{&state.EnqueuedAt})
	if err := s.Scan(to...); err != nil {
		return state, err
	}
	var err error
	if state.Action, err = r.finish(); err != nil {
		return state, err
	}
	if status.Valid {
		state.Thread = action.Thread{Status: action.Status(status.Int64), Seq: int(seq.Int64), Attempt: int(attempt.Int64),
			Spent: int(spent.Int64), Lost: int(lost.Int64), Throttled: int(throttled.Int64), RunAt: runAt, ClaimedBy: claimedBy,
			Lease: lease, StartedAt: started, CancelAt: cancelAt, Draining: draining.Bool, Deadline: deadline, Progress: int(progress.Int64)}
		state.Code, state.Error, state.Ref = code.String, errorText.String, ref.String
		return state, nil
	}
	state.Thread = action.Thread{Status: action.Status(doneStatus.Int64), Seq: int(doneSeq.Int64), Attempt: int(doneAttempt.Int64),
		Spent: int(doneSpent.Int64), Lost: int(doneLost.Int64), RunAt: r.RunAt, StartedAt: doneStarted}
	state.Code, state.Error, state.Ref, state.OutputRef = code.String, errorText.String, ref.String, outputRef.String
	if output.Valid {
		state.Output = json.RawMessage(output.String)
	}
	return state, nil
}
