package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
)

// randomDefinition draws a small pipeline that Compile accepts.
func randomDefinition(t *rapid.T) Definition {
	d := Definition{Pipeline: "shop", Order: rapid.SampledFrom([]Order{Runnable, Runnable, Strict}).Draw(t, "order"),
		Pin: rapid.IntRange(0, 4).Draw(t, "pin") == 0, Service: Service{Name: "shop"}}
	if rapid.IntRange(0, 3).Draw(t, "built") > 0 {
		b := buildStage([]string{"amd64", "arm64"}[:rapid.IntRange(1, 2).Draw(t, "labels")]...)
		b.Build.External = rapid.IntRange(0, 4).Draw(t, "external") == 0
		b.OnFailure = rapid.SampledFrom([]OnFailure{Release, Hold}).Draw(t, "onFailure")
		b.Windows, b.Approval = randomWindows(t), randomApproval(t)
		d.Stages = append(d.Stages, b)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "stages") {
		d.Stages = append(d.Stages, randomStage(t, d, fmt.Sprintf("s%d", i)))
	}
	if rapid.IntRange(0, 2).Draw(t, "range") == 0 {
		addBatch(t, &d)
	}
	return d
}

func randomStage(t *rapid.T, d Definition, name string) Stage {
	s := hostStage(name, randomAfter(t, d, len(d.Stages)))
	s.Queue = rapid.SampledFrom([]Queue{FIFO, FIFO, Latest, NoQueue}).Draw(t, "queue")
	s.OnFailure = rapid.SampledFrom([]OnFailure{Release, Release, Hold, RollBack, RollBack}).Draw(t, "onFailure")
	s.Windows, s.Approval = randomWindows(t), randomApproval(t)
	s.Chain = chain([]string{HostReplicated, HostDeployed, HostTested}[:rapid.IntRange(0, 3).Draw(t, "chain")]...)
	addOnce(t, &s, 3)
	s.Bake, s.Gates = randomBake(t), randomGates(t)
	if rapid.IntRange(0, 3).Draw(t, "gate stage") == 0 {
		s.Kind, s.Chain = GateStage, nil
		return s
	}
	if rapid.IntRange(0, 3).Draw(t, "environment") == 0 {
		s.Kind, s.Chain, s.Environment = EnvironmentStage, nil, randomEnvironment(t, name)
		if s.Queue == NoQueue {
			s.Queue = FIFO
		}
		return s
	}
	for g := range rapid.IntRange(0, 2).Draw(t, "groups") {
		s.Groups = append(s.Groups, randomGroup(t, &s, fmt.Sprintf("g%d", g)))
	}
	return s
}

func randomEnvironment(t *rapid.T, namespace string) *Environment {
	v := &Environment{App: App{"helm.toolkit.fluxcd.io/v2", "HelmRelease", rapid.SampledFrom([]string{"podinfo", "podinfo", "shop"}).Draw(t, "app")},
		MinReady: Limit{N: 100, Percent: true}, Soak: action.Duration(rapid.IntRange(0, 1).Draw(t, "soak"))}
	for _, cluster := range []string{"eu", "us"}[:rapid.IntRange(1, 2).Draw(t, "targets")] {
		v.Targets = append(v.Targets, Target{cluster, namespace})
	}
	return v
}

// addOnce inserts a step that runs once into the chain of one stage in so many.
func addOnce(t *rapid.T, s *Stage, of int) {
	if rapid.IntRange(1, of).Draw(t, "once") > 1 || slices.ContainsFunc(s.Chain, func(c Step) bool { return c.Event == "host-migrated" }) {
		return
	}
	step := chain("host-migrated")
	step[0].Once = true
	s.Chain = slices.Insert(s.Chain, rapid.IntRange(0, len(s.Chain)).Draw(t, "at"), step...)
}

