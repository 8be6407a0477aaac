package buildstest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
	"github.com/waybill-dev/waybill/internal/testresult"
)

func aFinalMarkerNeedsEverythingBeforeIt(t *testing.T, s setup) {
	id, file := s.create(t), print(100)
	events := life(file, 1)
	artifact := builds.Artifact{
		Artifact: build.Artifact{ID: 1, Step: 1, Name: "shop", SHA256: strings.Repeat("00", 32), Kind: "file", Path: "build/1/1"},
		State:    builds.Stored,
	}
	refused := func(what string) {
		t.Helper()
		_, err := s.Ingest(s.ctx, id, builds.Batch{Events: events[4:]})
		if err == nil {
			t.Fatalf("%s: the final marker was taken", what)
		}
		if b, err := s.Build(s.ctx, id); err != nil || b.Status.Ended() || b.Final != nil {
			t.Fatalf("%s: the build is %+v, %v", what, b, err)
		}
	}
	refused("without its events")
	s.ingest(t, id, builds.Batch{Events: events[:4]})
	refused("without its log")
	s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 40)}})
	refused("with a part of its log")
	s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 40, 100)}})
	refused("without its artifact")
	done := s.ingest(t, id, builds.Batch{Artifacts: []builds.Artifact{artifact}, Events: events[4:]})
	if done.Artifacts != 1 || done.Events != 1 || done.Refused != 0 {
		t.Errorf("the last batch changed %+v", done)
	}
	b, err := s.Build(s.ctx, id)
	storetest.Check(t, err)
	if b.Status != build.Completed || b.Final == nil || *b.Final != (build.Final{Steps: 1, Events: 5, Artifacts: 1}) ||
		!b.EndedAt.Equal(events[4].At) {
		t.Errorf("the build is %+v", b)
	}
	p, err := s.Progress(s.ctx, id)
	storetest.Check(t, err)
	if !p.Ended || !p.Whole || p.Known || p.Events != 5 || p.Artifacts != 1 {
		t.Errorf("the progress is %+v", p)
	}
	storetest.Check(t, s.Acknowledged(s.ctx, id))
	if p, err = s.Progress(s.ctx, id); err != nil || !p.Known {
		t.Errorf("the progress is %+v, %v", p, err)
	}
}

func aDamagedLogHasNoEnd(t *testing.T, s setup) {
	for name, change := range map[string]func([]builds.Event){
		"another digest":          func(events []builds.Event) { events[3].Trailer.SHA256 = strings.Repeat("07", 32) },
		"fewer entries":           func(events []builds.Event) { events[3].Trailer.Entries-- },
		"fewer events":            func(events []builds.Event) { events[4].Final.Events-- },
		"without a final marker":  func(events []builds.Event) { events[4].Final = nil },
		"fewer bytes":             func(events []builds.Event) { events[3].Trailer.Bytes-- },
		"another log of step 0":   func(events []builds.Event) { events[4].Trailer.SHA256 = strings.Repeat("07", 32) },
		"a bound of steps passed": func(events []builds.Event) { events[4].Final.Steps = 1 << 30 },
	} {
		id, file := s.create(t), print(10)
		events := life(file, 0)
		change(events)
		_, err := s.Ingest(s.ctx, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 10)}, Events: events})
		if !fault.Is(err, fault.Corrupt) && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// endsStayAndLateVerdictsAreKept: a build that was given up stays so when its worker comes back.
