package postgres

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Rows of package builds: builds with their steps, events, logs, artifacts and test results.

// InsertBuild stores a build and returns its id.
func (t *tx) InsertBuild(b builds.Build) (builds.ID, error) {
	stages, inputs, err := encodeBuild(b)
	if err != nil {
		return 0, err
	}
	made, err := query(t, func(row pgx.Row) (id builds.ID, err error) {
		err = row.Scan(&id)
		return id, err
	}, `INSERT INTO build (project, branch, "commit", revision, deployment, target, environment, stages, inputs, engine, worker_id, nonce,
		rerun_of, resume, action_id, status, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) RETURNING build_id`,
		b.Project, b.Branch, b.Commit, b.Revision, b.Deployment, b.Target, b.Environment, stages, inputs, b.Engine,
		b.WorkerID, b.Nonce, int64(b.RerunOf), b.Resume, uuid(b.ActionID),
		string(b.Status), b.CreatedBy, stamp(b.CreatedAt))
	if err != nil || len(made) == 0 {
		return 0, err
	}
	return made[0], nil
}

// encodeBuild returns the columns of a build that are JSON.
func encodeBuild(b builds.Build) (stages, inputs string, err error) {
	list, err := json.Marshal(append([]string{}, b.Stages...))
	if err != nil {
		return "", "", err
	}
	text, err := json.Marshal(b.Inputs)
	return string(list), string(text), err
}

// buildColumns are the columns of a build, in the order of scanBuild.
const buildColumns = `build_id, project, branch, "commit", revision, deployment, target, environment, stages, inputs, engine, worker_id, nonce, rerun_of, resume, bundle, action_id,
	status, reason, message, created_by, created_at, started_at, ended_at, cancel_requested_at, lease_until, last_progress_at,
	acknowledged_at, deleted_at, expired_at, last_seq, refused_events, event_cursor, artifact_cursor, final_steps, final_events, final_artifacts`

