package journaltest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// failure returns the note that a step of a deployment failed.
func failure(deployment int64, target, text string) pipeline.Entry {
	e := note(deployment, target, pipeline.StepFailed)
	e.Detail = fmt.Appendf(nil, `{"event": "host-deployed", "error": %q}`, text)
	return e
}

// historyNamesEveryDeployment: also one that neither finished nor failed at the target.
func historyNamesEveryDeployment(t *testing.T, s setup) {
	s.define(t)
	for _, label := range []string{"r1", "r2", "r3", "r4", "r5", "r6"} {
		s.register(t, label)
	}
	elm := testPipeline + "/prod/east/elm"
	start := func(deployment int64) pipeline.Entry { return fact(deployment, oak, pipeline.HostStarted) }
	s.append(t, start(1), fact(1, oak, pipeline.HostDeployed), fact(1, oak, pipeline.HostFinished), fact(1, elm, pipeline.HostStarted),
		start(2), note(2, testPipeline, pipeline.PipelineSuperseded),
		start(3), failure(3, oak, "disk full"), note(3, testPipeline, pipeline.PipelineFailed),
		start(4), note(4, testPipeline, pipeline.PipelineFailed),
		start(5), failure(5, oak, "no route"), note(5, oak, pipeline.RetryRequested), note(5, oak, pipeline.StepReported),
		start(6), note(6, testPipeline, pipeline.PipelineCanceled))
	var got []string
	for _, p := range s.history(t, oak, 0, 0) {
		got = append(got, fmt.Sprintf("%s %q %d %q %d entries", p.Label, p.Outcome, p.Failures, p.Error, len(p.Entries)))
		if p.StartedAt.IsZero() || p.EndedAt.IsZero() != (p.Outcome == "") {
			t.Errorf("times of %+v", p)
		}
	}
	want := []string{`r6 "canceled" 0 "" 1 entries`, `r5 "" 1 "no route" 3 entries`, `r4 "stopped" 0 "" 1 entries`,
		`r3 "failed" 1 "disk full" 2 entries`, `r2 "superseded" 0 "" 1 entries`, `r1 "finished" 0 "" 3 entries`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history of %s (-want +got):\n%s", oak, diff)
	}
	if other := s.history(t, elm, 0, 0); len(other) != 1 || other[0].Outcome != "" {
		t.Errorf("history of %s: %+v", elm, other)
	}
	if none := s.history(t, "greeter/gone", 0, 0); len(none) != 0 {
		t.Errorf("history of a target that does not exist: %+v", none)
	}
}

// historyIsReadInPages: the pages together are the history, with each deployment once, at every depth of a target.
func historyIsReadInPages(t *testing.T, s setup) {
	s.define(t)
	started := map[string]string{testPipeline: pipeline.PipelineStarted, testPipeline + "/beta": pipeline.StageStarted,
		testPipeline + "/beta/all": pipeline.GroupStarted, oak: pipeline.HostStarted}
	for i := range int64(5) {
		s.register(t, fmt.Sprintf("r%d", i+1))
		for target, event := range started {
			s.append(t, fact(i+1, target, event), note(i+1, target, pipeline.HoldSet))
		}
	}
	for target := range started {
		var read []int64
		before := int64(0)
		for range 4 {
			page := s.history(t, target, before, 2)
			for _, p := range page {
				read = append(read, p.Deployment)
				before = p.Seq
			}
		}
		if diff := cmp.Diff([]int64{5, 4, 3, 2, 1}, read); diff != "" {
			t.Errorf("pages of %s (-want +got):\n%s", target, diff)
		}
	}
}

// runsKeepTheirFailures: a retry does not hide that a stage has failed, nor an end that a host was started.
func runsKeepTheirFailures(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "r1")
	s.register(t, "r2")
	beta := testPipeline + "/beta"
	s.append(t, fact(1, beta, pipeline.StageStarted))
	if run := s.stageRuns(t, 1)[0]; run.Changed || !run.FailedAt.IsZero() {
		t.Errorf("a stage that has only started: %+v", run)
	}
	s.append(t, fact(1, oak, pipeline.HostStarted), note(1, beta, pipeline.StageFailed), note(1, testPipeline, pipeline.PipelineFailed))
	failed := s.stageRuns(t, 1)[0]
	if !failed.Changed || failed.FailedAt.IsZero() {
		t.Errorf("a stage that has failed: %+v", failed)
	}
	s.append(t, note(1, oak, pipeline.RetryRequested))
	s.append(t, note(1, beta, pipeline.StageFailed), note(1, oak, pipeline.RetryRequested))
	s.append(t, fact(1, beta, pipeline.StageFinished))
	finished := s.stageRuns(t, 1)[0]
	if finished.Outcome != "finished" || !finished.Changed || !finished.FailedAt.Equal(failed.FailedAt) {
		t.Errorf("a stage that was retried and has finished: %+v, first failed %v", finished, failed.FailedAt)
	}
	s.append(t, fact(2, beta, pipeline.StageStarted), note(2, testPipeline, pipeline.PipelineCanceled))
	if run := s.stageRuns(t, 2)[0]; run.Outcome != "canceled" || run.Changed {
		t.Errorf("a stage that was canceled before a host: %+v", run)
	}
}

