package sqlite

import (
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// Rows of package promotions: Kubernetes pipelines with their runs, entries, attempts and requests. Limits are written as
// LIMIT ? + 0: SQLite plans with the value of a bare LIMIT ?, and so compiles a kept statement again for each value.

// promotionHeadColumns are the columns of a head, in the order of scanPromotionHead.
const promotionHeadColumns = `id, name, uid, seq, newest, created_at, closed_at`

// scanPromotionHead reads promotionHeadColumns.
func scanPromotionHead(s scanner) (h promotions.Head, err error) {
	err = s.Scan(&h.ID, &h.Name, &h.UID, &h.Seq, &h.Newest, moment{&h.CreatedAt}, moment{&h.ClosedAt})
	return h, err
}

// LockPromotions reads the live heads with the names and all heads with the UIDs. It needs no lock: the transaction is the only one
// that writes.
func (t *tx) LockPromotions(names, uids []string) ([]promotions.Head, error) {
	named, err := list(append([]string{}, names...))
	if err != nil {
		return nil, err
	}
	of, err := list(append([]string{}, uids...))
	if err != nil {
		return nil, err
	}
	return rows(t, scanPromotionHead, `SELECT `+promotionHeadColumns+` FROM promotion_head
		WHERE id IN (SELECT id FROM promotion_head INDEXED BY promotion_head_live WHERE closed_at IS NULL AND name IN (SELECT value FROM json_each(?1))
			UNION ALL SELECT id FROM promotion_head WHERE uid IN (SELECT value FROM json_each(?2))) ORDER BY id`, named, of)
}

// LockAllPromotions reads all live heads.
func (t *tx) LockAllPromotions() ([]promotions.Head, error) {
	return rows(t, scanPromotionHead, `SELECT `+promotionHeadColumns+` FROM promotion_head WHERE closed_at IS NULL ORDER BY id`)
}

// PromotionHeads reads by query, by name and then oldest first.
func (t *tx) PromotionHeads(q promotions.HeadQuery) ([]promotions.Head, error) {
	where, args := []string{`1`}, []any{}
	when := func(wanted bool, condition string, args2 ...any) {
		if wanted {
			where, args = append(where, condition), append(args, args2...)
		}
	}
	when(q.Name != "", `name = ?`, q.Name)
	when(q.UID != "", `uid = ?`, q.UID)
	when(!q.Closed, `closed_at IS NULL`)
	when(q.After != "", `name > ?`, q.After)
	return rows(t, scanPromotionHead, `SELECT `+promotionHeadColumns+` FROM promotion_head WHERE `+strings.Join(where, ` AND `)+
		` ORDER BY name, id LIMIT ? + 0`, append(args, limit(q.Limit))...)
}

// InsertPromotionHead stores a head and returns its id.
func (t *tx) InsertPromotionHead(h promotions.Head) (int64, error) {
	made, _, err := row(t, func(s scanner) (made int64, err error) {
		err = s.Scan(&made)
		return made, err
	}, `INSERT INTO promotion_head (name, uid, seq, newest, created_at) VALUES (?, ?, ?, ?, ?) RETURNING id`,
		h.Name, h.UID, h.Seq, h.Newest, micros(h.CreatedAt))
	return made, err
}

// UpdatePromotionHead writes sequence, newest run and end.
func (t *tx) UpdatePromotionHead(h promotions.Head) error {
	_, err := t.exec(`UPDATE promotion_head SET seq = ?, newest = ?, closed_at = ? WHERE id = ?`, h.Seq, h.Newest, micros(h.ClosedAt), h.ID)
	return err
}

// InsertRun stores a run unless its number exists.
func (t *tx) InsertRun(head int64, r promotions.Run) error {
	environments, err := list(append([]promotion.EnvName{}, r.Environments...))
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO promotion_run (pipeline_id, number, id, revision, was, cause, environment, repeats, created_by, environments,
		started_at, ended_at, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pipeline_id, number) DO NOTHING`,
		head, r.Number, id(r.ID), string(r.Revision), string(r.Was), string(r.Cause), string(r.Env), r.Repeats, r.By, environments,
		micros(r.StartedAt), micros(r.EndedAt), string(r.End))
	return err
}

// EndRun writes the end of a run that has not ended.
func (t *tx) EndRun(head, number int64, end promotion.RunEnd, at time.Time) error {
	_, err := t.exec(`UPDATE promotion_run SET ended = ?, ended_at = ? WHERE pipeline_id = ? AND number = ? AND ended = ''`,
		string(end), micros(at), head, number)
	return err
}

// scanRun reads the columns of PromotionRuns.
func scanRun(s scanner) (r promotions.Run, err error) {
	var environments string
	err = s.Scan(&r.Pipeline, &r.Number, ident{&r.ID}, &r.Revision, &r.Was, &r.Cause, &r.Env, &r.Repeats, &r.By, &environments,
		moment{&r.StartedAt}, moment{&r.EndedAt}, &r.End, &r.Archive)
	if err != nil {
		return r, err
	}
	return r, promotions.ReadDocument(environments, &r.Environments)
}

// PromotionRuns reads by query, newest first.
func (t *tx) PromotionRuns(q promotions.RunQuery) ([]promotions.Run, error) {
	where, args := []string{}, []any{}
	when := func(wanted bool, condition string, args2 ...any) {
		if wanted {
			where, args = append(where, condition), append(args, args2...)
		}
	}
	when(q.Pipeline != "", `h.name = ?`, q.Pipeline)
	when(q.Pipeline == "", `h.id = ?`, q.Head)
	when(q.Open, `r.ended = ''`)
	when(q.Before != 0, `r.number < ?`, q.Before)
	if q.Numbers != nil {
		numbers, err := list(q.Numbers)
		if err != nil {
			return nil, err
		}
		when(true, `r.number IN (SELECT value FROM json_each(?))`, numbers)
	}
	return rows(t, scanRun, `SELECT h.name, r.number, r.id, r.revision, r.was, r.cause, r.environment, r.repeats, r.created_by, r.environments,
		r.started_at, r.ended_at, r.ended, r.archive FROM promotion_head h CROSS JOIN promotion_run r ON r.pipeline_id = h.id
		WHERE `+strings.Join(where, ` AND `)+` ORDER BY r.number DESC LIMIT ? + 0`, append(args, limit(q.Limit))...)
}

// NeededRuns returns the numbers of the runs that have not ended, of the newest ones by environment and cause, and of those that finished
// last in an environment.
func (t *tx) NeededRuns(head int64, each int) ([]int64, error) {
	return rows(t, scanInt, `SELECT number FROM promotion_run WHERE pipeline_id = ?1 AND ended = ''
		UNION SELECT number FROM (SELECT number, row_number() OVER (PARTITION BY environment, cause ORDER BY number DESC) AS place
			FROM promotion_run WHERE pipeline_id = ?1) WHERE place <= ?2
		UNION SELECT run FROM (SELECT run, row_number() OVER (PARTITION BY environment ORDER BY run DESC) AS place
			FROM promotion_entry INDEXED BY promotion_entry_finish
			WHERE pipeline_id = ?1 AND class = 0 AND event = 'stage-finished-successfully') WHERE place <= ?2`, head, each)
}

// KeptRuns returns the oldest runs that ended before a time and have their entries here.
func (t *tx) KeptRuns(head int64, before time.Time, most int) ([]int64, error) {
	return rows(t, scanInt, `SELECT number FROM promotion_run INDEXED BY promotion_run_kept
		WHERE pipeline_id = ? AND archive = '' AND ended <> '' AND ended_at < ? ORDER BY number LIMIT ? + 0`, head, micros(before), most)
}

// ArchiveRun stores the key of a run's archive and deletes its entries.
func (t *tx) ArchiveRun(head, number int64, key string) error {
	if _, err := t.exec(`UPDATE promotion_run SET archive = ? WHERE pipeline_id = ? AND number = ?`, key, head, number); err != nil {
		return err
	}
	_, err := t.exec(`DELETE FROM promotion_entry WHERE pipeline_id = ? AND run = ?`, head, number)
	return err
}

func scanInt(s scanner) (n int64, err error) {
	err = s.Scan(&n)
	return n, err
}

// promotionEntryTable is the table of entries.
var promotionEntryTable = table{`promotion_entry`, []string{`pipeline_id`, `seq`, `run`, `environment`, `target`, `event`, `class`,
	`created_by`, `detail`, `action_id`, `created_at`}}

// InsertPromotionEntries stores entries.
func (t *tx) InsertPromotionEntries(head int64, entries []promotions.Entry) error {
	all := make([][]any, len(entries))
	for i, e := range entries {
		all[i] = []any{head, e.Seq, e.Run, string(e.Env), promotions.TargetText(e.Target), string(e.Event), int(e.Class), e.By, e.Detail,
			id(e.ActionID), micros(e.At)}
	}
	return t.insert(promotionEntryTable, all)
}

// scanPromotionEntry reads the columns of PromotionEntries.
func scanPromotionEntry(s scanner) (e promotions.Entry, err error) {
	var target string
	err = s.Scan(&e.Seq, &e.Run, &e.Env, &target, &e.Event, &e.Class, &e.By, &e.Detail, ident{&e.ActionID}, moment{&e.At})
	e.Target = promotions.ParseTarget(target)
	return e, err
}

// PromotionEntries reads by query, oldest first.
func (t *tx) PromotionEntries(q promotions.EntryQuery) ([]promotions.Entry, error) {
	query := `SELECT seq, run, environment, target, event, class, created_by, detail, action_id, created_at FROM promotion_entry
		WHERE pipeline_id = ? AND seq > ?`
	args := []any{q.Head, q.After}
	if q.Runs != nil {
		runs, err := list(q.Runs)
		if err != nil {
			return nil, err
		}
		query, args = query+` AND run IN (SELECT value FROM json_each(?))`, append(args, runs)
	}
	if q.FactsOnly {
		query += ` AND class = 0`
	}
	return rows(t, scanPromotionEntry, query+` ORDER BY seq LIMIT ? + 0`, append(args, limit(q.Limit))...)
}

// InsertSighting stores a sighting.
func (t *tx) InsertSighting(head int64, s promotion.Sighting) error {
	_, err := t.exec(`INSERT INTO promotion_sighting (pipeline_id, seq, revision, seen_at) VALUES (?, ?, ?, ?)`,
		head, s.Seq, string(s.Revision), micros(s.At))
	return err
}

// Sightings reads the newest sightings, oldest first.
func (t *tx) Sightings(head int64, newest int) ([]promotion.Sighting, error) {
	return rows(t, func(s scanner) (one promotion.Sighting, err error) {
		err = s.Scan(&one.Seq, &one.Revision, moment{&one.At})
		return one, err
	}, `SELECT seq, revision, seen_at FROM (SELECT seq, revision, seen_at FROM promotion_sighting WHERE pipeline_id = ? ORDER BY seq DESC LIMIT ? + 0)
		ORDER BY seq`, head, newest)
}

// PutPhases stores phases, each over the one before.
func (t *tx) PutPhases(head int64, phases []promotions.Phase) error {
	all := make([][]any, len(phases))
	for i, p := range phases {
		all[i] = []any{head, p.Run, string(p.Env), string(p.Phase), micros(p.Since)}
	}
	return t.each(`INSERT INTO promotion_phase (pipeline_id, run, environment, phase, since) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (pipeline_id, run, environment) DO UPDATE SET phase = excluded.phase, since = excluded.since`, all)
}

// Phases reads the phases of runs.
func (t *tx) Phases(head int64, runs []int64) ([]promotions.Phase, error) {
	wanted, err := list(runs)
	if err != nil {
		return nil, err
	}
	return rows(t, func(s scanner) (p promotions.Phase, err error) {
		err = s.Scan(&p.Run, &p.Env, &p.Phase, moment{&p.Since})
		return p, err
	}, `SELECT run, environment, phase, since FROM promotion_phase WHERE pipeline_id = ? AND run IN (SELECT value FROM json_each(?))
		ORDER BY run, environment`, head, wanted)
}

// InsertIntent stores an intent.
func (t *tx) InsertIntent(head, run int64, i promotion.Intent) error {
	text, err := promotions.Document(i)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO promotion_intent (pipeline_id, seq, run, document) VALUES (?, ?, ?, ?)`, head, i.Seq, run, text)
	return err
}

