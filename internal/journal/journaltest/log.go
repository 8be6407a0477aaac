package journaltest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func factsAreAppendedOnce(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	first := s.append(t, fact(1, oak, pipeline.HostStarted), fact(1, oak, pipeline.HostStarted))
	again := s.append(t, fact(1, oak, pipeline.HostStarted), fact(1, oak, pipeline.HostReplicated))
	if first.Seq != 3 || again.Seq != 4 {
		t.Errorf("positions %d and %d, want 3 and 4: a repeated fact takes none", first.Seq, again.Seq)
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Deployment: 1, Target: oak})
	storetest.Check(t, err)
	if diff := cmp.Diff([]string{"3 host-started 0", "4 host-artifact-replicated 0"}, lines(entries)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// lines shows entries as position, event and occurrence.
func lines(entries []pipeline.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = fmt.Sprintf("%d %s %d", e.Seq, e.Event, e.Occurrence)
	}
	return out
}

func notesAreCounted(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	s.append(t, note(1, oak, pipeline.RetryRequested), note(1, oak, pipeline.RetryRequested))
	s.append(t, note(1, oak, pipeline.RetryRequested))
	repeated := note(1, oak, pipeline.RetryRequested)
	repeated.Occurrence = 2
	s.append(t, repeated)
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Deployment: 1, Target: oak, Class: pipeline.Note})
	storetest.Check(t, err)
	want := []string{"3 retry-requested 1", "4 retry-requested 2", "5 retry-requested 3"}
	if diff := cmp.Diff(want, lines(entries)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func positionsHaveNoGapUnderWriters(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	const writers, each = 16, 10
	var all sync.WaitGroup
	seqs := make([][]int64, writers)
	for w := range writers {
		all.Go(func() {
			for i := range each {
				head, err := s.Append(s.ctx, testPipeline, 0, func(journal.Locked) (journal.Change, error) {
					return journal.Change{Entries: []pipeline.Entry{
						fact(1, oak, fmt.Sprintf("host-w%d-%d", w, i)), fact(1, oak, "host-shared-"+fmt.Sprint(i))}}, nil
				})
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				seqs[w] = append(seqs[w], head.Seq)
			}
		})
	}
	all.Wait()
	for w, own := range seqs {
		for i := 1; i < len(own); i++ {
			if own[i] <= own[i-1] {
				t.Errorf("writer %d: position %d after %d", w, own[i], own[i-1])
			}
		}
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	if want := 2 + writers*each + each; len(entries) != want {
		t.Errorf("%d entries, want %d: shared facts exist once", len(entries), want)
	}
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has position %d", i+1, e.Seq)
		}
	}
}

func appendRejectsStalePosition(t *testing.T, s setup) {
	head := s.define(t)
	s.register(t, "3f2c9a1")
	decided := fact(1, oak, pipeline.HostStarted)
	decided.Seq = head.Seq + 1 // as a caller decides that has not seen the registration
	_, err := s.Append(s.ctx, testPipeline, head.Seq, func(locked journal.Locked) (journal.Change, error) {
		if len(locked.Newer) != 1 || locked.Newer[0].Event != pipeline.DeploymentCreated || locked.Now.IsZero() {
			t.Errorf("newer rows: %+v", locked)
		}
		return journal.Change{Entries: []pipeline.Entry{decided}}, nil
	})
	storetest.WantCode(t, err, fault.Conflict)
	_, err = s.Append(s.ctx, testPipeline, 99, func(journal.Locked) (journal.Change, error) { return journal.Change{}, nil })
	storetest.WantCode(t, err, fault.Conflict)
	_, err = s.Append(s.ctx, "absent", 0, func(journal.Locked) (journal.Change, error) { return journal.Change{}, nil })
	storetest.WantCode(t, err, fault.NotFound)
}

// decidersReadDefinitions: a decider reads the definitions that newer rows bring into force, also while it stores one itself.
func decidersReadDefinitions(t *testing.T, s setup) {
	known := s.define(t)
	next := definition()
	next.Service.Name = "next"
	s.apply(t, &next)
	decide := func(locked journal.Locked) (journal.Change, error) {
		if len(locked.Newer) != 1 || locked.Newer[0].Event != pipeline.PipelineDefined {
			t.Fatalf("newer rows: %+v", locked.Newer)
		}
		got, err := locked.Definition(locked.Newer[0].Version)
		storetest.Check(t, err)
		if got.Version != known.Version+1 || got.Definition.Service.Name != "next" {
			t.Errorf("the decider reads definition %d of service %q, want %d of next", got.Version, got.Definition.Service.Name, known.Version+1)
		}
		_, err = locked.Definition(got.Version + 1)
		storetest.WantCode(t, err, fault.Corrupt)
		return journal.Change{}, nil
	}
	_, err := s.Append(s.ctx, testPipeline, known.Seq, decide)
	storetest.Check(t, err)
	_, err = s.Define(s.ctx, testPipeline, known.Seq, decide)
	storetest.Check(t, err)
	_, err = s.Pass(s.ctx, s.lease(t, s.instance(t, "host-a")), known.Seq, decide)
	storetest.Check(t, err)
}

