package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Rows of package journal: heads, definitions, revisions with their artifacts, and deployments.

// headColumns are the columns of a head, in the order of scanHead.
const headColumns = `id, name, version, seq, newest, deployed, owner, epoch, archived, digest`

// scanHead reads headColumns.
func scanHead(s scanner) (h journal.HeadRow, err error) {
	err = s.Scan(&h.ID, &h.Pipeline, &h.Version, &h.Seq, &h.Newest, &h.Deployed, ident{&h.Owner}, &h.Epoch, &h.Archived, digest{&h.Digest})
	return h, err
}

// LockHeads reads the heads that exist, in the order of their ids. With create it makes those that
// are missing first. It needs no lock: the transaction is the only one that writes.
func (t *tx) LockHeads(pipelines []string, create bool) ([]journal.HeadRow, error) {
	for _, name := range pipelines {
		if !create {
			break
		}
		if _, err := t.exec(`INSERT INTO pipeline_head (name) VALUES (?) ON CONFLICT DO NOTHING`, name); err != nil {
			return nil, err
		}
	}
	heads, err := t.Heads(pipelines)
	slices.SortFunc(heads, func(a, b journal.HeadRow) int { return int(a.ID - b.ID) })
	return heads, err
}

// Heads reads by name; nil reads all.
func (t *tx) Heads(pipelines []string) ([]journal.HeadRow, error) {
	if pipelines == nil {
		return rows(t, scanHead, `SELECT `+headColumns+` FROM pipeline_head ORDER BY name`)
	}
	var heads []journal.HeadRow
	for _, p := range pipelines {
		h, ok, err := row(t, scanHead, `SELECT `+headColumns+` FROM pipeline_head WHERE name = ?`, p)
		if err != nil {
			return nil, err
		}
		if ok {
			heads = append(heads, h)
		}
	}
	return heads, nil
}

// UpdateHead writes everything but the name.
func (t *tx) UpdateHead(h journal.HeadRow) error {
	_, err := t.exec(
		`UPDATE pipeline_head SET version = ?, seq = ?, newest = ?, deployed = ?, owner = ?, epoch = ?, archived = ?, digest = ? WHERE id = ?`,
		h.Version, h.Seq, h.Newest, h.Deployed, id(h.Owner), h.Epoch, h.Archived, digestOf(&h.Digest), h.ID)
	return err
}

// InsertVersion stores one definition version.
func (t *tx) InsertVersion(pipelineID int64, v journal.Version) error {
	definition, err := v.EncodedDefinition()
	if err != nil {
		return fmt.Errorf("write definition %d of %s: %w", v.Version, v.Pipeline, err)
	}
	_, err = t.exec(`INSERT INTO pipeline (pipeline_id, version, definition, source, created_by, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
		pipelineID, v.Version, string(definition), v.Source, v.By, micros(v.At))
	return err
}

// Versions reads one definition version, or all with version 0, oldest first.
func (t *tx) Versions(name string, version int) ([]journal.Version, error) {
	query := `SELECT h.name, v.version, v.definition, v.source, v.created_by, v.created_at
		FROM pipeline_head h JOIN pipeline v ON v.pipeline_id = h.id WHERE h.name = ?`
	if version != 0 {
		return rows(t, scanVersion, query+` AND v.version = ?`, name, version)
	}
	return rows(t, scanVersion, query+` ORDER BY v.version`, name)
}

// scanVersion reads the columns of Versions.
func scanVersion(s scanner) (v journal.Version, err error) {
	var definition string
	if err := s.Scan(&v.Pipeline, &v.Version, &definition, &v.Source, &v.By, moment{&v.At}); err != nil {
		return v, err
	}
	if err := json.Unmarshal([]byte(definition), &v.Definition); err != nil {
		return v, fmt.Errorf("read definition %d of %s: %w", v.Version, v.Pipeline, err)
	}
	return v, nil
}

// InsertRevision stores a registered revision.
func (t *tx) InsertRevision(pipelineID int64, r pipeline.RegisteredRevision) error {
	_, err := t.exec(`INSERT INTO revision (pipeline_id, seq, label, "commit", subject, committed_at, snapshot, state, created_by, created_at, branch)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		pipelineID, r.Seq, r.Label, r.Commit, r.Subject, micros(r.CommittedAt), r.Snapshot, r.State, r.By, micros(r.CreatedAt), r.Branch)
	return err
}

// SetRevisionState writes open, sealed or rejected.
func (t *tx) SetRevisionState(pipelineID, revision int64, state string) error {
	_, err := t.exec(`UPDATE revision SET state = ? WHERE pipeline_id = ? AND seq = ?`, state, pipelineID, revision)
	return err
}