// Intents reads, oldest first, those of the runs and the newest ones of no run.
func (t *tx) Intents(head int64, runs []int64, newest int) ([]promotion.Intent, error) {
	wanted, err := list(runs)
	if err != nil {
		return nil, err
	}
	return rows(t, func(s scanner) (i promotion.Intent, err error) {
		var text string
		if err = s.Scan(&text); err == nil {
			err = promotions.ReadDocument(text, &i)
		}
		return i, err
	}, `SELECT document FROM (SELECT seq, document FROM (SELECT seq, document FROM promotion_intent WHERE pipeline_id = ?1 AND run = 0 ORDER BY seq DESC LIMIT ?3 + 0)
		UNION ALL SELECT seq, document FROM promotion_intent WHERE pipeline_id = ?1 AND run <> 0 AND run IN (SELECT value FROM json_each(?2))) ORDER BY seq`,
		head, wanted, newest)
}

// PutAttempts stores attempts, each over the one before.
func (t *tx) PutAttempts(head int64, attempts []promotions.Attempt) error {
	all := make([][]any, len(attempts))
	for i, a := range attempts {
		text, err := a.Document()
		if err != nil {
			return err
		}
		all[i] = []any{head, a.Run, string(a.Env), string(a.Op), a.Gate, a.UniqueKey, text}
	}
	return t.each(`INSERT INTO promotion_attempt (pipeline_id, run, environment, op, gate, unique_key, document) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (pipeline_id, run, environment, op, gate) DO UPDATE SET unique_key = excluded.unique_key, document = excluded.document`, all)
}

