package builds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// LongestReported is the most bytes of the text of an entry that another build engine reports.
const LongestReported = 16 << 10

// Bounds of another build engine's reports about a build. All steps are read with each report, and readers read a
// build whole.
const (
	mostReportedSteps     = 2000
	mostReportedEvents    = 20_000 // and then only the end of the build
	mostReportedArtifacts = 2000   // files of test results included
	mostReportedTests     = 100_000
	mostReportedLog       = 10 << 30 // bytes of all logs
	mostCompared          = 250      // blocks of known entries that one report of a log has read
)

// ReportedStep names a step of another build engine.
type ReportedStep struct {
	ID          int
	Stage, Name string // "": as known
}

// ReportStatus makes a change of status that the build engine of a build reports: of a step, or with e.Step 0 of the
// build. An end of the build also ends its steps. The same report again does nothing; a change that is not allowed is
// fault.Conflict, and names the permitted changes.
func (b *Builds) ReportStatus(ctx context.Context, id ID, step ReportedStep, e Event) (stored Event, err error) {
	if err := checkStep(step.ID); err != nil {
		return e, err
	}
	e.Source, e.Step = Engine, step.ID
	if e.EventID == "" {
		e.EventID = fmt.Sprintf("%d/%s/%d", e.Step, e.Status, e.Attempt)
	}
	err = b.report(ctx, id, func(in *ingestion) error {
		stored = e
		if twice, err := in.HasBuildEvent(id, Engine, cleanEventID(e.EventID)); err != nil || twice {
			return err
		}
		if err := in.checkOpen(); err != nil {
			return err
		}
		end := e.Step == 0 && e.Status.Ended()
		if in.build.LastSeq >= mostReportedEvents && !end {
			return in.full("changes of status", mostReportedEvents)
		}
		if err := errors.Join(in.nameStep(step), in.checkReported(e)); err != nil {
			return err
		}
		events := []Event{e}
		if end {
			events = append(in.endSteps(e), e)
		}
		for i := range events {
			if err := in.apply(&events[i]); err != nil {
				return err
			}
		}
		stored = events[len(events)-1]
		in.done.Events = len(events)
		return in.InsertBuildEvents(id, events)
	})
	return stored, err
}

// ReportLog appends entries that the build engine of a build reports, and returns how many were new. One that is stored
// with the same text does nothing; with another text, or if entries before it are missing, nothing is stored, and the
// error is fault.Conflict.
func (b *Builds) ReportLog(ctx context.Context, id ID, entries []build.Line) (added int, err error) {
	for _, e := range entries {
		if err := checkLine(e); err != nil {
			return 0, err
		}
	}
	err = b.report(ctx, id, func(in *ingestion) error {
		if err := in.checkOpen(); err != nil {
			return err
		}
		logs, blocks := map[int]*reportedLog{}, 0
		for _, e := range entries {
			if err := in.checkTime(e.At); err != nil {
				return err
			}
			log := logs[e.Step]
			if log == nil {
				if err := in.nameStep(ReportedStep{ID: e.Step}); err != nil {
					return err
				}
				log = &reportedLog{in: in, step: e.Step, at: in.steps.of(e.Step).Position(), stored: in.steps.of(e.Step).LogLines, blocks: &blocks}
				logs[e.Step] = log
			}
			if err := log.add(e); err != nil {
				return err
			}
		}
		var all Batch
		for _, log := range logs {
			all.Logs = append(all.Logs, log.batches...)
		}
		if err := in.logs(all); err != nil {
			return err
		}
		added = int(in.done.Entries)
		var size int64
		for _, step := range in.steps.by {
			size += step.LogBytes
		}
		if added > 0 && size > mostReportedLog {
			return in.full("bytes of logs", mostReportedLog)
		}
		return nil
	})
	return added, err
}

// mostAhead limits how far ahead of ours another build engine's clock may be.
const mostAhead = 24 * time.Hour

// checkTime returns fault.Invalid for a time in the future.
func (in *ingestion) checkTime(at time.Time) error {
	if now := in.Now(); at.Sub(now) > mostAhead {
		return fault.New(fault.Invalid, "timestamp %s is in the future: it is %s", at.UTC().Format(time.RFC3339), now.Format(time.RFC3339))
	}
	return nil
}

// checkLine returns fault.Invalid for an entry that cannot be stored.
func checkLine(e build.Line) error {
	if err := checkStep(e.Step); err != nil {
		return err
	}
	switch {
	case e.ID < 1:
		return fault.New(fault.Invalid, "workerLogId %d: entries count from 1", e.ID)
	case len(e.Text) > LongestReported:
		return fault.New(fault.Invalid, "entry %d of step %d has %d bytes, and %d are allowed", e.ID, e.Step, len(e.Text), LongestReported).
			WithHint("send the line in several entries, all but the last with lineEnding \"\"")
	case bytes.ContainsRune(e.Text, '\n'):
		return fault.New(fault.Invalid, "entry %d of step %d has several lines", e.ID, e.Step).WithHint("send each line as an entry")
	}
	return nil
}