func endsStayAndLateVerdictsAreKept(t *testing.T, s setup) {
	id, file := s.create(t), print(10)
	events := life(file, 0)
	s.ingest(t, id, builds.Batch{Events: events[:2]})
	lost, err := s.Record(
		s.ctx,
		id,
		builds.Event{
			Source:  builds.Watchdog,
			EventID: "lost",
			Status:  build.Lost,
			Reason:  "WorkerGone",
			Message: "last seen\x00 10 min ago",
		},
	)
	storetest.Check(t, err)
	if !lost.Applied {
		t.Error("the build did not become Lost")
	}
	done := s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 10)}, Events: events[2:]})
	if done.Refused != 1 || done.Events != 3 {
		t.Errorf("the late results changed %+v", done)
	}
	b, err := s.Build(s.ctx, id)
	storetest.Check(t, err)
	if b.Status != build.Lost || b.Reason != "WorkerGone" || b.Final == nil || b.RefusedEvents != 1 {
		t.Errorf("the build is %+v", b)
	}
	all, err := s.Events(s.ctx, id, 0, 100)
	storetest.Check(t, err)
	last := all[len(all)-1]
	if len(all) != 6 || last.Status != build.Completed || last.Applied || last.Seq != 6 || all[2].Status != build.Lost {
		t.Errorf("the events are %+v", all)
	}
}