// scanAttempt reads the columns of Attempts.
func scanAttempt(s scanner) (a promotions.Attempt, err error) {
	var text string
	if err = s.Scan(&a.Run, &a.Env, &a.Op, &a.Gate, &a.UniqueKey, &text); err == nil {
		err = a.ReadDocument(text)
	}
	return a, err
}

// Attempts reads those of runs; nil reads all.
func (t *tx) Attempts(head int64, runs []int64) ([]promotions.Attempt, error) {
	query, args := `SELECT run, environment, op, gate, unique_key, document FROM promotion_attempt WHERE pipeline_id = ?`, []any{head}
	if runs != nil {
		wanted, err := list(runs)
		if err != nil {
			return nil, err
		}
		query, args = query+` AND run IN (SELECT value FROM json_each(?))`, append(args, wanted)
	}
	return rows(t, scanAttempt, query+` ORDER BY run, environment, op, gate`, args...)
}

// PutProposal stores the proposal of an environment.
func (t *tx) PutProposal(head int64, env promotion.EnvName, p promotion.Proposal) error {
	text, err := promotions.Document(p)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO promotion_proposal (pipeline_id, environment, document) VALUES (?, ?, ?)
		ON CONFLICT (pipeline_id, environment) DO UPDATE SET document = excluded.document`, head, string(env), text)
	return err
}

// Proposals reads the proposals of a pipeline.
func (t *tx) Proposals(head int64) (map[promotion.EnvName]promotion.Proposal, error) {
	found := map[promotion.EnvName]promotion.Proposal{}
	_, err := rows(t, func(s scanner) (env promotion.EnvName, err error) {
		var text string
		var p promotion.Proposal
		if err = s.Scan(&env, &text); err == nil {
			err = promotions.ReadDocument(text, &p)
		}
		found[env] = p
		return env, err
	}, `SELECT environment, document FROM promotion_proposal WHERE pipeline_id = ?`, head)
	return found, err
}

// UseNonce stores a nonce and forgets those used before a time.
func (t *tx) UseNonce(key, nonce string, forget time.Time) (bool, error) {
	if _, err := t.exec(`DELETE FROM promotion_nonce WHERE used_at < ?`, micros(forget)); err != nil {
		return false, err
	}
	stored, err := t.exec(`INSERT INTO promotion_nonce (key, nonce, used_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, key, nonce,
		micros(t.now))
	return stored == 1, err
}

