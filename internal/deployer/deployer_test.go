package deployer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// greeter returns a small pipeline: build, then one host, then two groups of three hosts.
func greeter(name string) pipeline.Definition {
	policy := action.Policy{Retries: 2, Initial: action.Duration(time.Second), Factor: 2, Max: action.Duration(time.Minute)}
	chain := []pipeline.Step{
		{Name: pipeline.Replicate, Event: pipeline.HostReplicated, Policy: policy},
		{Name: pipeline.Deploy, Event: pipeline.HostDeployed, Policy: policy},
		{Name: pipeline.Test, Event: pipeline.HostTested, Policy: policy},
	}
	group := func(name string, hosts ...string) pipeline.Group {
		g := pipeline.Group{Name: name, MaxParallel: pipeline.Limit{N: 25, Percent: true}}
		for _, h := range hosts {
			g.Hosts = append(g.Hosts, pipeline.Host{Name: h, URL: "local://" + h, Arch: "any"})
		}
		return g
	}
	return pipeline.Definition{
		Pipeline: name, Order: pipeline.Runnable, Service: pipeline.Service{Name: name, Manager: "none"},
		Stages: []pipeline.Stage{
			{Name: "build", Kind: pipeline.BuildStage, Queue: pipeline.FIFO, OnFailure: pipeline.Release,
				Build: &pipeline.Build{File: ".wharf-ci.yml", Policy: policy, Artifacts: []pipeline.Artifact{{Label: "any", Path: "out/app"}}}},
			{Name: "beta", Kind: pipeline.HostStage, After: []string{"build"}, Chain: chain, Queue: pipeline.FIFO, OnFailure: pipeline.Release,
				Groups: []pipeline.Group{group("all", "oak")}},
			{Name: "prod", Kind: pipeline.HostStage, After: []string{"beta"}, Chain: chain, Queue: pipeline.FIFO, OnFailure: pipeline.Release,
				Groups: []pipeline.Group{group("east", "elm", "fir"), group("west", "yew")}},
		},
	}
}

// elapse lets virtual time pass, then everything come to rest.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// run starts a deployer; the returned function ends it.
func run(t *testing.T, f *fake) (d *deployer.Deployer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d = deployer.New(f, deployer.Config{})
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return d, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// workUntilDone ends all work of a pipeline as it comes; it fails when the pipeline does not
// finish.
func workUntilDone(t *testing.T, f *fake, name string) {
	t.Helper()
	for range 100 {
		elapse(100 * time.Millisecond)
		if f.work(name) == 0 && finished(f, name) {
			return
		}
	}
	t.Fatalf("not finished; facts so far:\n%s", strings.Join(f.facts(name), "\n"))
}

func finished(f *fake, name string) bool {
	return slices.Contains(f.facts(name), name+" "+pipeline.PipelineFinished)
}

// checkFacts wants the 36 facts of one deployment of greeter, each once.
func checkFacts(t *testing.T, f *fake, name string) {
	t.Helper()
	facts := f.facts(name)
	if len(facts) != 36 {
		t.Errorf("%d facts, want 36", len(facts))
	}
	slices.Sort(facts)
	if once := slices.Compact(slices.Clone(facts)); len(once) != len(facts) {
		t.Errorf("some facts are there twice:\n%s", strings.Join(facts, "\n"))
	}
}

func TestPassesAreMeasured(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, registry := newFake(), prometheus.NewRegistry()
		f.define(t, greeter("greeter"))
		ctx, cancel := context.WithCancel(t.Context())
		d := deployer.New(f, deployer.Config{Metrics: obs.NewDeployer(registry, false)})
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		f.create("greeter", 1)
		f.create("greeter", 2)
		elapse(time.Second)
		if got := measured(t, registry, `waybill_deployer_blocked_steps{reason="artifact"}`); got != 2 {
			t.Errorf("%v steps wait for an artifact, want 2: one of each deployment", got)
		}
		workUntilDone(t, f, "greeter")
		if got := measured(t, registry, `waybill_deployer_step_seconds{event="host-deployed"}`); got < 4 {
			t.Errorf("%v times of host-deployed, want one for each of four hosts", got)
		}
		f.add("greeter", pipeline.Entry{Deployment: 3, Target: "greeter", Event: pipeline.DeploymentCreated, Class: pipeline.Note, Revision: 1,
			Detail: []byte(`{"label":"r1","by":"ana","kind":"rollback","undoes":2,"scope":"greeter","hosts":["greeter/beta/all/oak"]}`)})
		elapse(time.Minute)
		if got := measured(t, registry, "waybill_deployer_rollbacks_total"); got != 1 {
			t.Errorf("%v rollbacks, want 1", got)
		}
		if got := measured(t, registry, "waybill_deployer_lag_rows"); got != 0 {
			t.Errorf("%v rows behind while nothing happens", got)
		}
		cancel()
		<-ended
	})
}

