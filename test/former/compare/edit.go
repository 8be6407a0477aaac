package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// edits are the changes of a definition, by what they change. A change that does not fit what it is drawn
// for changes nothing.
var edits = []struct {
	of   string
	make func(r drawer, d *pipeline.Definition)
}{
	{"stage", drawer.stageJoins},
	{"stage leaves", drawer.stageLeaves},
	{"after", func(r drawer, d *pipeline.Definition) { i := r.IntN(len(d.Stages)); d.Stages[i].After = r.after(*d, i) }},
	{"order", func(r drawer, d *pipeline.Definition) { d.Order = pick(r.dice, pipeline.Runnable, pipeline.Strict) }},
	{"pin", func(_ drawer, d *pipeline.Definition) { d.Pin = !d.Pin }},
	{"batch", drawer.addBatch},
	{"batch", drawer.addBatch},
	{"batches leave", func(_ drawer, d *pipeline.Definition) { d.Batches = nil }},
	{"batch queue", func(r drawer, d *pipeline.Definition) {
		for i := range d.Batches {
			d.Batches[i].Queue = pick(r.dice, pipeline.FIFO, pipeline.Latest)
		}
	}},
	{"service", func(r drawer, d *pipeline.Definition) { d.Service.Name = pick(r.dice, name, name, "till") }},
	{"queue", stageEdit(func(r drawer, s *pipeline.Stage) {
		s.Queue = pick(r.dice, pipeline.FIFO, pipeline.Latest, pipeline.NoQueue)
	})},
	{"onFailure", stageEdit(func(r drawer, s *pipeline.Stage) {
		s.OnFailure = pick(r.dice, pipeline.Release, pipeline.Hold, pipeline.RollBack)
	})},
	{"windows", stageEdit(func(r drawer, s *pipeline.Stage) { s.Windows = r.windows() })},
	{"approval", stageEdit(func(r drawer, s *pipeline.Stage) { s.Approval = r.approval() })},
	{"bake", checkedEdit(func(r drawer, s *pipeline.Stage) { s.Bake = r.bake() })},
	{"bake", checkedEdit(func(r drawer, s *pipeline.Stage) { s.Bake = r.bake() })},
	{"gates", checkedEdit(func(r drawer, s *pipeline.Stage) { s.Gates = r.gates() })},
	{"gates", checkedEdit(func(r drawer, s *pipeline.Stage) { s.Gates = r.gates() })},
	{"artifacts", buildEdit(drawer.artifacts)},
	{"external", buildEdit(func(_ drawer, b *pipeline.Build) { b.External = !b.External })},
	{"build file", buildEdit(func(_ drawer, b *pipeline.Build) { b.File += "x" })},
	{"step", hostsEdit(drawer.stepJoins)},
	{"step", hostsEdit(drawer.stepJoins)},
	{"step leaves", hostsEdit(func(r drawer, s *pipeline.Stage) {
		if n := len(s.Chain); n > 0 {
			i := r.IntN(n)
			s.Chain = slices.Delete(s.Chain, i, i+1)
		}
	})},
	{"chain", hostsEdit(func(_ drawer, s *pipeline.Stage) { slices.Reverse(s.Chain) })},
	{"policy", hostsEdit(func(r drawer, s *pipeline.Stage) {
		for i := range s.Chain {
			s.Chain[i].Policy.Retries = r.between(0, 2)
		}
	})},
	{"stage service", hostsEdit(func(r drawer, s *pipeline.Stage) { s.Service = r.service() })},
	{"vars", hostsEdit(func(r drawer, s *pipeline.Stage) { s.Vars = map[string]string{"color": pick(r.dice, "red", "blue")} })},
	{"group", hostsEdit(func(r drawer, s *pipeline.Stage) { r.addGroup(s, fmt.Sprintf("h%d", r.IntN(3))) })},
	{"group leaves", hostsEdit(func(r drawer, s *pipeline.Stage) {
		if n := len(s.Groups); n > 0 {
			i := r.IntN(n)
			s.Groups = slices.Delete(s.Groups, i, i+1)
		}
	})},
	{"host joins", hostsEdit(drawer.hostJoins)},
	{"host joins", hostsEdit(drawer.hostJoins)},
	{"host joins", hostsEdit(drawer.hostJoins)},
	{"host leaves", groupEdit(func(r drawer, g *pipeline.Group) {
		if n := len(g.Hosts); n > 0 {
			i := r.IntN(n)
			g.Hosts = slices.Delete(g.Hosts, i, i+1)
		}
	})},
	{"hosts move", groupEdit(func(_ drawer, g *pipeline.Group) { slices.Reverse(g.Hosts) })},
	{"waves", groupEdit(func(r drawer, g *pipeline.Group) { g.Waves = r.waves() })},
	{"waves", groupEdit(func(r drawer, g *pipeline.Group) { g.Waves = r.waves() })},
	{"wave bake", groupEdit(func(r drawer, g *pipeline.Group) {
		if g.Waves != nil {
			g.Waves.Bake = r.bake()
		}
	})},
	{"limits", groupEdit(func(r drawer, g *pipeline.Group) { g.MaxParallel, g.MaxFailed = r.maxParallel(), r.maxFailed() })},
	{"limits", groupEdit(func(r drawer, g *pipeline.Group) { g.MaxParallel, g.MaxFailed = r.maxParallel(), r.maxFailed() })},
	{"catch-up", groupEdit(func(_ drawer, g *pipeline.Group) { g.CatchUp = !g.CatchUp })},
	{"group service", groupEdit(func(r drawer, g *pipeline.Group) { g.Service = r.service() })},
	{"host", hostEdit(drawer.changeHost)},
	{"host", hostEdit(drawer.changeHost)},
}