// PutCall stores a call, and forgets those before a time.
func (t *tx) PutCall(c promotions.Call, forget time.Time) error {
	if _, err := t.exec(`DELETE FROM promotion_call WHERE called_at < ?`, micros(forget)); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO promotion_call (host, name, number, called_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (host, name, number) DO UPDATE SET called_at = excluded.called_at`, c.Host, c.Name, c.Number, micros(t.now))
	return err
}

// Calls reads the calls that are kept.
func (t *tx) Calls() ([]promotions.Call, error) {
	return rows(t, func(s scanner) (c promotions.Call, err error) {
		err = s.Scan(&c.Host, &c.Name, &c.Number, moment{&c.At})
		return c, err
	}, `SELECT host, name, number, called_at FROM promotion_call ORDER BY host, name, number`)
}

// PutFreeze stores or removes the freeze of a pipeline.
func (t *tx) PutFreeze(pipeline string, f *admission.Freeze) error {
	if f == nil {
		_, err := t.exec(`DELETE FROM promotion_freeze WHERE pipeline = ?`, pipeline)
		return err
	}
	text, err := promotions.Document(f)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO promotion_freeze (pipeline, document) VALUES (?, ?)
		ON CONFLICT (pipeline) DO UPDATE SET document = excluded.document`, pipeline, text)
	return err
}

// Freezes reads those of pipelines; nil reads every one.
func (t *tx) Freezes(pipelines []string) (map[string]admission.Freeze, error) {
	query, args := `SELECT pipeline, document FROM promotion_freeze`, []any{}
	if pipelines != nil {
		wanted, err := list(pipelines)
		if err != nil {
			return nil, err
		}
		query, args = query+` WHERE pipeline IN (SELECT value FROM json_each(?))`, append(args, wanted)
	}
	found := map[string]admission.Freeze{}
	_, err := rows(t, func(s scanner) (name string, err error) {
		var text string
		var f admission.Freeze
		if err = s.Scan(&name, &text); err == nil {
			err = promotions.ReadDocument(text, &f)
		}
		found[name] = f
		return name, err
	}, query, args...)
	return found, err
}
