package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Rows of package journal: heads, definitions, revisions with their artifacts, and deployments.

// headColumns are the columns of a head, in the order of scanHead.
const headColumns = "id, name, version, seq, newest, deployed, owner, epoch, archived, digest"

// scanHead reads headColumns.
func scanHead(row pgx.Row) (h journal.HeadRow, err error) {
	err = row.Scan(&h.ID, &h.Pipeline, &h.Version, &h.Seq, &h.Newest, &h.Deployed, idOf{&h.Owner}, &h.Epoch, &h.Archived, digest{&h.Digest})
	return h, err
}

// createHeads makes the heads that are missing. It takes an advisory lock that ends with the
// transaction, so that no other transaction creates heads or stores a definition before.
func (t *tx) createHeads(pipelines []string) error {
	if err := t.do("SELECT pg_advisory_xact_lock($1)", int64(definitionLock)); err != nil {
		return err
	}
	return t.do("INSERT INTO pipeline_head (name) SELECT unnest($1::text[]) ON CONFLICT (name) DO NOTHING", pipelines)
}

// LockHeads locks and reads the heads that exist, in the order of their ids. Every transaction
// locks heads in that order, and before any thread, so that two cannot deadlock.
func (t *tx) LockHeads(pipelines []string, create bool) ([]journal.HeadRow, error) {
	if create {
		if err := t.createHeads(pipelines); err != nil {
			return nil, err
		}
	}
	return query(t, scanHead, "SELECT "+headColumns+" FROM pipeline_head WHERE name = ANY ($1) ORDER BY id FOR UPDATE", pipelines)
}

// Heads reads without a lock, by name; no names: all.
func (t *tx) Heads(pipelines []string) ([]journal.HeadRow, error) {
	if len(pipelines) == 0 {
		return query(t, scanHead, "SELECT "+headColumns+" FROM pipeline_head ORDER BY name")
	}
	return query(t, scanHead, "SELECT "+headColumns+" FROM pipeline_head WHERE name = ANY ($1) ORDER BY name", pipelines)
}

// UpdateHead writes everything but the name.
func (t *tx) UpdateHead(h journal.HeadRow) error {
	return t.do("UPDATE pipeline_head SET version = $2, seq = $3, newest = $4, deployed = $5, owner = $6, epoch = $7, archived = $8, digest = $9 WHERE id = $1",
		h.ID, h.Version, h.Seq, h.Newest, h.Deployed, uuid(h.Owner), h.Epoch, h.Archived, digestOf(&h.Digest))
}

// InsertVersion stores one definition version.
func (t *tx) InsertVersion(pipelineID int64, v journal.Version) error {
	definition, err := v.EncodedDefinition()
	if err != nil {
		return fmt.Errorf("encode definition %d of %s: %w", v.Version, v.Pipeline, err)
	}
	return t.do("INSERT INTO pipeline (pipeline_id, version, definition, source, created_by, created_at) VALUES ($1, $2, $3::json, $4, $5, $6)",
		pipelineID, v.Version, string(definition), v.Source, v.By, v.At)
}

// Versions reads one definition version, or all with version 0, oldest first.
func (t *tx) Versions(name string, version int) ([]journal.Version, error) {
	return query(t, scanVersion, `SELECT h.name, p.version, p.definition::text, p.source, p.created_by, p.created_at
		FROM pipeline p JOIN pipeline_head h ON h.id = p.pipeline_id
		WHERE h.name = $1 AND ($2 = 0 OR p.version = $2) ORDER BY p.version`, name, version)
}

// scanVersion reads the columns of Versions.
func scanVersion(row pgx.Row) (v journal.Version, err error) {
	var definition string
	if err = row.Scan(&v.Pipeline, &v.Version, &definition, &v.Source, &v.By, timeOf{&v.At}); err != nil {
		return v, err
	}
	if err := json.Unmarshal([]byte(definition), &v.Definition); err != nil {
		return v, fmt.Errorf("decode definition %d of %s: %w", v.Version, v.Pipeline, err)
	}
	return v, nil
}

