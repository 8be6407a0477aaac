package postgres

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Rows of package journal: entries, and the roll-ups that repeat facts of entries.
//
// Transactions that append entries have locked the head of their pipeline, so the entries of one
// pipeline have one writer at a time.

// Marked returns, for each step that has an entry, the one with the highest occurrence.
func (t *tx) Marked(pipelineID int64, keys []pipeline.StepKey) ([]pipeline.Entry, error) {
	return query(t, func(row pgx.Row) (e pipeline.Entry, err error) {
		err = row.Scan(&e.Deployment, &e.Target, &e.Event, &e.Occurrence)
		return e, err
	}, `SELECT k.deployment, k.path, k.event, last.occurrence
		FROM unnest($2::bigint[], $3::text[], $4::text[]) AS k (deployment, path, event)
		CROSS JOIN LATERAL (SELECT e.occurrence FROM entry e
			WHERE e.pipeline_id = $1 AND e.deployment = k.deployment AND e.event_name = k.event
				AND e.target_id = (SELECT t.id FROM target t WHERE t.pipeline_id = $1 AND t.path = k.path)
			ORDER BY e.occurrence DESC LIMIT 1) AS last`,
		pipelineID,
		column(keys, func(k pipeline.StepKey) int64 { return k.Deployment }),
		column(keys, func(k pipeline.StepKey) string { return k.Target }),
		column(keys, func(k pipeline.StepKey) string { return k.Event }))
}

// InsertEntries appends rows that are numbered and new. It creates the targets that they are the
// first to name.
func (t *tx) InsertEntries(pipelineID int64, entries []pipeline.Entry) error {
	paths := column(entries, func(e pipeline.Entry) string { return e.Target })
	err := t.do(`INSERT INTO target (pipeline_id, path)
		SELECT $1, path FROM (SELECT DISTINCT path COLLATE "C" AS path FROM unnest($2::text[]) AS p (path)) AS wanted
		WHERE (SELECT t.id FROM target t WHERE t.pipeline_id = $1 AND t.path = wanted.path) IS NULL
		ORDER BY path ON CONFLICT (pipeline_id, path) DO NOTHING`, pipelineID, paths)
	if err != nil {
		return err
	}
	return t.do(`INSERT INTO entry (pipeline_id, seq, deployment, target_id, event_name, occurrence, class, revision,
			definition_version, created_at, detail, digest)
		SELECT $1, n.seq, n.deployment, (SELECT t.id FROM target t WHERE t.pipeline_id = $1 AND t.path = n.path), n.event, n.occurrence,
			n.class, n.revision, n.version, n.at, n.detail::json, n.digest
		FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::smallint[], $8::bigint[], $9::int[],
			$10::timestamptz[], $11::text[], $12::bytea[]) AS n (seq, deployment, path, event, occurrence, class, revision, version, at, detail, digest)`,
		pipelineID,
		column(entries, func(e pipeline.Entry) int64 { return e.Seq }),
		column(entries, func(e pipeline.Entry) int64 { return e.Deployment }),
		paths,
		column(entries, func(e pipeline.Entry) string { return e.Event }),
		column(entries, func(e pipeline.Entry) int32 { return int32(e.Occurrence) }),
		column(entries, func(e pipeline.Entry) int16 { return int16(e.Class) }),
		column(entries, func(e pipeline.Entry) int64 { return e.Revision }),
		column(entries, func(e pipeline.Entry) int32 { return int32(e.Version) }),
		column(entries, func(e pipeline.Entry) pgtype.Timestamptz { return stamp(e.At) }),
		column(entries, func(e pipeline.Entry) pgtype.Text { return document(e.Detail) }),
		digests(entries))
}

// digests returns the column of the digests.
func digests(entries []pipeline.Entry) [][]byte {
	values := make([][]byte, len(entries))
	for i := range entries {
		values[i] = digestOf(&entries[i].Digest)
	}
	return values
}

// Entries reads the log in the order of seq.
func (t *tx) Entries(q journal.EntryQuery) ([]pipeline.Entry, error) {
	var f filter
	f.pipeline("e", q.Pipeline)
	f.when(q.After > 0, "e.seq > ?", q.After)
	f.when(q.UpTo != 0, "e.seq <= ?", q.UpTo)
	f.when(q.Deployment != 0, "e.deployment = ?", q.Deployment)
	f.when(q.Class != 0, "e.class = ?", int16(q.Class))
	if q.Target != "" {
		below := f.argument(q.Target + "/")
		f.and("(t.path = ? OR starts_with(t.path, "+below+"))", q.Target)
	}
	order := " ORDER BY e.seq"
	if q.Newest {
		order += " DESC"
	}
	limited := f.limit(q.Limit)
	columns, scan := entryColumns, readEntry
	if q.Digests {
		columns, scan = entryColumns+", e.digest", readDigested
	}
	entries, err := read(t, scan, "SELECT "+columns+entryJoins+f.where()+order+limited, f.arguments...)
	if q.Newest {
		for i, j := 0, len(entries)-1; i < j; i, j = i+1, j-1 {
			entries[i], entries[j] = entries[j], entries[i]
		}
	}
	return entries, err
}