// ReportArtifact stores an artifact whose bytes are in the blob store, and its test report, unless tests is nil. The
// same content under a known name of the step is known; another is fault.Conflict.
func (b *Builds) ReportArtifact(ctx context.Context, id ID, a Artifact, tests *build.TestFile) (stored Artifact, err error) {
	if err := checkStep(a.Step); err != nil {
		return a, err
	}
	err = b.report(ctx, id, func(in *ingestion) error {
		known, err := in.BuildArtifacts(id, 0)
		if err != nil {
			return err
		}
		stored, stored.Name = a, clean(plainName(a.Name), mostName)
		same := func(other Artifact) bool { return other.Step == a.Step && other.Name == stored.Name }
		if i := slices.IndexFunc(known, same); i >= 0 {
			if known[i].SHA256 != a.SHA256 {
				return fault.New(fault.Conflict, "step %d has an artifact %q with another content", a.Step, stored.Name)
			}
			stored = known[i]
			return nil
		}
		if err := in.checkOpen(); err != nil {
			return err
		}
		if len(known) >= mostReportedArtifacts {
			return in.full("artifacts", mostReportedArtifacts)
		}
		if err := in.nameStep(ReportedStep{ID: a.Step}); err != nil {
			return err
		}
		stored.ID, stored.State = in.build.ArtifactCursor+1, Stored
		if err := in.artifacts(Batch{Artifacts: []Artifact{stored}}); err != nil || tests == nil {
			return err
		}
		report := *tests
		report.Artifact, report.Step, report.Name = stored.ID, a.Step, stored.Name
		if err := in.omit(&report); err != nil {
			return err
		}
		return in.tests(Batch{Tests: []build.TestFile{report}})
	})
	return stored, err
}

// report runs fn on the locked row of a build that another build engine runs, and stores its changes.
func (b *Builds) report(ctx context.Context, id ID, fn func(*ingestion) error) error {
	return b.write(ctx, fmt.Sprintf("store a report about build %d", id), func(t txn) error {
		found, err := t.lock(id)
		if err != nil {
			return err
		}
		if found.Engine == "" {
			return fault.New(fault.Conflict, "build %d runs in a worker of Waybill, which reports by itself", id)
		}
		in := &ingestion{txn: t, build: &found}
		if in.steps, err = t.steps(id, nil); err != nil {
			return err
		}
		if err := fn(in); err != nil {
			return err
		}
		if err := in.steps.store(t, id); err != nil {
			return err
		}
		return in.finish(b.options)
	})
}

// checkOpen returns fault.Conflict if the build has ended.
func (in *ingestion) checkOpen() error {
	if in.build.Status.Ended() {
		return fault.New(fault.Conflict, "build %d is %s, and takes no more reports", in.build.ID, in.build.Status)
	}
	return nil
}

// full returns the error for a report of more than a build may have.
func (in *ingestion) full(what string, most int) error {
	return fault.New(fault.Refused, "build %d has all %d %s that another build engine may report", in.build.ID, most, what)
}

// omit leaves out the tests for which a build has no more room: they are only counted.
func (in *ingestion) omit(r *build.TestFile) error {
	before, err := in.TestReports(in.build.ID)
	if err != nil {
		return err
	}
	room := mostReportedTests
	for i := range before {
		room -= before[i].Tests - before[i].Omitted
	}
	if room = max(room, 0); len(r.Results) > room {
		r.Omitted += len(r.Results) - room
		r.Results = r.Results[:room]
	}
	return nil
}

// nameStep stores the names that a report gives a step. A step without a name is called after its number.
func (in *ingestion) nameStep(s ReportedStep) error {
	if s.ID == 0 {
		return nil
	}
	if in.steps.by[s.ID] == nil && len(in.steps.by) >= mostReportedSteps {
		return in.full("steps", mostReportedSteps)
	}
	known := *in.steps.of(s.ID)
	for _, part := range []struct {
		of    *string
		given string
		plain string
	}{{&known.Stage, s.Stage, in.build.Engine}, {&known.Name, s.Name, fmt.Sprintf("step-%d", s.ID)}} {
		if part.given != "" {
			*part.of = part.given
		} else if *part.of == "" {
			*part.of = part.plain
		}
	}
	in.steps.define(known)
	return nil
}

// plainName returns a name without control characters, which the names in a .wharf-ci.yml never have.
func plainName(name string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(build.Printable(name, nil))
}

// statuses are all that a report may have.
var statuses = [...]build.Status{build.Pending, build.Scheduling, build.Initializing, build.Running, build.Backoff,
	build.Completed, build.Failed, build.Canceled, build.TimedOut, build.Skipped}