// edited returns a definition after one edit, or sometimes more.
func (r drawer) edited(was *pipeline.Definition) pipeline.Definition {
	d := clone(was)
	for once := true; once || r.once(4); once = false {
		if len(d.Stages) > 0 {
			pick(r.dice, edits...).make(r, &d)
		}
	}
	return d
}

func clone(d *pipeline.Definition) pipeline.Definition {
	var c pipeline.Definition
	if err := json.Unmarshal(raw(d), &c); err != nil {
		panic(err)
	}
	return c
}

// stageEdit changes any stage, checkedEdit one that may have gates, hostsEdit one with hosts.
func stageEdit(change func(drawer, *pipeline.Stage)) func(drawer, *pipeline.Definition) {
	return func(r drawer, d *pipeline.Definition) { change(r, &d.Stages[r.IntN(len(d.Stages))]) }
}

func checkedEdit(change func(drawer, *pipeline.Stage)) func(drawer, *pipeline.Definition) {
	return stageEdit(func(r drawer, s *pipeline.Stage) {
		if s.Kind != pipeline.BuildStage {
			change(r, s)
		}
	})
}

func hostsEdit(change func(drawer, *pipeline.Stage)) func(drawer, *pipeline.Definition) {
	return func(r drawer, d *pipeline.Definition) {
		var list []*pipeline.Stage
		for i := range d.Stages {
			if d.Stages[i].Kind == pipeline.HostStage {
				list = append(list, &d.Stages[i])
			}
		}
		if len(list) > 0 {
			change(r, pick(r.dice, list...))
		}
	}
}

func groupEdit(change func(drawer, *pipeline.Group)) func(drawer, *pipeline.Definition) {
	return hostsEdit(func(r drawer, s *pipeline.Stage) {
		if n := len(s.Groups); n > 0 {
			change(r, &s.Groups[r.IntN(n)])
		}
	})
}

func hostEdit(change func(drawer, *pipeline.Host)) func(drawer, *pipeline.Definition) {
	return groupEdit(func(r drawer, g *pipeline.Group) {
		if n := len(g.Hosts); n > 0 {
			change(r, &g.Hosts[r.IntN(n)])
		}
	})
}

func buildEdit(change func(drawer, *pipeline.Build)) func(drawer, *pipeline.Definition) {
	return stageEdit(func(r drawer, s *pipeline.Stage) {
		if s.Build != nil {
			change(r, s.Build)
		}
	})
}

func (r drawer) stageJoins(d *pipeline.Definition) {
	at := r.between(0, len(d.Stages))
	s := r.stage(pipeline.Definition{Stages: d.Stages[:at]}, fmt.Sprintf("n%d", r.IntN(4)))
	d.Stages = slices.Insert(d.Stages, at, s)
	for k := at + 1; k < len(d.Stages); k++ {
		if r.once(2) {
			d.Stages[k].After = append(d.Stages[k].After, s.Name)
		}
	}
}

func (r drawer) stageLeaves(d *pipeline.Definition) {
	i := r.IntN(len(d.Stages))
	name := d.Stages[i].Name
	d.Stages = slices.Delete(d.Stages, i, i+1)
	for k := range d.Stages {
		d.Stages[k].After = slices.DeleteFunc(d.Stages[k].After, func(n string) bool { return n == name })
	}
}

