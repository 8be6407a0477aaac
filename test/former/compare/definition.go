package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// drawer draws definitions. Some programs have more stages and hosts than others.
type drawer struct {
	dice
	large bool
}

// definition draws a pipeline that may not compile yet.
func (r drawer) definition() pipeline.Definition {
	d := pipeline.Definition{Pipeline: name, Order: pick(r.dice, pipeline.Runnable, pipeline.Runnable, pipeline.Strict),
		Pin: r.once(5), Keep: pipeline.Keep{Releases: 3}, Service: pipeline.Service{Name: name, Manager: "process", Restart: "restart"}}
	if !r.once(4) {
		d.Stages = append(d.Stages, r.buildStage("build", "amd64", "arm64"))
	}
	if r.once(12) {
		d.Stages = append(d.Stages, r.buildStage("image", "oci"))
	}
	most, line := 3, r.once(3) // ranges of stages are batches in lines more often than elsewhere
	if r.large {
		most = 5
	}
	for i := range r.between(1, most) {
		s := r.stage(d, fmt.Sprintf("s%d", i))
		if n := len(d.Stages); line && n > 0 {
			s.After = []string{d.Stages[n-1].Name}
		}
		d.Stages = append(d.Stages, s)
	}
	for r.once(3) {
		r.addBatch(&d)
	}
	return d
}

func (r drawer) buildStage(name string, labels ...string) pipeline.Stage {
	b := &pipeline.Build{File: ".wharf-ci.yml", External: r.once(5)}
	for _, label := range labels[:r.between(1, len(labels))] {
		b.Artifacts = append(b.Artifacts, pipeline.Artifact{Label: label, Path: "dist/" + label})
	}
	return pipeline.Stage{Name: name, Kind: pipeline.BuildStage, Build: b, Queue: pipeline.FIFO,
		OnFailure: pick(r.dice, pipeline.Release, pipeline.Hold), Windows: r.windows(), Approval: r.approval()}
}

func (r drawer) stage(d pipeline.Definition, name string) pipeline.Stage {
	s := pipeline.Stage{Name: name, Kind: pipeline.HostStage, After: r.after(d, len(d.Stages)),
		Queue:     pick(r.dice, pipeline.FIFO, pipeline.FIFO, pipeline.Latest, pipeline.NoQueue),
		OnFailure: pick(r.dice, pipeline.Release, pipeline.Release, pipeline.Hold, pipeline.RollBack, pipeline.RollBack),
		Windows:   r.windows(), Approval: r.approval(), Bake: r.bake(), Gates: r.gates()}
	if r.once(7) {
		s.Kind = pipeline.GateStage
		return s
	}
	s.Chain = steps([]string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested}[:pick(r.dice, 0, 1, 2, 2, 3, 3, 3)]...)
	for g := range pick(r.dice, 0, 1, 1, 1, 2, 2) {
		r.addGroup(&s, fmt.Sprintf("g%d", g))
	}
	return s
}

// steps returns the steps of a chain with these events.
func steps(events ...string) []pipeline.Step {
	builtIn := map[string]string{
		pipeline.HostReplicated: pipeline.Replicate,
		pipeline.HostDeployed:   pipeline.Deploy,
		pipeline.HostTested:     pipeline.Test,
	}
	var list []pipeline.Step
	for _, event := range events {
		s := pipeline.Step{Name: builtIn[event], Event: event}
		if s.Name == "" {
			s.Name, s.Run = event[len("host-"):], []string{"./it"}
		}
		list = append(list, s)
	}
	return list
}

// after draws the predecessors of a stage among those before it in the file.
func (r drawer) after(d pipeline.Definition, before int) []string {
	list := []string{}
	for i := range before {
		if !r.once(3) {
			list = append(list, d.Stages[i].Name)
		}
	}
	return list
}

func (r drawer) addGroup(s *pipeline.Stage, name string) {
	s.Groups = append(s.Groups, pipeline.Group{Name: name, MaxParallel: r.maxParallel(), MaxFailed: r.maxFailed(), CatchUp: r.once(3)})
	most := 3
	if r.large {
		most = 6
	}
	for range max(r.between(0, most), r.between(0, most)) {
		r.addHost(s, len(s.Groups)-1)
	}
	s.Groups[len(s.Groups)-1].Waves = r.waves()
}

func (r drawer) maxParallel() pipeline.Limit {
	return pick(
		r.dice,
		pipeline.Limit{N: 1},
		pipeline.Limit{N: 2},
		pipeline.Limit{N: 50, Percent: true},
		pipeline.Limit{N: 100, Percent: true},
	)
}

func (r drawer) maxFailed() pipeline.Limit {
	return pick(r.dice, pipeline.Limit{}, pipeline.Limit{}, pipeline.Limit{N: 1}, pipeline.Limit{N: 50, Percent: true})
}