func eventsAreStoredOnce(t *testing.T, s setup) {
	id := s.create(t)
	events := life(print(1), 0)[:3]
	s.ingest(t, id, builds.Batch{Events: events})
	if done := s.ingest(t, id, builds.Batch{Events: events}); done != (builds.Ingested{}) {
		t.Errorf("known events changed %+v", done)
	}
	if _, err := s.Record(s.ctx, id, builds.Event{Source: builds.Aggregator, EventID: "remark", Message: "fetched again"}); err != nil {
		t.Error(err)
	}
	for range 2 {
		_, err := s.Record(
			s.ctx,
			id,
			builds.Event{Source: builds.Aggregator, EventID: "pod-waits", Status: build.Running, Reason: "Unreachable"},
		)
		storetest.Check(t, err)
	}
	long := strings.Repeat("w", 300)
	for _, eventID := range []string{long + "1", long + "1", long + "2"} {
		_, err := s.Record(s.ctx, id, builds.Event{Source: builds.Watchdog, EventID: eventID, Message: "a long id"})
		storetest.Check(t, err)
	}
	if has, err := s.HasEvent(s.ctx, id, builds.Watchdog, long+"2"); err != nil || !has {
		t.Errorf("an event with a long id is not found: %v", err)
	}
	all, err := s.Events(s.ctx, id, 1, 2)
	storetest.Check(t, err)
	if len(all) != 2 || all[0].Seq != 2 || all[1].Seq != 3 {
		t.Errorf("a page of events is %+v", all)
	}
	b, err := s.Build(s.ctx, id)
	storetest.Check(t, err)
	if b.LastSeq != 7 || b.Reason != "Unreachable" || b.Status != build.Running {
		t.Errorf("the build is %+v", b)
	}
	for name, e := range map[string]builds.Event{"of the worker": events[0], "without an id": {Source: builds.API, Status: build.Failed}} {
		if _, err := s.Record(s.ctx, id, e); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	far := event(4, 2, build.Running)
	far.At = time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC)
	s.ingest(t, id, builds.Batch{Events: []builds.Event{far}})
	if all, err = s.Events(s.ctx, id, 7, 1); err != nil || len(all) != 1 || !all[0].At.Equal(all[0].StoredAt) {
		t.Errorf("an event of the far future is %+v, %v", all, err)
	}
	for name, b := range map[string]builds.Batch{
		"a digest of 5 bytes": {Events: []builds.Event{{Source: builds.Worker, EventID: "5", Step: 2, Status: build.Failed,
			Trailer: &build.Trailer{SHA256: strings.Repeat("00", 5)}}}},
		"a negative size": {Artifacts: []builds.Artifact{
			{Artifact: build.Artifact{ID: 1, Step: 1, Size: -1, SHA256: strings.Repeat("00", 32)}, State: builds.Stored}}},
		"too many events": {Events: []builds.Event{event(1_000_001, 1, build.Running)}},
		"too many artifacts": {Artifacts: []builds.Artifact{
			{Artifact: build.Artifact{ID: 10_001, Step: 1, SHA256: strings.Repeat("00", 32)}, State: builds.Stored}}},
		"too many reports":    {Tests: []build.TestFile{{Artifact: 10_001, Step: 1}}},
		"no artifact":         {Tests: []build.TestFile{{Artifact: 0, Step: 1}}},
		"a step that is none": {Tests: []build.TestFile{{Artifact: 1, Step: -1}}},
	} {
		if _, err := s.Ingest(s.ctx, id, b); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := s.Ingest(s.ctx, id,
		builds.Batch{Events: []builds.Event{{Source: builds.Watchdog, EventID: "4", Status: build.Lost}}}); !fault.Is(
		err,
		fault.Invalid,
	) {
		t.Errorf("a foreign event among a worker's: %v", err)
	}
}

func stepsFollowTheirEvents(t *testing.T, s setup) {
	id, code := s.create(t), 7
	planned := []builds.Step{
		{ID: 1, Stage: "test", Name: "unit", Type: "container", Needs: []int{}},
		{ID: 2, Stage: "pack", Name: "zip", Type: "container", Needs: []int{1}},
	}
	storetest.Check(t, s.Define(s.ctx, id, planned))
	failed := event(6, 1, build.Failed)
	failed.ExitCode, failed.Trailer, failed.Attempt = &code, output{}.trailer(), 2
	s.ingest(
		t,
		id,
		builds.Batch{Events: []builds.Event{event(1, 1, build.Scheduling), event(2, 1, build.Running), event(3, 1, build.Backoff),
			event(4, 1, build.Scheduling), event(5, 1, build.Running), failed, event(7, 1, build.Running), event(8, 2, build.Skipped)}},
	)
	steps, err := s.Steps(s.ctx, id)
	storetest.Check(t, err)
	want := planned
	want[0].Status, want[0].Attempt, want[0].ExitCode, want[0].Trailer = build.Failed, 2, &code, output{}.trailer()
	want[0].StartedAt, want[0].EndedAt = event(2, 0, "").At, event(6, 0, "").At
	want[1].Status, want[1].Attempt, want[1].EndedAt = build.Skipped, 1, event(8, 0, "").At
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	s.ingest(t, id, builds.Batch{Steps: planned}) // again
	if again, err := s.Steps(s.ctx, id); err != nil || !cmp.Equal(steps, again) {
		t.Errorf("defined again, the steps are %+v, %v", again, err)
	}
	s.ingest(t, id, builds.Batch{Steps: []builds.Step{{ID: 3, Stage: "te\x1b[2Jst", Name: "of\nline\u202e"}}})
	if all, err := s.Steps(s.ctx, id); err != nil || len(all) != 3 || all[2].Stage != "test" || all[2].Name != "of line" {
		t.Errorf("with control characters, the steps are %+v, %v", all, err)
	}
}

func onEndSharesTheTransaction(t *testing.T, s setup) {
	id, file := s.create(t), print(3)
	refuse, ended := errors.New("not now"), []builds.Build{}
	with := builds.New(s.db, s.driver, builds.Options{OnEnd: func(_ *store.Tx, b builds.Build) error {
		ended = append(ended, b)
		if len(ended) == 1 {
			return refuse
		}
		return nil
	}})
	batch := builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 3)}, Events: life(file, 0)}
	if _, err := with.Ingest(s.ctx, id, batch); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	if p, err := s.Progress(s.ctx, id); err != nil || p.Events != 0 || len(p.Logs) != 0 {
		t.Errorf("a refused end left %+v, %v", p, err)
	}
	if _, err := with.Ingest(s.ctx, id, batch); err != nil || len(ended) != 2 || ended[1].Status != build.Completed || ended[1].ID != id {
		t.Errorf("ended %+v, %v", ended, err)
	}
	if _, err := with.Ingest(s.ctx, id, batch); err != nil || len(ended) != 2 {
		t.Errorf("ended again: %+v, %v", ended, err)
	}
}