func (r drawer) stepJoins(s *pipeline.Stage) {
	event := pick(r.dice, "host-warmed", "host-checked", pipeline.HostTested, pipeline.HostReplicated)
	s.Chain = slices.Insert(s.Chain, r.between(0, len(s.Chain)), steps(event)...)
}

func (r drawer) hostJoins(s *pipeline.Stage) {
	if n := len(s.Groups); n > 0 {
		r.addHost(s, r.IntN(n))
	}
}

func (r drawer) artifacts(b *pipeline.Build) {
	if len(b.Artifacts) > 1 && r.once(2) {
		b.Artifacts = b.Artifacts[1:]
		return
	}
	label := pick(r.dice, "riscv", "amd64", "arm64")
	b.Artifacts = append(b.Artifacts, pipeline.Artifact{Label: label, Path: "dist/" + label})
}

func (r drawer) service() *pipeline.Service {
	if r.once(2) {
		return nil
	}
	return &pipeline.Service{Name: pick(r.dice, name, "till"), Manager: pick(r.dice, "process", "systemd"), Restart: "restart",
		Confirm: action.Duration(time.Duration(r.between(0, 1)) * time.Second),
		Env:     pick(r.dice, nil, map[string]string{"PORT": "80"}, map[string]string{"PORT": "81", "HOST": "::"})}
}

func (r drawer) changeHost(h *pipeline.Host) {
	switch r.IntN(5) {
	case 0:
		h.Root = pick(r.dice, "", "/opt")
	case 1:
		h.URL = "local://" + pick(r.dice, h.Name, "palm", "oak")
	case 2:
		h.URL = "ssh://" + pick(r.dice, "way", "ana") + "@" + h.Name
	case 3:
		h.Arch = pick(r.dice, "amd64", "arm64", "riscv")
	default:
		h.Service = r.service()
	}
}

// spoils are faults of a definition, most of which Compile reports.
var spoils = []func(r drawer, d *pipeline.Definition, s *pipeline.Stage){
	func(_ drawer, d *pipeline.Definition, _ *pipeline.Stage) { d.Stages = nil },
	func(_ drawer, d *pipeline.Definition, s *pipeline.Stage) { d.Stages = append(d.Stages, *s) },
	func(r drawer, d *pipeline.Definition, s *pipeline.Stage) {
		s.After = append(s.After, pick(r.dice, d.Stages...).Name)
	},
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) { s.After = append(s.After, "s") },
	func(_ drawer, d *pipeline.Definition, s *pipeline.Stage) {
		for i := range d.Stages {
			d.Stages[i].After = []string{s.Name}
		}
	},
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) { s.Kind = pipeline.BuildStage },
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) { s.Chain = append(s.Chain, s.Chain...) },
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) { s.Gates = append(s.Gates, s.Gates...) },
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) { s.Groups = append(s.Groups, s.Groups...) },
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) {
		s.Windows = []admission.Window{{Kind: "Allow", Schedule: "9", Timezone: "Mars"}}
	},
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) {
		s.Approval = &admission.Approval{Count: 3, By: []string{"ana"}}
	},
	func(r drawer, d *pipeline.Definition, _ *pipeline.Stage) {
		for range 3 {
			r.addBatch(d)
		}
	},
	func(_ drawer, d *pipeline.Definition, s *pipeline.Stage) {
		d.Batches = []pipeline.Batch{{Name: "b", Stages: []string{s.Name}}, {Name: "b"}, {Name: "c", Stages: []string{"s"}}}
	},
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) {
		for g := range s.Groups {
			s.Groups[g].Waves = &pipeline.Waves{}
			for h := range s.Groups[g].Hosts {
				s.Groups[g].Hosts[h].URL, s.Groups[g].Hosts[h].Arch = "local://one", "z80"
			}
		}
	},
	func(_ drawer, _ *pipeline.Definition, s *pipeline.Stage) {
		for g := range s.Groups {
			for h := range s.Groups[g].Hosts {
				s.Groups[g].Hosts[h].Arch = ""
			}
		}
	},
}

// spoil changes a definition to one that hardly compiles.
func (r drawer) spoil(d *pipeline.Definition) {
	pick(r.dice, spoils...)(r, d, &d.Stages[r.IntN(len(d.Stages))])
}
