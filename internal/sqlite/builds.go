package sqlite

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
)

// Rows of package builds: builds with their steps, events, logs, artifacts and test results.

// InsertBuild stores a build and returns its id.
func (t *tx) InsertBuild(b builds.Build) (builds.ID, error) {
	stages, inputs, err := encodeBuild(b)
	if err != nil {
		return 0, err
	}
	found, _, err := row(t, func(s scanner) (made builds.ID, err error) {
		err = s.Scan(&made)
		return made, err
	}, `INSERT INTO build (project, branch, "commit", revision, deployment, target, environment, stages, inputs, engine, worker_id, nonce,
		rerun_of, resume, action_id, status, created_by, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING build_id`,
		b.Project, b.Branch, b.Commit, b.Revision, b.Deployment, b.Target, b.Environment, stages, inputs, b.Engine,
		b.WorkerID, b.Nonce, b.RerunOf, b.Resume, id(b.ActionID),
		string(b.Status), b.CreatedBy, micros(b.CreatedAt))
	return found, err
}

// encodeBuild returns the columns of a build that are JSON.
func encodeBuild(b builds.Build) (stages, inputs string, err error) {
	if stages, err = list(append([]string{}, b.Stages...)); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(b.Inputs)
	return stages, string(text), err
}

// buildColumns are the columns of a build, in the order of scanBuild.
const buildColumns = `build_id, project, branch, "commit", revision, deployment, target, environment, stages, inputs, engine, worker_id, nonce, rerun_of, resume, bundle, action_id,
	status, reason, message, created_by, created_at, started_at, ended_at, cancel_requested_at, lease_until, last_progress_at,
	acknowledged_at, deleted_at, expired_at, last_seq, refused_events, event_cursor, artifact_cursor, final_steps, final_events, final_artifacts`

// scanBuild reads buildColumns.
func scanBuild(s scanner) (b builds.Build, err error) {
	var stages, inputs string
	var steps, events, artifacts sql.NullInt64
	err = s.Scan(&b.ID, &b.Project, &b.Branch, &b.Commit, &b.Revision, &b.Deployment, &b.Target, &b.Environment, &stages,
		&inputs, &b.Engine, &b.WorkerID, &b.Nonce,
		&b.RerunOf, &b.Resume, &b.Bundle, ident{&b.ActionID}, &b.Status, &b.Reason, &b.Message, &b.CreatedBy,
		moment{&b.CreatedAt}, moment{&b.StartedAt},
		moment{&b.EndedAt}, moment{&b.CancelRequestedAt}, moment{&b.LeaseUntil}, moment{&b.LastProgressAt}, moment{&b.AcknowledgedAt},
		moment{&b.DeletedAt}, moment{&b.ExpiredAt}, &b.LastSeq, &b.RefusedEvents, &b.EventCursor, &b.ArtifactCursor, &steps, &events, &artifacts)
	if err != nil {
		return b, err
	}
	if events.Valid {
		b.Final = &build.Final{Steps: int(steps.Int64), Events: events.Int64, Artifacts: int(artifacts.Int64)}
	}
	if err := json.Unmarshal([]byte(stages), &b.Stages); err != nil {
		return b, fmt.Errorf("read build %d: %w", b.ID, err)
	}
	if err := json.Unmarshal([]byte(inputs), &b.Inputs); err != nil {
		return b, fmt.Errorf("read build %d: %w", b.ID, err)
	}
	return b, nil
}

// LockBuild reads a build. It needs no lock: the transaction is the only one that writes.
func (t *tx) LockBuild(id builds.ID) (builds.Build, bool, error) {
	return row(t, scanBuild, `SELECT `+buildColumns+` FROM build WHERE build_id = ?`, id)
}

// UpdateBuild writes the changing columns of a build.
func (t *tx) UpdateBuild(b builds.Build) error {
	var steps, events, artifacts any
	if f := b.Final; f != nil {
		steps, events, artifacts = f.Steps, f.Events, f.Artifacts
	}
	_, err := t.exec(`UPDATE build SET worker_id = ?, nonce = ?, action_id = ?, status = ?, reason = ?, message = ?, started_at = ?, ended_at = ?,
		cancel_requested_at = ?, lease_until = ?, last_progress_at = ?, acknowledged_at = ?, deleted_at = ?, expired_at = ?, last_seq = ?, refused_events = ?,
		event_cursor = ?, artifact_cursor = ?, final_steps = ?, final_events = ?, final_artifacts = ?, bundle = ? WHERE build_id = ?`,
		b.WorkerID, b.Nonce, id(b.ActionID), string(b.Status), b.Reason, b.Message, micros(b.StartedAt), micros(b.EndedAt),
		micros(b.CancelRequestedAt), micros(b.LeaseUntil), micros(b.LastProgressAt), micros(b.AcknowledgedAt),
		micros(b.DeletedAt), micros(b.ExpiredAt),
		b.LastSeq, b.RefusedEvents, b.EventCursor, b.ArtifactCursor, steps, events, artifacts, b.Bundle, b.ID)
	return err
}

