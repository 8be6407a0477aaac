package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
)

func (t *tx) CreateHead(pipeline string) error {
	_, err := t.exec(`INSERT INTO pipeline_head (pipeline) VALUES (?) ON CONFLICT DO NOTHING`, pipeline)
	return err
}

const headColumns = `id, pipeline, version, seq, newest, deployed, owner, epoch`

func scanHead(s scanner) (h ledger.HeadRow, err error) {
	err = s.Scan(&h.ID, &h.Pipeline, &h.Version, &h.Seq, &h.Newest, &h.Deployed, ident{&h.Owner}, &h.Epoch)
	return h, err
}

// LockHeads reads: the transaction is the only one that writes.
func (t *tx) LockHeads(pipelines []string) ([]ledger.HeadRow, error) {
	heads, err := t.Heads(pipelines)
	slices.SortFunc(heads, func(a, b ledger.HeadRow) int { return int(a.ID - b.ID) })
	return heads, err
}

func (t *tx) Heads(pipelines []string) ([]ledger.HeadRow, error) {
	if pipelines == nil {
		return rows(t, scanHead, `SELECT `+headColumns+` FROM pipeline_head ORDER BY pipeline`)
	}
	var heads []ledger.HeadRow
	for _, p := range pipelines {
		h, ok, err := row(t, scanHead, `SELECT `+headColumns+` FROM pipeline_head WHERE pipeline = ?`, p)
		if err != nil {
			return nil, err
		}
		if ok {
			heads = append(heads, h)
		}
	}
	return heads, nil
}

func (t *tx) UpdateHead(h ledger.HeadRow) error {
	_, err := t.exec(`UPDATE pipeline_head SET version = ?, seq = ?, newest = ?, deployed = ?, owner = ?, epoch = ? WHERE id = ?`,
		h.Version, h.Seq, h.Newest, h.Deployed, id(h.Owner), h.Epoch, h.ID)
	return err
}