// InsertRevision stores a registered revision.
func (t *tx) InsertRevision(pipelineID int64, r pipeline.RegisteredRevision) error {
	return t.do(`INSERT INTO revision (pipeline_id, seq, label, commit, subject, committed_at, snapshot, state, created_by, created_at, branch)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		pipelineID, r.Seq, r.Label, r.Commit, r.Subject, stamp(r.CommittedAt), r.Snapshot, r.State, r.By, r.CreatedAt, r.Branch)
}

// SetRevisionState writes open, sealed or rejected.
func (t *tx) SetRevisionState(pipelineID, revision int64, state string) error {
	return t.do("UPDATE revision SET state = $3 WHERE pipeline_id = $1 AND seq = $2", pipelineID, revision, state)
}

// RevisionsBetween reads those after one seq and before another, newest first, without artifacts.
func (t *tx) RevisionsBetween(pipeline string, after, before int64, limit int) ([]pipeline.RegisteredRevision, error) {
	var f filter
	f.pipeline("r", pipeline)
	f.and("r.seq > ?", after)
	f.and("r.seq < ?", before)
	limited := f.limit(limit)
	return query(t, scanRevision, `SELECT h.name, r.seq, r.label, r.commit, r.subject, r.committed_at, r.snapshot, r.state, r.created_by, r.created_at, r.branch, '[]'
		FROM revision r JOIN pipeline_head h ON h.id = r.pipeline_id`+f.where()+" ORDER BY r.seq DESC"+limited, f.arguments...)
}

// Revisions reads by label, or by seq, or the newest limit ones, each with its artifacts.
func (t *tx) Revisions(pipeline, label string, seq int64, limit int) ([]pipeline.RegisteredRevision, error) {
	var f filter
	f.pipeline("r", pipeline)
	f.when(label != "", "r.label = ?", label)
	f.when(seq != 0, "r.seq = ?", seq)
	limited := f.limit(limit)
	return query(t, scanRevision, `SELECT h.name, r.seq, r.label, r.commit, r.subject, r.committed_at, r.snapshot, r.state, r.created_by, r.created_at, r.branch,
		coalesce((SELECT json_agg(json_build_object('label', a.label, 'name', a.name, 'digest', a.digest, 'size', a.size, 'blob', a.blob, 'build', a.build) ORDER BY a.label)
			FROM revision_artifact a WHERE a.pipeline_id = r.pipeline_id AND a.revision = r.seq), '[]')::text
		FROM revision r JOIN pipeline_head h ON h.id = r.pipeline_id`+f.where()+" ORDER BY r.seq DESC"+limited, f.arguments...)
}

// scanRevision reads the columns of Revisions.
func scanRevision(row pgx.Row) (r pipeline.RegisteredRevision, err error) {
	var artifacts string
	err = row.Scan(&r.Pipeline, &r.Seq, &r.Label, &r.Commit, &r.Subject, timeOf{&r.CommittedAt}, &r.Snapshot, &r.State, &r.By,
		timeOf{&r.CreatedAt}, &r.Branch, &artifacts)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(artifacts), &r.Artifacts); err != nil {
		return r, fmt.Errorf("decode the artifacts of revision %s: %w", r.Label, err)
	}
	if len(r.Artifacts) == 0 {
		r.Artifacts = nil
	}
	return r, nil
}

// InsertArtifact stores one result of a revision's build.
func (t *tx) InsertArtifact(pipelineID, revision int64, a pipeline.RevisionArtifact) error {
	return t.do(`INSERT INTO revision_artifact (pipeline_id, revision, label, name, digest, size, blob, build)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, pipelineID, revision, a.Label, a.Name, a.Digest, a.Size, a.Blob, a.Build)
}

