package sqlite

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

const threadColumns = `t.status, t.seq, t.attempt, t.spent, t.lost, t.throttled, t.run_at, t.claimed_by, t.lease,
	t.started_at, t.cancel_at, t.draining, t.deadline, t.progress`

func threadTo(t *action.Thread) []any {
	return []any{&t.Status, &t.Seq, &t.Attempt, &t.Spent, &t.Lost, &t.Throttled, moment{&t.RunAt}, ident{&t.ClaimedBy}, moment{&t.Lease},
		moment{&t.StartedAt}, moment{&t.CancelAt}, &t.Draining, moment{&t.Deadline}, &t.Progress}
}

// identified is a thread with its action's id.
type identified struct {
	id action.ID
	action.Thread
}

func scanThread(s scanner) (one identified, err error) {
	err = s.Scan(append([]any{ident{&one.id}}, threadTo(&one.Thread)...)...)
	return one, err
}

// LockThreads reads: the transaction is the only one that writes.
func (t *tx) LockThreads(ids []action.ID) (map[action.ID]action.Thread, error) {
	all, err := rows(t, scanThread, `SELECT t.id, `+threadColumns+` FROM thread t WHERE t.id IN (`+listed+`)`, idList(ids))
	found := make(map[action.ID]action.Thread, len(all))
	for _, one := range all {
		found[one.id] = one.Thread
	}
	return found, err
}

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

func (t *tx) Claim(owner ledger.Instance, wants []ledger.Want) (claimed []ledger.Claimed, full bool, err error) {
	left := ledger.MaxClaimBytes
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

// claimLane is the one place beside action.Next that knows what a claim does,
// so that it is one statement; the conformance suite compares the two. It claims
// until the parameters come to so many bytes.
func (t *tx) claimLane(owner action.ID, w ledger.Want, bytes int) ([]ledger.Claimed, error) {
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
			FROM (SELECT id, rank FROM thread INDEXED BY thread_claim WHERE lane = ?3 AND ready = 1 ORDER BY rank, id LIMIT ?4) AS p
			CROSS JOIN action a ON a.id = p.id) WHERE before < ?6)
		RETURNING id, rank, status, seq, attempt, spent, lost, throttled, run_at, claimed_by, lease,
			started_at, cancel_at, draining, deadline, progress`, id(owner), micros(t.now), w.Lane, w.N, w.HandOff, bytes)
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
	claimed := make([]ledger.Claimed, len(claims))
	for i, c := range claims {
		claimed[i] = ledger.Claimed{Action: byID[c.id], Thread: c.Thread}
	}
	return claimed, err
}

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
	if next != "" { // what one handler was not searched for comes before this
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

// blocked is the condition that a limiter, b, lets nothing start at ?4: it is paused, disabled, or slowed without a token.
const blocked = `(b.disabled_at IS NOT NULL OR b.paused_by <> '' AND (b.pause_until IS NULL OR b.pause_until > ?4)
	OR b.slowed > 0 AND b.tokens + b.slowed * (?4 - b.refilled_at) / 1e6 < 1)`

// lanesOf lists a handler's lanes with ready work that are not blocked: its own, then by a skip scan those below
// handler/, one seek per lane ('0' follows '/'). When it has passed as many as it may, end is the last of them.
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
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane = ?1 AND lane > ?2 LIMIT 1)
			UNION ALL
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane > max(?1 || '/', ?2) AND lane < ?1 || '0'
				ORDER BY lane LIMIT 1)
			UNION ALL
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane > next.lane AND lane < ?1 || '0'
				ORDER BY lane LIMIT 1)
			FROM next WHERE next.lane > ?1 || '/')
		SELECT lane, EXISTS (SELECT 1 FROM limiter b WHERE b.key = lane AND `+blocked+`) FROM next
		WHERE lane IS NOT NULL AND NOT EXISTS (SELECT 1 FROM limiter b WHERE b.key = ?1 || '/*' AND `+blocked+`) LIMIT ?3`,
		handler, after, ledger.LanesVisited, micros(t.now))
	if len(all) == ledger.LanesVisited {
		end = all[len(all)-1].lane
	}
	for _, v := range all {
		if !v.blocked {
			lanes = append(lanes, v.lane)
		}
	}
	return lanes, end, err
}