// ArtifactEntries reads the entries artifact-registered of a revision. They are changes of the pipeline
// itself, so the unique key has them together.
func (t *tx) ArtifactEntries(name string, revision int64) ([]pipeline.Entry, error) {
	return read(t, readEntry, "SELECT "+entryColumns+entryJoins+` WHERE h.name = $1 AND e.pipeline_id = h.id AND e.deployment = 0
		AND e.target_id = (SELECT r.id FROM target r WHERE r.pipeline_id = h.id AND r.path = h.name)
		AND e.event_name = $2 AND e.revision = $3 ORDER BY e.occurrence`, name, pipeline.ArtifactRegistered, revision)
}

// entryColumns are the columns of an entry, in the order of readEntry.
const entryColumns = `h.name, e.seq, e.deployment, t.path, e.event_name, e.occurrence, e.class, e.revision, e.definition_version,
	e.created_at, e.detail::text`

// entryJoins follows entryColumns.
const entryJoins = ` FROM entry e JOIN target t ON t.id = e.target_id JOIN pipeline_head h ON h.id = e.pipeline_id`

// readEntry reads entryColumns.
func readEntry(r *reader) (pipeline.Entry, error) {
	return pipeline.Entry{Pipeline: r.text(), Seq: int64(r.int()), Deployment: int64(r.int()), Target: r.text(), Event: r.text(),
		Occurrence: r.int(), Class: pipeline.Class(r.int()), Revision: int64(r.int()), Version: r.int(), At: r.time(), Detail: r.document()}, nil
}

// readDigested reads entryColumns and the digest after these.
func readDigested(r *reader) (pipeline.Entry, error) {
	e, err := readEntry(r)
	copy(e.Digest[:], r.value())
	return e, err
}

// RollUp writes finishes and failures into their targets; current and highest only grow. Rows of
// one target are merged first, since an UPDATE with two matching rows would take either. Of rows
// of equal rank the last in the call wins.
func (t *tx) RollUp(pipelineID int64, targets []journal.RollUp) error {
	for _, failed := range []bool{false, true} {
		var some []journal.RollUp
		for _, p := range targets {
			if p.Failed == failed {
				some = append(some, p)
			}
		}
		if len(some) == 0 {
			continue
		}
		statement := rollUpFinished
		if failed {
			statement = rollUpFailed
		}
		err := t.do(strings.ReplaceAll(statement, "$targets", `(SELECT path, max(deployment) AS deployment,
				(array_agg(revision ORDER BY deployment DESC, n DESC))[1] AS revision, max(revision) AS highest,
				(array_agg(at ORDER BY deployment DESC, n DESC))[1] AS at
			FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[]) WITH ORDINALITY AS p (path, deployment, revision, at, n)
			GROUP BY path)`),
			pipelineID,
			column(some, func(p journal.RollUp) string { return p.Target }),
			column(some, func(p journal.RollUp) int64 { return p.Deployment }),
			column(some, func(p journal.RollUp) int64 { return p.Revision }),
			column(some, func(p journal.RollUp) pgtype.Timestamptz { return stamp(p.At) }))
		if err != nil {
			return err
		}
	}
	return nil
}

// rollUpFinished writes finishes; $targets is the merged rows. Each row finds its target's id by the key
// first: joined by path the planner would search all targets of the pipeline for each row.
const rollUpFinished = `UPDATE target t SET
		current = greatest(t.current, p.deployment), highest = greatest(t.highest, p.highest),
		revision = CASE WHEN p.deployment >= t.current THEN p.revision ELSE t.revision END,
		finished_at = CASE WHEN p.deployment >= t.current THEN p.at ELSE t.finished_at END
	FROM $targets AS p WHERE t.id = (SELECT x.id FROM target x WHERE x.pipeline_id = $1 AND x.path = p.path)`

// rollUpFailed writes failures; $targets is the merged rows.
const rollUpFailed = `UPDATE target t SET failed = p.deployment, failed_at = p.at
	FROM $targets AS p WHERE t.id = (SELECT x.id FROM target x WHERE x.pipeline_id = $1 AND x.path = p.path)`