func onlyNewDataIsProgress(t *testing.T, s setup) {
	id, file := s.create(t), print(3)
	look := func() builds.Build {
		t.Helper()
		b, err := s.Build(s.ctx, id)
		storetest.Check(t, err)
		return b
	}
	batch := builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 3)}}
	s.ingest(t, id, batch)
	first := look()
	if first.LastProgressAt.IsZero() || first.LeaseUntil.Sub(first.LastProgressAt) != builds.LeaseTime {
		t.Errorf("the build is %+v", first)
	}
	s.ingest(t, id, batch)
	s.ingest(t, id, builds.Batch{})
	if b := look(); !b.LastProgressAt.Equal(first.LastProgressAt) || !b.LeaseUntil.After(first.LeaseUntil) {
		t.Errorf("known results made %v of %v, lease %v of %v", b.LastProgressAt, first.LastProgressAt, b.LeaseUntil, first.LeaseUntil)
	}
}

// knownResultsWriteNothing: an aggregator that comes second does not even write the lease, unless that is old.
func knownResultsWriteNothing(t *testing.T, s setup) {
	id, file := s.create(t), print(40)
	s.ingest(t, id, builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 20)}})
	look := func() builds.Build {
		t.Helper()
		b, err := s.Build(s.ctx, id)
		storetest.Check(t, err)
		return b
	}
	first, again := look(), builds.Batch{Again: true, Logs: []*builds.LogBatch{file.batch(1, 0, 20)}}
	s.ingest(t, id, again)
	if b := look(); !b.LeaseUntil.Equal(first.LeaseUntil) {
		t.Error("the lease was written")
	}
	storetest.Check(t, s.database.Exec("UPDATE build SET lease_until = created_at"))
	s.ingest(t, id, again)
	if b := look(); !b.LeaseUntil.After(first.LeaseUntil) {
		t.Error("an old lease was not renewed")
	}
	foreign := file.batch(1, 0, 20)
	foreign.Begin.Offset += 7
	if _, err := s.Ingest(s.ctx, id, builds.Batch{Again: true, Logs: []*builds.LogBatch{foreign}}); !fault.Is(err, fault.Corrupt) {
		t.Errorf("a contradiction: %v", err)
	}
	if done := s.ingest(t, id, builds.Batch{Again: true, Logs: []*builds.LogBatch{file.batch(1, 10, 40)}}); done.Entries != 20 {
		t.Errorf("what was new changed %+v", done)
	}
	if got := s.raw(t, id, 1, 0); string(got) != string(file.data) {
		t.Error("the log is not what was sent")
	}
}