// randomWindows draws no windows in most cases, so that most programs come far. Whatever it draws opens every week.
func randomWindows(t *rapid.T) []admission.Window {
	var list []admission.Window
	if rapid.IntRange(0, 3).Draw(t, "windowed") > 0 {
		return nil
	}
	for range rapid.IntRange(1, 2).Draw(t, "windows") {
		w := admission.Window{Kind: cron.Allow, Duration: action.Duration(45 * time.Minute),
			Timezone: rapid.SampledFrom([]string{"", "Europe/Stockholm"}).Draw(t, "timezone")}
		if w.Schedule = rapid.SampledFrom([]string{"0 9 * * 1-5", "30 14 * * *"}).Draw(t, "schedule"); rapid.Bool().Draw(t, "long") {
			w.Duration = action.Duration(8 * time.Hour)
		}
		if rapid.Bool().Draw(t, "deny") {
			w = admission.Window{Kind: cron.Deny, Schedule: rapid.SampledFrom([]string{"15 9,14 * * *", "0 */6 * * *"}).
				Draw(t, "schedule"), Duration: action.Duration(45 * time.Minute),
				Timezone: w.Timezone}
		}
		list = append(list, w)
	}
	return list
}

// people are those who register revisions and approve stages.
var people = []string{"ana", "bob", "cyd", "dan"}

func randomApproval(t *rapid.T) *admission.Approval {
	if rapid.IntRange(0, 3).Draw(t, "approved") > 0 {
		return nil
	}
	a := &admission.Approval{Count: rapid.IntRange(1, 2).Draw(t, "approvals"), Self: rapid.Bool().Draw(t, "self")}
	a.By = rapid.SampledFrom([][]string{nil, people[:3], {"ana", "group:ops"}, {"group:ops", "group:qa"}}).Draw(t, "named")
	return a
}

func randomAfter(t *rapid.T, d Definition, before int) []string {
	var after []string
	for i := range before {
		if rapid.IntRange(0, 2).Draw(t, "after") > 0 {
			after = append(after, d.Stages[i].Name)
		}
	}
	return after
}

func randomGroup(t *rapid.T, s *Stage, name string) Group {
	g := Group{Name: name, MaxParallel: rapid.SampledFrom([]Limit{{N: 1}, {N: 2}, {N: 50, Percent: true}}).Draw(t, "maxParallel"),
		MaxFailed: rapid.SampledFrom([]Limit{{}, {}, {N: 1}, {N: 50, Percent: true}}).Draw(t, "maxFailed")}
	s.Groups = append(s.Groups, g)
	for range rapid.IntRange(0, 3).Draw(t, "hosts") {
		addHost(t, s, len(s.Groups)-1)
	}
	g = s.Groups[len(s.Groups)-1]
	s.Groups = s.Groups[:len(s.Groups)-1]
	g.Waves, g.CatchUp = randomWaves(t), rapid.IntRange(0, 2).Draw(t, "joining") == 0
	return g
}

func randomWaves(t *rapid.T) *Waves {
	if rapid.Bool().Draw(t, "flat") {
		return nil
	}
	return &Waves{Sizes: rapid.SliceOfN(rapid.SampledFrom([]Limit{{N: 1}, {N: 2}, {N: 1, Percent: true},
		{N: 50, Percent: true}}), 1, 2).Draw(t, "sizes"), Bake: randomBake(t)}
}

func randomGates(t *rapid.T) []Gate {
	var gates []Gate
	for _, name := range []string{"x", "y"} {
		if rapid.IntRange(0, 3).Draw(t, "gate") == 0 {
			gates = append(gates, Gate{Name: name, When: rapid.SampledFrom([]GateWhen{Before, After}).Draw(t, "when")})
		}
	}
	return gates
}

func randomBake(t *rapid.T) *Bake {
	if rapid.IntRange(0, 2).Draw(t, "bake") > 0 {
		return nil
	}
	return &Bake{For: 1, Every: 1}
}

// addHost takes an address that the stage does not use; stages share addresses.
func addHost(t *rapid.T, s *Stage, group int) {
	name := rapid.SampledFrom([]string{"ash", "birch", "cedar", "elm", "fir"}).Draw(t, "host")
	for _, g := range s.Groups {
		for _, h := range g.Hosts {
			if h.Name == name {
				return
			}
		}
	}
	h := host(name)
	h.Arch = rapid.SampledFrom([]string{"amd64", "amd64", "arm64"}).Draw(t, "arch")
	s.Groups[group].Hosts = append(s.Groups[group].Hosts, h)
}