// Builds reads by query, newest first.
func (t *tx) Builds(q builds.Query) ([]builds.Build, error) {
	where, args := []string{`1`}, []any{}
	when := func(wanted bool, condition string, args2 ...any) {
		if wanted {
			where, args = append(where, condition), append(args, args2...)
		}
	}
	if q.IDs != nil {
		wanted, err := list(q.IDs)
		if err != nil {
			return nil, err
		}
		when(true, `build_id IN (SELECT value FROM json_each(?))`, wanted)
	}
	when(q.Project != "", `project = ?`, q.Project)
	when(q.Branch != "", `branch = ?`, q.Branch)
	from, below := q.CommitRange()
	when(q.Commit != "", `"commit" >= ? AND "commit" < ?`, from, below)
	when(!q.ActionID.IsZero(), `action_id = ?`, id(q.ActionID))
	when(q.Deployment != 0, `deployment > 0 AND deployment = ?`, q.Deployment)
	when(!q.Since.IsZero(), `created_at >= ?`, micros(q.Since))
	when(!q.Until.IsZero(), `created_at < ?`, micros(q.Until))
	when(q.Revision != "", `revision = ?`, q.Revision)
	when(q.Environment != "", `environment = ?`, q.Environment)
	when(q.Status != "", `status = ?`, string(q.Status))
	when(q.Active, `status IN ('Scheduling', 'Running')`)
	when(!q.Deleted, `deleted_at IS NULL`)
	when(q.Before != 0, `build_id < ?`, q.Before)
	return rows(t, scanBuild, `SELECT `+buildColumns+` FROM build WHERE `+strings.Join(where, ` AND `)+` ORDER BY build_id DESC LIMIT ?`,
		append(args, limit(q.Limit))...)
}

// BuildsHaving returns those of the builds that have a part with a text.
func (t *tx) BuildsHaving(ids []builds.ID, part builds.Part, text string) ([]builds.ID, error) {
	from, ok := map[builds.Part]string{
		builds.PartStage:    `build_step WHERE stage = ?2`,
		builds.PartArtifact: `build_artifact WHERE instr(lower(name), lower(?2)) > 0`,
		builds.PartTest:     `test_result WHERE instr(lower(suite || ' ' || name), lower(?2)) > 0`,
	}[part]
	if !ok {
		return nil, fmt.Errorf("builds have no %s", part)
	}
	among, err := list(ids)
	if err != nil {
		return nil, err
	}
	return rows(t, func(s scanner) (found builds.ID, err error) {
		err = s.Scan(&found)
		return found, err
	}, `SELECT DISTINCT build_id FROM `+from+` AND build_id IN (SELECT value FROM json_each(?1))`, among, text)
}