func buildsAreListedInPages(t *testing.T, s setup) {
	var ids []builds.ID
	for range 5 {
		ids = append(ids, s.create(t))
	}
	of := action.DerivedID(time.Unix(1, 0), "a")
	other, err := s.Create(
		s.ctx,
		builds.Build{Project: "blog", Commit: "abc", RerunOf: ids[0], Engine: "jenkins", Stages: []string{"test"}, CreatedBy: "bo",
			Deployment: 7, Target: "blog/build", ActionID: of},
	)
	storetest.Check(t, err)
	list := func(q builds.Query) (got []builds.ID) {
		t.Helper()
		found, err := s.List(s.ctx, q)
		storetest.Check(t, err)
		for _, b := range found {
			got = append(got, b.ID)
		}
		return got
	}
	storetest.Check(t, s.RequestCancel(s.ctx, ids[3]))
	storetest.Check(t, s.Assign(s.ctx, ids[3], "pod-7", "nonce"))
	_, err = s.Record(s.ctx, ids[2], builds.Event{Source: builds.Watchdog, EventID: "lost", Status: build.Lost})
	storetest.Check(t, err)
	for name, c := range map[string]struct {
		query builds.Query
		want  []builds.ID
	}{
		"the newest":   {builds.Query{Project: "shop", Limit: 2}, []builds.ID{ids[4], ids[3]}},
		"the next":     {builds.Query{Project: "shop", Limit: 2, Before: ids[3]}, []builds.ID{ids[2], ids[1]}},
		"all":          {builds.Query{}, []builds.ID{other.ID, ids[4], ids[3], ids[2], ids[1], ids[0]}},
		"active":       {builds.Query{Project: "shop", Active: true}, []builds.ID{ids[4], ids[3], ids[1], ids[0]}},
		"of a commit":  {builds.Query{Commit: "ab", Status: build.Scheduling}, []builds.ID{other.ID}},
		"commit bc":    {builds.Query{Commit: "bc"}, nil},
		"of an action": {builds.Query{ActionID: of}, []builds.ID{other.ID}},
		"deployment":   {builds.Query{Project: "blog", Deployment: 7}, []builds.ID{other.ID}},
		"since":        {builds.Query{Since: other.CreatedAt}, []builds.ID{other.ID}},
		"until":        {builds.Query{Until: other.CreatedAt, Limit: 1}, []builds.ID{ids[4]}},
		"of a branch":  {builds.Query{Branch: "main", Limit: 1}, []builds.ID{ids[4]}},
		"by id":        {builds.Query{IDs: []builds.ID{ids[1], 999}}, []builds.ID{ids[1]}},
		"of no status": {builds.Query{Status: build.Failed}, nil},
	} {
		if got := list(c.query); !cmp.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if got, err := s.Build(s.ctx, other.ID); err != nil || !cmp.Equal(got, other) {
		t.Errorf("created and read differ: %s, %v", cmp.Diff(other, got), err)
	}
	if b, err := s.Build(s.ctx, ids[3]); err != nil || b.CancelRequestedAt.IsZero() || b.WorkerID != "pod-7" || b.Nonce != "nonce" {
		t.Errorf("the build is %+v, %v", b, err)
	}
	if _, err := s.Build(s.ctx, 999); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

func artifactsHaveTestResults(t *testing.T, s setup) {
	id := s.create(t)
	report := build.TestFile{Artifact: 1, Step: 1, Name: "out/unit.xml", Format: testresult.JUnit, Report: testresult.Report{
		Counts: testresult.Counts{
			Tests:    3,
			Failed:   1,
			Duration: time.Second,
		}, Omitted: 1}, Problem: &testresult.Error{Line: 3, Text: "cut off"}}
	full := report
	full.Results = []testresult.Result{
		{
			Suite:    "cart",
			Name:     "Total\x00",
			Outcome:  testresult.Failed,
			Duration: time.Millisecond,
			Message:  "got 12\xff",
			File:     "cart.go",
			Line:     41,
		},
		{Name: "Empty", Outcome: testresult.Passed},
	}
	batch := builds.Batch{
		Tests: []build.TestFile{full},
		Artifacts: []builds.Artifact{
			{
				Artifact: build.Artifact{
					ID:     1,
					Step:   1,
					Name:   "out/unit.xml",
					Size:   7,
					SHA256: strings.Repeat("00", 32),
					Kind:   "junit",
					Path:   "build/1/1",
				},
				State: builds.Stored,
			},
			{Artifact: build.Artifact{ID: 2, Step: 1, Name: "shop", SHA256: strings.Repeat("00", 32), Kind: "file"}, State: builds.Damaged},
		},
	}
	for range 2 {
		s.ingest(t, id, batch)
	}
	found, err := s.Artifacts(s.ctx, id, 0)
	storetest.Check(t, err)
	if len(found) != 2 || found[0].Path != "build/1/1" || found[1].State != builds.Damaged || found[0].StoredAt.IsZero() {
		t.Errorf("the artifacts are %+v", found)
	}
	reports, err := s.TestReports(s.ctx, id)
	storetest.Check(t, err)
	if diff := cmp.Diff([]build.TestFile{report}, reports); diff != "" {
		t.Error(diff)
	}
	first, err := s.TestResults(s.ctx, id, builds.TestResult{}, false, 1)
	storetest.Check(t, err)
	if len(first) != 1 || first[0].Line != 41 || first[0].Name != "Total�" || first[0].Duration != time.Millisecond ||
		first[0].Ordinal != 1 {
		t.Fatalf("the first page is %+v", first)
	}
	if broken, err := s.TestResults(s.ctx, id, builds.TestResult{}, true, 10); err != nil || !cmp.Equal(broken, first) {
		t.Errorf("broken: %+v, %v", broken, err)
	}
	if sums, err := s.TestSummaries(s.ctx, []builds.ID{id, 999}); err != nil || len(sums) != 1 || sums[id][0].Counts != report.Counts {
		t.Errorf("summaries: %+v, %v", sums, err)
	}
	if after, err := s.Artifacts(s.ctx, id, 1); err != nil || len(after) != 1 || after[0].ID != 2 {
		t.Errorf("after artifact 1: %+v, %v", after, err)
	}
	s.ingest(t, id, builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "test", Name: "unit"}}})
	if counts, err := s.StepCounts(s.ctx, []builds.ID{id, 999}); err != nil || len(counts) != 1 || counts[id] != 1 {
		t.Errorf("counts of steps: %v, %v", counts, err)
	}
	for _, c := range []struct {
		part builds.Part
		text string
		want bool
	}{{builds.PartStage, "test", true}, {builds.PartStage, "tes", false}, {builds.PartArtifact, "UNIT.x", true},
		{builds.PartArtifact, "%", false},
		{builds.PartTest, "CART tot", true}, {builds.PartTest, "total cart", false}} {
		if got, err := s.Having(s.ctx, []builds.ID{id, 999}, c.part, c.text); err != nil || (len(got) == 1) != c.want {
			t.Errorf("%s %q: %v, %v", c.part, c.text, got, err)
		}
		if got, err := s.Having(s.ctx, []builds.ID{999}, c.part, c.text); err != nil || len(got) != 0 {
			t.Errorf("%s %q of another build: %v, %v", c.part, c.text, got, err)
		}
	}
	rest, err := s.TestResults(s.ctx, id, first[0], false, 10)
	storetest.Check(t, err)
	if len(rest) != 1 || rest[0].Name != "Empty" || rest[0].Artifact != 1 {
		t.Errorf("the second page is %+v", rest)
	}
	odd := build.TestFile{
		Artifact: 2,
		Step:     1,
		Name:     "out/odd.xml",
		Format:   "trx\x00",
		Report:   testresult.Report{Results: []testresult.Result{{Name: "Odd", Outcome: "won\x00"}}},
	}
	s.ingest(t, id, builds.Batch{Tests: []build.TestFile{odd}})
	if all, err := s.TestResults(s.ctx, id, builds.TestResult{}, false, 10); err != nil || len(all) != 3 || all[2].Outcome != "won�" {
		t.Errorf("an unknown outcome: %+v, %v", all, err)
	}
}

