package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// BuildTables reads builds that ran in workers from the database, and those of results folders from Folders. Every field must be set.
type BuildTables struct {
	Rows    *builds.Builds
	Folders *BuildFolders
	Blobs   blob.Store
	StepOf  func(context.Context, action.ID) (*action.StepRef, error) // the action's step, or nil
}

const (
	tableCursor  = "worker:" // begins the cursor of a list inside of the database's builds
	eventsAtOnce = 1000
	mostEvents   = 100_000 // of a build's state
	testsAtOnce  = 1000
)

// Builds lists the builds of workers, newest first, then those of folders.
func (t *BuildTables) Builds(ctx context.Context, q BuildQuery) (BuildList, error) {
	list := BuildList{Builds: []BuildSummary{}}
	limit := q.Limit
	if limit == 0 {
		limit = listLength
	}
	id, ours := strings.CutPrefix(q.After, tableCursor)
	if q.After != "" && !ours {
		return t.Folders.Builds(ctx, q)
	}
	query := builds.Query{Status: q.Status, Environment: q.Environment, Project: q.Pipeline, Limit: mostListed}
	if ours {
		before, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return list, fault.New(fault.Invalid, "after: want the field next of an earlier page, found %q", q.After)
		}
		query.Before = builds.ID(before)
	}
	found, err := t.Rows.List(ctx, query)
	if err != nil {
		return list, err
	}
	for i := range found {
		s, err := t.summary(ctx, &found[i])
		if err != nil {
			return list, err
		}
		if q.selects(s) {
			list.Builds = append(list.Builds, s)
		}
		if len(list.Builds) == limit || i+1 == mostListed {
			list.Next = tableCursor + s.ID
			return list, nil
		}
	}
	rest := q
	rest.After, rest.Limit = "", limit-len(list.Builds)
	older, err := t.Folders.Builds(ctx, rest)
	list.Builds, list.Next = append(list.Builds, older.Builds...), older.Next
	return list, err
}

// summary describes a build without its steps' names.
func (t *BuildTables) summary(ctx context.Context, b *builds.Build) (BuildSummary, error) {
	s := BuildSummary{ID: strconv.FormatInt(int64(b.ID), 10), Status: b.Status, StatusID: statusID(b.Status), Reason: b.Reason, Pipeline: b.Project,
		Commit: b.Commit, Environment: b.Environment, Stages: append([]string{}, b.Stages...), Params: []BuildParam{}, Runner: "worker " + b.WorkerID,
		Branch: b.Branch, ScheduledOn: b.CreatedAt, StartedOn: b.StartedAt, FinishedOn: b.EndedAt}
	if b.WorkerID == "" {
		s.Runner = ""
	}
	if b.Message != "" {
		s.Reason = strings.TrimPrefix(s.Reason+": ", ": ") + b.Message
	}
	if b.RerunOf != 0 {
		s.RerunOf = strconv.FormatInt(int64(b.RerunOf), 10)
	}
	if b.Final != nil {
		s.Steps = b.Final.Steps
		s.IsInvalid = b.Status == build.Failed && s.Steps == 0
	}
	for name, value := range b.Inputs {
		s.Params = append(s.Params, BuildParam{Name: name, Value: value})
	}
	slices.SortFunc(s.Params, func(a, b BuildParam) int { return strings.Compare(a.Name, b.Name) })
	if b.ActionID.IsZero() {
		return s, nil
	}
	s.Action = b.ActionID.String()
	step, err := t.StepOf(ctx, b.ActionID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return s, err
	}
	if step != nil && err == nil {
		s.Pipeline, s.Deployment, s.Target = step.Pipeline, step.Deployment, step.Target
	}
	return s, nil
}

// OpenBuild opens a build of a worker by its number, or one in a folder.
func (t *BuildTables) OpenBuild(ctx context.Context, id string) (BuildReader, error) {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil || number < 1 {
		return t.Folders.OpenBuild(ctx, id)
	}
	found, err := t.Rows.List(ctx, builds.Query{IDs: []builds.ID{builds.ID(number)}})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return t.Folders.OpenBuild(ctx, id)
	}
	return &tableBuild{t, found[0].ID}, nil
}

// Pause waits for a moment: other processes store results.
func (t *BuildTables) Pause(ctx context.Context) error { return t.Folders.Pause(ctx) }