// PutStageRun writes the end and the outcome of a deployment's run through a stage. The times of its
// start and of its first failure are kept, and that it has started a host.
func (t *tx) PutStageRun(pipelineID int64, r journal.StageRun) error {
	return t.do(`INSERT INTO stage_run (pipeline_id, deployment, stage, revision, started_at, ended_at, outcome, failed_at, changed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (pipeline_id, deployment, stage) DO UPDATE SET ended_at = excluded.ended_at, outcome = excluded.outcome,
			failed_at = coalesce(stage_run.failed_at, excluded.failed_at), changed = stage_run.changed OR excluded.changed`,
		pipelineID, r.Deployment, r.Stage, r.Revision, r.StartedAt, stamp(r.EndedAt), r.Outcome, stamp(r.FailedAt), r.Changed)
}

// stageRunColumns are the columns of a stage's run, in the order of stageRunFields.
const stageRunColumns = `s.deployment, s.stage, s.revision, s.started_at, s.ended_at, s.outcome, s.failed_at, s.changed`

// stageRunFields returns where a stage's run is scanned to.
func stageRunFields(r *journal.StageRun) []any {
	return []any{&r.Deployment, &r.Stage, &r.Revision, timeOf{&r.StartedAt}, timeOf{&r.EndedAt}, &r.Outcome, timeOf{&r.FailedAt}, &r.Changed}
}

// StageRuns lists a deployment's runs through its stages, in the order of their starts.
func (t *tx) StageRuns(name string, deployment int64) ([]journal.StageRun, error) {
	return query(t, func(row pgx.Row) (r journal.StageRun, err error) {
		err = row.Scan(stageRunFields(&r)...)
		return r, err
	}, `SELECT `+stageRunColumns+`
		FROM stage_run s JOIN pipeline_head h ON h.id = s.pipeline_id
		WHERE h.name = $1 AND s.deployment = $2 ORDER BY s.started_at, s.stage`, name, deployment)
}

// EndedRuns lists the runs that ended at a time or later, by their ends.
func (t *tx) EndedRuns(name, stage string, since time.Time) ([]journal.EndedRun, error) {
	var f filter
	f.pipeline("s", name)
	f.and("s.ended_at >= ?", since)
	f.when(stage != "", "s.stage = ?", stage)
	return query(t, func(row pgx.Row) (r journal.EndedRun, err error) {
		err = row.Scan(append(stageRunFields(&r.StageRun), timeOf{&r.CommittedAt})...)
		return r, err
	}, `SELECT `+stageRunColumns+`, r.committed_at
		FROM stage_run s JOIN revision r ON r.pipeline_id = s.pipeline_id AND r.seq = s.revision`+
		f.where()+` ORDER BY s.ended_at, s.deployment, s.stage`, f.arguments...)
}

// NewestFinished reads the newest revision that finished each stage before a time.
func (t *tx) NewestFinished(name string, before time.Time) (map[string]int64, error) {
	newest := map[string]int64{}
	_, err := query(t, func(row pgx.Row) (stage string, err error) {
		var revision int64
		err = row.Scan(&stage, &revision)
		newest[stage] = revision
		return stage, err
	}, `SELECT s.stage, max(s.revision)
		FROM stage_run s JOIN pipeline_head h ON h.id = s.pipeline_id
		WHERE h.name = $1 AND s.ended_at < $2 AND s.outcome = 'finished' GROUP BY s.stage`, name, before)
	return newest, err
}

// PutResources writes what runs where. Under the lock of the head entries come in their order, and no
// deployment starts a resource that one of a higher rank has started. Rows are taken in the order of
// their key, since two pipelines may write the same one after the other.
func (t *tx) PutResources(pipelineID int64, resources []journal.Resource) error {
	return t.do(`INSERT INTO resource (address, service, pipeline_id, target, deployment, revision, finished, at)
		SELECT r.address, r.service, $1, r.target, r.deployment, r.revision, r.finished, r.at
		FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[])
			AS r (address, service, target, deployment, revision, finished, at)
		ORDER BY r.address COLLATE "C", r.service COLLATE "C"
		ON CONFLICT (address, service) DO UPDATE SET pipeline_id = excluded.pipeline_id, target = excluded.target,
			deployment = excluded.deployment, revision = excluded.revision, at = excluded.at,
			finished = CASE WHEN excluded.pipeline_id = resource.pipeline_id AND excluded.finished = 0 THEN resource.finished ELSE excluded.finished END`,
		pipelineID,
		column(resources, func(r journal.Resource) string { return r.Address }),
		column(resources, func(r journal.Resource) string { return r.Service }),
		column(resources, func(r journal.Resource) string { return r.Target }),
		column(resources, func(r journal.Resource) int64 { return r.Deployment }),
		column(resources, func(r journal.Resource) int64 { return r.Revision }),
		column(resources, func(r journal.Resource) int64 { return r.Finished }),
		column(resources, func(r journal.Resource) pgtype.Timestamptz { return stamp(r.At) }))
}