// InsertDeployment stores a deployment of a revision.
func (t *tx) InsertDeployment(pipelineID int64, d journal.Deployment) error {
	return t.do(`INSERT INTO deployment (pipeline_id, number, id, kind, revision, version, status, created_by, created_at, ended_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		pipelineID, d.Number, uuid(d.ID), d.Kind, d.Revision, d.Version, string(d.Status), d.By, d.CreatedAt, stamp(d.EndedAt))
}

// SetDeploymentStatus writes the roll-up of the last status row; a zero time clears the end.
func (t *tx) SetDeploymentStatus(pipelineID, number int64, status pipeline.Status, ended time.Time) error {
	return t.do("UPDATE deployment SET status = $3, ended_at = $4 WHERE pipeline_id = $1 AND number = $2",
		pipelineID, number, string(status), stamp(ended))
}

// Deployments lists by query, newest first.
func (t *tx) Deployments(q journal.DeploymentQuery) ([]journal.Deployment, error) {
	var f filter
	order := " ORDER BY d.id DESC"
	if q.Pipeline != "" {
		f.pipeline("d", q.Pipeline)
		order = " ORDER BY d.number DESC"
	}
	f.when(q.Revision != 0, "d.revision = ?", q.Revision)
	f.when(q.Number != 0, "d.number = ?", q.Number)
	f.when(q.Numbers != nil, "d.number = ANY (?)", q.Numbers)
	f.when(q.Before != 0, "d.number < ?", q.Before)
	if q.Status == pipeline.StatusActive {
		f.conditions = append(f.conditions, "d.status = 'active'") // a literal, for the partial index
	} else {
		f.when(q.Status != "", "d.status = ?", string(q.Status))
	}
	limited := f.limit(q.Limit)
	return query(t, scanDeployment, `SELECT `+deploymentColumns+`
		FROM deployment d JOIN pipeline_head h ON h.id = d.pipeline_id
		JOIN revision r ON r.pipeline_id = d.pipeline_id AND r.seq = d.revision`+f.where()+order+limited, f.arguments...)
}

// deploymentColumns are the columns of a deployment, in the order of deploymentFields.
const deploymentColumns = "d.id, h.name, d.number, d.kind, d.revision, r.label, d.version, d.status, d.created_by, d.created_at, d.ended_at, d.archive"

// deploymentFields returns where a deployment is scanned to.
func deploymentFields(d *journal.Deployment) []any {
	return []any{idOf{&d.ID}, &d.Pipeline, &d.Number, &d.Kind, &d.Revision, &d.Label, &d.Version, (*string)(&d.Status), &d.By,
		timeOf{&d.CreatedAt}, timeOf{&d.EndedAt}, &d.Archive}
}

// scanDeployment reads deploymentColumns.
func scanDeployment(row pgx.Row) (d journal.Deployment, err error) {
	err = row.Scan(deploymentFields(&d)...)
	return d, err
}

// Archive writes where the entries of a deployment are, and deletes them.
func (t *tx) Archive(pipelineID int64, d journal.ArchivedDeployment) (int64, error) {
	if err := t.do("UPDATE deployment SET archive = $3, archive_first = $4, archive_last = $5 WHERE pipeline_id = $1 AND number = $2",
		pipelineID, d.Number, d.Key, d.First, d.Last); err != nil {
		return 0, err
	}
	return t.count("DELETE FROM entry WHERE pipeline_id = $1 AND deployment = $2", pipelineID, d.Number)
}

// Archives reads archived deployments, by their last entries, newest first.
func (t *tx) Archives(q journal.ArchiveQuery) ([]journal.Deployment, error) {
	var f filter
	f.pipeline("d", q.Pipeline)
	f.conditions = append(f.conditions, "d.archive <> ''") // a literal, for the partial index
	f.when(q.Before != 0, "d.archive_first < ?", q.Before)
	f.when(q.Stage != "", "EXISTS (SELECT FROM stage_run s WHERE s.pipeline_id = d.pipeline_id AND s.deployment = d.number AND s.stage = ?)", q.Stage)
	limited := f.limit(q.Limit)
	return query(t, func(row pgx.Row) (d journal.Deployment, err error) {
		err = row.Scan(append(deploymentFields(&d), &d.Last)...)
		return d, err
	}, `SELECT `+deploymentColumns+`, d.archive_last
		FROM deployment d JOIN pipeline_head h ON h.id = d.pipeline_id
		JOIN revision r ON r.pipeline_id = d.pipeline_id AND r.seq = d.revision`+f.where()+" ORDER BY d.archive_last DESC"+limited, f.arguments...)
}

// DeploymentIDs reads the ids of deployments by number.
func (t *tx) DeploymentIDs(pipelineID int64, numbers []int64) (map[int64]action.ID, error) {
	type numbered struct {
		number int64
		id     action.ID
	}
	rows, err := query(t, func(row pgx.Row) (n numbered, err error) {
		err = row.Scan(&n.number, idOf{&n.id})
		return n, err
	}, "SELECT number, id FROM deployment WHERE pipeline_id = $1 AND number = ANY ($2)", pipelineID, numbers)
	ids := make(map[int64]action.ID, len(rows))
	for _, r := range rows {
		ids[r.number] = r.id
	}
	return ids, err
}

// UsesBlobs reports whether a revision or an artifact refers to a blob below a folder.
func (t *tx) UsesBlobs(folder string) (bool, error) {
	found, err := query(t, func(row pgx.Row) (yes bool, err error) {
		err = row.Scan(&yes)
		return yes, err
	}, `SELECT EXISTS (SELECT FROM revision WHERE snapshot COLLATE "C" >= $1 AND snapshot COLLATE "C" < $2)
		OR EXISTS (SELECT FROM revision_artifact WHERE blob COLLATE "C" >= $1 AND blob COLLATE "C" < $2)`, folder+"/", folder+"0") // folder + "0" follows folder + "/"
	return len(found) > 0 && found[0], err
}
