package sqlite

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
)

func (t *tx) InsertThreads(threads []ledger.ThreadRow) ([]action.ID, error) {
	ids := make([]action.ID, len(threads))
	values := make([][]any, len(threads))
	for i, r := range threads {
		ids[i] = r.ID
		values[i] = []any{id(r.ID), r.Lane, text(r.UniqueKey), r.AttemptLimit.Microseconds(), r.Thread.Status, r.Ready, micros(r.Rank),
			micros(r.Thread.RunAt), r.Thread.Seq, r.Thread.Attempt, r.Thread.Spent, r.Thread.Lost, r.Thread.Throttled,
			r.Thread.Draining, micros(r.Thread.Deadline)}
	}
	return ids, t.insert(table{name: "thread", columns: []string{"id", "lane", "unique_key", "attempt_limit", "status", "ready", "rank",
		"run_at", "seq", "attempt", "spent", "lost", "throttled", "draining", "deadline"}}, values)
}

func (t *tx) InsertActions(actions []action.Action) error {
	values := make([][]any, len(actions))
	for i, a := range actions {
		policy, err := json.Marshal(a.Policy)
		if err != nil {
			return fmt.Errorf("write policy of action %s: %w", a.ID, err)
		}
		step := make([]any, 6)
		if s := a.Step; s != nil {
			step = []any{s.Pipeline, s.Deployment, s.Target, s.Event, s.Revision, s.Version}
		}
		values[i] = append([]any{id(a.ID), micros(a.CreatedAt), micros(t.now), a.Kind, a.Name, a.Handler, a.Lane, a.Priority, a.UniqueKey,
			id(a.ParentID), id(a.RetryOf), document(a.Parameters), string(policy), string(a.Delivery), micros(a.RunAt), a.CreatedBy}, step...)
	}
	return t.insert(table{name: "action", columns: []string{"id", "created_at", "enqueued_at", "kind", "name", "handler", "lane", "priority",
		"unique_key", "parent_id", "retry_of", "parameters", "policy", "delivery", "run_at", "created_by",
		"pipeline", "deployment", "target", "event", "revision", "version"}}, values)
}

func (t *tx) InsertEvents(events []action.Event) error {
	values := make([][]any, len(events))
	for i, e := range events {
		values[i] = []any{id(e.ActionID), e.Seq, e.Status, e.Attempt, e.Spent, micros(e.At), e.Source, micros(e.Until), e.Code, e.Error, e.Ref}
	}
	return t.insert(table{name: "event", columns: []string{"action_id", "seq", "status", "attempt", "spent", "at", "source", "until",
		"code", "error", "ref"}}, values)
}