// Resources lists what runs where, in the order of addresses and services.
func (t *tx) Resources(q journal.ResourceQuery) ([]journal.Resource, error) {
	var f filter
	f.when(q.Pipeline != "", "h.name = ?", q.Pipeline)
	f.when(q.Address != "", "r.address = ?", q.Address)
	if q.After != (pipeline.Resource{}) {
		f.and("(r.address, r.service) > ("+f.argument(q.After.Address)+", ?)", q.After.Service)
	}
	limited := f.limit(q.Limit)
	return query(t, func(row pgx.Row) (r journal.Resource, err error) {
		err = row.Scan(&r.Address, &r.Service, &r.Pipeline, &r.Target, &r.Deployment, &r.Revision, &r.Finished, timeOf{&r.At})
		return r, err
	}, `SELECT r.address, r.service, h.name, r.target, r.deployment, r.revision, r.finished, r.at
		FROM resource r JOIN pipeline_head h ON h.id = r.pipeline_id`+f.where()+" ORDER BY r.address, r.service"+limited, f.arguments...)
}

// InsertIntroduction stores a step that an edit added to a stage.
func (t *tx) InsertIntroduction(pipelineID int64, i journal.Introduction) error {
	return t.do(`INSERT INTO step_introduction (pipeline_id, stage, event_name, revision_after, version, strict)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, pipelineID, i.Stage, i.Event, i.RevisionAfter, i.Version, i.Strict)
}

// Introductions lists the steps that edits added to stages, oldest first.
func (t *tx) Introductions(name string) ([]journal.Introduction, error) {
	return query(t, func(row pgx.Row) (i journal.Introduction, err error) {
		err = row.Scan(&i.Stage, &i.Event, &i.RevisionAfter, &i.Version, &i.Strict)
		return i, err
	}, `SELECT i.stage, i.event_name, i.revision_after, i.version, i.strict
		FROM step_introduction i JOIN pipeline_head h ON h.id = i.pipeline_id
		WHERE h.name = $1 ORDER BY i.version, i.stage, i.event_name`, name)
}

// Standings reads the roll-ups of targets. Each is one search by its key.
func (t *tx) Standings(name string, targets []string) ([]journal.Standing, error) {
	var f filter
	f.pipeline("t", name)
	f.and("t.path = ANY (?::text[])", targets)
	return query(t, func(row pgx.Row) (s journal.Standing, err error) {
		err = row.Scan(&s.Target, &s.Current, &s.Revision, &s.Highest, timeOf{&s.At}, &s.Failed, timeOf{&s.FailedAt})
		return s, err
	}, `SELECT t.path, t.current, t.revision, t.highest, t.finished_at, t.failed, t.failed_at
		FROM target t`+f.where(), f.arguments...)
}

// History reads the history of a target in the newest deployments that started there below a position. A target has
// starts of one name only, so entry_mark is walked from its end. Statistics have the starts of a stage seldom, so the
// planner would fetch all starts with a bitmap and sort them.
func (t *tx) History(name, target string, below int64, limit int) ([]pipeline.Entry, error) {
	var f filter
	f.and("b.target_id = (SELECT id FROM target WHERE pipeline_id = (SELECT id FROM pipeline_head WHERE name = "+
		f.argument(name)+") AND path = ?)", target)
	f.and("b.event_name = ?", startOf(target))
	f.when(below > 0, "b.seq < ?", below)
	limited := f.limit(limit)
	t.keep("SET LOCAL enable_bitmapscan = off")
	return read(t, readEntry, "SELECT "+entryColumns+entryJoins+`
		JOIN (SELECT b.pipeline_id, b.deployment, b.target_id, b.seq FROM entry b`+f.where()+" ORDER BY b.seq DESC"+limited+`) s
			ON s.pipeline_id = e.pipeline_id AND s.deployment = e.deployment AND s.target_id = e.target_id
		WHERE e.event_name <> 'step-reported' ORDER BY s.seq DESC, e.seq`, f.arguments...)
}

// startOf returns the event with which a deployment starts at a target, by the depth of its path.
func startOf(target string) string {
	starts := []string{pipeline.PipelineStarted, pipeline.StageStarted, pipeline.GroupStarted, pipeline.HostStarted}
	return starts[min(strings.Count(target, "/"), len(starts)-1)]
}