func addBatch(t *rapid.T, d *Definition) {
	a, b := rapid.IntRange(0, len(d.Stages)-1).Draw(t, "first"), rapid.IntRange(0, len(d.Stages)-1).Draw(t, "last")
	if a > b {
		a, b = b, a
	}
	batch := Batch{Name: fmt.Sprintf("b%d", len(d.Batches)), Stages: []string{d.Stages[a].Name, d.Stages[b].Name},
		Queue: rapid.SampledFrom([]Queue{FIFO, Latest}).Draw(t, "batchQueue")}
	if a == b {
		batch.Stages = batch.Stages[:1]
	}
	d.Batches = append(d.Batches, batch)
}

// settled makes a drawn definition one that Compile accepts, or reports that it cannot.
func settled(d Definition) (*Graph, bool) {
	for i := range d.Stages { // hosts of what is not built get what is
		for g := range d.Stages[i].Groups {
			for h := range d.Stages[i].Groups[g].Hosts {
				host := &d.Stages[i].Groups[g].Hosts[h]
				labels := d.labelsBefore(reached(i, reversed(d.stageEdges())))
				if len(labels) == 0 {
					host.Arch = ""
				} else if !slices.Contains(labels, host.Arch) {
					host.Arch = labels[0]
				}
			}
		}
	}
	for i := range d.Stages { // a step that runs once allows waves only where its host is
		s := &d.Stages[i]
		if !slices.ContainsFunc(s.Chain, func(c Step) bool { return c.Once }) {
			continue
		}
		for g := range s.Groups {
			if hostsOf(&Stage{Groups: s.Groups[:g]}) > 0 {
				s.Groups[g].Waves = nil
			}
		}
	}
	plan, problems := Compile(d)
	if problems.Err() != nil && len(d.Batches) > 0 {
		d.Batches = nil
		plan, problems = Compile(d)
	}
	return plan, problems.Err() == nil
}

func clone(d *Definition) Definition {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	var c Definition
	if err := json.Unmarshal(text, &c); err != nil {
		panic(err)
	}
	return c
}

// mutated is a definition after one edit.
func mutated(t *rapid.T, was *Definition) Definition {
	d := clone(was)
	i := rapid.IntRange(0, len(d.Stages)-1).Draw(t, "stage")
	s := &d.Stages[i]
	edit := rapid.SampledFrom([]string{"host joins", "host joins", "host leaves", "group", "group leaves", "stage", "stage leaves", "after",
		"step", "step", "step leaves", "once", "once", "arch", "arch leaves", "queue", "queue", "batch", "batch leaves",
		"order", "limits", "limits", "waves", "hosts move", "bake", "bake", "gates", "gates", "onFailure", "windows",
		"approval", "chain", "address", "service", "pin", "environment"}).Draw(t, "edit")
	switch edit {
	case "stage":
		at := rapid.IntRange(0, len(d.Stages)).Draw(t, "at")
		n := randomStage(t, Definition{Stages: d.Stages[:at]}, fmt.Sprintf("n%d", rapid.IntRange(0, 3).Draw(t, "name")))
		d.Stages = slices.Insert(d.Stages, at, n)
		for k := at + 1; k < len(d.Stages); k++ {
			if rapid.Bool().Draw(t, "behind") {
				d.Stages[k].After = append(d.Stages[k].After, n.Name)
			}
		}
	case "stage leaves":
		d.Stages = slices.Delete(d.Stages, i, i+1)
		for k := range d.Stages {
			d.Stages[k].After = slices.DeleteFunc(d.Stages[k].After, func(n string) bool { return n == was.Stages[i].Name })
		}
	case "after":
		s.After = randomAfter(t, d, i)
	case "queue":
		s.Queue = rapid.SampledFrom([]Queue{FIFO, Latest, NoQueue}).Draw(t, "queue")
	case "gates":
		if s.Kind != BuildStage {
			s.Gates = randomGates(t)
		}
	case "bake":
		if s.Kind != BuildStage {
			s.Bake = randomBake(t)
		}
	case "environment":
		if s.Kind == EnvironmentStage {
			s.Environment = randomEnvironment(t, s.Name)
		}
	case "onFailure":
		s.OnFailure = rapid.SampledFrom([]OnFailure{Release, Hold, RollBack}).Draw(t, "onFailure")
	case "windows":
		s.Windows = randomWindows(t)
	case "approval":
		s.Approval = randomApproval(t)
	case "batch":
		addBatch(t, &d)
	case "batch leaves":
		d.Batches = nil
	case "order":
		d.Order = rapid.SampledFrom([]Order{Runnable, Strict}).Draw(t, "order")
	case "pin":
		d.Pin = !d.Pin
	case "service":
		d.Service.Name = rapid.SampledFrom([]string{"shop", "shop", "till"}).Draw(t, "service")
	case "arch":
		if s.Build != nil {
			s.Build.Artifacts = append(s.Build.Artifacts, Artifact{Label: "riscv"})
		}
	case "arch leaves":
		if s.Build != nil && len(s.Build.Artifacts) > 1 {
			s.Build.Artifacts = s.Build.Artifacts[1:]
		}
	default:
		if s.Kind == HostStage {
			mutateHosts(t, s, edit)
		}
	}
	return d
}