// DeleteResults deletes all rows of a build but its own.
func (t *tx) DeleteResults(id builds.ID) error {
	for _, table := range []string{`build_event`, `build_step`, `log_line`, `build_artifact`, `test_report`, `test_result`} {
		if _, err := t.exec(`DELETE FROM `+table+` WHERE build_id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

// BuildsBefore returns builds that have ended, were not deleted and have not expired, with no progress since a time.
func (t *tx) BuildsBefore(at time.Time, after builds.ID, n int) ([]builds.ID, error) {
	return rows(t, func(s scanner) (id builds.ID, err error) {
		err = s.Scan(&id)
		return id, err
	}, `SELECT build_id FROM build WHERE status NOT IN ('Scheduling', 'Running') AND deleted_at IS NULL AND expired_at IS NULL
		AND coalesce(last_progress_at, created_at) < ? AND build_id > ? ORDER BY build_id LIMIT ?`, micros(at), after, n)
}

// EndedResumes returns builds that have ended, were not deleted and have not expired, and that may have a bundle.
func (t *tx) EndedResumes(after builds.ID, n int) ([]builds.ID, error) {
	return rows(t, func(s scanner) (id builds.ID, err error) {
		err = s.Scan(&id)
		return id, err
	}, `SELECT build_id FROM build WHERE status NOT IN ('Scheduling', 'Running') AND deleted_at IS NULL AND expired_at IS NULL
		AND resume = 1 AND bundle <> ? AND build_id > ? ORDER BY build_id LIMIT ?`, builds.NoBundle, after, n)
}

// DeleteSome deletes at most so many rows of each table of a build, other than its own row and its steps.
func (t *tx) DeleteSome(id builds.ID, most int) (left bool, err error) {
	for _, of := range [...]struct{ table, key string }{{"log_line", "step_id, log_id"}, {"test_result", "artifact_id, ordinal"},
		{"build_event", "seq"}, {"test_report", "artifact_id"}, {"build_artifact", "artifact_id"}} {
		deleted, err := t.exec(`DELETE FROM `+of.table+` WHERE build_id = ?1 AND (`+of.key+`) IN (SELECT `+of.key+` FROM `+
			of.table+` WHERE build_id = ?1 LIMIT ?2)`, id, most)
		if err != nil {
			return false, err
		}
		left = left || deleted == most
	}
	return left, nil
}

// stepColumns are the columns of a step, in the order of scanStep.
const stepColumns = `step_id, stage, name, type, needs, status, attempt, reason, message, exit_code, started_at, ended_at, log_lines, log_bytes,
	hash_state, trailer_entries, trailer_bytes, trailer_sha256, identity`

// PutSteps stores whole steps.
func (t *tx) PutSteps(id builds.ID, steps []builds.Step) error {
	var all [][]any
	for i := range steps {
		s := &steps[i]
		needs, err := list(append([]int{}, s.Needs...))
		if err != nil {
			return err
		}
		var entries, bytes, sum any
		if s.Trailer != nil {
			entries, bytes, sum = s.Trailer.Entries, s.Trailer.Bytes, build.DigestBytes(s.Trailer.SHA256)
		}
		all = append(all, []any{id, s.ID, s.Stage, s.Name, s.Type, needs, string(s.Status), s.Attempt, s.Reason, s.Message, s.ExitCode,
			micros(s.StartedAt), micros(s.EndedAt), s.LogLines, s.LogBytes, s.HashState, entries, bytes, sum, s.Identity})
	}
	return t.each(`INSERT OR REPLACE INTO build_step (build_id, `+stepColumns+
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, all)
}

// scanStep reads stepColumns.
func scanStep(s scanner) (step builds.Step, err error) {
	var needs string
	var entries, bytes sql.NullInt64
	var sum []byte
	err = s.Scan(&step.ID, &step.Stage, &step.Name, &step.Type, &needs, &step.Status, &step.Attempt, &step.Reason,
		&step.Message, &step.ExitCode,
		moment{&step.StartedAt}, moment{&step.EndedAt}, &step.LogLines, &step.LogBytes, &step.HashState, &entries, &bytes, &sum, &step.Identity)
	if err != nil {
		return step, err
	}
	if entries.Valid {
		step.Trailer = &build.Trailer{Entries: entries.Int64, Bytes: bytes.Int64, SHA256: hex.EncodeToString(sum)}
	}
	return step, json.Unmarshal([]byte(needs), &step.Needs)
}

// Steps reads steps in the order of their ids; nil reads all.
func (t *tx) Steps(id builds.ID, only []int) ([]builds.Step, error) {
	query := `SELECT ` + stepColumns + ` FROM build_step WHERE build_id = ?1`
	if only == nil {
		return rows(t, scanStep, query+` ORDER BY step_id`, id)
	}
	wanted, err := list(only)
	if err != nil {
		return nil, err
	}
	return rows(t, scanStep, query+` AND step_id IN (SELECT value FROM json_each(?2)) ORDER BY step_id`, id, wanted)
}

// eventTable is the table of events.
var eventTable = table{`build_event`, []string{`build_id`, `seq`, `source`, `event_id`, `step_id`, `status`, `attempt`, `reason`, `message`,
	`exit_code`, `applied`, `at`, `stored_at`}}

// InsertBuildEvents stores events.
func (t *tx) InsertBuildEvents(id builds.ID, events []builds.Event) error {
	var all [][]any
	for i := range events {
		e := &events[i]
		all = append(all, []any{id, e.Seq, string(e.Source), e.EventID, e.Step, string(e.Status), e.Attempt, e.Reason, e.Message, e.ExitCode,
			e.Applied, micros(e.At), micros(e.StoredAt)})
	}
	return t.insert(eventTable, all)
}

// HasBuildEvent reports whether an event of a source is stored.
func (t *tx) HasBuildEvent(id builds.ID, source builds.Source, eventID string) (bool, error) {
	found, _, err := row(t, func(s scanner) (yes bool, err error) {
		err = s.Scan(&yes)
		return yes, err
	}, `SELECT EXISTS (SELECT 1 FROM build_event WHERE build_id = ? AND source = ? AND event_id = ?)`, id, string(source), eventID)
	return found, err
}

// BuildEvents reads those after a number, in their order.
func (t *tx) BuildEvents(id builds.ID, after int64, n int) ([]builds.Event, error) {
	scan := func(s scanner) (e builds.Event, err error) {
		err = s.Scan(&e.Seq, &e.Source, &e.EventID, &e.Step, &e.Status, &e.Attempt, &e.Reason, &e.Message, &e.ExitCode, &e.Applied,
			moment{&e.At}, moment{&e.StoredAt})
		return e, err
	}
	return rows(t, scan, `SELECT seq, source, event_id, step_id, status, attempt, reason, message, exit_code, applied, at, stored_at
		FROM build_event WHERE build_id = ? AND seq > ? ORDER BY seq LIMIT ?`, id, after, limit(n))
}

// blockTable is the table of blocks.
var blockTable = table{`log_line`, []string{`build_id`, `step_id`, `log_id`, `lines`, `byte_offset`, `bytes`,
	`first_at`, `last_at`, `data`}}

// InsertBlocks stores blocks of logs.
func (t *tx) InsertBlocks(id builds.ID, blocks []builds.Block) error {
	var all [][]any
	for i := range blocks {
		b := &blocks[i]
		all = append(all, []any{id, b.Step, b.Begin.ID + 1, b.Lines, b.Begin.Offset, b.Size, micros(b.FirstAt), micros(b.LastAt), b.Data})
	}
	return t.insert(blockTable, all)
}

// Blocks reads a step's blocks in their order, from the one that holds the byte at an offset.
func (t *tx) Blocks(id builds.ID, step int, offset, until int64, n int) ([]builds.Block, error) {
	return rows(t, scanBlock, `SELECT step_id, log_id, lines, byte_offset, bytes, first_at, last_at, data FROM log_line
		WHERE build_id = ? AND step_id = ? AND byte_offset > ? AND byte_offset < ? AND byte_offset + bytes > ? ORDER BY byte_offset LIMIT ?`,
		id, step, offset-builds.BlockSize, until, offset, limit(n))
}

// BlockOf reads the last block that begins at or before an entry, without its data.
func (t *tx) BlockOf(id builds.ID, step int, logID int64) (builds.Block, bool, error) {
	return row(t, scanBlock, `SELECT step_id, log_id, lines, byte_offset, bytes, first_at, last_at, NULL FROM log_line
		WHERE build_id = ? AND step_id = ? AND log_id <= ? ORDER BY log_id DESC LIMIT 1`, id, step, logID)
}

// BlockSince reads the first block with an entry that is not older than a time, without its data.
func (t *tx) BlockSince(id builds.ID, step int, at time.Time) (builds.Block, bool, error) {
	return row(t, scanBlock, `SELECT step_id, log_id, lines, byte_offset, bytes, first_at, last_at, NULL FROM log_line
		WHERE build_id = ? AND step_id = ? AND last_at >= ? ORDER BY log_id LIMIT 1`, id, step, micros(at))
}

// scanBlock reads the columns of Blocks.
func scanBlock(s scanner) (b builds.Block, err error) {
	err = s.Scan(&b.Step, &b.Begin.ID, &b.Lines, &b.Begin.Offset, &b.Size, moment{&b.FirstAt}, moment{&b.LastAt}, &b.Data)
	b.Begin.ID-- // log_id is that of the first entry
	return b, err
}

// artifactTable is the table of artifacts.
var artifactTable = table{`build_artifact`, []string{`build_id`, `artifact_id`, `step_id`, `name`, `size`, `sha256`,
	`kind`, `state`, `blob_key`, `stored_at`, `executable`}}

// InsertBuildArtifacts stores artifacts.
func (t *tx) InsertBuildArtifacts(id builds.ID, artifacts []builds.Artifact) error {
	var all [][]any
	for i := range artifacts {
		a := &artifacts[i]
		all = append(all, []any{id, a.ID, a.Step, a.Name, a.Size, build.DigestBytes(a.SHA256), a.Kind, string(a.State),
			a.Path, micros(a.StoredAt), a.Executable})
	}
	return t.insert(artifactTable, all)
}

// BuildArtifacts reads the artifacts of a build after one, in the order of their ids.
func (t *tx) BuildArtifacts(id builds.ID, after int) ([]builds.Artifact, error) {
	scan := func(s scanner) (a builds.Artifact, err error) {
		var sum []byte
		err = s.Scan(&a.ID, &a.Step, &a.Name, &a.Size, &sum, &a.Kind, &a.State, &a.Path, moment{&a.StoredAt}, &a.Executable)
		a.SHA256 = hex.EncodeToString(sum)
		return a, err
	}
	return rows(t, scan, `SELECT artifact_id, step_id, name, size, sha256, kind, state, blob_key, stored_at, executable
		FROM build_artifact WHERE build_id = ? AND artifact_id > ? ORDER BY artifact_id`, id, after)
}

// resultTable is the table of test results.
var resultTable = table{`test_result`, []string{`build_id`, `artifact_id`, `ordinal`, `suite`, `name`, `outcome`,
	`duration`, `message`, `file`, `line`}}

// InsertReport stores a file's test report, unless that is stored.
func (t *tx) InsertReport(id builds.ID, r build.TestFile) error {
	text, err := json.Marshal(builds.SummaryOf(r))
	if err != nil {
		return err
	}
	added, err := t.exec(`INSERT INTO test_report (build_id, artifact_id, step_id, name, format, report) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, id, r.Artifact, r.Step, r.Name, string(r.Format), string(text))
	if err != nil || added == 0 {
		return err
	}
	var all [][]any
	for n, test := range r.Results {
		all = append(all, []any{id, r.Artifact, n + 1, test.Suite, test.Name, string(test.Outcome), int64(test.Duration),
			test.Message, test.File, test.Line})
	}
	return t.insert(resultTable, all)
}

// TestReports reads the test reports of a build's files, without the results.
func (t *tx) TestReports(id builds.ID) ([]build.TestFile, error) {
	scan := func(s scanner) (r build.TestFile, err error) {
		var text string
		if err = s.Scan(&r.Artifact, &r.Step, &r.Name, &r.Format, &text); err != nil {
			return r, err
		}
		return r, json.Unmarshal([]byte(text), &r)
	}
	return rows(t, scan, `SELECT artifact_id, step_id, name, format, report FROM test_report WHERE build_id = ? ORDER BY artifact_id`, id)
}

// StepCounts counts the steps of builds.
func (t *tx) StepCounts(ids []builds.ID) (map[builds.ID]int, error) {
	among, err := list(ids)
	if err != nil {
		return nil, err
	}
	all := map[builds.ID]int{}
	_, err = rows(t, func(s scanner) (none struct{}, err error) {
		var of builds.ID
		var n int
		err = s.Scan(&of, &n)
		all[of] = n
		return none, err
	}, `SELECT build_id, count(*) FROM build_step WHERE build_id IN (SELECT value FROM json_each(?)) AND step_id > 0 GROUP BY build_id`, among)
	return all, err
}

// TestSummaries reads the summaries of all reports of builds.
func (t *tx) TestSummaries(ids []builds.ID) (map[builds.ID][]builds.Summary, error) {
	among, err := list(ids)
	if err != nil {
		return nil, err
	}
	all := map[builds.ID][]builds.Summary{}
	_, err = rows(t, func(s scanner) (none struct{}, err error) {
		var of builds.ID
		var text string
		var summary builds.Summary
		if err = s.Scan(&of, &text); err == nil {
			err = json.Unmarshal([]byte(text), &summary)
		}
		all[of] = append(all[of], summary)
		return none, err
	}, `SELECT build_id, report FROM test_report WHERE build_id IN (SELECT value FROM json_each(?))`, among)
	return all, err
}

// TestResults reads test results after one.
func (t *tx) TestResults(id builds.ID, after builds.TestResult, broken bool, n int) ([]builds.TestResult, error) {
	scan := func(s scanner) (r builds.TestResult, err error) {
		err = s.Scan(&r.Artifact, &r.Ordinal, &r.Suite, &r.Name, &r.Outcome, &r.Duration, &r.Message, &r.File, &r.Line)
		return r, err
	}
	return rows(t, scan, `SELECT artifact_id, ordinal, suite, name, outcome, duration, message, file, line FROM test_result
		WHERE build_id = ? AND (artifact_id, ordinal) > (?, ?) AND (NOT ? OR outcome IN ('failed', 'flaky')) ORDER BY artifact_id, ordinal LIMIT ?`,
		id, after.Artifact, after.Ordinal, broken, limit(n))
}