// tableBuild is one build of a worker.
type tableBuild struct {
	from *BuildTables
	id   builds.ID
}

// State reads the build, its steps and what they left.
func (b *tableBuild) State(ctx context.Context) (BuildState, error) {
	rows := b.from.Rows
	row, err := rows.Build(ctx, b.id) // first, so that an end is not seen before what led to it
	if err != nil {
		return BuildState{}, err
	}
	state := BuildState{Artifacts: []results.Artifact{}, Updates: map[int][]results.Update{}, Counts: map[int]testresult.Counts{}}
	if state.BuildSummary, err = b.from.summary(ctx, &row); err != nil {
		return state, err
	}
	steps, err := rows.Steps(ctx, b.id)
	if err != nil {
		return state, err
	}
	state.Plan = planOf(&row, steps)
	state.BuildSummary.Steps = len(state.Plan.Steps)
	state.Stages = nil
	for _, stage := range state.Plan.Stages {
		state.Stages = append(state.Stages, stage.Name)
	}
	if state.Updates, err = b.updates(ctx, &row, steps); err != nil {
		return state, err
	}
	artifacts, err := rows.Artifacts(ctx, b.id)
	if err != nil {
		return state, err
	}
	for _, a := range artifacts {
		state.Artifacts = append(state.Artifacts, results.Artifact{ID: a.ID, Step: a.Step, Name: a.Name, Path: a.BlobKey, Size: a.Size,
			SHA256: hex.EncodeToString(a.SHA256), Kind: a.Kind})
	}
	slices.SortStableFunc(state.Artifacts, func(a, b results.Artifact) int { return a.Step - b.Step })
	return state, b.addTests(ctx, &state)
}

// planOf returns what is known of a plan: its stages and steps, and what they wait for.
func planOf(row *builds.Build, steps []builds.Step) *build.Plan {
	p := &build.Plan{Environment: row.Environment, Stages: []build.PlanStage{}, Steps: []build.PlanStep{}}
	for i := range steps {
		s := &steps[i]
		if s.ID == 0 {
			continue
		}
		after := append([]int{}, s.Needs...)
		p.Steps = append(p.Steps, build.PlanStep{ID: s.ID, Stage: s.Stage, Name: s.Name, Type: s.Type, After: after})
		at := slices.IndexFunc(p.Stages, func(known build.PlanStage) bool { return known.Name == s.Stage })
		if at < 0 {
			p.Stages, at = append(p.Stages, build.PlanStage{Name: s.Stage}), len(p.Stages)
		}
		p.Stages[at].Steps = append(p.Stages[at].Steps, s.ID)
	}
	return p
}

// updates reads the statuses of all steps. Statuses and logs are stored independently: while the build runs, those from the end of a
// step whose log is not yet whole are left out, so that who has seen an end has all of the log.
func (b *tableBuild) updates(ctx context.Context, row *builds.Build, steps []builds.Step) (map[int][]results.Update, error) {
	trailers, whole := trailersOf(steps)
	all, number := map[int][]results.Update{}, int64(0) // streams need numbers without a gap
	for after := int64(0); after < mostEvents; {
		events, err := b.from.Rows.Events(ctx, b.id, after, eventsAtOnce)
		if err != nil || len(events) == 0 {
			return all, err
		}
		for _, e := range events {
			after = e.Seq
			if !e.Applied || e.Status == "" {
				continue
			}
			if e.Source == builds.Worker && e.Status.Ended() && !whole[e.Step] && !row.Status.Ended() {
				return all, nil
			}
			number++
			u := results.Update{ID: number, Timestamp: e.At, Status: e.Status, Attempt: e.Attempt, Reason: e.Reason, ExitCode: e.ExitCode}
			if e.Status.Ended() {
				u.Trailer = trailers[e.Step]
			}
			all[e.Step] = append(all[e.Step], u)
		}
	}
	return all, nil
}

// trailersOf returns what the logs of the steps that have ended come to, and whose are whole.
func trailersOf(steps []builds.Step) (trailers map[int]*results.Trailer, whole map[int]bool) {
	trailers, whole = map[int]*results.Trailer{}, map[int]bool{}
	for i := range steps {
		s := &steps[i]
		if t := s.Trailer; t != nil && s.LogLines >= t.Entries {
			whole[s.ID] = true
			trailers[s.ID] = &results.Trailer{Entries: t.Entries, Bytes: t.Bytes, SHA256: hex.EncodeToString(t.SHA256)}
		} else if t != nil { // the rest is lost
			trailers[s.ID] = &results.Trailer{Entries: s.LogLines, Bytes: s.LogBytes}
		}
	}
	return trailers, whole
}

