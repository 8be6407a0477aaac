package buildview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Bounds of what is read and remembered of a build in the database.
const (
	eventsAtOnce = 1000
	mostEvents   = 100_000 // bounds the events of a build's state
	testsAtOnce  = 1000
	tablePause   = 100 * time.Millisecond // shortest time between two looks of a follower
	tableNet     = 3 * time.Second        // longest time between two looks: a wake-up may be lost
)

// tableBuild is one build of the database. It remembers what it has read, and reads only what is new.
type tableBuild struct {
	from *Tables
	id   builds.ID

	mu    sync.Mutex
	known knownBuild
}

// knownBuild holds the facts that were read of a build.
type knownBuild struct {
	row       builds.Build
	origin    *Origin // origin of a deployment's build, once it was read
	steps     []builds.Step
	events    []builds.Event   // changes of status that were allowed
	lastSeq   int64            // number of the last event that was read
	artifacts []build.Artifact // in the order of their ids
	reports   int
	counts    map[int]testresult.Counts
	notable   []build.TestFile
}

// State reads the build, its steps and what they left, as far as it has changed.
func (b *tableBuild) State(ctx context.Context) (State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(ctx); err != nil {
		return State{}, err
	}
	k := &b.known
	state := State{Summary: tableSummary(&k.row), Plan: planOf(&k.row, k.steps), Updates: k.updates(), Artifacts: slices.Clone(k.artifacts),
		Counts: k.counts, Notable: k.notable, Logs: map[int]build.Position{}}
	if k.row.Deployment != 0 {
		if k.origin == nil {
			k.origin, _ = b.from.Folders.originOf(ctx, k.row.ActionID) // without it the build has no subject yet
		}
		if k.origin != nil {
			k.origin.add(&state.Summary)
		}
	}
	slices.SortStableFunc(state.Artifacts, func(a, b build.Artifact) int { return a.Step - b.Step })
	if n := len(state.Plan.Steps); n > 0 {
		state.Summary.Steps, state.Stages = n, nil
	}
	for _, stage := range state.Plan.Stages {
		state.Stages = append(state.Stages, stage.Name)
	}
	for i := range k.steps {
		if !k.row.ExpiredAt.IsZero() {
			break
		}
		state.Logs[k.steps[i].ID] = build.Position{ID: k.steps[i].LogLines, Offset: k.steps[i].LogBytes}
	}
	if k.reports > 0 {
		all := testresult.Counts{}
		for _, c := range k.counts {
			all.Add(c)
		}
		state.Tests = &all
	}
	return state, nil
}

// refresh reads what has changed. The caller holds the lock.
func (b *tableBuild) refresh(ctx context.Context) error {
	row, err := b.from.Rows.Build(ctx, b.id) // first, so that an end is not seen before what led to it
	if err != nil {
		return err
	}
	next, before := b.known, b.known.row
	next.row = row
	if !row.ExpiredAt.Equal(before.ExpiredAt) {
		before, next = builds.Build{}, knownBuild{row: row}
	}
	if before.ID != 0 && row.LastSeq == before.LastSeq && row.ArtifactCursor == before.ArtifactCursor &&
		row.LastProgressAt.Equal(before.LastProgressAt) {
		b.known = next
		return nil
	}
	for _, read := range []func(context.Context, *knownBuild) error{b.readEvents, b.readArtifacts, b.readTests} {
		if err := read(ctx, &next); err != nil {
			return err
		}
	}
	if next.steps, err = b.from.Rows.Steps(ctx, b.id); err != nil { // last, so that they have the step of every event, artifact and test
		return err
	}
	b.known = next
	return nil
}

// readEvents adds the new changes of status.
func (b *tableBuild) readEvents(ctx context.Context, k *knownBuild) error {
	k.events = slices.Clip(k.events)
	for k.lastSeq < min(k.row.LastSeq, mostEvents) {
		events, err := b.from.Rows.Events(ctx, b.id, k.lastSeq, eventsAtOnce)
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			k.lastSeq = e.Seq
			if e.Applied && e.Status != "" {
				k.events = append(k.events, e)
			}
		}
	}
	return nil
}

// readArtifacts adds the new artifacts.
func (b *tableBuild) readArtifacts(ctx context.Context, k *knownBuild) error {
	last := 0
	if n := len(k.artifacts); n > 0 {
		last = k.artifacts[n-1].ID
	}
	if last >= k.row.ArtifactCursor {
		return nil
	}
	artifacts, err := b.from.Rows.Artifacts(ctx, b.id, last)
	k.artifacts = slices.Clip(k.artifacts)
	for _, a := range artifacts {
		k.artifacts = append(k.artifacts, a.Artifact)
	}
	return err
}