// TestDeploymentsAreCountedByStatus: by the rows that change them, and by a new engine, which counts all.
func TestDeploymentsAreCountedByStatus(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		f.define(t, greeter("other"))
		for range 2 { // the second deployer folds the log
			registry := prometheus.NewRegistry()
			ctx, cancel := context.WithCancel(t.Context())
			d := deployer.New(f, deployer.Config{Metrics: obs.NewDeployer(registry, true)})
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx) }()
			if len(f.facts("greeter")) == 0 {
				for number := range int64(3) {
					f.create("greeter", number+1)
				}
				elapse(time.Second)
				if got := measured(t, registry, `waybill_deployer_deployments{pipeline="greeter"}{status="active"}`); got != 3 {
					t.Errorf("%v deployments are active, want 3", got)
				}
				f.add("greeter", pipeline.Entry{Deployment: 3, Target: "greeter", Event: pipeline.PipelineCanceled,
					Class: pipeline.Note, Occurrence: 1, Revision: 3})
				workUntilDone(t, f, "greeter")
			}
			elapse(time.Minute)
			counted := map[string]float64{}
			for _, status := range []string{"active", "finished", "failed", "superseded", "canceled"} {
				for _, name := range []string{"greeter", "other"} {
					counted[name+" "+status] = measured(t, registry, fmt.Sprintf(`waybill_deployer_deployments{pipeline=%q}{status=%q}`, name, status))
				}
			}
			want := map[string]float64{"greeter active": 0, "greeter finished": 2, "greeter failed": 0, "greeter superseded": 0,
				"greeter canceled": 1,
				"other active":     0, "other finished": 0, "other failed": 0, "other superseded": 0, "other canceled": 0}
			if diff := cmp.Diff(want, counted); diff != "" {
				t.Errorf("deployments by status (-want +got):\n%s", diff)
			}
			cancel()
			<-ended
		}
	})
}