// chosen is the condition of a choice; ?1 is the owner, ?2 the time.
func chosen(c ledger.Choice) string {
	switch c {
	case ledger.DeadClaims:
		return `claimed_by IS NOT NULL AND claimed_by <> ?1`
	case ledger.OverdueClaims:
		return `claimed_by = ?1 AND lease < ?2`
	case ledger.CancelAsked:
		return `claimed_by = ?1 AND cancel_at IS NOT NULL`
	case ledger.ClaimsOf:
		return `claimed_by = ?1`
	case ledger.StopAsked:
		return `cancel_at IS NOT NULL AND claimed_by IS NULL AND status IN (2, 3) AND run_at <= ?2`
	}
	return `0`
}

func (t *tx) Select(choice ledger.Choice, owner action.ID, n int) ([]action.ID, error) {
	return rows(t, scanID, `SELECT id FROM thread WHERE `+chosen(choice)+` AND ?1 IS NOT NULL AND ?2 IS NOT NULL LIMIT ?3`,
		owner[:], micros(t.now), n)
}

func (t *tx) MakeReady(n int) (int, error) {
	return t.exec(`UPDATE thread SET ready = 1 WHERE id IN (SELECT id FROM thread INDEXED BY thread_due
		WHERE ready = 0 AND claimed_by IS NULL AND status IN (1, 4) AND run_at <= ? LIMIT ?)`, micros(t.now), n)
}

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

func (t *tx) PastDeadline(after ledger.Deadline, limit int) ([]ledger.Deadline, error) {
	return rows(t, func(s scanner) (d ledger.Deadline, err error) {
		err = s.Scan(moment{&d.At}, ident{&d.ID})
		return d, err
	}, `SELECT deadline, id FROM thread INDEXED BY thread_deadline WHERE deadline <= ?1 AND cancel_at IS NULL
		AND (deadline, id) > (coalesce(?2, 0), ?3) ORDER BY deadline, id LIMIT ?4`, micros(t.now), micros(after.At), after.ID[:], limit)
}

// stateColumns are an action's, its thread's, and its end's; a live one shows its last event's code and error.
const stateColumns = actionColumns + `, ` + threadColumns + `,
	d.status, d.seq, d.attempt, d.spent, d.lost, d.started_at, d.finished_at,
	coalesce(d.code, l.code), coalesce(d.error, l.error), coalesce(d.ref, l.ref), d.output, d.output_ref,
	(SELECT x.dismissed_at FROM dismissal x WHERE x.id = a.id), coalesce(d.finished_at, l.at, a.enqueued_at), a.enqueued_at`

const stateJoins = ` LEFT JOIN thread_done d ON d.id = a.id LEFT JOIN event l ON l.action_id = t.id AND l.seq = t.seq`

func (t *tx) ActionStates(ids []action.ID, q ledger.ActionQuery) ([]ledger.ActionState, error) {
	if ids == nil {
		query, args := stateQuery(q, t.now)
		return rows(t, scanState, query, args...)
	}
	return rows(t, scanState, `SELECT `+stateColumns+` FROM action a LEFT JOIN thread t ON t.id = a.id`+stateJoins+
		` WHERE a.id IN (`+listed+`) ORDER BY a.id DESC`, idList(ids))
}