func mutateHosts(t *rapid.T, s *Stage, edit string) {
	switch edit {
	case "group":
		s.Groups = append(s.Groups, randomGroup(t, s, fmt.Sprintf("h%d", rapid.IntRange(0, 2).Draw(t, "name"))))
	case "step":
		at := rapid.IntRange(0, len(s.Chain)).Draw(t, "at")
		event := rapid.SampledFrom([]string{"host-warmed", "host-checked", HostTested}).Draw(t, "event")
		s.Chain = slices.Insert(s.Chain, at, chain(event)...)
	case "once":
		for i := range s.Chain { // any of the tests may run once, also those that are built in
			s.Chain[i].Once = s.Chain[i].Once != rapid.Bool().Draw(t, "other")
		}
		addOnce(t, s, 1)
	case "step leaves":
		if len(s.Chain) > 0 {
			s.Chain = s.Chain[1:]
		}
	case "chain":
		slices.Reverse(s.Chain)
	}
	if len(s.Groups) == 0 {
		return
	}
	g := rapid.IntRange(0, len(s.Groups)-1).Draw(t, "group")
	group := &s.Groups[g]
	switch edit {
	case "host joins":
		addHost(t, s, g)
	case "address":
		if len(group.Hosts) > 0 {
			h := &group.Hosts[rapid.IntRange(0, len(group.Hosts)-1).Draw(t, "host")]
			if rapid.Bool().Draw(t, "root") {
				h.Root = rapid.SampledFrom([]string{"", "/opt"}).Draw(t, "root")
			} else {
				h.URL = "local://" + rapid.SampledFrom([]string{h.Name, "palm", "oak"}).Draw(t, "address")
			}
		}
	case "host leaves":
		if len(group.Hosts) > 0 {
			h := rapid.IntRange(0, len(group.Hosts)-1).Draw(t, "host")
			group.Hosts = slices.Delete(group.Hosts, h, h+1)
		}
	case "waves":
		if group.Waves != nil && rapid.Bool().Draw(t, "wave bake") {
			group.Waves.Bake = randomBake(t)
		} else {
			group.Waves = randomWaves(t)
		}
	case "hosts move":
		slices.Reverse(group.Hosts)
	case "group leaves":
		s.Groups = slices.Delete(s.Groups, g, g+1)
	case "limits":
		group.MaxParallel, group.MaxFailed = Limit{N: rapid.IntRange(1, 2).
			Draw(t, "maxParallel")}, Limit{N: rapid.IntRange(0, 1).Draw(t, "maxFailed")}
	}
}