// scanBuild reads buildColumns.
func scanBuild(row pgx.Row) (b builds.Build, err error) {
	var stages, inputs string
	var steps, events, artifacts pgtype.Int8
	err = row.Scan(&b.ID, &b.Project, &b.Branch, &b.Commit, &b.Revision, &b.Deployment, &b.Target, &b.Environment,
		&stages, &inputs, &b.Engine, &b.WorkerID, &b.Nonce,
		&b.RerunOf, &b.Resume, &b.Bundle, idOf{&b.ActionID}, &b.Status, &b.Reason, &b.Message, &b.CreatedBy,
		timeOf{&b.CreatedAt}, timeOf{&b.StartedAt},
		timeOf{&b.EndedAt}, timeOf{&b.CancelRequestedAt}, timeOf{&b.LeaseUntil}, timeOf{&b.LastProgressAt}, timeOf{&b.AcknowledgedAt},
		timeOf{&b.DeletedAt}, timeOf{&b.ExpiredAt}, &b.LastSeq, &b.RefusedEvents, &b.EventCursor, &b.ArtifactCursor, &steps, &events, &artifacts)
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

// LockBuild locks and reads a build.
func (t *tx) LockBuild(id builds.ID) (builds.Build, bool, error) {
	found, err := query(t, scanBuild, `SELECT `+buildColumns+` FROM build WHERE build_id = $1 FOR UPDATE`, int64(id))
	if err != nil || len(found) == 0 {
		return builds.Build{}, false, err
	}
	return found[0], true, nil
}

// UpdateBuild writes the changing columns of a build.
func (t *tx) UpdateBuild(b builds.Build) error {
	var steps, artifacts pgtype.Int4
	var events pgtype.Int8
	if f := b.Final; f != nil {
		steps, artifacts = pgtype.Int4{Int32: int32(f.Steps), Valid: true}, pgtype.Int4{Int32: int32(f.Artifacts), Valid: true}
		events = pgtype.Int8{Int64: f.Events, Valid: true}
	}
	return t.do(`UPDATE build SET worker_id = $2, nonce = $3, action_id = $4, status = $5, reason = $6, message = $7, started_at = $8, ended_at = $9,
		cancel_requested_at = $10, lease_until = $11, last_progress_at = $12, acknowledged_at = $13, deleted_at = $14, last_seq = $15,
		refused_events = $16, event_cursor = $17, artifact_cursor = $18, final_steps = $19, final_events = $20, final_artifacts = $21, expired_at = $22, bundle = $23
		WHERE build_id = $1`,
		int64(b.ID), b.WorkerID, b.Nonce, uuid(b.ActionID), string(b.Status), b.Reason, b.Message, stamp(b.StartedAt), stamp(b.EndedAt),
		stamp(b.CancelRequestedAt), stamp(b.LeaseUntil), stamp(b.LastProgressAt), stamp(b.AcknowledgedAt), stamp(b.DeletedAt), b.LastSeq,
		b.RefusedEvents, b.EventCursor, b.ArtifactCursor, steps, events, artifacts, stamp(b.ExpiredAt), b.Bundle)
}

// Builds reads by query, newest first.
func (t *tx) Builds(q builds.Query) ([]builds.Build, error) {
	var f filter
	f.when(q.IDs != nil, "build_id = ANY (?)", numbers(q.IDs))
	f.when(q.Project != "", "project = ?", q.Project)
	f.when(q.Branch != "", "branch = ?", q.Branch)
	from, below := q.CommitRange()
	f.when(q.Commit != "", `"commit" >= ?`, from)
	f.when(q.Commit != "", `"commit" < ?`, below)
	f.when(!q.ActionID.IsZero(), "action_id = ?", uuid(q.ActionID))
	f.when(q.Deployment != 0, "deployment > 0 AND deployment = ?", q.Deployment)
	f.when(!q.Since.IsZero(), "created_at >= ?", q.Since)
	f.when(!q.Until.IsZero(), "created_at < ?", q.Until)
	f.when(q.Revision != "", "revision = ?", q.Revision)
	f.when(q.Environment != "", "environment = ?", q.Environment)
	f.when(q.Status != "", "status = ?", string(q.Status))
	if q.Active {
		f.conditions = append(f.conditions, "status IN ('Scheduling', 'Running')")
	}
	if !q.Deleted {
		f.conditions = append(f.conditions, "deleted_at IS NULL")
	}
	f.when(q.Before != 0, "build_id < ?", int64(q.Before))
	limited := f.limit(q.Limit)
	return query(t, scanBuild, "SELECT "+buildColumns+" FROM build"+f.where()+" ORDER BY build_id DESC"+limited, f.arguments...)
}

// numbers returns ids as the database has them.
func numbers(ids []builds.ID) []int64 {
	return column(ids, func(id builds.ID) int64 { return int64(id) })
}

// BuildsHaving returns those of the builds that have a part with a text.
func (t *tx) BuildsHaving(ids []builds.ID, part builds.Part, text string) ([]builds.ID, error) {
	from, ok := map[builds.Part]string{
		builds.PartStage:    "build_step WHERE stage = $2",
		builds.PartArtifact: "build_artifact WHERE strpos(lower(name), lower($2)) > 0",
		builds.PartTest:     "test_result WHERE strpos(lower(suite || ' ' || name), lower($2)) > 0",
	}[part]
	if !ok {
		return nil, fmt.Errorf("builds have no %s", part)
	}
	return query(t, func(row pgx.Row) (id builds.ID, err error) {
		err = row.Scan(&id)
		return id, err
	}, "SELECT DISTINCT build_id FROM "+from+" AND build_id = ANY ($1)", numbers(ids), text)
}

// DeleteResults deletes all rows of a build but its own.
func (t *tx) DeleteResults(id builds.ID) error {
	for _, table := range []string{"build_event", "build_step", "log_line", "build_artifact", "test_report", "test_result"} {
		if err := t.do("DELETE FROM "+table+" WHERE build_id = $1", int64(id)); err != nil {
			return err
		}
	}
	return nil
}

// BuildsBefore returns builds that have ended, were not deleted and have not expired, with no progress since a time.
func (t *tx) BuildsBefore(at time.Time, after builds.ID, n int) ([]builds.ID, error) {
	return query(t, func(row pgx.Row) (id builds.ID, err error) {
		err = row.Scan(&id)
		return id, err
	}, `SELECT build_id FROM build WHERE status NOT IN ('Scheduling', 'Running') AND deleted_at IS NULL AND expired_at IS NULL
		AND coalesce(last_progress_at, created_at) < $1 AND build_id > $2 ORDER BY build_id LIMIT $3`, at, int64(after), n)
}

// EndedResumes returns builds that have ended, were not deleted and have not expired, and that may have a bundle.
func (t *tx) EndedResumes(after builds.ID, n int) ([]builds.ID, error) {
	return query(t, func(row pgx.Row) (id builds.ID, err error) {
		err = row.Scan(&id)
		return id, err
	}, `SELECT build_id FROM build WHERE status NOT IN ('Scheduling', 'Running') AND deleted_at IS NULL AND expired_at IS NULL
		AND resume AND bundle <> $1 AND build_id > $2 ORDER BY build_id LIMIT $3`, builds.NoBundle, int64(after), n)
}

// DeleteSome deletes at most so many rows of each table of a build, other than its own row and its steps.
func (t *tx) DeleteSome(id builds.ID, most int) (left bool, err error) {
	for _, of := range [...]struct{ table, key string }{{"log_line", "step_id, log_id"}, {"test_result", "artifact_id, ordinal"},
		{"build_event", "seq"}, {"test_report", "artifact_id"}, {"build_artifact", "artifact_id"}} {
		deleted, err := t.count("DELETE FROM "+of.table+" WHERE build_id = $1 AND ("+of.key+") IN (SELECT "+of.key+" FROM "+
			of.table+" WHERE build_id = $1 LIMIT $2)", int64(id), most)
		if err != nil {
			return false, err
		}
		left = left || deleted == int64(most)
	}
	return left, nil
}

// stepColumns are the columns of a step, in the order of scanStep.
const stepColumns = `step_id, stage, name, type, needs, status, attempt, reason, message, exit_code, started_at, ended_at, log_lines, log_bytes,
	hash_state, trailer_entries, trailer_bytes, trailer_sha256, identity`

// PutSteps stores whole steps.
func (t *tx) PutSteps(id builds.ID, steps []builds.Step) error {
	for i := range steps {
		s := &steps[i]
		needs, err := json.Marshal(append([]int{}, s.Needs...))
		if err != nil {
			return err
		}
		var entries, bytes pgtype.Int8
		var sum []byte
		if s.Trailer != nil {
			entries, bytes = pgtype.Int8{Int64: s.Trailer.Entries, Valid: true}, pgtype.Int8{Int64: s.Trailer.Bytes, Valid: true}
			sum = build.DigestBytes(s.Trailer.SHA256)
		}
		if err := t.do(`INSERT INTO build_step (build_id, `+stepColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
			ON CONFLICT (build_id, step_id) DO UPDATE SET stage = $3, name = $4, type = $5, needs = $6, status = $7, attempt = $8, reason = $9,
				message = $10, exit_code = $11, started_at = $12, ended_at = $13, log_lines = $14, log_bytes = $15, hash_state = $16,
				trailer_entries = $17, trailer_bytes = $18, trailer_sha256 = $19, identity = $20`,
			int64(id), s.ID, s.Stage, s.Name, s.Type, string(needs), string(s.Status), s.Attempt, s.Reason, s.Message, s.ExitCode,
			stamp(s.StartedAt), stamp(s.EndedAt), s.LogLines, s.LogBytes, s.HashState, entries, bytes, sum, s.Identity); err != nil {
			return err
		}
	}
	return nil
}

// scanStep reads stepColumns.
func scanStep(row pgx.Row) (s builds.Step, err error) {
	var needs string
	var entries, bytes pgtype.Int8
	var sum []byte
	err = row.Scan(&s.ID, &s.Stage, &s.Name, &s.Type, &needs, &s.Status, &s.Attempt, &s.Reason, &s.Message, &s.ExitCode,
		timeOf{&s.StartedAt}, timeOf{&s.EndedAt}, &s.LogLines, &s.LogBytes, &s.HashState, &entries, &bytes, &sum, &s.Identity)
	if err != nil {
		return s, err
	}
	if entries.Valid {
		s.Trailer = &build.Trailer{Entries: entries.Int64, Bytes: bytes.Int64, SHA256: hex.EncodeToString(sum)}
	}
	return s, json.Unmarshal([]byte(needs), &s.Needs)
}

// Steps reads steps in the order of their ids; nil reads all.
func (t *tx) Steps(id builds.ID, only []int) ([]builds.Step, error) {
	if only == nil {
		return query(t, scanStep, "SELECT "+stepColumns+" FROM build_step WHERE build_id = $1 ORDER BY step_id", int64(id))
	}
	return query(t, scanStep, "SELECT "+stepColumns+
		" FROM build_step WHERE build_id = $1 AND step_id = ANY ($2) ORDER BY step_id", int64(id), only)
}

// InsertBuildEvents stores events.
func (t *tx) InsertBuildEvents(id builds.ID, events []builds.Event) error {
	for i := range events {
		e := &events[i]
		if err := t.do(`INSERT INTO build_event (build_id, seq, source, event_id, step_id, status, attempt, reason, message, exit_code, applied, at, stored_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			int64(id), e.Seq, string(e.Source), e.EventID, e.Step, string(e.Status), e.Attempt, e.Reason, e.Message, e.ExitCode, e.Applied,
			stamp(e.At), stamp(e.StoredAt)); err != nil {
			return err
		}
	}
	return nil
}

// HasBuildEvent reports whether an event of a source is stored.
func (t *tx) HasBuildEvent(id builds.ID, source builds.Source, eventID string) (bool, error) {
	found, err := query(t, func(row pgx.Row) (seq int64, err error) {
		err = row.Scan(&seq)
		return seq, err
	}, "SELECT seq FROM build_event WHERE build_id = $1 AND source = $2 AND event_id = $3", int64(id), string(source), eventID)
	return len(found) > 0, err
}

// BuildEvents reads those after a number, in their order.
func (t *tx) BuildEvents(id builds.ID, after int64, n int) ([]builds.Event, error) {
	f := filter{}
	f.and("build_id = ?", int64(id))
	f.and("seq > ?", after)
	limited := f.limit(n)
	return query(t, func(row pgx.Row) (e builds.Event, err error) {
		err = row.Scan(&e.Seq, &e.Source, &e.EventID, &e.Step, &e.Status, &e.Attempt, &e.Reason, &e.Message, &e.ExitCode, &e.Applied,
			timeOf{&e.At}, timeOf{&e.StoredAt})
		return e, err
	}, `SELECT seq, source, event_id, step_id, status, attempt, reason, message, exit_code, applied, at, stored_at
		FROM build_event`+f.where()+" ORDER BY seq"+limited, f.arguments...)
}

// InsertBlocks stores blocks of logs. The statements go to the server together.
func (t *tx) InsertBlocks(id builds.ID, blocks []builds.Block) error {
	for i := range blocks {
		b := &blocks[i]
		if err := t.do(`INSERT INTO log_line (build_id, step_id, log_id, lines, byte_offset, bytes, first_at, last_at, data)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			int64(id), b.Step, b.Begin.ID+1, b.Lines, b.Begin.Offset, b.Size, stamp(b.FirstAt), stamp(b.LastAt), b.Data); err != nil {
			return err
		}
	}
	return nil
}

// Blocks reads a step's blocks in their order, from the one that holds the byte at an offset.
func (t *tx) Blocks(id builds.ID, step int, offset, until int64, n int) ([]builds.Block, error) {
	f := filter{}
	f.and("build_id = ?", int64(id))
	f.and("step_id = ?", step)
	f.and("byte_offset > ?", offset-builds.BlockSize)
	f.and("byte_offset < ?", until)
	f.and("byte_offset + bytes > ?", offset)
	limited := f.limit(n)
	return query(t, scanBlock, "SELECT step_id, log_id, lines, byte_offset, bytes, first_at, last_at, data FROM log_line"+
		f.where()+" ORDER BY byte_offset"+limited, f.arguments...)
}

// BlockOf reads the last block that begins at or before an entry, without its data.
func (t *tx) BlockOf(id builds.ID, step int, logID int64) (builds.Block, bool, error) {
	found, err := query(t, scanBlock, `SELECT step_id, log_id, lines, byte_offset, bytes, first_at, last_at, NULL::bytea FROM log_line
		WHERE build_id = $1 AND step_id = $2 AND log_id <= $3 ORDER BY log_id DESC LIMIT 1`, int64(id), step, logID)
	if err != nil || len(found) == 0 {
		return builds.Block{}, false, err
	}
	return found[0], true, nil
}

// BlockSince reads the first block with an entry that is not older than a time, without its data.
func (t *tx) BlockSince(id builds.ID, step int, at time.Time) (builds.Block, bool, error) {
	found, err := query(t, scanBlock, `SELECT step_id, log_id, lines, byte_offset, bytes, first_at, last_at, NULL::bytea FROM log_line
		WHERE build_id = $1 AND step_id = $2 AND last_at >= $3 ORDER BY log_id LIMIT 1`, int64(id), step, at)
	if err != nil || len(found) == 0 {
		return builds.Block{}, false, err
	}
	return found[0], true, nil
}

// scanBlock reads the columns of Blocks.
func scanBlock(row pgx.Row) (b builds.Block, err error) {
	err = row.Scan(&b.Step, &b.Begin.ID, &b.Lines, &b.Begin.Offset, &b.Size, timeOf{&b.FirstAt}, timeOf{&b.LastAt}, &b.Data)
	b.Begin.ID-- // log_id is that of the first entry
	return b, err
}

// InsertBuildArtifacts stores artifacts.
func (t *tx) InsertBuildArtifacts(id builds.ID, artifacts []builds.Artifact) error {
	for i := range artifacts {
		a := &artifacts[i]
		if err := t.do(`INSERT INTO build_artifact (build_id, artifact_id, step_id, name, size, sha256, kind, state, blob_key, stored_at, executable)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			int64(id), a.ID, a.Step, a.Name, a.Size, build.DigestBytes(a.SHA256), a.Kind, string(a.State), a.Path,
			stamp(a.StoredAt), a.Executable); err != nil {
			return err
		}
	}
	return nil
}

// BuildArtifacts reads the artifacts of a build after one, in the order of their ids.
func (t *tx) BuildArtifacts(id builds.ID, after int) ([]builds.Artifact, error) {
	return query(t, func(row pgx.Row) (a builds.Artifact, err error) {
		var sum []byte
		err = row.Scan(&a.ID, &a.Step, &a.Name, &a.Size, &sum, &a.Kind, &a.State, &a.Path, timeOf{&a.StoredAt}, &a.Executable)
		a.SHA256 = hex.EncodeToString(sum)
		return a, err
	}, `SELECT artifact_id, step_id, name, size, sha256, kind, state, blob_key, stored_at, executable
		FROM build_artifact WHERE build_id = $1 AND artifact_id > $2 ORDER BY artifact_id`, int64(id), after)
}

// InsertReport stores a file's test report, unless that is stored.
func (t *tx) InsertReport(id builds.ID, r build.TestFile) error {
	text, err := json.Marshal(builds.SummaryOf(r))
	if err != nil {
		return err
	}
	added, err := t.count(`INSERT INTO test_report (build_id, artifact_id, step_id, name, format, report) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT DO NOTHING`, int64(id), r.Artifact, r.Step, r.Name, string(r.Format), document(text))
	if err != nil || added == 0 || len(r.Results) == 0 {
		return err
	}
	type result = testresult.Result
	return t.do(`INSERT INTO test_result (build_id, artifact_id, ordinal, suite, name, outcome, duration, message, file, line)
		SELECT $1, $2, n.ordinal, n.suite, n.name, n.outcome, n.duration, n.message, n.file, n.line
		FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::int[]) WITH ORDINALITY
			AS n (suite, name, outcome, duration, message, file, line, ordinal)`,
		int64(id), r.Artifact,
		column(r.Results, func(r result) string { return r.Suite }),
		column(r.Results, func(r result) string { return r.Name }),
		column(r.Results, func(r result) string { return string(r.Outcome) }),
		column(r.Results, func(r result) int64 { return int64(r.Duration) }),
		column(r.Results, func(r result) string { return r.Message }),
		column(r.Results, func(r result) string { return r.File }),
		column(r.Results, func(r result) int32 { return int32(r.Line) }))
}

// TestReports reads the test reports of a build's files, without the results.
func (t *tx) TestReports(id builds.ID) ([]build.TestFile, error) {
	return query(t, func(row pgx.Row) (r build.TestFile, err error) {
		var text string
		if err = row.Scan(&r.Artifact, &r.Step, &r.Name, &r.Format, &text); err != nil {
			return r, err
		}
		return r, json.Unmarshal([]byte(text), &r)
	}, "SELECT artifact_id, step_id, name, format, report::text FROM test_report WHERE build_id = $1 ORDER BY artifact_id", int64(id))
}

// StepCounts counts the steps of builds.
func (t *tx) StepCounts(ids []builds.ID) (map[builds.ID]int, error) {
	all := map[builds.ID]int{}
	_, err := query(t, func(row pgx.Row) (none struct{}, err error) {
		var of builds.ID
		var n int
		err = row.Scan(&of, &n)
		all[of] = n
		return none, err
	}, "SELECT build_id, count(*) FROM build_step WHERE build_id = ANY ($1) AND step_id > 0 GROUP BY build_id", numbers(ids))
	return all, err
}

// TestSummaries reads the summaries of all reports of builds.
func (t *tx) TestSummaries(ids []builds.ID) (map[builds.ID][]builds.Summary, error) {
	all := map[builds.ID][]builds.Summary{}
	_, err := query(t, func(row pgx.Row) (none struct{}, err error) {
		var of builds.ID
		var text string
		var summary builds.Summary
		if err = row.Scan(&of, &text); err == nil {
			err = json.Unmarshal([]byte(text), &summary)
		}
		all[of] = append(all[of], summary)
		return none, err
	}, "SELECT build_id, report::text FROM test_report WHERE build_id = ANY ($1)", numbers(ids))
	return all, err
}

// TestResults reads test results after one.
func (t *tx) TestResults(id builds.ID, after builds.TestResult, broken bool, n int) ([]builds.TestResult, error) {
	f := filter{}
	f.and("build_id = ?", int64(id))
	f.conditions = append(f.conditions, "(artifact_id, ordinal) > ("+f.argument(after.Artifact)+", "+f.argument(after.Ordinal)+")")
	if broken {
		f.conditions = append(f.conditions, "outcome IN ('failed', 'flaky')")
	}
	limited := f.limit(n)
	return query(t, func(row pgx.Row) (r builds.TestResult, err error) {
		err = row.Scan(&r.Artifact, &r.Ordinal, &r.Suite, &r.Name, &r.Outcome, &r.Duration, &r.Message, &r.File, &r.Line)
		return r, err
	}, `SELECT artifact_id, ordinal, suite, name, outcome, duration, message, file, line FROM test_result`+f.where()+
		" ORDER BY artifact_id, ordinal"+limited, f.arguments...)
}
