package sqlite

import (
	"database/sql"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Rows of package journal: entries, and the roll-ups that repeat facts of entries.
//
// Joins are written CROSS JOIN where their order matters. SQLite does not reorder those, so the
// plan depends on the statement and not on the statistics of the file.

// Marked returns, for each step that has an entry, the one with the highest occurrence.
func (t *tx) Marked(pipelineID int64, keys []pipeline.StepKey) ([]pipeline.Entry, error) {
	scan := func(s scanner) (e pipeline.Entry, err error) {
		err = s.Scan(&e.Deployment, &e.Target, &e.Event, &e.Seq, &e.Occurrence, &e.Class)
		return e, err
	}
	triples := make([][3]any, len(keys))
	for i, k := range keys {
		triples[i] = [3]any{k.Deployment, k.Target, k.Event}
	}
	wanted, err := list(triples)
	if err != nil {
		return nil, err
	}
	return rows(t, scan, `SELECT e.deployment, t.path, e.event_name, e.seq, max(e.occurrence), e.class
		FROM json_each(?2) k
		CROSS JOIN target t ON t.pipeline_id = ?1 AND t.path = k.value ->> 1
		CROSS JOIN entry e INDEXED BY entry_once ON e.pipeline_id = ?1 AND e.deployment = k.value ->> 0 AND e.target_id = t.id AND e.event_name = k.value ->> 2
		GROUP BY k.key`, pipelineID, wanted)
}

// InsertEntries appends rows that are numbered and new. It creates the targets that they are the
// first to name.
func (t *tx) InsertEntries(pipelineID int64, entries []pipeline.Entry) error {
	targets, err := t.targets(pipelineID, entries)
	if err != nil {
		return err
	}
	values := make([][]any, len(entries))
	for i, e := range entries {
		values[i] = []any{pipelineID, e.Seq, e.Deployment, targets[e.Target], e.Event, e.Occurrence, e.Class,
			e.Revision, e.Version, micros(e.At), document(e.Detail), digestOf(&entries[i].Digest)}
	}
	return t.insert(table{name: "entry", columns: []string{"pipeline_id", "seq", "deployment", "target_id", "event_name",
		"occurrence", "class", "revision", "definition_version", "created_at", "detail", "digest"}}, values)
}

// targets returns the ids of the entries' targets by path, and creates those that are new.
func (t *tx) targets(pipelineID int64, entries []pipeline.Entry) (map[string]int64, error) {
	ids := map[string]int64{}
	for _, e := range entries {
		ids[e.Target] = 0
	}
	if err := t.findTargets(pipelineID, ids); err != nil {
		return nil, err
	}
	var missing [][]any // in the order of their first entries: what is near in time is near in the indexes by id
	for _, e := range entries {
		if ids[e.Target] == 0 {
			ids[e.Target] = -1
			missing = append(missing, []any{pipelineID, e.Target})
		}
	}
	if len(missing) == 0 {
		return ids, nil
	}
	if err := t.insert(table{name: "target", columns: []string{"pipeline_id", "path"}}, missing); err != nil {
		return nil, err
	}
	return ids, t.findTargets(pipelineID, ids)
}

// findTargets fills in the ids of targets that exist, by path.
func (t *tx) findTargets(pipelineID int64, ids map[string]int64) error {
	type target struct {
		id   int64
		path string
	}
	paths, err := list(slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	found, err := rows(t, func(s scanner) (one target, err error) {
		err = s.Scan(&one.id, &one.path)
		return one, err
	}, `SELECT t.id, t.path FROM json_each(?2) p CROSS JOIN target t ON t.pipeline_id = ?1 AND t.path = p.value`, pipelineID, paths)
	for _, f := range found {
		ids[f.path] = f.id
	}
	return err
}

// Entries reads the log of a pipeline in the order of seq. Each kind of query has its own
// statement, so that each has an index.
func (t *tx) Entries(q journal.EntryQuery) ([]pipeline.Entry, error) {
	query := ` FROM pipeline_head h `
	switch {
	case q.Target != "" && q.Deployment == 0:
		// entries of each target and each deployment, found by the unique key; deployment 0 has the changes
		query += `CROSS JOIN target t ON t.pipeline_id = h.id AND ` + below + `
			CROSS JOIN (SELECT 0 AS number UNION ALL
				SELECT number FROM deployment WHERE pipeline_id = (SELECT id FROM pipeline_head WHERE name = ?1)) d
			CROSS JOIN entry e INDEXED BY entry_once
				ON e.pipeline_id = h.id AND e.deployment = d.number AND e.target_id = t.id`
	case q.Deployment != 0:
		query += `CROSS JOIN entry e INDEXED BY entry_once ON e.pipeline_id = h.id AND e.deployment = ?3
			CROSS JOIN target t ON t.id = e.target_id`
	default: // walk finds the targets
		query += `CROSS JOIN entry e ON e.pipeline_id = h.id`
	}
	query += ` WHERE h.name = ?1 AND e.seq > ?4`
	if q.Target != "" && q.Deployment != 0 {
		query += ` AND ` + below
	}
	if q.Class != 0 {
		query += ` AND e.class = ?5`
	}
	if q.UpTo != 0 {
		query += ` AND e.seq <= ?6`
	}
	query += ` ORDER BY e.seq`
	if q.Newest {
		query += ` DESC`
	}
	query += ` LIMIT ?7`
	args := []any{q.Pipeline, q.Target, q.Deployment, q.After, q.Class, q.UpTo, limit(q.Limit)}
	var entries []pipeline.Entry
	var err error
	if q.Target == "" && q.Deployment == 0 {
		entries, err = t.walk(q, query, args)
	} else {
		columns := entryColumns
		if q.Digests {
			columns += digestColumn
		}
		entries, err = rows(t, scanEntry(q.Pipeline, q.Digests), `SELECT `+columns+query, args...)
	}
	if q.Newest {
		slices.Reverse(entries)
	}
	return entries, err
}

// ArtifactEntries reads the entries artifact-registered of a revision. They are changes of the pipeline
// itself, so the unique key has them together.
func (t *tx) ArtifactEntries(name string, revision int64) ([]pipeline.Entry, error) {
	return rows(t, scanEntry(name, false), `SELECT `+entryColumns+` FROM pipeline_head h
		CROSS JOIN target t ON t.pipeline_id = h.id AND t.path = h.name
		CROSS JOIN entry e INDEXED BY entry_once
			ON e.pipeline_id = h.id AND e.deployment = 0 AND e.target_id = t.id AND e.event_name = ?2
		WHERE h.name = ?1 AND e.revision = ?3 ORDER BY e.occurrence`, name, pipeline.ArtifactRegistered, revision)
}

// below is the condition that a target is ?2 or is below it. It is one range of paths, since '0'
// follows '/'.
const below = `t.path >= ?2 AND t.path < ?2 || '0' AND (t.path = ?2 OR t.path > ?2 || '/')`

// entryColumns are the columns of an entry, in the order of scanEntry.
const entryColumns = `e.seq, e.deployment, t.path, e.event_name, e.occurrence, e.class, e.revision, e.definition_version, e.created_at, e.detail`

// digestColumn follows entryColumns or walkColumns where digests are requested.
const digestColumn = `, e.digest`

// scanEntry returns a function that reads entries of one pipeline, with digests also digestColumn.
func scanEntry(name string, digests bool) func(scanner) (pipeline.Entry, error) {
	return func(s scanner) (pipeline.Entry, error) {
		e := pipeline.Entry{Pipeline: name}
		var detail sql.NullString
		to := []any{&e.Seq, &e.Deployment, &e.Target, &e.Event, &e.Occurrence, &e.Class, &e.Revision, &e.Version, moment{&e.At}, &detail}
		if digests {
			to = append(to, digest{&e.Digest})
		}
		err := s.Scan(to...)
		if detail.Valid {
			e.Detail = json.RawMessage(detail.String)
		}
		return e, err
	}
}

// RollUp writes finishes and failures into their targets, in the order of the call. current and highest
// only grow. Each row is one search by its key: of one statement for all rows the planner would make a
// search of all targets for each row.
func (t *tx) RollUp(pipelineID int64, targets []journal.RollUp) error {
	var finished, failed [][]any
	for _, p := range targets {
		if p.Failed {
			failed = append(failed, []any{pipelineID, p.Target, p.Deployment, micros(p.At)})
		} else {
			finished = append(finished, []any{pipelineID, p.Target, p.Deployment, micros(p.At), p.Revision})
		}
	}
	if err := t.each(`UPDATE target SET failed = ?3, failed_at = ?4 WHERE pipeline_id = ?1 AND path = ?2`, failed); err != nil {
		return err
	}
	return t.each(`UPDATE target SET highest = max(highest, ?5), current = max(current, ?3),
		revision = iif(?3 >= current, ?5, revision), finished_at = iif(?3 >= current, ?4, finished_at)
		WHERE pipeline_id = ?1 AND path = ?2`, finished)
}

// PutStageRun writes the end and the outcome of a deployment's run through a stage. The times of its
// start and of its first failure are kept, and that it has started a host.
func (t *tx) PutStageRun(pipelineID int64, r journal.StageRun) error {
	_, err := t.exec(`INSERT INTO stage_run (pipeline_id, deployment, stage, revision, started_at, ended_at, outcome, failed_at, changed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET ended_at = excluded.ended_at, outcome = excluded.outcome,
			failed_at = coalesce(failed_at, excluded.failed_at), changed = max(changed, excluded.changed)`,
		pipelineID, r.Deployment, r.Stage, r.Revision, micros(r.StartedAt), micros(r.EndedAt), r.Outcome, micros(r.FailedAt), r.Changed)
	return err
}

// stageRunColumns are the columns of a stage's run, in the order of stageRunFields.
const stageRunColumns = `s.deployment, s.stage, s.revision, s.started_at, s.ended_at, s.outcome, s.failed_at, s.changed`

// stageRunFields returns where a stage's run is scanned to.
func stageRunFields(r *journal.StageRun) []any {
	return []any{&r.Deployment, &r.Stage, &r.Revision, moment{&r.StartedAt}, moment{&r.EndedAt}, &r.Outcome, moment{&r.FailedAt}, &r.Changed}
}

// StageRuns lists a deployment's runs through its stages, in the order of their starts.
func (t *tx) StageRuns(name string, deployment int64) ([]journal.StageRun, error) {
	scan := func(s scanner) (r journal.StageRun, err error) {
		err = s.Scan(stageRunFields(&r)...)
		return r, err
	}
	return rows(t, scan, `SELECT `+stageRunColumns+`
		FROM pipeline_head h CROSS JOIN stage_run s ON s.pipeline_id = h.id AND s.deployment = ?2
		WHERE h.name = ?1 ORDER BY s.started_at, s.stage`, name, deployment)
}

// EndedRuns lists the runs that ended at a time or later, by their ends.
func (t *tx) EndedRuns(name, stage string, since time.Time) ([]journal.EndedRun, error) {
	scan := func(s scanner) (r journal.EndedRun, err error) {
		err = s.Scan(append(stageRunFields(&r.StageRun), moment{&r.CommittedAt})...)
		return r, err
	}
	query := `SELECT ` + stageRunColumns + `, r.committed_at
		FROM pipeline_head h
		CROSS JOIN stage_run s INDEXED BY stage_run_ended ON s.pipeline_id = h.id AND s.ended_at >= ?3
		CROSS JOIN revision r ON r.pipeline_id = h.id AND r.seq = s.revision
		WHERE h.name = ?1`
	if stage != "" {
		query += ` AND s.stage = ?2`
	}
	return rows(t, scan, query+` ORDER BY s.ended_at, s.deployment, s.stage`, name, stage, since.UnixMicro())
}

// NewestFinished reads the newest revision that finished each stage before a time.
func (t *tx) NewestFinished(name string, before time.Time) (map[string]int64, error) {
	newest := map[string]int64{}
	_, err := rows(t, func(s scanner) (stage string, err error) {
		var revision int64
		err = s.Scan(&stage, &revision)
		newest[stage] = revision
		return stage, err
	}, `SELECT s.stage, max(s.revision)
		FROM pipeline_head h
		CROSS JOIN stage_run s INDEXED BY stage_run_ended ON s.pipeline_id = h.id AND s.ended_at < ?2
		WHERE h.name = ?1 AND s.outcome = 'finished' GROUP BY s.stage`, name, before.UnixMicro())
	return newest, err
}

// PutResources writes what runs where. Under the lock of the head entries come in their order, and no
// deployment starts a resource that one of a higher rank has started. A row that the pipeline has
// already is changed without its pipeline, which would move its entry in an index.
func (t *tx) PutResources(pipelineID int64, resources []journal.Resource) error {
	for _, r := range resources {
		n, err := t.exec(`UPDATE resource SET target = ?, deployment = ?, revision = ?, at = ?, finished = iif(?, ?, finished)
			WHERE address = ? AND service = ? AND pipeline_id = ?`,
			r.Target, r.Deployment, r.Revision, micros(r.At), r.Finished != 0, r.Finished, r.Address, r.Service, pipelineID)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		_, err = t.exec(`INSERT INTO resource (address, service, pipeline_id, target, deployment, revision, finished, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET pipeline_id = excluded.pipeline_id, target = excluded.target, deployment = excluded.deployment,
				revision = excluded.revision, at = excluded.at, finished = excluded.finished`,
			r.Address, r.Service, pipelineID, r.Target, r.Deployment, r.Revision, r.Finished, micros(r.At))
		if err != nil {
			return err
		}
	}
	return nil
}

// Resources lists what runs where, in the order of addresses and services.
func (t *tx) Resources(q journal.ResourceQuery) ([]journal.Resource, error) {
	scan := func(s scanner) (r journal.Resource, err error) {
		err = s.Scan(&r.Address, &r.Service, &r.Pipeline, &r.Target, &r.Deployment, &r.Revision, &r.Finished, moment{&r.At})
		return r, err
	}
	from := `resource r CROSS JOIN pipeline_head h` // in the order of the primary key, so that LIMIT ends the walk
	if q.Pipeline != "" {
		from = `pipeline_head h CROSS JOIN resource r`
	}
	query := `SELECT r.address, r.service, h.name, r.target, r.deployment, r.revision, r.finished, r.at
		FROM ` + from + ` ON r.pipeline_id = h.id WHERE (r.address, r.service) > (?3, ?4)`
	if q.Pipeline != "" {
		query += ` AND h.name = ?1`
	}
	if q.Address != "" {
		query += ` AND r.address = ?2`
	}
	return rows(t, scan, query+` ORDER BY r.address, r.service LIMIT ?5`, q.Pipeline, q.Address, q.After.Address,
		q.After.Service, limit(q.Limit))
}

// InsertIntroduction stores a step that an edit added to a stage.
func (t *tx) InsertIntroduction(pipelineID int64, i journal.Introduction) error {
	_, err := t.exec(`INSERT INTO step_introduction (pipeline_id, stage, event_name, version, revision_after, strict) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, pipelineID, i.Stage, i.Event, i.Version, i.RevisionAfter, i.Strict)
	return err
}

// Introductions lists the steps that edits added to stages, oldest first.
func (t *tx) Introductions(name string) ([]journal.Introduction, error) {
	scan := func(s scanner) (i journal.Introduction, err error) {
		err = s.Scan(&i.Stage, &i.Event, &i.RevisionAfter, &i.Version, &i.Strict)
		return i, err
	}
	return rows(t, scan, `SELECT i.stage, i.event_name, i.revision_after, i.version, i.strict
		FROM pipeline_head h CROSS JOIN step_introduction i ON i.pipeline_id = h.id
		WHERE h.name = ? ORDER BY i.version, i.stage, i.event_name`, name)
}

// Standings reads the roll-ups of targets. Each is one search by its key.
func (t *tx) Standings(name string, targets []string) ([]journal.Standing, error) {
	scan := func(s scanner) (st journal.Standing, err error) {
		err = s.Scan(&st.Target, &st.Current, &st.Revision, &st.Highest, moment{&st.At}, &st.Failed, moment{&st.FailedAt})
		return st, err
	}
	paths, err := list(targets)
	if err != nil {
		return nil, err
	}
	return rows(t, scan, `SELECT t.path, t.current, t.revision, t.highest, t.finished_at, t.failed, t.failed_at
		FROM pipeline_head h CROSS JOIN json_each(?2) p CROSS JOIN target t ON t.pipeline_id = h.id AND t.path = p.value
		WHERE h.name = ?1`, name, paths)
}

// startEvents is the condition of the partial index entry_start, word for word. SQLite uses a
// partial index only where it recognizes the condition.
const startEvents = `event_name IN (
  'pipeline-started', 'stage-started', 'host-group-started', 'host-started')`

// History reads what happened at a target in the newest deployments that started there below a
// position.
func (t *tx) History(name, target string, below int64, n int) ([]pipeline.Entry, error) {
	if below <= 0 {
		below = math.MaxInt64
	}
	return rows(t, scanEntry(name, false), `SELECT `+entryColumns+`
		FROM (SELECT pipeline_id, deployment, target_id, seq FROM entry INDEXED BY entry_start
			WHERE target_id = (SELECT t.id FROM pipeline_head h CROSS JOIN target t ON t.pipeline_id = h.id AND t.path = ?2 WHERE h.name = ?1)
				AND `+startEvents+` AND seq < ?3
			ORDER BY seq DESC LIMIT ?4) s
		CROSS JOIN entry e INDEXED BY entry_once
			ON e.pipeline_id = s.pipeline_id AND e.deployment = s.deployment AND e.target_id = s.target_id
		CROSS JOIN target t ON t.id = e.target_id
		WHERE e.event_name <> 'step-reported'
		ORDER BY s.seq DESC, e.seq`, name, target, below, limit(n))
}
