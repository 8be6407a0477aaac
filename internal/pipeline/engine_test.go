package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// world is an engine with a clock, played by tests.
type world struct {
	t      testing.TB
	engine *Engine
	now    time.Time
	log    []Entry
}

var noon = time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)

func newWorld(t testing.TB, d Definition) *world {
	t.Helper()
	w := &world{t: t, engine: New(d.Pipeline), now: noon}
	w.define(d)
	return w
}

func compiled(t testing.TB, d Definition) *Graph {
	t.Helper()
	plan, problems := Compile(d)
	if err := problems.Err(); err != nil {
		t.Fatalf("compile: %v", err)
	}
	return plan
}

func (w *world) define(d Definition) {
	w.t.Helper()
	version, _ := w.engine.Current()
	plan := compiled(w.t, d)
	edit := w.engine.Edit(version+1, plan, w.newest(), w.now)
	if err := edit.Refused.Err(); err != nil {
		w.t.Fatalf("edit: %v", err)
	}
	w.engine.AddVersion(version+1, plan)
	for _, row := range edit.Entries {
		w.fold(row)
	}
}

func (w *world) newest() int64 {
	newest := int64(0)
	for _, row := range w.log {
		newest = max(newest, row.Revision)
	}
	return newest
}

// fold numbers and applies a row.
func (w *world) fold(row Entry) {
	w.t.Helper()
	row.Pipeline, row.Seq, row.At = w.engine.pipeline, w.engine.Seq()+1, w.now
	if err := w.engine.Apply(row); err != nil {
		w.t.Fatalf("apply %s %s: %v", row.Target, row.Event, err)
	}
	w.log = append(w.log, row)
}

// A row that claims a marker breaks an invariant, and the engine says so.
func TestAClaimOfAMarkerIsAViolation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	w.create(1, 1)
	claim := Entry{Pipeline: w.engine.pipeline, Seq: w.engine.seq + 1, At: noon, Deployment: 1, Target: "greeter",
		Event: StepClaimed, Class: Note,
		Detail: []byte(`{"event":"pipeline-started"}`)}
	if v, broken := errors.AsType[*Violation](w.engine.Apply(claim)); !broken || v.Invariant != "I2" {
		t.Errorf("got %v", v)
	}
}

// A host has no name when its URL is bad, which is said already.
func TestHostsWithoutANameAreNotTwice(t *testing.T) {
	t.Parallel()
	d := greeter()
	d.Stages[1].Groups[0].Hosts = []Host{{URL: "x://a"}, {URL: "x://b"}}
	if _, problems := Compile(d); strings.Contains(fmt.Sprint(problems), "already in group") {
		t.Errorf("problems %v", problems)
	}
}

// Two services of one host that share a unit of systemd would restart each other.
func TestServicesDoNotShareAUnit(t *testing.T) {
	t.Parallel()
	d := greeter()
	for i, name := range []string{"a", "b"} {
		d.Stages[1+i].Service = &Service{Name: name, Manager: "systemd", Unit: "web.service"}
		d.Stages[1+i].Groups[0].Hosts[0].URL = "local://oak"
	}
	_, problems := Compile(d)
	if !strings.Contains(fmt.Sprint(problems), `services "a" and "b" both have unit web.service at local://oak`) {
		t.Errorf("problems %v", problems)
	}
}

func (w *world) create(number, revision int64) {
	w.t.Helper()
	w.fold(Entry{Deployment: number, Target: w.engine.pipeline, Event: DeploymentCreated, Class: Note, Revision: revision})
}

func (w *world) decide() Decision {
	w.t.Helper()
	return w.decideAtMost(1 << 20)
}

func (w *world) decideAtMost(limit int) Decision {
	w.t.Helper()
	d, err := w.engine.Decide(w.now, limit)
	if err != nil {
		w.t.Fatalf("decide: %v", err)
	}
	w.log = append(w.log, d.Entries...)
	return d
}

func (w *world) done(k StepKey) {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	if k.Event == BuildCompleted {
		t := w.engine.deployments[k.Deployment]
		stage, _, _, _ := t.plan.def.Find(k.Target)
		for _, a := range stage.Build.Artifacts {
			if n := t.plan.find(k.Target, ArtifactEvent(a.Label)); !t.is(n, excluded) {
				w.artifact(t.revision, a.Label)
			}
		}
	}
	w.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: k.Event, Class: Fact})
}