func deletedBuildsTakeNothing(t *testing.T, s setup) {
	id, file := s.create(t), print(3)
	if err := s.Delete(s.ctx, id); !fault.Is(err, fault.Refused) {
		t.Errorf("a build that has not ended: %v", err)
	}
	batch := builds.Batch{Logs: []*builds.LogBatch{file.batch(1, 0, 3)}, Events: life(file, 0)}
	s.ingest(t, id, batch)
	for range 2 {
		storetest.Check(t, s.Delete(s.ctx, id))
	}
	if _, err := s.Ingest(s.ctx, id, batch); !fault.Is(err, fault.Refused) {
		t.Errorf("late data: %v", err)
	}
	if _, err := s.Build(s.ctx, id); !fault.Is(err, fault.Refused) {
		t.Errorf("a read: %v", err)
	}
	if err := s.Delete(s.ctx, 999); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown build: %v", err)
	}
	if found, err := s.List(s.ctx, builds.Query{}); err != nil || len(found) != 0 {
		t.Errorf("listed %+v, %v", found, err)
	}
	if found, err := s.List(s.ctx, builds.Query{Deleted: true}); err != nil || len(found) != 1 {
		t.Errorf("tombstones: %+v, %v", found, err)
	}
	if got := s.raw(t, id, 1, 0); len(got) != 0 {
		t.Errorf("%d bytes of the log are left", len(got))
	}
	if next := s.create(t); next <= id {
		t.Errorf("build %d came after build %d", next, id)
	}
}