// readTests reads the counts of tests, and the files with failed and flaky ones, if there are new reports.
func (b *tableBuild) readTests(ctx context.Context, k *knownBuild) error {
	reports, err := b.from.Rows.TestReports(ctx, b.id)
	if err != nil || len(reports) == k.reports {
		return err
	}
	files, err := b.files(ctx, reports, true)
	k.reports, k.counts, k.notable = len(reports), map[int]testresult.Counts{}, nil
	for _, f := range files {
		counts := k.counts[f.Step]
		counts.Add(f.Counts)
		k.counts[f.Step] = counts
		if len(f.Results) > 0 && len(k.notable) < mostNotable {
			k.notable = append(k.notable, f)
		}
	}
	return err
}

// planOf returns the known state of a plan: its stages and steps, and what they wait for.
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

// updates returns the statuses of all steps. Statuses and logs are stored independently: while the build runs, those from the end of a
// step whose log is not yet whole are left out, so that who has seen an end has all of the log.
func (k *knownBuild) updates() map[int][]build.Update {
	trailers, whole := trailersOf(k.steps)
	if !k.row.ExpiredAt.IsZero() {
		trailers = nil // their logs were removed
	}
	all, number := map[int][]build.Update{}, int64(0) // streams need numbers without a gap
	add := func(step int, u build.Update) {
		number++
		if u.ID, u.Step = number, step; u.Status.Ended() {
			u.Trailer = trailers[step]
		}
		all[step] = append(all[step], u)
	}
	for _, e := range k.events {
		if e.Source == builds.Worker && e.Status.Ended() && !whole[e.Step] && !k.row.Status.Ended() {
			return all
		}
		add(e.Step, build.Update{Timestamp: e.At, Status: e.Status, Attempt: e.Attempt, Reason: e.Reason, ExitCode: e.ExitCode})
	}
	if k.row.ExpiredAt.IsZero() {
		return all
	}
	for i := range k.steps { // retention has left these
		s := &k.steps[i]
		add(s.ID, build.Update{Timestamp: s.EndedAt, Status: s.Status, Attempt: s.Attempt, Reason: s.Reason, ExitCode: s.ExitCode})
	}
	return all
}

// trailersOf returns what the logs of the steps that have ended come to, and whose are whole.
func trailersOf(steps []builds.Step) (trailers map[int]*build.Trailer, whole map[int]bool) {
	trailers, whole = map[int]*build.Trailer{}, map[int]bool{}
	for i := range steps {
		s := &steps[i]
		if t := s.Trailer; t != nil && s.LogLines >= t.Entries {
			whole[s.ID] = true
			trailers[s.ID] = t
		} else if t != nil { // the rest is lost
			trailers[s.ID] = &build.Trailer{Entries: s.LogLines, Bytes: s.LogBytes}
		}
	}
	return trailers, whole
}

// Tests lists the test reports of all steps' files.
func (b *tableBuild) Tests(ctx context.Context) ([]build.TestFile, error) {
	reports, err := b.from.Rows.TestReports(ctx, b.id)
	if err != nil {
		return nil, err
	}
	return b.files(ctx, reports, false)
}

// files reads the tests of files; with broken only those that failed or were flaky.
func (b *tableBuild) files(ctx context.Context, files []build.TestFile, broken bool) ([]build.TestFile, error) {
	kept := map[int][]testresult.Result{}
	for last := (builds.TestResult{}); len(files) > 0; {
		page, err := b.from.Rows.TestResults(ctx, b.id, last, broken, testsAtOnce)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			last = r
			kept[r.Artifact] = append(kept[r.Artifact], r.Result)
		}
		if len(page) < testsAtOnce {
			break
		}
	}
	for i := range files {
		files[i].Results = kept[files[i].Artifact]
	}
	slices.SortStableFunc(files, func(a, b build.TestFile) int { return a.Step - b.Step })
	return files, nil
}

// OpenArtifact opens the bytes of an artifact. Those of a store without a place to seek in are copied to a temporary file.
func (b *tableBuild) OpenArtifact(ctx context.Context, a build.Artifact) (io.ReadSeekCloser, error) {
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
func (b *tableBuild) Locate(ctx context.Context, step int, place LogPlace) (build.Position, error) {
	if !place.Since.IsZero() {
		return b.from.Rows.FindSince(ctx, b.id, step, place.Since)
	}
	return b.from.Rows.Find(ctx, b.id, step, place.After)
}

// ReadLog reads whole entries of the log of a step.
func (b *tableBuild) ReadLog(ctx context.Context, step int, offset int64, buffer []byte) (int, error) {
	size, err := b.from.Rows.ReadLog(ctx, b.id, step, offset, buffer)
	if err != nil {
		return 0, err
	}
	return bytes.LastIndexByte(buffer[:size], '\n') + 1, nil
}

// Follow returns a function that returns when the build may have changed since its last call. Wake-ups are those of all builds, so
// there is a least time between two looks.
func (b *tableBuild) Follow() func(ctx context.Context) error {
	wait, looked := b.from.Waiter(), time.Now()
	return func(ctx context.Context) error {
		if err := PauseFor(ctx, time.Until(looked.Add(tablePause))); err != nil {
			return err
		}
		err := wait(ctx, time.Now().Add(tableNet))
		looked = time.Now()
		return err
	}
}