// addHost adds a host whose name the stage does not use. Stages share addresses.
func (r drawer) addHost(s *pipeline.Stage, group int) {
	names := []string{"ash", "birch", "cedar", "elm", "fir"}
	if r.large {
		names = append(names, "oak", "pine", "rowan", "yew")
	}
	host := pick(r.dice, names...)
	for _, g := range s.Groups {
		if slices.ContainsFunc(g.Hosts, func(h pipeline.Host) bool { return h.Name == host }) {
			return
		}
	}
	h := pipeline.Host{Name: host, URL: "local://" + host, Arch: pick(r.dice, "amd64", "amd64", "arm64")}
	if r.once(6) {
		h.URL = "ssh://way@" + host
	}
	s.Groups[group].Hosts = append(s.Groups[group].Hosts, h)
}

func (r drawer) waves() *pipeline.Waves {
	if r.once(2) {
		return nil
	}
	w := &pipeline.Waves{Bake: r.bake()}
	for range r.between(1, 2) {
		w.Sizes = append(
			w.Sizes,
			pick(
				r.dice,
				pipeline.Limit{N: 1},
				pipeline.Limit{N: 2},
				pipeline.Limit{N: 1, Percent: true},
				pipeline.Limit{N: 50, Percent: true},
			),
		)
	}
	return w
}

func (r drawer) bake() *pipeline.Bake {
	if !r.once(3) {
		return nil
	}
	return &pipeline.Bake{For: action.Duration(time.Duration(r.between(1, 2)) * time.Minute), Every: action.Duration(time.Minute)}
}

func (r drawer) gates() (gates []pipeline.Gate) {
	for _, name := range []string{"x", "y"} {
		if r.once(4) {
			gates = append(
				gates,
				pipeline.Gate{
					Name: name,
					When: pick(r.dice, pipeline.Before, pipeline.After),
					Job:  &pipeline.GateJob{Run: []string{"./ask"}},
				},
			)
		}
	}
	return gates
}

// windows draws none in most cases, so that most programs come far. Most of those that it draws open every week.
func (r drawer) windows() (list []admission.Window) {
	if !r.once(6) {
		return nil
	}
	for range r.between(1, 2) {
		w := admission.Window{
			Kind: cron.Allow,
			Schedule: pick(
				r.dice,
				"0 9 * * 1-5",
				"30 14 * * *",
				"0 9 * * 1-5",
				"30 14 * * *",
				"30 14 * * *",
				"0 9 20 3 *",
				"0 9 2 1 *",
				"0 0 30 2 *",
			),
			Timezone: pick(r.dice, "", "Europe/Stockholm"),
			Duration: action.Duration(pick(r.dice, 45*time.Minute, 8*time.Hour)),
		}
		if r.once(2) {
			w.Kind, w.Schedule, w.Duration = cron.Deny, pick(r.dice, "15 9,14 * * *", "0 */6 * * *"), action.Duration(45*time.Minute)
			w.Reason = pick(r.dice, "", "lunch")
		}
		list = append(list, w)
	}
	return list
}

// people register revisions and approve stages.
var people = []string{"ana", "bob", "cyd", "dan"}

func (r drawer) approval() *admission.Approval {
	if !r.once(6) {
		return nil
	}
	a := &admission.Approval{Count: r.between(1, 2), Self: r.once(2)}
	if r.once(2) {
		a.By = people[:3]
	}
	return a
}

func (r drawer) addBatch(d *pipeline.Definition) {
	a, b := r.IntN(len(d.Stages)), r.IntN(len(d.Stages))
	if a > b {
		a, b = b, a
	}
	batch := pipeline.Batch{Name: fmt.Sprintf("b%d", len(d.Batches)), Stages: []string{d.Stages[a].Name, d.Stages[b].Name},
		Queue: pick(r.dice, pipeline.FIFO, pipeline.Latest)}
	if a == b {
		batch.Stages = batch.Stages[:1]
	}
	d.Batches = append(d.Batches, batch)
}

// settled changes a drawn definition to one that compiles, and returns false if it cannot.
func settled(d *pipeline.Definition) bool {
	for i := range d.Stages {
		labels := labelsBefore(d, i, map[int]bool{})
		for g := range d.Stages[i].Groups {
			for h := range d.Stages[i].Groups[g].Hosts {
				host := &d.Stages[i].Groups[g].Hosts[h]
				if len(labels) == 0 {
					host.Arch = ""
				} else if !slices.Contains(labels, host.Arch) {
					host.Arch = labels[0]
				}
			}
		}
	}
	for {
		_, problems := pipeline.Compile(*d)
		if problems.Err() == nil {
			return true
		}
		if len(d.Batches) == 0 {
			return false
		}
		d.Batches = d.Batches[:len(d.Batches)-1]
	}
}

// labelsBefore lists the artifacts that are built before a stage.
func labelsBefore(d *pipeline.Definition, stage int, seen map[int]bool) (labels []string) {
	for i := range d.Stages {
		if seen[i] || !slices.Contains(d.Stages[stage].After, d.Stages[i].Name) {
			continue
		}
		seen[i] = true
		if d.Stages[i].Build != nil {
			for _, a := range d.Stages[i].Build.Artifacts {
				labels = append(labels, a.Label)
			}
		}
		labels = append(labels, labelsBefore(d, i, seen)...)
	}
	return labels
}