// stateQuery is the statement of an ActionQuery. It begins with the live rows where only they are wanted.
func stateQuery(q ledger.ActionQuery, now time.Time) (string, []any) {
	query := `SELECT ` + stateColumns + ` FROM action a LEFT JOIN thread t ON t.id = a.id` + stateJoins
	live, ended := q.Live(), q.Ended()
	if q.LiveOnly || (len(live) > 0 && len(ended) == 0) {
		query = `SELECT ` + stateColumns + ` FROM thread t CROSS JOIN action a ON a.id = t.id` + stateJoins
	} else if failed(q) { // the index holds no others
		query = `SELECT ` + stateColumns + ` FROM thread_done d CROSS JOIN action a ON a.id = d.id
			LEFT JOIN thread t ON t.id = a.id LEFT JOIN event l ON l.action_id = t.id AND l.seq = t.seq`
	}
	var where []string
	var args []any
	if failed(q) {
		where = append(where, `d.status <> 5`)
	}
	and := func(condition string, value any) {
		where = append(where, condition)
		args = append(args, value)
	}
	if len(q.Statuses) > 0 {
		where = append(where, standing(live, ended)+` IN (`+strings.Repeat(`?,`, len(q.Statuses)-1)+`?)`)
		for _, status := range q.Statuses {
			args = append(args, status)
		}
	}
	for _, c := range phaseConditions(q, now) {
		where = append(where, c.text)
		args = append(args, c.values...)
	}
	for _, c := range []struct{ column, value string }{{"kind", q.Kind}, {"name", q.Name}, {"handler", q.Handler}, {"lane", q.Lane},
		{"created_by", q.CreatedBy}} {
		if c.value != "" {
			and(`a.`+c.column+` = ?`, c.value)
		}
	}
	for _, c := range []struct {
		condition string
		value     action.ID
	}{{`a.parent_id = ?`, q.Parent}, {`a.retry_of = ?`, q.RetryOf}, {`a.id >= ?`, q.From()}, {`a.id < ?`, q.To()}} {
		if !c.value.IsZero() {
			and(c.condition, id(c.value))
		}
	}
	if q.Pipeline != "" {
		and(`a.pipeline = ?`, q.Pipeline)
	}
	if q.Deployment != 0 {
		and(`a.deployment = ?`, q.Deployment)
	}
	if q.Target != "" {
		and(`a.target = ?`, q.Target)
	}
	order, behind := ` ORDER BY a.id DESC`, `a.id < ?`
	if q.Oldest {
		order, behind = ` ORDER BY a.id`, `a.id > ?`
	}
	if !q.After.IsZero() {
		and(behind, id(q.After))
	}
	if len(where) > 0 {
		query += ` WHERE ` + strings.Join(where, ` AND `)
	}
	return query + order + ` LIMIT ?`, append(args, limit(q.Limit))
}

// failed reports whether only ends are wanted that are no success.
func failed(q ledger.ActionQuery) bool {
	return !q.LiveOnly && len(q.Ended()) > 0 && len(q.Live()) == 0 && !slices.Contains(q.Ended(), action.Successful)
}

// condition is a part of a WHERE, with the values of its placeholders.
type condition struct {
	text   string
	values []any
}

// isDismissed is that somebody deleted the job.
const isDismissed = `EXISTS (SELECT 1 FROM dismissal x WHERE x.id = a.id)`

// phaseIs is what ledger.ActionState.Phase says, as a condition.
func phaseIs(p ledger.Phase) string {
	switch p {
	case ledger.Accepted:
		return `t.status IN (1, 2) OR t.status = 4 AND t.started_at IS NULL`
	case ledger.Running:
		return `t.status = 3 OR t.status = 4 AND t.started_at IS NOT NULL`
	case ledger.Successful:
		return `d.status = 5 AND NOT ` + isDismissed
	case ledger.Failed:
		return `d.status IN (6, 8, 9, 10) AND NOT ` + isDismissed
	}
	return `d.status = 7 OR ` + isDismissed
}

// phaseConditions select jobs by their processes, by phase and by how long they run or ran.
func phaseConditions(q ledger.ActionQuery, now time.Time) []condition {
	var all []condition
	if len(q.Names) > 0 {
		c := condition{text: `a.name IN (` + strings.Repeat(`?,`, len(q.Names)-1) + `?)`}
		for _, name := range q.Names {
			c.values = append(c.values, name)
		}
		all = append(all, c)
	}
	if len(q.Phases) > 0 {
		texts := make([]string, len(q.Phases))
		for i, p := range q.Phases {
			texts[i] = phaseIs(p)
		}
		all = append(all, condition{text: `(` + strings.Join(texts, ` OR `) + `)`})
	}
	const duration = `coalesce(d.finished_at, ?) - coalesce(d.started_at, t.started_at)`
	if q.Shortest > 0 {
		all = append(all, condition{duration + ` >= ?`, []any{micros(now), q.Shortest.Microseconds()}})
	}
	if q.Longest > 0 {
		all = append(all, condition{duration + ` <= ?`, []any{micros(now), q.Longest.Microseconds()}})
	}
	return all
}

// standing is where a status is that is one of these.
func standing(live, ended []action.Status) string {
	switch {
	case len(ended) == 0:
		return `t.status`
	case len(live) == 0:
		return `d.status`
	}
	return `coalesce(t.status, d.status)`
}

// scanState reads an action with its thread or its end.
func scanState(s scanner) (ledger.ActionState, error) {
	var (
		r                            actionRow
		state                        ledger.ActionState
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
		&doneStatus, &doneSeq, &doneAttempt, &doneSpent, &doneLost, moment{&doneStarted}, moment{&state.FinishedAt}, &code, &errorText, &ref, &output, &outputRef,
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