// addTests adds the counts of tests, and the files with failed and flaky ones.
func (b *tableBuild) addTests(ctx context.Context, state *BuildState) error {
	files, err := b.files(ctx, func(r testresult.Result) bool { return r.Outcome == testresult.Failed || r.Outcome == testresult.Flaky })
	for _, f := range files {
		counts := state.Counts[f.Step]
		counts.Add(f.Counts)
		state.Counts[f.Step] = counts
		if len(f.Results) > 0 && len(state.Notable) < mostNotable {
			state.Notable = append(state.Notable, f)
		}
	}
	return err
}

// Tests lists what the files of all steps report about tests.
func (b *tableBuild) Tests(ctx context.Context) ([]results.TestFile, error) {
	return b.files(ctx, func(testresult.Result) bool { return true })
}

// files reads the files of test results, with the tests that keep wants.
func (b *tableBuild) files(ctx context.Context, keep func(testresult.Result) bool) ([]results.TestFile, error) {
	reports, err := b.from.Rows.TestReports(ctx, b.id)
	if err != nil || len(reports) == 0 {
		return nil, err
	}
	kept := map[int][]testresult.Result{}
	for last := (builds.TestResult{}); ; {
		page, err := b.from.Rows.TestResults(ctx, b.id, last, testsAtOnce)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if last = r; keep(r.Result) {
				kept[r.Artifact] = append(kept[r.Artifact], r.Result)
			}
		}
		if len(page) < testsAtOnce {
			break
		}
	}
	var files []results.TestFile
	for _, r := range reports {
		files = append(files, results.TestFile{Artifact: r.Artifact, Step: r.Step, Name: r.Name, Format: r.Format, Problem: r.Problem,
			Report: testresult.Report{Counts: r.Counts, Results: kept[r.Artifact], Omitted: r.Omitted}})
	}
	slices.SortStableFunc(files, func(a, b results.TestFile) int { return a.Step - b.Step })
	return files, nil
}

// OpenArtifact opens the bytes of an artifact. Those of a store without a place to seek in are copied to a temporary file.
func (b *tableBuild) OpenArtifact(ctx context.Context, a results.Artifact) (io.ReadSeekCloser, error) {
	if a.Path == "" {
		return nil, fault.New(fault.NotFound, "artifact %d of build %d is damaged: what its worker had was not what the step yielded", a.ID, b.id)
	}
	content, _, err := b.from.Blobs.Get(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	if seeker, ok := content.(io.ReadSeekCloser); ok {
		return seeker, nil
	}
	defer content.Close()
	file, err := os.CreateTemp("", "waybill-artifact-*")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(file, content)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err = errors.Join(err, os.Remove(file.Name())); err != nil { // it stays readable until it is closed
		return nil, errors.Join(fmt.Errorf("copy artifact %s: %w", a.Name, err), file.Close())
	}
	return file, nil
}

// Locate finds a place in the log of a step.
func (b *tableBuild) Locate(ctx context.Context, step int, place LogPlace) (results.Position, error) {
	after := place.After
	if !place.Since.IsZero() {
		after = math.MaxInt64
		err := b.from.Rows.Log(ctx, b.id, step, 0, func(id int64, e build.Entry) error {
			if e.At.Before(place.Since) {
				return nil
			}
			after = id - 1
			return errEnough
		})
		if err != nil && !errors.Is(err, errEnough) {
			return results.Position{}, err
		}
	}
	at, err := b.from.Rows.Find(ctx, b.id, step, after)
	return results.Position{ID: at.LogID, Offset: at.Offset}, err
}

// ReadLog reads whole entries of the log of a step.
func (b *tableBuild) ReadLog(ctx context.Context, step int, offset int64, buffer []byte) (size int, entries int64, err error) {
	size, err = io.ReadFull(b.from.Rows.OpenLog(ctx, b.id, step, offset), buffer)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0, err
	}
	size = bytes.LastIndexByte(buffer[:size], '\n') + 1
	return size, int64(bytes.Count(buffer[:size], []byte("\n"))), nil
}