func (t *tx) InsertVersion(pipeline int64, v ledger.Version) error {
	definition, err := json.Marshal(v.Definition)
	if err != nil {
		return fmt.Errorf("write definition %d of %s: %w", v.Version, v.Pipeline, err)
	}
	_, err = t.exec(`INSERT INTO pipeline_version (pipeline_id, version, definition, source, created_by, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
		pipeline, v.Version, string(definition), v.Source, v.By, micros(v.At))
	return err
}

func scanVersion(s scanner) (v ledger.Version, err error) {
	var definition string
	if err := s.Scan(&v.Pipeline, &v.Version, &definition, &v.Source, &v.By, moment{&v.At}); err != nil {
		return v, err
	}
	if err := json.Unmarshal([]byte(definition), &v.Definition); err != nil {
		return v, fmt.Errorf("read definition %d of %s: %w", v.Version, v.Pipeline, err)
	}
	return v, nil
}

func (t *tx) Versions(pipeline string, version int) ([]ledger.Version, error) {
	query := `SELECT h.pipeline, v.version, v.definition, v.source, v.created_by, v.created_at
		FROM pipeline_head h JOIN pipeline_version v ON v.pipeline_id = h.id WHERE h.pipeline = ?`
	if version != 0 {
		return rows(t, scanVersion, query+` AND v.version = ?`, pipeline, version)
	}
	return rows(t, scanVersion, query+` ORDER BY v.version`, pipeline)
}

func (t *tx) Marked(pipeline int64, keys []schedule.StepKey) ([]schedule.Entry, error) {
	scan := func(s scanner) (e schedule.Entry, err error) {
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
	return rows(t, scan, `SELECT e.deployment, t.path, e.event, e.seq, max(e.occurrence), e.class
		FROM json_each(?2) k
		CROSS JOIN target t ON t.pipeline_id = ?1 AND t.path = k.value ->> 1
		CROSS JOIN entry e INDEXED BY entry_step ON e.pipeline_id = ?1 AND e.deployment = k.value ->> 0 AND e.target_id = t.id AND e.event = k.value ->> 2
		GROUP BY k.key`, pipeline, wanted)
}

func (t *tx) InsertEntries(pipeline int64, entries []schedule.Entry) error {
	targets, err := t.targets(pipeline, entries)
	if err != nil {
		return err
	}
	values := make([][]any, len(entries))
	for i, e := range entries {
		values[i] = []any{pipeline, e.Seq, e.Deployment, targets[e.Target], e.Event, e.Occurrence, e.Class,
			e.Revision, e.Version, micros(e.At), document(e.Detail)}
	}
	return t.insert(table{name: "entry", columns: []string{"pipeline_id", "seq", "deployment", "target_id", "event",
		"occurrence", "class", "revision", "version", "created_at", "detail"}}, values)
}

// targets finds the ids of entries' targets and makes those that are new.
func (t *tx) targets(pipeline int64, entries []schedule.Entry) (map[string]int64, error) {
	ids := map[string]int64{}
	for _, e := range entries {
		ids[e.Target] = 0
	}
	paths, err := list(slices.Collect(maps.Keys(ids)))
	if err != nil {
		return nil, err
	}
	_, err = t.exec(`INSERT INTO target (pipeline_id, path) SELECT ?1, value FROM json_each(?2) WHERE true ON CONFLICT DO NOTHING`, pipeline, paths)
	if err != nil {
		return nil, err
	}
	type target struct {
		id   int64
		path string
	}
	scan := func(s scanner) (one target, err error) {
		err = s.Scan(&one.id, &one.path)
		return one, err
	}
	found, err := rows(t, scan, `SELECT t.id, t.path FROM json_each(?2) p CROSS JOIN target t ON t.pipeline_id = ?1 AND t.path = p.value`, pipeline, paths)
	for _, f := range found {
		ids[f.path] = f.id
	}
	return ids, err
}

const entryColumns = `e.seq, e.deployment, t.path, e.event, e.occurrence, e.class, e.revision, e.version, e.created_at, e.detail`

// scanEntry reads rows of one pipeline.
func scanEntry(pipeline string) func(scanner) (schedule.Entry, error) {
	return func(s scanner) (schedule.Entry, error) {
		e := schedule.Entry{Pipeline: pipeline}
		var detail sql.NullString
		err := s.Scan(&e.Seq, &e.Deployment, &e.Target, &e.Event, &e.Occurrence, &e.Class, &e.Revision, &e.Version, moment{&e.At}, &detail)
		if detail.Valid {
			e.Detail = json.RawMessage(detail.String)
		}
		return e, err
	}
}

// below is a target ?2 with everything below it: one range of paths, since '0' follows '/'.
const below = `t.path >= ?2 AND t.path < ?2 || '0' AND (t.path = ?2 OR t.path > ?2 || '/')`

func (t *tx) Entries(q ledger.EntryQuery) ([]schedule.Entry, error) {
	query := `SELECT ` + entryColumns + ` FROM pipeline_head h `
	switch {
	case q.Target != "" && q.Deployment == 0:
		// every deployment's entries of each target, by the unique key; 0 are the changes
		query += `CROSS JOIN target t ON t.pipeline_id = h.id AND ` + below + `
			CROSS JOIN (SELECT 0 AS number UNION ALL
				SELECT number FROM deployment WHERE pipeline_id = (SELECT id FROM pipeline_head WHERE pipeline = ?1)) d
			CROSS JOIN entry e INDEXED BY entry_step
				ON e.pipeline_id = h.id AND e.deployment = d.number AND e.target_id = t.id`
	case q.Deployment != 0:
		query += `CROSS JOIN entry e INDEXED BY entry_step ON e.pipeline_id = h.id AND e.deployment = ?3
			CROSS JOIN target t ON t.id = e.target_id`
	default:
		query += `CROSS JOIN entry e ON e.pipeline_id = h.id CROSS JOIN target t ON t.id = e.target_id`
	}
	query += ` WHERE h.pipeline = ?1 AND e.seq > ?4`
	if q.Target != "" && q.Deployment != 0 {
		query += ` AND ` + below
	}
	if q.Class != 0 {
		query += ` AND e.class = ?5`
	}
	query += ` ORDER BY e.seq`
	if q.Newest {
		query += ` DESC`
	}
	query += ` LIMIT ?6`
	entries, err := rows(t, scanEntry(q.Pipeline), query, q.Pipeline, q.Target, q.Deployment, q.After, q.Class, limit(q.Limit))
	if q.Newest {
		slices.Reverse(entries)
	}
	return entries, err
}

// limit is a LIMIT; 0 means all.
func limit(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}

func (t *tx) InsertRevision(pipeline int64, r ledger.Revision) error {
	_, err := t.exec(`INSERT INTO revision (pipeline_id, seq, label, commit_id, subject, committed_at, snapshot, state, created_by, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		pipeline, r.Seq, r.Label, r.Commit, r.Subject, micros(r.CommittedAt), r.Snapshot, r.State, r.By, micros(r.CreatedAt))
	return err
}

func (t *tx) SetRevisionState(pipeline, revision int64, state string) error {
	_, err := t.exec(`UPDATE revision SET state = ? WHERE pipeline_id = ? AND seq = ?`, state, pipeline, revision)
	return err
}

func scanRevision(s scanner) (r ledger.Revision, err error) {
	err = s.Scan(&r.Pipeline, &r.Seq, &r.Label, &r.Commit, &r.Subject, moment{&r.CommittedAt}, &r.Snapshot, &r.State, &r.By, moment{&r.CreatedAt})
	return r, err
}

func (t *tx) Revisions(pipeline, label string, seq int64, n int) ([]ledger.Revision, error) {
	query := `SELECT h.pipeline, r.seq, r.label, r.commit_id, r.subject, r.committed_at, r.snapshot, r.state, r.created_by, r.created_at
		FROM pipeline_head h CROSS JOIN revision r ON r.pipeline_id = h.id WHERE h.pipeline = ?1`
	switch {
	case label != "":
		query += ` AND r.label = ?2`
	case seq != 0:
		query += ` AND r.seq = ?3`
	}
	found, err := rows(t, scanRevision, query+` ORDER BY r.seq DESC LIMIT ?4`, pipeline, label, seq, limit(n))
	for i := range found {
		if err == nil {
			found[i].Artifacts, err = t.artifacts(pipeline, found[i].Seq)
		}
	}
	return found, err
}

func (t *tx) artifacts(pipeline string, revision int64) ([]ledger.Artifact, error) {
	scan := func(s scanner) (a ledger.Artifact, err error) {
		err = s.Scan(&a.Label, &a.Name, &a.Digest, &a.Size, &a.Blob, &a.Build)
		return a, err
	}
	return rows(t, scan, `SELECT a.label, a.name, a.digest, a.size, a.blob, a.build
		FROM pipeline_head h CROSS JOIN revision_artifact a ON a.pipeline_id = h.id AND a.revision = ?2
		WHERE h.pipeline = ?1 ORDER BY a.label`, pipeline, revision)
}

func (t *tx) InsertArtifact(pipeline, revision int64, a ledger.Artifact) error {
	_, err := t.exec(`INSERT INTO revision_artifact (pipeline_id, revision, label, name, digest, size, blob, build)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, pipeline, revision, a.Label, a.Name, a.Digest, a.Size, a.Blob, a.Build)
	return err
}

func (t *tx) InsertDeployment(pipeline int64, d ledger.Deployment) error {
	_, err := t.exec(`INSERT INTO deployment (pipeline_id, number, id, kind, revision, version, status, created_by, created_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		pipeline, d.Number, id(d.ID), d.Kind, d.Revision, d.Version, string(d.Status), d.By, micros(d.CreatedAt), micros(d.EndedAt))
	return err
}

func (t *tx) SetDeploymentStatus(pipeline, number int64, status schedule.Status, ended time.Time) error {
	_, err := t.exec(`UPDATE deployment SET status = ?, ended_at = ? WHERE pipeline_id = ? AND number = ?`,
		string(status), micros(ended), pipeline, number)
	return err
}

func scanDeployment(s scanner) (d ledger.Deployment, err error) {
	err = s.Scan(ident{&d.ID}, &d.Pipeline, &d.Number, &d.Kind, &d.Revision, &d.Label, &d.Version, &d.Status, &d.By,
		moment{&d.CreatedAt}, moment{&d.EndedAt})
	return d, err
}

func (t *tx) Deployments(q ledger.DeploymentQuery) ([]ledger.Deployment, error) {
	index := ``
	if q.Status == schedule.Active {
		index = ` INDEXED BY deployment_active`
	}
	query := `SELECT d.id, h.pipeline, d.number, d.kind, d.revision, r.label, d.version, d.status, d.created_by, d.created_at, d.ended_at
		FROM pipeline_head h CROSS JOIN deployment d` + index + ` ON d.pipeline_id = h.id
		CROSS JOIN revision r ON r.pipeline_id = h.id AND r.seq = d.revision WHERE 1`
	var args []any
	and := func(condition string, value any) {
		query += ` AND ` + condition
		args = append(args, value)
	}
	if q.Pipeline != "" {
		and(`h.pipeline = ?`, q.Pipeline)
	}
	if q.Number != 0 {
		and(`d.number = ?`, q.Number)
	}
	if q.Revision != 0 {
		and(`d.revision = ?`, q.Revision)
	}
	if q.Status == schedule.Active {
		query += ` AND d.status = 'active'` // as the index says it
	} else if q.Status != "" {
		and(`d.status = ?`, string(q.Status))
	}
	if q.Before != 0 {
		and(`d.number < ?`, q.Before)
	}
	query += ` ORDER BY ` + deploymentOrder(q) + ` LIMIT ?`
	return rows(t, scanDeployment, query, append(args, limit(q.Limit))...)
}

// deploymentOrder is newest first: by number within a pipeline, else by the id's time.
func deploymentOrder(q ledger.DeploymentQuery) string {
	if q.Pipeline != "" {
		return `d.number DESC`
	}
	return `d.id DESC`
}

func (t *tx) DeploymentIDs(pipeline int64, numbers []int64) (map[int64]action.ID, error) {
	wanted, err := list(numbers)
	if err != nil {
		return nil, err
	}
	type numbered struct {
		number int64
		id     action.ID
	}
	scan := func(s scanner) (n numbered, err error) {
		err = s.Scan(&n.number, ident{&n.id})
		return n, err
	}
	found, err := rows(t, scan, `SELECT number, id FROM deployment WHERE pipeline_id = ?1 AND number IN (SELECT value FROM json_each(?2))`, pipeline, wanted)
	ids := make(map[int64]action.ID, len(found))
	for _, f := range found {
		ids[f.number] = f.id
	}
	return ids, err
}

func scanID(s scanner) (i action.ID, err error) {
	err = s.Scan(ident{&i})
	return i, err
}

func (t *tx) RollUp(pipeline int64, passages []ledger.Passage) error {
	type passed struct {
		Path                          string
		Deployment, Revision, Highest int64
		At                            any
	}
	finished, failed := map[string]passed{}, map[string]passed{}
	for _, p := range passages {
		one := passed{p.Target, p.Deployment, p.Revision, p.Revision, micros(p.At)}
		if p.Failed {
			failed[p.Target] = one
			continue
		}
		if before, ok := finished[p.Target]; ok {
			highest := max(before.Highest, one.Highest)
			if before.Deployment > one.Deployment {
				one = before
			}
			one.Highest = highest
		}
		finished[p.Target] = one
	}
	for query, some := range map[string]map[string]passed{
		`UPDATE target SET failed = p.value ->> 'Deployment', failed_at = p.value ->> 'At'
			FROM json_each(?2) p WHERE pipeline_id = ?1 AND target.path = p.value ->> 'Path'`: failed,
		`UPDATE target SET highest = max(highest, p.value ->> 'Highest'), current = max(current, p.value ->> 'Deployment'),
			current_revision = iif(p.value ->> 'Deployment' >= current, p.value ->> 'Revision', current_revision),
			current_at = iif(p.value ->> 'Deployment' >= current, p.value ->> 'At', current_at)
			FROM json_each(?2) p WHERE pipeline_id = ?1 AND target.path = p.value ->> 'Path'`: finished,
	} {
		if len(some) == 0 {
			continue
		}
		values, err := list(slices.Collect(maps.Values(some)))
		if err != nil {
			return err
		}
		if _, err := t.exec(query, pipeline, values); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) PutStageRun(pipeline int64, r ledger.StageRun) error {
	_, err := t.exec(`INSERT INTO stage_run (pipeline_id, deployment, stage, revision, started_at, ended_at, outcome) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET ended_at = excluded.ended_at, outcome = excluded.outcome`,
		pipeline, r.Deployment, r.Stage, r.Revision, micros(r.StartedAt), micros(r.EndedAt), r.Outcome)
	return err
}

func (t *tx) StageRuns(pipeline string, deployment int64) ([]ledger.StageRun, error) {
	scan := func(s scanner) (r ledger.StageRun, err error) {
		err = s.Scan(&r.Deployment, &r.Stage, &r.Revision, moment{&r.StartedAt}, moment{&r.EndedAt}, &r.Outcome)
		return r, err
	}
	return rows(t, scan, `SELECT s.deployment, s.stage, s.revision, s.started_at, s.ended_at, s.outcome
		FROM pipeline_head h CROSS JOIN stage_run s ON s.pipeline_id = h.id AND s.deployment = ?2
		WHERE h.pipeline = ?1 ORDER BY s.started_at, s.stage`, pipeline, deployment)
}

func (t *tx) PutResources(pipeline int64, resources []ledger.Resource) error {
	for _, r := range resources {
		_, err := t.exec(`INSERT INTO resource (address, service, pipeline_id, target, deployment, revision, finished, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET pipeline_id = excluded.pipeline_id, target = excluded.target, deployment = excluded.deployment,
				revision = excluded.revision, at = excluded.at,
				finished = CASE WHEN pipeline_id = excluded.pipeline_id THEN max(finished, excluded.finished) ELSE excluded.finished END
			WHERE pipeline_id <> excluded.pipeline_id OR excluded.deployment >= deployment`,
			r.Address, r.Service, pipeline, r.Target, r.Deployment, r.Revision, r.Finished, micros(r.At))
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) Resources(pipeline string) ([]ledger.Resource, error) {
	scan := func(s scanner) (r ledger.Resource, err error) {
		err = s.Scan(&r.Address, &r.Service, &r.Pipeline, &r.Target, &r.Deployment, &r.Revision, &r.Finished, moment{&r.At})
		return r, err
	}
	query := `SELECT r.address, r.service, h.pipeline, r.target, r.deployment, r.revision, r.finished, r.at
		FROM pipeline_head h CROSS JOIN resource r ON r.pipeline_id = h.id`
	if pipeline == "" {
		return rows(t, scan, query+` ORDER BY r.address, r.service`)
	}
	return rows(t, scan, query+` WHERE h.pipeline = ? ORDER BY r.address, r.service`, pipeline)
}

func (t *tx) InsertIntroduction(pipeline int64, i ledger.Introduction) error {
	_, err := t.exec(`INSERT INTO step_introduction (pipeline_id, stage, event, version, revision_after, strict) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, pipeline, i.Stage, i.Event, i.Version, i.RevisionAfter, i.Strict)
	return err
}

func (t *tx) Introductions(pipeline string) ([]ledger.Introduction, error) {
	scan := func(s scanner) (i ledger.Introduction, err error) {
		err = s.Scan(&i.Stage, &i.Event, &i.RevisionAfter, &i.Version, &i.Strict)
		return i, err
	}
	return rows(t, scan, `SELECT i.stage, i.event, i.revision_after, i.version, i.strict
		FROM pipeline_head h CROSS JOIN step_introduction i ON i.pipeline_id = h.id
		WHERE h.pipeline = ? ORDER BY i.version, i.stage, i.event`, pipeline)
}

func (t *tx) Standings(pipeline, target string) ([]ledger.Standing, error) {
	scan := func(s scanner) (st ledger.Standing, err error) {
		err = s.Scan(&st.Target, &st.Current, &st.Revision, &st.Highest, moment{&st.At}, &st.Failed, moment{&st.FailedAt})
		return st, err
	}
	query := `SELECT t.path, t.current, t.current_revision, t.highest, t.current_at, t.failed, t.failed_at
		FROM pipeline_head h CROSS JOIN target t ON t.pipeline_id = h.id WHERE h.pipeline = ?1`
	if target != "" {
		return rows(t, scan, query+` AND t.path = ?2`, pipeline, target)
	}
	return rows(t, scan, query+` ORDER BY t.path`, pipeline)
}

// passageEvents is the condition of the index entry_mark, word for word.
const passageEvents = `e.event IN (
  'pipeline-finished-successfully', 'stage-finished-successfully', 'host-group-finished-successfully',
  'host-finished-successfully', 'pipeline-failed', 'stage-failed', 'host-group-failed', 'host-failed', 'step-failed')`

func (t *tx) Passages(pipeline, target string, below int64, n int) ([]schedule.Entry, error) {
	query := `SELECT ` + entryColumns + `
		FROM pipeline_head h CROSS JOIN target t ON t.pipeline_id = h.id AND t.path = ?2
		CROSS JOIN entry e INDEXED BY entry_mark ON e.target_id = t.id AND ` + passageEvents + `
		WHERE h.pipeline = ?1`
	if below > 0 {
		query += ` AND e.seq < ?3`
	}
	return rows(t, scanEntry(pipeline), query+` ORDER BY e.seq DESC LIMIT ?4`, pipeline, target, below, limit(n))
}