// checkReported returns fault.Conflict for a change of status that is not allowed.
func (in *ingestion) checkReported(e Event) error {
	if err := in.checkTime(e.At); err != nil {
		return err
	}
	check := func(to build.Status) error { return checkBuild(in.build.Status, to) }
	if e.Step > 0 {
		check = func(to build.Status) error { return checkChange(in.steps.of(e.Step).Status, to) }
	}
	err := check(e.Status)
	if err == nil && slices.Contains(statuses[:], e.Status) {
		return nil
	} else if err == nil {
		err = fmt.Errorf("%s is not a status that another build engine reports", e.Status)
	}
	var allowed []string
	for _, s := range statuses {
		if check(s) == nil {
			allowed = append(allowed, string(s))
		}
	}
	what := "nothing, since this is an end"
	if len(allowed) > 0 {
		what = strings.Join(allowed, ", ")
	}
	return fault.New(fault.Conflict, "build %d, step %d: %w; allowed: %s", in.build.ID, e.Step, err, what)
}

// endSteps returns the events that end the steps that have not ended with the build.
func (in *ingestion) endSteps(end Event) []Event {
	var events []Event
	for _, id := range slices.Sorted(maps.Keys(in.steps.by)) {
		step := in.steps.by[id]
		if id == 0 || step.Status.Ended() {
			continue
		}
		to := end.Status
		if checkChange(step.Status, to) != nil {
			to = build.Skipped
		}
		events = append(events, Event{Source: Engine, EventID: fmt.Sprintf("%d/end of the build", id), Step: id, Status: to,
			Attempt: step.Attempt,
			Reason:  "the build ended", At: end.At})
	}
	return events
}

// reportedLog gathers the new entries of one step.
type reportedLog struct {
	in      *ingestion
	step    int
	stored  int64          // entries in the database
	at      build.Position // the end, with batches
	last    time.Time
	batches []*LogBatch
	lines   [][]byte // lines of batches
	block   Block    // block of the entry that was compared last
	data    []byte   // data of block
	blocks  *int     // number of blocks read for all steps
}

// add appends an entry, or compares it with the one that has its id.
func (l *reportedLog) add(e build.Line) error {
	switch {
	case e.ID > l.at.ID+1:
		return fault.New(fault.Conflict, "step %d: entry %d came where entry %d is expected", l.step, e.ID, l.at.ID+1).
			WithHint("send the entries from workerLogId %d on", l.at.ID+1)
	case e.ID <= l.at.ID:
		return l.compare(e)
	case l.last.IsZero() && l.at.ID > 0:
		block, _, err := l.in.BlockOf(l.in.build.ID, l.step, l.at.ID)
		if err != nil {
			return err
		}
		l.last = block.LastAt
	}
	if !canStore(e.At) {
		e.At = l.in.Now()
	}
	if e.At.Before(l.last) { // times never go back within a log
		e.At = l.last
	}
	l.last = e.At
	line := build.FormatEntry(nil, e.Entry)
	next := &LogBatch{Step: l.step, Begin: l.at, Entries: 1, Data: line}
	l.at = next.End()
	l.lines = append(l.lines, line)
	if n := len(l.batches); n == 0 || !l.batches[n-1].Join(next) {
		next.Data = bytes.Clone(line)
		l.batches = append(l.batches, next)
	}
	return nil
}

// compare returns fault.Conflict if an entry has another text than the one with its id.
func (l *reportedLog) compare(e build.Line) error {
	var known build.Entry
	if e.ID > l.stored {
		known = build.ParseEntry(l.lines[e.ID-l.stored-1])
	} else if err := l.find(e.ID, &known); err != nil {
		return err
	}
	if !bytes.Equal(known.Text, e.Text) || known.Ending() != e.Ending() {
		return fault.New(fault.Conflict, "step %d: entry %d is stored with another text", l.step, e.ID)
	}
	return nil
}

// find reads a stored entry.
func (l *reportedLog) find(logID int64, into *build.Entry) error {
	if logID <= l.block.Begin.ID || logID > l.block.Begin.ID+int64(l.block.Lines) {
		if *l.blocks++; *l.blocks > mostCompared {
			return fault.New(fault.Invalid, "the entries of the log jump to and fro, so that more than %d parts of it would be read", mostCompared).
				WithHint("send the entries of each step in their order")
		}
		block, _, err := l.in.BlockOf(l.in.build.ID, l.step, logID)
		if err != nil {
			return err
		}
		found, err := l.in.Blocks(l.in.build.ID, l.step, block.Begin.Offset, block.Begin.Offset+1, 1)
		if err != nil {
			return err
		}
		if len(found) == 0 || found[0].Begin.ID >= logID {
			return fault.New(fault.Corrupt, "entry %d of step %d is not stored", logID, l.step)
		}
		l.block = found[0]
		if l.data, err = l.block.open(); err != nil {
			return err
		}
	}
	at := l.block.Begin.ID
	for line := range bytes.Lines(l.data) {
		if at++; at == logID {
			*into = build.ParseEntry(line)
			return nil
		}
	}
	return fault.New(fault.Corrupt, "entry %d of step %d is not in its block", logID, l.step)
}