// Revisions reads by label, or by seq, or the newest n, each with its artifacts.
func (t *tx) Revisions(name, label string, seq int64, n int) ([]pipeline.RegisteredRevision, error) {
	query := `SELECT h.name, r.seq, r.label, r."commit", r.subject, r.committed_at, r.snapshot, r.state, r.created_by, r.created_at, r.branch
		FROM pipeline_head h CROSS JOIN revision r ON r.pipeline_id = h.id WHERE h.name = ?1`
	switch {
	case label != "":
		query += ` AND r.label = ?2`
	case seq != 0:
		query += ` AND r.seq = ?3`
	}
	found, err := rows(t, scanRevision, query+` ORDER BY r.seq DESC LIMIT ?4`, name, label, seq, limit(n))
	for i := range found {
		if err == nil {
			found[i].Artifacts, err = t.artifacts(name, found[i].Seq)
		}
	}
	return found, err
}

// RevisionsBetween lists those after one seq and before another, newest first.
func (t *tx) RevisionsBetween(name string, after, before int64, n int) ([]pipeline.RegisteredRevision, error) {
	return rows(t, scanRevision, `SELECT h.name, r.seq, r.label, r."commit", r.subject, r.committed_at, r.snapshot, r.state, r.created_by, r.created_at, r.branch
		FROM pipeline_head h CROSS JOIN revision r ON r.pipeline_id = h.id AND r.seq > ?2 AND r.seq < ?3
		WHERE h.name = ?1 ORDER BY r.seq DESC LIMIT ?4`, name, after, before, limit(n))
}

// scanRevision reads the columns of Revisions.
func scanRevision(s scanner) (r pipeline.RegisteredRevision, err error) {
	err = s.Scan(&r.Pipeline, &r.Seq, &r.Label, &r.Commit, &r.Subject, moment{&r.CommittedAt}, &r.Snapshot, &r.State,
		&r.By, moment{&r.CreatedAt}, &r.Branch)
	return r, err
}

// artifacts reads the artifacts of a revision, by label.
func (t *tx) artifacts(name string, revision int64) ([]pipeline.RevisionArtifact, error) {
	scan := func(s scanner) (a pipeline.RevisionArtifact, err error) {
		err = s.Scan(&a.Label, &a.Name, &a.Digest, &a.Size, &a.Blob, &a.Build)
		return a, err
	}
	return rows(t, scan, `SELECT a.label, a.name, a.digest, a.size, a.blob, a.build
		FROM pipeline_head h CROSS JOIN revision_artifact a ON a.pipeline_id = h.id AND a.revision = ?2
		WHERE h.name = ?1 ORDER BY a.label`, name, revision)
}

