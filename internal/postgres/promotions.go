package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// Rows of package promotions: Kubernetes pipelines with their runs, entries, attempts and requests.

// promotionHeadColumns are the columns of a head, in the order of scanPromotionHead.
const promotionHeadColumns = `id, name, uid, seq, newest, created_at, closed_at`

// scanPromotionHead reads promotionHeadColumns.
func scanPromotionHead(row pgx.Row) (h promotions.Head, err error) {
	err = row.Scan(&h.ID, &h.Name, &h.UID, &h.Seq, &h.Newest, timeOf{&h.CreatedAt}, timeOf{&h.ClosedAt})
	return h, err
}

// LockPromotions locks the live heads with the names and all heads with the UIDs, in the order of their ids. One order of locks keeps
// two transactions from a deadlock.
func (t *tx) LockPromotions(names, uids []string) ([]promotions.Head, error) {
	if err := t.do(`SELECT pg_advisory_xact_lock_shared($1)`, int64(promotionLock)); err != nil {
		return nil, err
	}
	return query(t, scanPromotionHead, `SELECT `+promotionHeadColumns+` FROM promotion_head
		WHERE id IN (SELECT id FROM promotion_head WHERE closed_at IS NULL AND name = ANY ($1)
			UNION ALL SELECT id FROM promotion_head WHERE uid = ANY ($2)) ORDER BY id FOR UPDATE`, filled(names), filled(uids))
}

// LockAllPromotions locks all live heads, in the order of their ids, and those that do not exist yet.
func (t *tx) LockAllPromotions() ([]promotions.Head, error) {
	if err := t.do(`SELECT pg_advisory_xact_lock($1)`, int64(promotionLock)); err != nil {
		return nil, err
	}
	return query(t, scanPromotionHead, `SELECT `+promotionHeadColumns+` FROM promotion_head WHERE closed_at IS NULL ORDER BY id FOR UPDATE`)
}

// PromotionHeads reads by query, by name and then oldest first.
func (t *tx) PromotionHeads(q promotions.HeadQuery) ([]promotions.Head, error) {
	var f filter
	f.when(q.Name != "", "name = ?", q.Name)
	f.when(q.UID != "", "uid = ?", q.UID)
	f.when(q.After != "", "name > ?", q.After)
	if !q.Closed {
		f.conditions = append(f.conditions, "closed_at IS NULL")
	}
	return query(t, scanPromotionHead, `SELECT `+promotionHeadColumns+` FROM promotion_head`+f.where()+` ORDER BY name, id`+f.limit(q.Limit),
		f.arguments...)
}