func (w *world) artifact(revision int64, label string) {
	w.t.Helper()
	w.uploaded(revision, label, "")
}

// uploaded records an artifact that a person has uploaded.
func (w *world) uploaded(revision int64, label, by string) {
	w.t.Helper()
	w.fold(Entry{Target: w.engine.pipeline, Event: ArtifactRegistered, Class: Change, Revision: revision,
		Detail: raw(artifactDetail{Label: label, By: by})})
}

func raw(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// host is a local host.
func host(name string) Host { return Host{Name: name, URL: "local://" + name} }

func hosts(names ...string) []Host {
	var list []Host
	for _, n := range names {
		list = append(list, host(n))
	}
	return list
}

func chain(events ...string) []Step {
	builtIn := map[string]string{HostReplicated: Replicate, HostDeployed: Deploy, HostTested: Test}
	var steps []Step
	for _, e := range events {
		s := Step{Name: builtIn[e], Event: e}
		if s.Name == "" {
			s.Name, s.Run = e[len("host-"):], []string{"./it"}
		}
		steps = append(steps, s)
	}
	return steps
}

func buildStage(labels ...string) Stage {
	b := &Build{File: ".wharf-ci.yml"}
	for _, l := range labels {
		b.Artifacts = append(b.Artifacts, Artifact{Label: l, Path: "dist/" + l})
	}
	return Stage{Name: "build", Kind: BuildStage, Build: b, Queue: FIFO, OnFailure: Release}
}

func hostStage(name string, after []string, groups ...Group) Stage {
	return Stage{Name: name, Kind: HostStage, After: after, Groups: groups, Queue: FIFO, OnFailure: Release,
		Chain: chain(HostReplicated, HostDeployed, HostTested)}
}

func group(name string, list ...string) Group {
	return Group{Name: name, Hosts: hosts(list...), MaxParallel: Limit{N: 25, Percent: true}}
}

// greeter is a small service: a build, one host in beta, two groups in prod.
func greeter() Definition {
	return Definition{Pipeline: "greeter", Order: Runnable,
		Service: Service{Name: "greeter", Manager: "process", Exec: []string{"./greeter"}, Restart: "restart"},
		Stages: []Stage{
			buildStage("amd64"),
			hostStage("beta", []string{"build"}, group("all", "oak")),
			hostStage("prod", []string{"beta"}, group("east", "elm", "fir"), group("west", "yew")),
		}}
}

func TestGreeterLogHolds36Facts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	w.create(1, 1)
	work := 0
	var queue []Work
	for {
		queue = append(queue, w.decide().Work...)
		if len(queue) == 0 {
			break
		}
		work++
		w.done(queue[0].StepKey)
		queue = queue[1:]
	}
	facts := 0
	for _, row := range w.log {
		if row.Class == Fact {
			facts++
		}
	}
	state, _ := w.engine.Deployment(1)
	got := fmt.Sprintf("%d facts, %d for work, %s, %d of %d", facts, work, state.Status, state.Done, state.Total)
	if want := "36 facts, 13 for work, finished, 36 of 36"; got != want {
		for _, row := range w.log {
			t.Logf("%d %s %s %s", row.Seq, row.Target, row.Event, row.Class)
		}
		for _, s := range w.engine.Explain(1, w.now) {
			t.Logf("%+v", s)
		}
		t.Errorf("got %s, want %s", got, want)
	}
}

// promotes returns a stage with an environment on some clusters.
func promotes(name string, clusters ...string) Stage {
	s := Stage{Name: name, Kind: EnvironmentStage, Queue: FIFO, OnFailure: Release,
		Environment: &Environment{App: App{"helm.toolkit.fluxcd.io/v2", "HelmRelease", "podinfo"}, MinReady: Limit{N: 100, Percent: true}}}
	for _, cluster := range clusters {
		s.Environment.Targets = append(s.Environment.Targets, Target{cluster, "podinfo"})
	}
	return s
}