// InsertArtifact stores one result of a revision's build.
func (t *tx) InsertArtifact(pipelineID, revision int64, a pipeline.RevisionArtifact) error {
	_, err := t.exec(`INSERT INTO revision_artifact (pipeline_id, revision, label, name, digest, size, blob, build)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, pipelineID, revision, a.Label, a.Name, a.Digest, a.Size, a.Blob, a.Build)
	return err
}

// InsertDeployment stores a deployment of a revision.
func (t *tx) InsertDeployment(pipelineID int64, d journal.Deployment) error {
	_, err := t.exec(`INSERT INTO deployment (pipeline_id, number, id, kind, revision, version, status, created_by, created_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		pipelineID, d.Number, id(d.ID), d.Kind, d.Revision, d.Version, string(d.Status), d.By, micros(d.CreatedAt), micros(d.EndedAt))
	return err
}

// SetDeploymentStatus writes the roll-up of the last status row; a zero time clears the end.
func (t *tx) SetDeploymentStatus(pipelineID, number int64, status pipeline.Status, ended time.Time) error {
	_, err := t.exec(`UPDATE deployment SET status = ?, ended_at = ? WHERE pipeline_id = ? AND number = ?`,
		string(status), micros(ended), pipelineID, number)
	return err
}

// Deployments lists by query, newest first.
func (t *tx) Deployments(q journal.DeploymentQuery) ([]journal.Deployment, error) {
	index := ``
	if q.Status == pipeline.StatusActive {
		index = ` INDEXED BY deployment_active`
	}
	from := `pipeline_head h CROSS JOIN deployment d` + index
	if q.Pipeline == "" && index == `` { // in the order of ids, so that LIMIT ends the walk
		from = `deployment d CROSS JOIN pipeline_head h`
	}
	query := `SELECT ` + deploymentColumns + `
		FROM ` + from + ` ON d.pipeline_id = h.id
		CROSS JOIN revision r ON r.pipeline_id = h.id AND r.seq = d.revision WHERE 1`
	var args []any
	and := func(condition string, value any) {
		query += ` AND ` + condition
		args = append(args, value)
	}
	if q.Pipeline != "" {
		and(`h.name = ?`, q.Pipeline)
	}
	if q.Number != 0 {
		and(`d.number = ?`, q.Number)
	}
	if q.Numbers != nil {
		numbers, err := list(q.Numbers)
		if err != nil {
			return nil, err
		}
		and(`d.number IN (SELECT value FROM json_each(?))`, numbers)
	}
	if q.Revision != 0 {
		and(`d.revision = ?`, q.Revision)
	}
	if q.Status == pipeline.StatusActive {
		query += ` AND d.status = 'active'` // a literal, for the partial index
	} else if q.Status != "" {
		and(`d.status = ?`, string(q.Status))
	}
	if q.Before != 0 {
		and(`d.number < ?`, q.Before)
	}
	query += ` ORDER BY ` + deploymentOrder(q) + ` LIMIT ?`
	return rows(t, scanDeployment, query, append(args, limit(q.Limit))...)
}

// deploymentOrder returns the order of newest first: by number within a pipeline, else by the id's
// time.
func deploymentOrder(q journal.DeploymentQuery) string {
	if q.Pipeline != "" {
		return `d.number DESC`
	}
	return `d.id DESC`
}

// deploymentColumns are the columns of a deployment, in the order of deploymentFields.
const deploymentColumns = `d.id, h.name, d.number, d.kind, d.revision, r.label, d.version, d.status, d.created_by, d.created_at, d.ended_at, d.archive`

// deploymentFields returns where a deployment is scanned to.
func deploymentFields(d *journal.Deployment) []any {
	return []any{ident{&d.ID}, &d.Pipeline, &d.Number, &d.Kind, &d.Revision, &d.Label, &d.Version, &d.Status, &d.By,
		moment{&d.CreatedAt}, moment{&d.EndedAt}, &d.Archive}
}

// scanDeployment reads deploymentColumns.
func scanDeployment(s scanner) (d journal.Deployment, err error) {
	err = s.Scan(deploymentFields(&d)...)
	return d, err
}

// Archive writes where the entries of a deployment are, and deletes them.
func (t *tx) Archive(pipelineID int64, d journal.ArchivedDeployment) (int64, error) {
	_, err := t.exec(`UPDATE deployment SET archive = ?, archive_first = ?, archive_last = ? WHERE pipeline_id = ? AND number = ?`,
		d.Key, d.First, d.Last, pipelineID, d.Number)
	if err != nil {
		return 0, err
	}
	deleted, err := t.exec(`DELETE FROM entry INDEXED BY entry_once WHERE pipeline_id = ? AND deployment = ?`, pipelineID, d.Number)
	return int64(deleted), err
}

// Archives reads archived deployments, by their last entries, newest first.
func (t *tx) Archives(q journal.ArchiveQuery) ([]journal.Deployment, error) {
	scan := func(s scanner) (d journal.Deployment, err error) {
		err = s.Scan(append(deploymentFields(&d), &d.Last)...)
		return d, err
	}
	query := `SELECT ` + deploymentColumns + `, d.archive_last
		FROM pipeline_head h CROSS JOIN deployment d INDEXED BY deployment_archived ON d.pipeline_id = h.id AND d.archive <> ''
		CROSS JOIN revision r ON r.pipeline_id = h.id AND r.seq = d.revision
		WHERE h.name = ?1`
	if q.Before != 0 {
		query += ` AND d.archive_first < ?2`
	}
	if q.Stage != "" {
		query += ` AND EXISTS (SELECT 1 FROM stage_run s WHERE s.pipeline_id = d.pipeline_id AND s.deployment = d.number AND s.stage = ?3)`
	}
	return rows(t, scan, query+` ORDER BY d.archive_last DESC LIMIT ?4`, q.Pipeline, q.Before, q.Stage, limit(q.Limit))
}

// DeploymentIDs reads the ids of deployments by number.
func (t *tx) DeploymentIDs(pipelineID int64, numbers []int64) (map[int64]action.ID, error) {
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
	found, err := rows(t, scan,
		`SELECT number, id FROM deployment WHERE pipeline_id = ?1 AND number IN (SELECT value FROM json_each(?2))`, pipelineID, wanted)
	ids := make(map[int64]action.ID, len(found))
	for _, f := range found {
		ids[f.number] = f.id
	}
	return ids, err
}

// UsesBlobs reports whether a revision or an artifact refers to a blob below a folder.
func (t *tx) UsesBlobs(folder string) (bool, error) {
	used, _, err := row(t, func(s scanner) (yes bool, err error) {
		err = s.Scan(&yes)
		return yes, err
	}, `SELECT EXISTS (SELECT 1 FROM revision WHERE snapshot >= ?1 AND snapshot < ?2)
		OR EXISTS (SELECT 1 FROM revision_artifact WHERE blob >= ?1 AND blob < ?2)`, folder+"/", folder+"0") // folder + "0" follows folder + "/"
	return used, err
}