func (t *tx) UpdateThreads(threads []ledger.ThreadRow) error {
	for _, r := range threads {
		_, err := t.exec(`UPDATE thread SET status = ?, ready = ?, rank = ?, run_at = ?, seq = ?, attempt = ?, spent = ?, lost = ?,
			throttled = ?, claimed_by = ?, lease = ?, started_at = ?, cancel_at = ?, draining = ?, deadline = ? WHERE id = ?`,
			r.Thread.Status, r.Ready, micros(r.Rank), micros(r.Thread.RunAt), r.Thread.Seq, r.Thread.Attempt, r.Thread.Spent, r.Thread.Lost,
			r.Thread.Throttled, id(r.Thread.ClaimedBy), micros(r.Thread.Lease), micros(r.Thread.StartedAt), micros(r.Thread.CancelAt),
			r.Thread.Draining, micros(r.Thread.Deadline), id(r.ID))
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) EndThreads(endings []ledger.Ending) error {
	ids := make([]action.ID, len(endings))
	values := make([][]any, len(endings))
	for i, e := range endings {
		ids[i] = e.ID
		values[i] = []any{id(e.ID), e.Lane, e.Thread.Status, e.Thread.Seq, e.Thread.Attempt, e.Thread.Spent, e.Thread.Lost,
			micros(e.Thread.StartedAt), micros(e.FinishedAt), e.Code, e.Error, e.Ref, document(e.Output)}
	}
	n, err := t.exec(`DELETE FROM thread WHERE id IN (`+listed+`)`, idList(ids))
	if err == nil && n != len(ids) {
		err = fault.New(fault.Terminal, "%d of %d actions have ended already", len(ids)-n, len(ids))
	}
	if err != nil {
		return err
	}
	return t.insert(table{name: "thread_done", columns: []string{"id", "lane", "status", "seq", "attempt", "spent", "lost",
		"started_at", "finished_at", "code", "error", "ref", "output"}}, values)
}

const actionColumns = `a.id, a.created_at, a.kind, a.name, a.handler, a.lane, a.priority, a.unique_key, a.parent_id, a.retry_of,
	a.parameters, a.policy, a.delivery, a.run_at, a.created_by, a.pipeline, a.deployment, a.target, a.event, a.revision, a.version`

// actionRow is an action as it is scanned.
type actionRow struct {
	action.Action
	parameters, pipeline, target, event sql.NullString
	deployment, revision, version       sql.NullInt64
	policy                              string
}

func (r *actionRow) to() []any {
	return []any{ident{&r.ID}, moment{&r.CreatedAt}, &r.Kind, &r.Name, &r.Handler, &r.Lane, &r.Priority, &r.UniqueKey, ident{&r.ParentID},
		ident{&r.RetryOf}, &r.parameters, &r.policy, &r.Delivery, moment{&r.RunAt}, &r.CreatedBy,
		&r.pipeline, &r.deployment, &r.target, &r.event, &r.revision, &r.version}
}

// finish turns the scanned columns into the action.
func (r *actionRow) finish() (action.Action, error) {
	if r.parameters.Valid {
		r.Parameters = json.RawMessage(r.parameters.String)
	}
	if r.pipeline.Valid {
		r.Step = &action.Step{Pipeline: r.pipeline.String, Deployment: r.deployment.Int64, Target: r.target.String,
			Event: r.event.String, Revision: r.revision.Int64, Version: int(r.version.Int64)}
	}
	if err := json.Unmarshal([]byte(r.policy), &r.Policy); err != nil {
		return action.Action{}, fmt.Errorf("read policy of action %s: %w", r.ID, err)
	}
	return r.Action, nil
}

func scanAction(s scanner) (action.Action, error) {
	var r actionRow
	if err := s.Scan(r.to()...); err != nil {
		return action.Action{}, err
	}
	return r.finish()
}

func (t *tx) Actions(ids []action.ID) ([]action.Action, error) {
	return rows(t, scanAction, `SELECT `+actionColumns+` FROM action a WHERE a.id IN (`+listed+`)`, idList(ids))
}

const threadColumns = `t.status, t.seq, t.attempt, t.spent, t.lost, t.throttled, t.run_at, t.claimed_by, t.lease,
	t.started_at, t.cancel_at, t.draining, t.deadline`

func threadTo(t *action.Thread) []any {
	return []any{&t.Status, &t.Seq, &t.Attempt, &t.Spent, &t.Lost, &t.Throttled, moment{&t.RunAt}, ident{&t.ClaimedBy}, moment{&t.Lease},
		moment{&t.StartedAt}, moment{&t.CancelAt}, &t.Draining, moment{&t.Deadline}}
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

func (t *tx) Claim(owner action.ID, wants []ledger.Want) ([]ledger.Claimed, error) {
	var claimed []ledger.Claimed
	for _, w := range wants {
		some, err := t.claimLane(owner, w)
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, some...)
	}
	return claimed, nil
}

// claimLane is the one place beside action.Next that knows what a claim does,
// so that it is one statement; the conformance suite compares the two.
func (t *tx) claimLane(owner action.ID, w ledger.Want) ([]ledger.Claimed, error) {
	type claim struct {
		identified
		rank int64
	}
	scan := func(s scanner) (c claim, err error) {
		err = s.Scan(append([]any{ident{&c.id}, &c.rank}, threadTo(&c.Thread)...)...)
		return c, err
	}
	claims, err := rows(t, scan, `UPDATE thread AS t SET ready = 0, claimed_by = ?1, status = 3, seq = seq + 1, attempt = attempt + 1,
			lease = CASE attempt_limit WHEN 0 THEN NULL ELSE ?2 + attempt_limit END, started_at = coalesce(started_at, ?2)
		WHERE id IN (SELECT id FROM thread INDEXED BY thread_claim WHERE lane = ?3 AND ready = 1 ORDER BY rank, id LIMIT ?4)
		RETURNING id, rank, status, seq, attempt, spent, lost, throttled, run_at, claimed_by, lease,
			started_at, cancel_at, draining, deadline`, id(owner), micros(t.now), w.Lane, w.N)
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

func (t *tx) Lanes(handler, after string, n int) ([]string, error) {
	scan := func(s scanner) (lane string, err error) {
		err = s.Scan(&lane)
		return lane, err
	}
	// the handler's own lane, then a skip scan over handler/…, one seek per lane ('0' follows '/')
	return rows(t, scan, `WITH RECURSIVE next (lane) AS (
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane = ?1 AND lane > ?2 LIMIT 1)
			UNION ALL
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane > max(?1 || '/', ?2) AND lane < ?1 || '0'
				ORDER BY lane LIMIT 1)
			UNION ALL
			SELECT (SELECT lane FROM thread INDEXED BY thread_claim WHERE ready = 1 AND lane > next.lane AND lane < ?1 || '0'
				ORDER BY lane LIMIT 1)
			FROM next WHERE next.lane > ?1 || '/')
		SELECT lane FROM next WHERE lane IS NOT NULL LIMIT ?3`, handler, after, n)
}

// chosen is the condition of a choice; ?1 is the owner, ?2 the time.
func chosen(c ledger.Choice) string {
	switch c {
	case ledger.DeadClaims:
		return `claimed_by IS NOT NULL AND claimed_by <> ?1`
	case ledger.OverdueClaims:
		return `claimed_by IS NOT NULL AND lease < ?2`
	case ledger.PastDeadline:
		return `deadline <= ?2 AND cancel_at IS NULL`
	case ledger.CancelAsked:
		return `claimed_by = ?1 AND cancel_at IS NOT NULL`
	case ledger.ClaimsOf:
		return `claimed_by = ?1`
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

func (t *tx) NextDue() (time.Time, error) {
	scan := func(s scanner) (at time.Time, err error) {
		err = s.Scan(moment{&at})
		return at, err
	}
	next, _, err := row(t, scan, `SELECT min(at) FROM (
		SELECT min(run_at) AS at FROM thread INDEXED BY thread_due WHERE ready = 0 AND claimed_by IS NULL AND status IN (1, 4)
		UNION ALL
		SELECT * FROM (SELECT deadline FROM thread INDEXED BY thread_deadline WHERE deadline IS NOT NULL AND cancel_at IS NULL
			ORDER BY deadline LIMIT 1))`)
	return next, err
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
		code, errorText, ref, output sql.NullString
	)
	to := append(r.to(), &status, &seq, &attempt, &spent, &lost, &throttled, moment{&runAt}, ident{&claimedBy}, moment{&lease},
		moment{&started}, moment{&cancelAt}, &draining, moment{&deadline},
		&doneStatus, &doneSeq, &doneAttempt, &doneSpent, &doneLost, moment{&doneStarted}, moment{&state.FinishedAt}, &code, &errorText, &ref, &output)
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
			Lease: lease, StartedAt: started, CancelAt: cancelAt, Draining: draining.Bool, Deadline: deadline}
		state.Code, state.Error, state.Ref = code.String, errorText.String, ref.String
		return state, nil
	}
	state.Thread = action.Thread{Status: action.Status(doneStatus.Int64), Seq: int(doneSeq.Int64), Attempt: int(doneAttempt.Int64),
		Spent: int(doneSpent.Int64), Lost: int(doneLost.Int64), RunAt: r.RunAt, StartedAt: doneStarted}
	state.Code, state.Error, state.Ref = code.String, errorText.String, ref.String
	if output.Valid {
		state.Output = json.RawMessage(output.String)
	}
	return state, nil
}

// stateColumns are an action's, its thread's, and its end's; a live one shows its last event's code and error.
const stateColumns = actionColumns + `, ` + threadColumns + `,
	d.status, d.seq, d.attempt, d.spent, d.lost, d.started_at, d.finished_at,
	coalesce(d.code, l.code), coalesce(d.error, l.error), coalesce(d.ref, l.ref), d.output`

const stateJoins = ` LEFT JOIN thread_done d ON d.id = a.id LEFT JOIN event l ON l.action_id = t.id AND l.seq = t.seq`

func (t *tx) ActionStates(ids []action.ID, q ledger.ActionQuery) ([]ledger.ActionState, error) {
	if ids == nil {
		query, args := stateQuery(q)
		return rows(t, scanState, query, args...)
	}
	return rows(t, scanState, `SELECT `+stateColumns+` FROM action a LEFT JOIN thread t ON t.id = a.id`+stateJoins+
		` WHERE a.id IN (`+listed+`) ORDER BY a.id DESC`, idList(ids))
}

// stateQuery is the statement of an ActionQuery. It begins with the live rows where only they are wanted.
func stateQuery(q ledger.ActionQuery) (string, []any) {
	query := `SELECT ` + stateColumns + ` FROM action a LEFT JOIN thread t ON t.id = a.id` + stateJoins
	if q.LiveOnly || q.Status.Live() {
		query = `SELECT ` + stateColumns + ` FROM thread t CROSS JOIN action a ON a.id = t.id` + stateJoins
	} else if q.Status.Ended() {
		query = `SELECT ` + stateColumns + ` FROM thread_done d CROSS JOIN action a ON a.id = d.id
			LEFT JOIN thread t ON t.id = a.id LEFT JOIN event l ON l.action_id = t.id AND l.seq = t.seq`
	}
	var where []string
	var args []any
	and := func(condition string, value any) {
		where = append(where, condition)
		args = append(args, value)
	}
	if q.Status.Live() {
		and(`t.status = ?`, q.Status)
	} else if q.Status.Ended() {
		and(`d.status = ?`, q.Status)
	}
	if q.Handler != "" {
		and(`a.handler = ?`, q.Handler)
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
	if !q.After.IsZero() {
		and(`a.id < ?`, id(q.After))
	}
	if len(where) > 0 {
		query += ` WHERE ` + strings.Join(where, ` AND `)
	}
	return query + ` ORDER BY a.id DESC LIMIT ?`, append(args, limit(q.Limit))
}

func (t *tx) Events(i action.ID) ([]action.Event, error) {
	scan := func(s scanner) (e action.Event, err error) {
		e.ActionID = i
		err = s.Scan(&e.Seq, &e.Status, &e.Attempt, &e.Spent, moment{&e.At}, &e.Source, moment{&e.Until}, &e.Code, &e.Error, &e.Ref)
		return e, err
	}
	return rows(t, scan, `SELECT seq, status, attempt, spent, at, source, until, code, error, ref FROM event WHERE action_id = ? ORDER BY seq`, id(i))
}