// decidersMeetACutConnection: a row that a decider could not read is unavailable, as if the journal itself had not
// read it.
func decidersMeetACutConnection(t *testing.T, s setup) {
	head := s.define(t)
	if s.database.Cut == nil {
		return // without connections there is nothing to cut
	}
	_, err := s.Define(s.ctx, testPipeline, head.Seq, func(locked journal.Locked) (journal.Change, error) {
		storetest.Check(t, s.database.Cut())
		_, err := locked.Definition(locked.Version)
		return journal.Change{}, err
	})
	storetest.WantCode(t, err, fault.LedgerUnavailable)
	_, err = s.Define(s.ctx, testPipeline, head.Seq, func(locked journal.Locked) (journal.Change, error) {
		storetest.Check(t, s.database.Cut())
		_, err := locked.Owners()
		return journal.Change{}, err
	})
	storetest.WantCode(t, err, fault.LedgerUnavailable)
}

func refusedDecisionLeavesNothing(t *testing.T, s setup) {
	before := s.define(t)
	refusal := errors.New("refused")
	d := definition()
	_, err := s.Define(s.ctx, "other", 0, func(journal.Locked) (journal.Change, error) { return journal.Change{Definition: &d}, refusal })
	if !errors.Is(err, refusal) {
		t.Errorf("got %v, want the decider's own error", err)
	}
	if _, err := s.Head(s.ctx, "other"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a refused definition made its pipeline: %v", err)
	}
	broken := action.Action{Kind: "step", Step: &action.StepRef{Pipeline: testPipeline, Deployment: 7, Target: oak,
		Event: pipeline.HostDeployed}}
	_, err = s.Pass(s.ctx, s.lease(t, s.instance(t, "host-a")), 0, func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: []pipeline.Entry{{Event: pipeline.HostJoined, Class: pipeline.Change}},
			Actions: []action.Action{broken}}, nil
	})
	if err == nil {
		t.Error("a step of an unknown deployment was stored")
	}
	after, err := s.Head(s.ctx, testPipeline)
	storetest.Check(t, err)
	if after.Seq != before.Seq {
		t.Errorf("the log ends at %d, want %d: nothing of a failed pass stays", after.Seq, before.Seq)
	}
}