// runsAreReadByTheirEnds: of one stage or all, without those that run.
func runsAreReadByTheirEnds(t *testing.T, s setup) {
	s.define(t)
	committed := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	_, err := s.Register(s.ctx, pipeline.RegisteredRevision{Pipeline: testPipeline, Label: "r1", CommittedAt: committed}, true, "")
	storetest.Check(t, err)
	s.register(t, "r2")
	beta, prod := testPipeline+"/beta", testPipeline+"/prod"
	s.append(t, fact(1, prod, pipeline.StageStarted), fact(2, beta, pipeline.StageStarted))
	s.append(t, fact(1, beta, pipeline.StageStarted), fact(1, beta, pipeline.StageFinished))
	s.append(t, fact(1, prod, pipeline.StageFinished))
	read := func(stage string, since time.Time) []journal.EndedRun {
		runs, err := s.EndedRuns(s.ctx, testPipeline, stage, since)
		storetest.Check(t, err)
		return runs
	}
	all := read("", time.Unix(1, 0))
	if len(all) != 2 || all[0].Stage != "beta" || all[1].Stage != "prod" || !all[1].CommittedAt.Equal(committed) ||
		all[1].Outcome != "finished" {
		t.Fatalf("all ended runs: %+v", all)
	}
	if diff := cmp.Diff(all[:1], read("beta", all[0].EndedAt)); diff != "" {
		t.Errorf("of one stage (-want +got):\n%s", diff)
	}
	if late := read("", all[1].EndedAt.Add(time.Microsecond)); len(late) != 0 {
		t.Errorf("ended after the last end: %+v", late)
	}
	s.append(t, fact(2, beta, pipeline.StageFinished))
	for before, want := range map[time.Time]map[string]int64{
		all[0].EndedAt:                {},
		all[1].EndedAt:                {"beta": 1},
		all[1].EndedAt.Add(time.Hour): {"beta": 2, "prod": 1},
	} {
		newest, err := s.NewestFinished(s.ctx, testPipeline, before)
		storetest.Check(t, err)
		if diff := cmp.Diff(want, newest); diff != "" {
			t.Errorf("finished before %s (-want +got):\n%s", before, diff)
		}
	}
}

func revisionsBetweenTwoAreRead(t *testing.T, s setup) {
	s.define(t)
	for _, label := range []string{"r1", "r2", "r3", "r4"} {
		s.register(t, label)
	}
	for name, c := range map[string]struct {
		after, before int64
		limit         int
		want          []string
	}{
		"none between neighbours": {1, 2, 0, nil},
		"without the ends":        {1, 4, 0, []string{"r3", "r2"}},
		"a limit":                 {0, 5, 1, []string{"r4"}},
	} {
		some, err := s.RevisionsBetween(s.ctx, testPipeline, c.after, c.before, c.limit)
		storetest.Check(t, err)
		var got []string
		for _, r := range some {
			got = append(got, r.Label)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// resourcesKeepWhatFinished: whether the rows of one host come in one transaction or in several.
func resourcesKeepWhatFinished(t *testing.T, s setup) {
	s.define(t)
	for _, label := range []string{"r1", "r2", "r3"} {
		s.register(t, label)
	}
	start := func(deployment int64) pipeline.Entry { return fact(deployment, oak, pipeline.HostStarted) }
	finish := func(deployment int64) pipeline.Entry { return fact(deployment, oak, pipeline.HostFinished) }
	for _, step := range []struct {
		rows       []pipeline.Entry
		deployment int64
		finished   int64
	}{
		{[]pipeline.Entry{start(1)}, 1, 0},
		{[]pipeline.Entry{finish(1), start(2)}, 2, 1},
		{[]pipeline.Entry{start(3)}, 3, 1},
		{[]pipeline.Entry{finish(3)}, 3, 3},
	} {
		s.append(t, step.rows...)
		found, err := s.Resources(s.ctx, journal.ResourceQuery{Pipeline: testPipeline})
		storetest.Check(t, err)
		if len(found) != 1 || found[0].Deployment != step.deployment || found[0].Finished != step.finished {
			t.Errorf("after deployment %d: %+v, want %d there and %d finished", step.deployment, found, step.deployment, step.finished)
		}
	}
}