// measured returns a gauge's or counter's value, or how often a histogram was observed.
func measured(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text := family.GetName()
			for _, l := range m.GetLabel() {
				text += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			if text == name {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func TestADeploymentGoesThroughItsPipeline(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stop := run(t, f)
		f.create("greeter", 1)
		workUntilDone(t, f, "greeter")
		checkFacts(t, f, "greeter")
		stop()
	})
}

func TestActionsSayWhatTheyAre(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stop := run(t, f)
		f.create("greeter", 1)
		elapse(time.Second)
		build := f.head("greeter").live
		f.work("greeter")
		elapse(time.Second)
		live := append(build, f.head("greeter").live...)
		var got []string
		for _, a := range live {
			got = append(got, fmt.Sprintf("%s | %s | %s | %s | %s", a.Kind, a.Handler, a.Lane, a.Name, a.Parameters))
		}
		want := []string{
			`build | build | build | build-completed greeter/build | {"stage":"build"}`,
			`step | step | step/local://oak | host-artifact-replicated greeter/beta/all/oak | {"stage":"beta","group":"all","host":"oak","step":"replicate","fence":1}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		wantStep := &action.StepRef{Pipeline: "greeter", Deployment: 1, Target: "greeter/beta/all/oak",
			Event: "host-artifact-replicated", Revision: 1, Version: 1}
		if diff := cmp.Diff(wantStep, live[1].Step); diff != "" {
			t.Error(diff)
		}
		if live[1].Policy.Retries != 2 {
			t.Errorf("policy %+v, want the step's", live[1].Policy)
		}
		stop()
	})
}

// TestActionsOfGatesAndBakesSayWhatTheyAre: each has a lane and a policy of its own.
func TestActionsOfGatesAndBakesSayWhatTheyAre(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		bake := &pipeline.Bake{For: 1, Every: 1, Policy: action.Policy{Retries: 4}}
		d := greeter("greeter")
		d.Stages = []pipeline.Stage{
			{Name: "ready", Kind: pipeline.GateStage, Gates: []pipeline.Gate{{Name: "joined", Policy: action.Policy{Retries: 7}}}, Bake: bake},
			{Name: "told", Kind: pipeline.GateStage, After: []string{"ready"}, Vars: map[string]string{
				"who": "ops"}, Gates: []pipeline.Gate{{Name: "paged",
				Policy: action.Policy{Retries: 2}, Handler: &pipeline.GateHandler{Name: "notify",
					Parameters: []byte(`{"n": 1.50, "to": ["${who}", {"${who}": "${stage} $${who}"}]}`)}}}},
			{Name: "asked", Kind: pipeline.GateStage, After: []string{"told"},
				Gates: []pipeline.Gate{{Name: "bare", Handler: &pipeline.GateHandler{Name: "ask"}}}},
			{Name: "prod", Kind: pipeline.HostStage, After: []string{"asked"}, Groups: []pipeline.Group{{Name: "all", Waves: &pipeline.Waves{
				Sizes: []pipeline.Limit{{N: 1}}, Bake: bake}, Hosts: []pipeline.Host{{Name: "oak", URL: "local://oak"}}}}},
		}
		f.define(t, d)
		_, stop := run(t, f)
		f.create("greeter", 1)
		var got []string
		for range 5 {
			elapse(time.Second)
			for _, a := range f.head("greeter").live {
				got = append(got, fmt.Sprintf("%s | %s | %s | %s | %s | %d", a.Kind, a.Handler, a.Lane, a.Name, a.Parameters, a.Policy.Retries))
			}
			f.work("greeter")
		}
		want := []string{
			`step | gate | gate/greeter/ready | gate-passed/joined greeter/ready | {"stage":"ready","gate":"joined"} | 7`,
			`step | step | step/bake/greeter/ready | stage-baked greeter/ready | {"stage":"ready"} | 4`,
			`step | notify |  | gate-passed/paged greeter/told | {"n":1.50,"to":["ops",{"${who}":"told ${who}"}]} | 2`,
			`step | ask |  | gate-passed/bare greeter/asked | {} | 0`,
			`step | step | step/bake/greeter/prod/all/wave-1 | wave-baked greeter/prod/all/wave-1 | {"stage":"prod","group":"all"} | 4`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		stop()
	})
}

func TestFaultsOfTheLedgerLoseAndRepeatNothing(t *testing.T) {
	for name, inject := range map[string]func(f *fake){
		"answer lost at commit":    func(f *fake) { f.loseAnswer = 1 },
		"transaction tried again":  func(f *fake) { f.tryTwice = 1 },
		"ledger away for a minute": awayFor(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f := newFake()
				f.define(t, greeter("greeter"))
				_, stop := run(t, f)
				f.create("greeter", 1)
				for range 40 {
					f.mu.Lock()
					inject(f)
					f.mu.Unlock()
					elapse(2 * time.Minute)
					f.work("greeter")
				}
				elapse(2 * time.Minute)
				if !finished(f, "greeter") {
					t.Error("not finished")
				}
				checkFacts(t, f, "greeter")
				stop()
			})
		})
	}
}

func awayFor(d time.Duration) func(f *fake) {
	return func(f *fake) {
		back := time.Now().Add(d)
		f.beforePass = func(string) error {
			if time.Now().Before(back) {
				return fault.New(fault.LedgerUnavailable, "no route to the database")
			}
			return nil
		}
	}
}

func TestRowsThatNobodyAnnouncedAreFound(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stop := run(t, f)
		elapse(time.Minute)
		f.silent = true
		f.create("greeter", 1)
		elapse(30 * time.Second)
		if len(f.facts("greeter")) == 0 {
			t.Error("nothing was decided within 30 s")
		}
		stop()
	})
}

// TestAClockThatJumpsIsFollowed: the ledger's clock is set while a deployment waits for the end of a freeze.
func TestAClockThatJumpsIsFollowed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stop := run(t, f)
		until, _ := time.Now().Add(2 * time.Hour).MarshalText() // never fails for such a year
		f.add("greeter", pipeline.Entry{Event: pipeline.FreezeSet, Class: pipeline.Change,
			Detail: json.RawMessage(`{"until": "` + string(until) + `"}`)})
		f.create("greeter", 1)
		elapse(time.Minute)
		frozen := len(f.facts("greeter"))
		f.mu.Lock()
		f.ahead = 3 * time.Hour
		f.mu.Unlock()
		elapse(time.Minute)
		if got := len(f.facts("greeter")); got <= frozen {
			t.Errorf("%d facts, as many as during the freeze", got)
		}
		stop()
	})
}

func TestAnotherInstanceTakesOver(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stopFirst := run(t, f)
		elapse(time.Second)
		_, stopSecond := run(t, f)
		elapse(10 * time.Second)
		if head := f.head("greeter"); head.Owner != f.joined[0] || head.Epoch != 1 {
			t.Fatalf("owner %s at epoch %d, want the first instance to keep it", head.Owner, head.Epoch)
		}
		// The first is frozen: the ledger declares it dead without its knowing.
		f.mu.Lock()
		delete(f.alive, f.joined[0])
		f.mu.Unlock()
		f.create("greeter", 1)
		elapse(5 * time.Second)
		if head := f.head("greeter"); head.Epoch < 2 {
			t.Errorf("epoch %d after a heartbeat, want it taken over", head.Epoch)
		}
		workUntilDone(t, f, "greeter")
		checkFacts(t, f, "greeter")
		if len(f.joined) != 3 {
			t.Errorf("%d joins, want the frozen one to join again", len(f.joined))
		}
		stopFirst()
		stopSecond()
	})
}

func TestALeavingInstanceGivesItsPipelinesUp(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stopFirst := run(t, f)
		elapse(time.Second)
		_, stopSecond := run(t, f)
		stopFirst()
		f.create("greeter", 1)
		elapse(5 * time.Second)
		workUntilDone(t, f, "greeter")
		stopSecond()
	})
}

func TestABrokenInvariantStopsThatPipelineOnly(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		f.define(t, greeter("other"))
		d, stop := run(t, f)
		f.create("greeter", 1)
		f.create("other", 1)
		elapse(time.Second)
		// Finished before it was started: no engine writes that.
		f.add("greeter", pipeline.Entry{Event: pipeline.PipelineFinished, Class: pipeline.Fact, Deployment: 1, Revision: 1})
		elapse(time.Second)
		why := d.Stopped()["greeter"]
		if why == nil || !strings.Contains(why.Error(), "at entry ") {
			t.Fatalf("stopped because of %v, want the invariant and its position", why)
		}
		passes := f.head("greeter").passes
		workUntilDone(t, f, "other")
		f.work("greeter")
		elapse(time.Hour)
		if got := f.head("greeter").passes; got != passes {
			t.Errorf("%d more passes of the stopped pipeline", got-passes)
		}
		if len(d.Stopped()) != 1 {
			t.Errorf("stopped: %v, want greeter alone", d.Stopped())
		}
		stop()
	})
}

func TestAnIdlePipelineIsNotPassed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.define(t, greeter("greeter"))
		_, stop := run(t, f)
		elapse(time.Minute)
		passes := f.head("greeter").passes
		elapse(time.Hour)
		if got := f.head("greeter").passes; got != passes {
			t.Errorf("%d passes in an idle hour, want none", got-passes)
		}
		stop()
	})
}

func TestFoldReadsDefinitionsAsItMeetsThem(t *testing.T) {
	f := newFake()
	f.define(t, greeter("greeter"))
	f.create("greeter", 1)
	engine, err := deployer.Fold(t.Context(), f, "greeter")
	if err != nil {
		t.Fatal(err)
	}
	second := greeter("greeter")
	second.Vars = map[string]string{"port": "80"}
	f.logs["greeter"].versions = append(f.logs["greeter"].versions, second)
	f.add("greeter", pipeline.Entry{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: 2})
	if err := deployer.Catch(t.Context(), f, "greeter", engine, nil); err != nil {
		t.Fatal(err)
	}
	if version, _ := engine.Current(); version != 2 || engine.Seq() != 3 {
		t.Errorf("version %d at %d, want 2 at 3", version, engine.Seq())
	}
}