func entriesAreSelected(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	s.register(t, "88d0e17")
	elm := testPipeline + "/prod/east/elm"
	s.append(t, fact(1, oak, pipeline.HostStarted), fact(1, elm, pipeline.HostStarted), fact(2, oak, pipeline.HostStarted),
		fact(1, testPipeline+"/beta", pipeline.StageStarted), fact(1, testPipeline+"/beta-2", "host-other"),
		note(1, oak, pipeline.StepClaimed))
	for name, c := range map[string]struct {
		query journal.EntryQuery
		want  []int64
	}{
		"all":                      {journal.EntryQuery{}, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"behind a position":        {journal.EntryQuery{After: 7}, []int64{8, 9}},
		"between two":              {journal.EntryQuery{After: 3, UpTo: 6}, []int64{4, 5, 6}},
		"of a deployment, up to":   {journal.EntryQuery{Deployment: 1, UpTo: 5}, []int64{2, 4, 5}},
		"of a target, up to":       {journal.EntryQuery{Target: testPipeline + "/beta", UpTo: 7}, []int64{4, 6, 7}},
		"a deployment":             {journal.EntryQuery{Deployment: 1}, []int64{2, 4, 5, 7, 8, 9}},
		"a target, with below":     {journal.EntryQuery{Target: testPipeline + "/beta"}, []int64{4, 6, 7, 9}},
		"a target of a deployment": {journal.EntryQuery{Target: testPipeline + "/beta", Deployment: 1}, []int64{4, 7, 9}},
		"the pipeline's target":    {journal.EntryQuery{Target: testPipeline, Limit: 2}, []int64{1, 2}},
		"a class":                  {journal.EntryQuery{Class: pipeline.Note}, []int64{2, 3, 9}},
		"the newest":               {journal.EntryQuery{Newest: true, Limit: 2}, []int64{8, 9}},
		"a limit":                  {journal.EntryQuery{Limit: 3, After: 1}, []int64{2, 3, 4}},
		"facts of a host":          {journal.EntryQuery{Target: oak, Class: pipeline.Fact}, []int64{4, 6}},
		"nothing":                  {journal.EntryQuery{Target: "greeter/gone"}, nil},
	} {
		c.query.Pipeline = testPipeline
		entries, err := s.Entries(s.ctx, c.query)
		storetest.Check(t, err)
		var got []int64
		for _, e := range entries {
			got = append(got, e.Seq)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func rollUpsFollowTheLog(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	status := func() pipeline.Status {
		d, err := s.Deployment(s.ctx, testPipeline, 1)
		storetest.Check(t, err)
		if (d.Status == pipeline.StatusActive) != d.EndedAt.IsZero() {
			t.Errorf("%s with end %v", d.Status, d.EndedAt)
		}
		return d.Status
	}
	beta := testPipeline + "/beta"
	for _, step := range []struct {
		entry pipeline.Entry
		want  pipeline.Status
		stage string
	}{
		{fact(1, beta, pipeline.StageStarted), pipeline.StatusActive, ""},
		{note(1, beta, pipeline.StageFailed), pipeline.StatusActive, "failed"},
		{note(1, testPipeline, pipeline.PipelineFailed), pipeline.StatusFailed, "failed"},
		{note(1, oak, pipeline.RetryRequested), pipeline.StatusActive, ""},
		{fact(1, beta, pipeline.StageFinished), pipeline.StatusActive, "finished"},
		{fact(1, testPipeline, pipeline.PipelineFinished), pipeline.StatusFinished, "finished"},
	} {
		s.append(t, step.entry)
		if got := status(); got != step.want {
			t.Errorf("after %s: %s, want %s", step.entry.Event, got, step.want)
		}
		runs := s.stageRuns(t, 1)
		if len(runs) != 1 || runs[0].Stage != "beta" || runs[0].Outcome != step.stage || runs[0].EndedAt.IsZero() != (step.stage == "") {
			t.Errorf("after %s: stage runs %+v, want outcome %q", step.entry.Event, runs, step.stage)
		}
	}
	s.register(t, "88d0e17")
	s.append(t, fact(2, beta, pipeline.StageStarted), note(2, testPipeline, pipeline.PipelineSuperseded))
	runs := s.stageRuns(t, 2)
	if len(runs) != 1 || runs[0].Outcome != "superseded" {
		t.Errorf("stage runs of a superseded deployment: %+v", runs)
	}
	active, err := s.Deployments(s.ctx, journal.DeploymentQuery{Pipeline: testPipeline, Status: pipeline.StatusActive})
	storetest.Check(t, err)
	if len(active) != 0 {
		t.Errorf("in progress: %+v, want none", active)
	}
}

func questionsAreAnswered(t *testing.T, s setup) {
	s.define(t)
	for _, label := range []string{"r1", "r2", "r3"} {
		s.register(t, label)
	}
	// greeter#4 brings r1 back
	back, err := s.Deploy(s.ctx, journal.NewDeployment{Pipeline: testPipeline, Revision: 1, Kind: journal.Manual, By: "ana"})
	storetest.Check(t, err)
	s.append(t, fact(1, oak, pipeline.HostStarted), fact(1, oak, pipeline.HostFinished), fact(2, oak, pipeline.HostStarted),
		note(2, oak, pipeline.StepFailed), fact(3, oak, pipeline.HostStarted), fact(3, oak, pipeline.HostFinished))
	moment, err := s.Head(s.ctx, testPipeline)
	storetest.Check(t, err)
	started, finished := fact(back.Number, oak, pipeline.HostStarted), fact(back.Number, oak, pipeline.HostFinished)
	started.Revision, finished.Revision = 1, 1
	s.append(t, started, finished)

	standing := s.standing(t, oak)
	if standing.At.IsZero() || standing.FailedAt.IsZero() {
		t.Errorf("times are missing: %+v", standing)
	}
	standing.At, standing.FailedAt = time.Time{}, time.Time{}
	want := journal.Standing{Target: oak, Current: 4, Revision: 1, Highest: 3, Failed: 2}
	if diff := cmp.Diff(want, standing); diff != "" {
		t.Errorf("standing (-want +got):\n%s", diff)
	}
	empty := s.standing(t, testPipeline+"/prod")
	if diff := cmp.Diff(journal.Standing{Target: testPipeline + "/prod"}, empty); diff != "" {
		t.Errorf("standing of a target that nothing passed (-want +got):\n%s", diff)
	}
	past := s.history(t, oak, moment.Seq, 1)
	if len(past) != 1 || past[0].Deployment != 3 || past[0].Outcome != "finished" {
		t.Errorf("at the past moment: %+v", past)
	}
	var story []string
	for _, p := range s.history(t, oak, 0, 0) {
		story = append(story, fmt.Sprintf("%d %s %s", p.Deployment, p.Label, p.Outcome))
	}
	if got, want := strings.Join(story, ", "), "4 r1 finished, 3 r3 finished, 2 r2 failed, 1 r1 finished"; got != want {
		t.Errorf("history: got %s, want %s", got, want)
	}
	resources, err := s.Resources(s.ctx, journal.ResourceQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	if len(resources) != 1 || resources[0].Address != "local://oak" || resources[0].Service != testPipeline || resources[0].Target != oak ||
		resources[0].Deployment != 4 || resources[0].Revision != 1 || resources[0].Finished != 4 {
		t.Errorf("resources: %+v", resources)
	}
	everything, err := s.Resources(s.ctx, journal.ResourceQuery{})
	storetest.Check(t, err)
	if diff := cmp.Diff(resources, everything); diff != "" {
		t.Errorf("of all pipelines (-one +all):\n%s", diff)
	}
}

// illegalEntriesAreRefused: the database refuses rows that no pass writes.
func illegalEntriesAreRefused(t *testing.T, s setup) {
	head := s.define(t)
	s.register(t, "3f2c9a1")
	next := head.Seq + 1
	for name, e := range map[string]pipeline.Entry{
		"a fact that happens again":      {Class: pipeline.Fact, Event: pipeline.HostStarted, Deployment: 1, Occurrence: 1},
		"a note that does not count":     {Class: pipeline.Note, Event: pipeline.StepFailed, Deployment: 1},
		"a change of a deployment":       {Class: pipeline.Change, Event: pipeline.StepIntroduced, Deployment: 1, Occurrence: 1},
		"a fact of the pipeline as such": {Class: pipeline.Fact, Event: pipeline.HostStarted},
		"a class that there is not":      {Class: 4, Event: pipeline.HostStarted, Deployment: 1, Occurrence: 1},
	} {
		e.Seq, e.Pipeline, e.Target, e.Revision, e.Version, e.At = next, testPipeline, oak, 1, 1, time.Now()
		err := s.write(func(tx rows) error {
			heads, err := tx.LockHeads([]string{testPipeline}, true)
			if err != nil {
				return err
			}
			if err := tx.InsertEntries(heads[0].ID, []pipeline.Entry{e}); err != nil {
				return err
			}
			if _, err := tx.Heads(nil); err != nil { // what is only written may go with what is read next
				return err
			}
			return errTaken
		})
		if err == nil || errors.Is(err, errTaken) {
			t.Errorf("%s was not refused", name)
		}
	}
}

func introductionsAreKept(t *testing.T, s setup) {
	s.define(t)
	s.append(t, pipeline.Entry{Class: pipeline.Change, Event: pipeline.StepIntroduced, Target: testPipeline + "/beta", Version: 2,
		Detail: []byte(`{"event": "host-cache-warmed", "revisionAfter": 3, "strict": true}`)})
	var got []journal.Introduction
	storetest.Check(t, s.read(func(tx rows) (err error) {
		got, err = tx.Introductions(testPipeline)
		return err
	}))
	want := []journal.Introduction{{Stage: "beta", Event: "host-cache-warmed", RevisionAfter: 3, Version: 2, Strict: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("introductions (-want +got):\n%s", diff)
	}
}

// standing reads the roll-up of a target; nothing has passed it yet: an empty one.
func (s setup) standing(t *testing.T, target string) journal.Standing {
	t.Helper()
	standing := journal.Standing{Target: target}
	storetest.Check(t, s.read(func(tx rows) error {
		some, err := tx.Standings(testPipeline, []string{target})
		if len(some) > 0 {
			standing = some[0]
		}
		return err
	}))
	return standing
}

// history reads the history of deployments at a target.
func (s setup) history(t *testing.T, target string, before int64, limit int) []journal.Passage {
	t.Helper()
	passages, err := s.History(s.ctx, journal.HistoryQuery{Pipeline: testPipeline, Target: target, Before: before, Limit: limit})
	storetest.Check(t, err)
	return passages
}

// stageRuns reads a deployment's ways through its stages.
func (s setup) stageRuns(t *testing.T, deployment int64) (runs []journal.StageRun) {
	t.Helper()
	storetest.Check(t, s.read(func(tx rows) (err error) {
		runs, err = tx.StageRuns(testPipeline, deployment)
		return err
	}))
	return runs
}

var errTaken = errors.New("it is taken back")
