package buildstest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// elsewhere stores a build of another engine.
func (s setup) elsewhere(t *testing.T) builds.ID {
	t.Helper()
	b, err := s.Create(s.ctx, builds.Build{Project: "shop", Engine: "jenkins", CreatedBy: "ana"})
	storetest.Check(t, err)
	return b.ID
}

// reported returns entries of step 1 with these ids.
func reported(from, to int) (entries []build.Line) {
	for n := from; n <= to; n++ {
		entries = append(entries, build.Line{Step: 1, ID: int64(n), Entry: build.Entry{At: time.Unix(int64(2000-n), 0),
			Text: fmt.Appendf(nil, "line %d %s", n, strings.Repeat("x", n%700))}})
	}
	return entries
}

func anotherEngineReportsALogWithoutGaps(t *testing.T, s setup) {
	id := s.elsewhere(t)
	report := func(want int, entries []build.Line) {
		t.Helper()
		if added, err := s.ReportLog(s.ctx, id, entries); err != nil || added != want {
			t.Errorf("added %d, want %d: %v", added, want, err)
		}
	}
	report(300, reported(1, 300))
	report(0, reported(1, 300))
	report(200, reported(250, 500))
	report(0, append(reported(3, 3), reported(499, 500)...))
	var jumps []build.Line
	for range 126 {
		jumps = append(append(jumps, reported(1, 1)...), reported(500, 500)...)
	}
	if _, err := s.ReportLog(s.ctx, id, jumps); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "more than 250 parts") {
		t.Errorf("entries that jump: %v", err)
	}
	report(0, jumps[:200])
	changed := reported(501, 502)
	changed[1] = build.Line{Step: 1, ID: 501, Entry: build.Entry{Text: []byte("other")}}
	for name, entries := range map[string][]build.Line{
		"a gap":                   reported(502, 503),
		"a gap inside":            append(reported(501, 501), reported(503, 503)...),
		"another text":            {{Step: 1, ID: 7, Entry: build.Entry{Text: []byte("other")}}},
		"another text, just sent": changed,
		"another end of the line": {{Step: 1, ID: 7, Entry: build.Entry{Text: reported(7, 7)[0].Text, Marks: build.Marks{CRLF: true}}}},
	} {
		if _, err := s.ReportLog(s.ctx, id, entries); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.ReportLog(s.ctx, id, reported(600, 600)); err == nil || !strings.Contains(err.Error(), "entry 501 is expected") {
		t.Errorf("a gap does not name the id expected: %v", err)
	}
	for name, entries := range map[string][]build.Line{
		"no id": {{Step: 1}}, "two lines": {{Step: 1, ID: 501, Entry: build.Entry{Text: []byte("a\nb")}}},
		"too long": {{Step: 1, ID: 501, Entry: build.Entry{Text: make([]byte, builds.LongestReported+1)}}}, "no step": {{Step: -1, ID: 1}},
	} {
		if _, err := s.ReportLog(s.ctx, id, entries); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	n, last := 0, time.Time{}
	storetest.Check(t, s.Log(s.ctx, id, 1, 0, func(e build.Line) error {
		n++
		if want := reported(n, n)[0]; e.ID != int64(n) || string(e.Text) != string(want.Text) || e.At.Before(last) {
			t.Errorf("entry %d is %d %s %.20q", n, e.ID, e.At, e.Text)
		}
		last = e.At
		return nil
	}))
	if n != 500 {
		t.Errorf("%d entries", n)
	}
	if _, err := s.ReportLog(s.ctx, s.create(t), reported(1, 1)); !fault.Is(err, fault.Conflict) {
		t.Errorf("of a worker's build: %v", err)
	}
}

func anotherEngineChangesStatusesThatMay(t *testing.T, s setup) {
	id := s.elsewhere(t)
	unit := builds.ReportedStep{ID: 1, Stage: "test", Name: "unit"}
	report := func(step builds.ReportedStep, status build.Status, want fault.Code) {
		t.Helper()
		if _, err := s.ReportStatus(s.ctx, id, step, builds.Event{Status: status, At: time.Unix(1000, 0)}); fault.CodeOf(err) != want {
			t.Errorf("step %d %s: %v", step.ID, status, err)
		}
	}
	report(builds.ReportedStep{}, build.Completed, fault.Conflict)
	report(builds.ReportedStep{}, build.Running, "")
	report(builds.ReportedStep{}, build.Running, "")
	report(builds.ReportedStep{}, build.Initializing, fault.Conflict)
	report(unit, build.Running, "")
	report(builds.ReportedStep{ID: 1}, build.Scheduling, fault.Conflict)
	report(builds.ReportedStep{ID: 2}, build.Skipped, "")
	if _, err := s.ReportStatus(s.ctx, id, unit, builds.Event{Status: "Happy"}); err == nil ||
		!strings.Contains(err.Error(), "allowed: Running, Backoff, Completed, Failed") {
		t.Errorf("what is allowed: %v", err)
	}
	report(builds.ReportedStep{}, build.Failed, "")
	report(builds.ReportedStep{}, build.Failed, "")
	report(builds.ReportedStep{}, build.Canceled, fault.Conflict)
	report(unit, build.Completed, fault.Conflict)
	if _, err := s.ReportLog(s.ctx, id, reported(1, 1)); !fault.Is(err, fault.Conflict) {
		t.Errorf("a late log: %v", err)
	}
	if _, err := s.ReportArtifact(s.ctx, id,
		builds.Artifact{Artifact: build.Artifact{Step: 1, Name: "late", SHA256: strings.Repeat("00", 32)}}, nil); !fault.Is(
		err,
		fault.Conflict,
	) {
		t.Errorf("a late artifact: %v", err)
	}
	b, err := s.Build(s.ctx, id)
	storetest.Check(t, err)
	steps, err := s.Steps(s.ctx, id)
	storetest.Check(t, err)
	var got []string
	for _, step := range steps {
		got = append(got, fmt.Sprintf("%s/%s %s", step.Stage, step.Name, step.Status))
	}
	if diff := cmp.Diff([]string{"/ Failed", "test/unit Failed", "jenkins/step-2 Skipped"}, got); diff != "" || b.Status != build.Failed ||
		b.RefusedEvents != 0 {
		t.Errorf("%+v\n%s", b, diff)
	}
}

func anotherEngineReportsArtifactsAndTests(t *testing.T, s setup) {
	id := s.elsewhere(t)
	sum := strings.Repeat("00", 32)
	report := &build.TestFile{Format: testresult.JUnit, Report: testresult.Report{Counts: testresult.Counts{Tests: 1, Failed: 1},
		Results: []testresult.Result{{Name: "Sum", Outcome: testresult.Failed}}}}
	for range 2 {
		a, err := s.ReportArtifact(
			s.ctx,
			id,
			builds.Artifact{Artifact: build.Artifact{Step: 1, Name: "unit.xml", SHA256: sum, Kind: "junit", Path: "build/1/1"}},
			report,
		)
		if err != nil || a.ID != 1 || a.State != builds.Stored {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if a, err := s.ReportArtifact(s.ctx, id,
		builds.Artifact{Artifact: build.Artifact{Step: 1, Name: "shop", SHA256: sum, Kind: "file", Path: "build/1/2"}}, nil); err != nil ||
		a.ID != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	other := strings.Repeat("01", 32)
	if _, err := s.ReportArtifact(s.ctx, id, builds.Artifact{Artifact: build.Artifact{Step: 1, Name: "shop", SHA256: other}}, nil); !fault.Is(
		err,
		fault.Conflict,
	) {
		t.Errorf("another content: %v", err)
	}
	tests, err := s.TestResults(s.ctx, id, builds.TestResult{}, true, 10)
	if err != nil || len(tests) != 1 || tests[0].Artifact != 1 {
		t.Errorf("%+v, %v", tests, err)
	}
}

func whatAnotherEngineReportsIsBounded(t *testing.T, s setup) {
	refused := func(what string, err error) {
		t.Helper()
		if !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	sum := strings.Repeat("00", 32)
	id := s.elsewhere(t)
	var whole builds.Batch
	for n := 1; n <= 1999; n++ { // and step 0
		whole.Steps = append(whole.Steps, builds.Step{ID: n, Stage: "test", Name: fmt.Sprint(n), Needs: []int{}})
	}
	for n := 1; n <= 2000; n++ {
		whole.Artifacts = append(
			whole.Artifacts,
			builds.Artifact{Artifact: build.Artifact{ID: n, Step: 1, Name: fmt.Sprint(n), SHA256: sum, Kind: "file"}, State: builds.Stored},
		)
	}
	_, err := s.Ingest(s.ctx, id, whole)
	storetest.Check(t, err)
	for n := 0; n < 20_000; n += 2000 {
		var some builds.Batch
		for i := range 2000 {
			some.Events = append(some.Events, builds.Event{Source: builds.Worker, EventID: fmt.Sprint(n + i + 1), Status: build.Running})
		}
		_, err := s.Ingest(s.ctx, id, some)
		storetest.Check(t, err)
	}
	_, err = s.ReportLog(s.ctx, id, reported(1, 1))
	storetest.Check(t, err)
	_, err = s.ReportLog(s.ctx, id, []build.Line{{Step: 2000, ID: 1}})
	refused("all 2000 steps", err)
	_, err = s.ReportArtifact(s.ctx, id, builds.Artifact{Artifact: build.Artifact{Step: 1, Name: "1", SHA256: sum, Kind: "file"}}, nil)
	storetest.Check(t, err)
	_, err = s.ReportArtifact(
		s.ctx,
		id,
		builds.Artifact{Artifact: build.Artifact{Step: 1, Name: "one more", SHA256: sum, Kind: "file"}},
		nil,
	)
	refused("all 2000 artifacts", err)
	_, err = s.ReportStatus(s.ctx, id, builds.ReportedStep{ID: 1}, builds.Event{Status: build.Running})
	refused("all 20000 changes of status", err)
	_, err = s.ReportStatus(s.ctx, id, builds.ReportedStep{}, builds.Event{Status: build.Failed})
	storetest.Check(t, err)

	id = s.elsewhere(t)
	for n, tests := range []int{99_998, 3, 1} {
		report := &build.TestFile{Format: testresult.JUnit, Report: testresult.Report{Counts: testresult.Counts{Tests: tests}}}
		if n > 0 { // the results of the first one would take seconds to store
			report.Results = make([]testresult.Result, tests)
		}
		_, err := s.ReportArtifact(
			s.ctx,
			id,
			builds.Artifact{Artifact: build.Artifact{Step: 1, Name: fmt.Sprint(n), SHA256: sum, Kind: "junit", Path: "x"}},
			report,
		)
		storetest.Check(t, err)
	}
	reports, err := s.TestReports(s.ctx, id)
	storetest.Check(t, err)
	results, err := s.TestResults(s.ctx, id, builds.TestResult{}, false, 10)
	storetest.Check(t, err)
	if reports[0].Omitted != 0 || reports[1].Omitted != 1 || reports[1].Tests != 3 || reports[2].Omitted != 1 || len(results) != 2 {
		t.Errorf("%+v, %d results", reports, len(results))
	}
}

// badTimesThatAreStoredAreRead: an older version stored them, and no answer about the build could be written as JSON.
func badTimesThatAreStoredAreRead(t *testing.T, s setup) {
	bad := time.Date(10000, time.January, 1, 11, 59, 59, 0, time.UTC)
	id := s.create(t)
	err := s.db.Write(s.ctx, "store times that this version refuses", func(tx *store.Tx) error {
		rows, _ := s.driver.BuildRows(tx.Rows)
		row, _, err := rows.LockBuild(id)
		storetest.Check(t, err)
		row.Status, row.StartedAt, row.EndedAt, row.LastSeq = build.Failed, bad, bad, 1
		storetest.Check(t, rows.UpdateBuild(row))
		storetest.Check(
			t,
			rows.PutSteps(
				id,
				[]builds.Step{{ID: 1, Stage: "test", Name: "unit", Needs: []int{}, Status: build.Failed, StartedAt: bad, EndedAt: bad}},
			),
		)
		return rows.InsertBuildEvents(
			id,
			[]builds.Event{{Seq: 1, Source: builds.Engine, EventID: "1", Status: build.Failed, Applied: true, At: bad, StoredAt: tx.Now()}},
		)
	})
	storetest.Check(t, err)
	one, err := s.Build(s.ctx, id)
	storetest.Check(t, err)
	list, err := s.List(s.ctx, builds.Query{})
	storetest.Check(t, err)
	steps, err := s.Steps(s.ctx, id)
	storetest.Check(t, err)
	events, err := s.Events(s.ctx, id, 0, 10)
	storetest.Check(t, err)
	if _, err := json.Marshal([]any{one, list, steps, events}); err != nil || len(list) != 1 || len(steps) != 1 || len(events) != 1 {
		t.Errorf("%+v %+v %+v %+v: %v", one, list, steps, events, err)
	}
	if one.EndedAt.Year() != 9999 || events[0].At.Year() != 9999 {
		t.Errorf("%s %s", one.EndedAt, events[0].At)
	}
}