// InsertPromotionHead stores a head and returns its id.
func (t *tx) InsertPromotionHead(h promotions.Head) (int64, error) {
	made, err := query(t, scanInt64, `INSERT INTO promotion_head (name, uid, seq, newest, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
		h.Name, h.UID, h.Seq, h.Newest, stamp(h.CreatedAt))
	if err != nil || len(made) == 0 {
		return 0, err
	}
	return made[0], nil
}

func scanInt64(row pgx.Row) (n int64, err error) {
	err = row.Scan(&n)
	return n, err
}

// UpdatePromotionHead writes sequence, newest run and end.
func (t *tx) UpdatePromotionHead(h promotions.Head) error {
	return t.do(`UPDATE promotion_head SET seq = $2, newest = $3, closed_at = $4 WHERE id = $1`, h.ID, h.Seq, h.Newest, stamp(h.ClosedAt))
}

// InsertRun stores a run unless its number exists.
func (t *tx) InsertRun(head int64, r promotions.Run) error {
	environments, err := promotions.Document(append([]promotion.EnvName{}, r.Environments...))
	if err != nil {
		return err
	}
	return t.do(`INSERT INTO promotion_run (pipeline_id, number, id, revision, was, cause, environment, repeats, created_by, environments,
		started_at, ended_at, ended) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (pipeline_id, number) DO NOTHING`,
		head, r.Number, uuid(r.ID), string(r.Revision), string(r.Was), string(r.Cause), string(r.Env), r.Repeats, r.By, environments,
		stamp(r.StartedAt), stamp(r.EndedAt), string(r.End))
}

// EndRun writes the end of a run that has not ended.
func (t *tx) EndRun(head, number int64, end promotion.RunEnd, at time.Time) error {
	return t.do(`UPDATE promotion_run SET ended = $3, ended_at = $4 WHERE pipeline_id = $1 AND number = $2 AND ended = ''`,
		head, number, string(end), stamp(at))
}

// scanRun reads the columns of PromotionRuns.
func scanRun(row pgx.Row) (r promotions.Run, err error) {
	var revision, was, cause, env, environments, end string
	err = row.Scan(&r.Pipeline, &r.Number, idOf{&r.ID}, &revision, &was, &cause, &env, &r.Repeats, &r.By, &environments,
		timeOf{&r.StartedAt}, timeOf{&r.EndedAt}, &end, &r.Archive)
	if err != nil {
		return r, err
	}
	r.Revision, r.Was, r.Cause = promotion.Revision(revision), promotion.Revision(was), promotion.RunCause(cause)
	r.Env, r.End = promotion.EnvName(env), promotion.RunEnd(end)
	return r, promotions.ReadDocument(environments, &r.Environments)
}

// PromotionRuns reads by query, newest first.
func (t *tx) PromotionRuns(q promotions.RunQuery) ([]promotions.Run, error) {
	var f filter
	f.when(q.Pipeline != "", "h.name = ?", q.Pipeline)
	f.when(q.Pipeline == "", "r.pipeline_id = ?", q.Head)
	f.when(q.Before != 0, "r.number < ?", q.Before)
	f.when(q.Numbers != nil, "r.number = ANY (?)", q.Numbers)
	if q.Open {
		f.conditions = append(f.conditions, "r.ended = ''")
	}
	return query(t, scanRun, `SELECT h.name, r.number, r.id, r.revision, r.was, r.cause, r.environment, r.repeats, r.created_by, r.environments,
		r.started_at, r.ended_at, r.ended, r.archive FROM promotion_head h JOIN promotion_run r ON r.pipeline_id = h.id`+f.where()+
		` ORDER BY r.number DESC`+f.limit(q.Limit), f.arguments...)
}

// NeededRuns returns the numbers of the runs that have not ended, of the newest ones by environment and cause, and of those that finished
// last in an environment.
func (t *tx) NeededRuns(head int64, each int) ([]int64, error) {
	return query(t, scanInt64, `SELECT number FROM promotion_run WHERE pipeline_id = $1 AND ended = ''
		UNION SELECT number FROM (SELECT number, row_number() OVER (PARTITION BY environment, cause ORDER BY number DESC) AS place
			FROM promotion_run WHERE pipeline_id = $1) AS begun WHERE place <= $2
		UNION SELECT run FROM (SELECT run, row_number() OVER (PARTITION BY environment ORDER BY run DESC) AS place
			FROM promotion_entry WHERE pipeline_id = $1 AND class = 0 AND event = 'stage-finished-successfully') AS finished WHERE place <= $2`, head, each)
}

// KeptRuns returns the oldest runs that ended before a time and have their entries here.
func (t *tx) KeptRuns(head int64, before time.Time, most int) ([]int64, error) {
	return query(t, scanInt64, `SELECT number FROM promotion_run
		WHERE pipeline_id = $1 AND archive = '' AND ended <> '' AND ended_at < $2 ORDER BY number LIMIT $3`, head, stamp(before), most)
}

// ArchiveRun stores the key of a run's archive and deletes its entries.
func (t *tx) ArchiveRun(head, number int64, key string) error {
	if err := t.do(`UPDATE promotion_run SET archive = $3 WHERE pipeline_id = $1 AND number = $2`, head, number, key); err != nil {
		return err
	}
	return t.do(`DELETE FROM promotion_entry WHERE pipeline_id = $1 AND run = $2`, head, number)
}

// InsertPromotionEntries stores entries.
func (t *tx) InsertPromotionEntries(head int64, entries []promotions.Entry) error {
	type entry = promotions.Entry
	return t.do(`INSERT INTO promotion_entry (pipeline_id, seq, run, environment, target, event, class, created_by, detail, action_id, created_at)
		SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::text[], $9::text[], $10::uuid[],
			$11::timestamptz[])`, head,
		column(entries, func(e entry) int64 { return e.Seq }),
		column(entries, func(e entry) int64 { return e.Run }),
		column(entries, func(e entry) string { return string(e.Env) }),
		column(entries, func(e entry) string { return promotions.TargetText(e.Target) }),
		column(entries, func(e entry) string { return string(e.Event) }),
		column(entries, func(e entry) int16 { return int16(e.Class) }),
		column(entries, func(e entry) string { return e.By }),
		column(entries, func(e entry) string { return e.Detail }),
		ids(entries, func(e *entry) action.ID { return e.ActionID }),
		times(entries, func(e *entry) time.Time { return e.At }))
}

// scanPromotionEntry reads the columns of PromotionEntries.
func scanPromotionEntry(row pgx.Row) (e promotions.Entry, err error) {
	var env, target, event string
	var class int16
	err = row.Scan(&e.Seq, &e.Run, &env, &target, &event, &class, &e.By, &e.Detail, idOf{&e.ActionID}, timeOf{&e.At})
	e.Env, e.Target, e.Event, e.Class = promotion.EnvName(env), promotions.ParseTarget(target), promotion.Event(event),
		promotions.Class(class)
	return e, err
}

// PromotionEntries reads by query, oldest first.
func (t *tx) PromotionEntries(q promotions.EntryQuery) ([]promotions.Entry, error) {
	var f filter
	f.and("pipeline_id = ?", q.Head)
	f.and("seq > ?", q.After)
	f.when(q.Runs != nil, "run = ANY (?)", q.Runs)
	if q.FactsOnly {
		f.conditions = append(f.conditions, "class = 0")
	}
	return query(t, scanPromotionEntry, `SELECT seq, run, environment, target, event, class, created_by, detail, action_id, created_at
		FROM promotion_entry`+f.where()+` ORDER BY seq`+f.limit(q.Limit), f.arguments...)
}

// InsertSighting stores a sighting.
func (t *tx) InsertSighting(head int64, s promotion.Sighting) error {
	return t.do(`INSERT INTO promotion_sighting (pipeline_id, seq, revision, seen_at) VALUES ($1, $2, $3, $4)`,
		head, s.Seq, string(s.Revision), stamp(s.At))
}

// Sightings reads the newest sightings, oldest first.
func (t *tx) Sightings(head int64, newest int) ([]promotion.Sighting, error) {
	return query(t, func(row pgx.Row) (one promotion.Sighting, err error) {
		var revision string
		err = row.Scan(&one.Seq, &revision, timeOf{&one.At})
		one.Revision = promotion.Revision(revision)
		return one, err
	}, `SELECT seq, revision, seen_at FROM (SELECT seq, revision, seen_at FROM promotion_sighting WHERE pipeline_id = $1 ORDER BY seq DESC LIMIT $2)
		AS newest ORDER BY seq`, head, newest)
}

// PutPhases stores phases, each over the one before.
func (t *tx) PutPhases(head int64, phases []promotions.Phase) error {
	for _, p := range phases {
		err := t.do(`INSERT INTO promotion_phase (pipeline_id, run, environment, phase, since) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (pipeline_id, run, environment) DO UPDATE SET phase = excluded.phase, since = excluded.since`,
			head, p.Run, string(p.Env), string(p.Phase), stamp(p.Since))
		if err != nil {
			return err
		}
	}
	return nil
}

// Phases reads the phases of runs.
func (t *tx) Phases(head int64, runs []int64) ([]promotions.Phase, error) {
	return query(t, func(row pgx.Row) (p promotions.Phase, err error) {
		var env, phase string
		err = row.Scan(&p.Run, &env, &phase, timeOf{&p.Since})
		p.Env, p.Phase = promotion.EnvName(env), promotion.Phase(phase)
		return p, err
	}, `SELECT run, environment, phase, since FROM promotion_phase WHERE pipeline_id = $1 AND run = ANY ($2) ORDER BY run, environment`, head, runs)
}

// InsertIntent stores an intent.
func (t *tx) InsertIntent(head, run int64, i promotion.Intent) error {
	text, err := promotions.Document(i)
	if err != nil {
		return err
	}
	return t.do(`INSERT INTO promotion_intent (pipeline_id, seq, run, document) VALUES ($1, $2, $3, $4)`, head, i.Seq, run, text)
}

// Intents reads, oldest first, those of the runs and the newest ones of no run.
func (t *tx) Intents(head int64, runs []int64, newest int) ([]promotion.Intent, error) {
	return query(t, func(row pgx.Row) (i promotion.Intent, err error) {
		var text string
		if err = row.Scan(&text); err == nil {
			err = promotions.ReadDocument(text, &i)
		}
		return i, err
	}, `SELECT document FROM ((SELECT seq, document FROM promotion_intent WHERE pipeline_id = $1 AND run = 0 ORDER BY seq DESC LIMIT $3)
		UNION ALL SELECT seq, document FROM promotion_intent WHERE pipeline_id = $1 AND run <> 0 AND run = ANY ($2)) AS wanted ORDER BY seq`,
		head, append([]int64{}, runs...), newest)
}

// PutAttempts stores attempts, each over the one before.
func (t *tx) PutAttempts(head int64, attempts []promotions.Attempt) error {
	for _, a := range attempts {
		text, err := a.Document()
		if err != nil {
			return err
		}
		err = t.do(`INSERT INTO promotion_attempt (pipeline_id, run, environment, op, gate, unique_key, document) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (pipeline_id, run, environment, op, gate) DO UPDATE SET unique_key = excluded.unique_key, document = excluded.document`,
			head, a.Run, string(a.Env), string(a.Op), a.Gate, a.UniqueKey, text)
		if err != nil {
			return err
		}
	}
	return nil
}

// scanAttempt reads the columns of Attempts.
func scanAttempt(row pgx.Row) (a promotions.Attempt, err error) {
	var env, op, text string
	if err = row.Scan(&a.Run, &env, &op, &a.Gate, &a.UniqueKey, &text); err != nil {
		return a, err
	}
	a.Env, a.Op = promotion.EnvName(env), promotion.Op(op)
	return a, a.ReadDocument(text)
}

// Attempts reads those of runs; nil reads all.
func (t *tx) Attempts(head int64, runs []int64) ([]promotions.Attempt, error) {
	var f filter
	f.and("pipeline_id = ?", head)
	f.when(runs != nil, "run = ANY (?)", runs)
	return query(t, scanAttempt, `SELECT run, environment, op, gate, unique_key, document FROM promotion_attempt`+f.where()+
		` ORDER BY run, environment, op, gate`, f.arguments...)
}

// PutProposal stores the proposal of an environment.
func (t *tx) PutProposal(head int64, env promotion.EnvName, p promotion.Proposal) error {
	text, err := promotions.Document(p)
	if err != nil {
		return err
	}
	return t.do(`INSERT INTO promotion_proposal (pipeline_id, environment, document) VALUES ($1, $2, $3)
		ON CONFLICT (pipeline_id, environment) DO UPDATE SET document = excluded.document`, head, string(env), text)
}

// Proposals reads the proposals of a pipeline.
func (t *tx) Proposals(head int64) (map[promotion.EnvName]promotion.Proposal, error) {
	found := map[promotion.EnvName]promotion.Proposal{}
	_, err := query(t, func(row pgx.Row) (env string, err error) {
		var text string
		var p promotion.Proposal
		if err = row.Scan(&env, &text); err == nil {
			err = promotions.ReadDocument(text, &p)
		}
		found[promotion.EnvName(env)] = p
		return env, err
	}, `SELECT environment, document FROM promotion_proposal WHERE pipeline_id = $1`, head)
	return found, err
}

// UseNonce stores a nonce and forgets those used before a time.
func (t *tx) UseNonce(key, nonce string, forget time.Time) (bool, error) {
	if err := t.do(`DELETE FROM promotion_nonce WHERE used_at < $1`, stamp(forget)); err != nil {
		return false, err
	}
	stored, err := t.count(`INSERT INTO promotion_nonce (key, nonce, used_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING`, key, nonce)
	return stored == 1, err
}

// PutCall stores a call, and forgets those before a time.
func (t *tx) PutCall(c promotions.Call, forget time.Time) error {
	if err := t.do(`DELETE FROM promotion_call WHERE called_at < $1`, stamp(forget)); err != nil {
		return err
	}
	return t.do(`INSERT INTO promotion_call (host, name, number, called_at) VALUES ($1, $2, $3, now())
		ON CONFLICT (host, name, number) DO UPDATE SET called_at = excluded.called_at`, c.Host, c.Name, c.Number)
}

// Calls reads the calls that are kept.
func (t *tx) Calls() ([]promotions.Call, error) {
	return query(t, func(row pgx.Row) (c promotions.Call, err error) {
		err = row.Scan(&c.Host, &c.Name, &c.Number, &c.At)
		c.At = c.At.UTC()
		return c, err
	}, `SELECT host, name, number, called_at FROM promotion_call ORDER BY host, name, number`)
}

// PutFreeze stores or removes the freeze of a pipeline.
func (t *tx) PutFreeze(pipeline string, f *admission.Freeze) error {
	if f == nil {
		return t.do(`DELETE FROM promotion_freeze WHERE pipeline = $1`, pipeline)
	}
	text, err := promotions.Document(f)
	if err != nil {
		return err
	}
	return t.do(`INSERT INTO promotion_freeze (pipeline, document) VALUES ($1, $2)
		ON CONFLICT (pipeline) DO UPDATE SET document = excluded.document`, pipeline, text)
}

// Freezes reads those of pipelines; nil reads every one.
func (t *tx) Freezes(pipelines []string) (map[string]admission.Freeze, error) {
	var f filter
	f.when(pipelines != nil, "pipeline = ANY (?)", pipelines)
	found := map[string]admission.Freeze{}
	_, err := query(t, func(row pgx.Row) (name string, err error) {
		var text string
		var one admission.Freeze
		if err = row.Scan(&name, &text); err == nil {
			err = promotions.ReadDocument(text, &one)
		}
		found[name] = one
		return name, err
	}, `SELECT pipeline, document FROM promotion_freeze`+f.where(), f.arguments...)
	return found, err
}
