package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// nextOf returns the steps that directly follow s in the graph, without regard to speed.
func (g *oracleGraph) nextOf(s stepName) []stepName {
	d := g.d
	stage, grp, _, _ := d.Find(s.target)
	up := s.target[:max(0, strings.LastIndexByte(s.target, '/'))]
	switch s.event {
	case PipelineStarted:
		var next []stepName
		for _, st := range d.Stages {
			if len(st.After) == 0 {
				next = append(next, stepName{Path(d.Pipeline, st.Name), StageStarted})
			}
		}
		return next
	case PipelineFinished:
		return nil
	case StageStarted:
		next := gatesOf(s.target, stage, Before)
		if len(next) > 0 {
			return next
		}
		if stage.Kind == EnvironmentStage {
			return []stepName{{s.target, EnvPromoted}}
		}
		if stage.Kind == BuildStage {
			if !stage.Build.External {
				next = append(next, stepName{s.target, BuildCompleted})
			}
			for _, a := range stage.Build.Artifacts {
				next = append(next, stepName{s.target, ArtifactEvent(a.Label)})
			}
		}
		if len(next) > 0 {
			return next
		}
		return g.afterGates(s.target, stage)
	case GroupStarted:
		if len(g.waves[s.target]) > 0 {
			return []stepName{{Path(s.target, "wave-1"), WaveStarted}}
		}
		if len(grp.Hosts) == 0 {
			return []stepName{{s.target, GroupFinished}}
		}
		var next []stepName
		for _, h := range grp.Hosts {
			next = append(next, stepName{Path(s.target, h.Name), HostStarted})
		}
		return next
	case WaveStarted:
		var next []stepName
		for _, name := range g.waves[up][waveNumber(s.target)-1] {
			next = append(next, stepName{Path(up, name), HostStarted})
		}
		if len(next) == 0 {
			next = append(next, stepName{s.target, WaveFinished})
		}
		return next
	case WaveFinished, WaveBaked:
		if s.event == WaveFinished && g.group(up).Waves.Bake != nil {
			return []stepName{{s.target, WaveBaked}}
		}
		if n := waveNumber(s.target); n < len(g.waves[up]) {
			return []stepName{{fmt.Sprintf("%s/wave-%d", up, n+1), WaveStarted}}
		}
		return []stepName{{up, GroupFinished}}
	case HostFinished:
		if wave := g.waveOf(s.target); wave > 0 {
			return []stepName{{fmt.Sprintf("%s/wave-%d", up, wave), WaveFinished}}
		}
		return []stepName{{up, GroupFinished}}
	case EnvPromoted:
		if next := gatesOf(s.target, stage, After); len(next) > 0 {
			return next
		}
		return []stepName{bakeOrFinish(s.target, stage)}
	case GroupFinished:
		above, _, _, _ := d.Find(up)
		if next := gatesOf(up, above, After); len(next) > 0 {
			return next
		}
		return []stepName{bakeOrFinish(up, above)}
	case StageFinished:
		var next []stepName
		for _, st := range d.Stages {
			if slices.Contains(st.After, stage.Name) {
				next = append(next, stepName{Path(d.Pipeline, st.Name), StageStarted})
			}
		}
		if len(next) == 0 {
			next = append(next, stepName{d.Pipeline, PipelineFinished})
		}
		return next
	}
	if isGate(s.event) {
		if slices.Contains(gatesOf(s.target, stage, Before), s) {
			return g.afterGates(s.target, stage)
		}
		return []stepName{bakeOrFinish(s.target, stage)}
	}
	if grp == nil { // build-completed, an artifact, stage-baked
		return []stepName{{s.target, StageFinished}}
	}
	events := []string{HostStarted}
	for _, c := range stage.Chain {
		events = append(events, c.Event)
	}
	events = append(events, HostFinished)
	return []stepName{{s.target, events[slices.Index(events, s.event)+1]}}
}

func newOracleGraph(d *Definition, waves map[string][][]string) *oracleGraph {
	g := &oracleGraph{d: d, index: map[stepName]int{}, waves: waves}
	root := stepName{d.Pipeline, PipelineStarted}
	g.steps, g.index[root] = []stepName{root}, 0
	for i := 0; i < len(g.steps); i++ {
		for _, n := range g.nextOf(g.steps[i]) {
			if _, seen := g.index[n]; !seen {
				g.index[n] = len(g.steps)
				g.steps = append(g.steps, n)
			}
		}
	}
	next := make([][]int, len(g.steps))
	for i, s := range g.steps {
		for _, n := range g.nextOf(s) {
			next[i] = append(next[i], g.index[n])
		}
	}
	g.literal = newLiteral(next)
	for i := range d.Stages {
		s := &d.Stages[i]
		path := Path(d.Pipeline, s.Name)
		for _, gr := range s.Groups {
			for _, h := range gr.Hosts {
				host := Path(path, gr.Name, h.Name)
				g.batch(batchID(host), stepName{host, HostStarted}, stepName{host, HostFinished}, FIFO)
			}
		}
		if (s.Kind == HostStage || s.Kind == EnvironmentStage) && s.Queue != NoQueue {
			g.batch(batchID(path), stepName{path, StageStarted}, stepName{path, StageFinished}, s.Queue)
		}
	}
	for _, b := range d.Batches {
		first, last := Path(d.Pipeline, b.Stages[0]), Path(d.Pipeline, b.Stages[len(b.Stages)-1])
		g.batch(batchID(b.Name), stepName{first, StageStarted}, stepName{last, StageFinished}, b.Queue)
	}
	slices.SortStableFunc(g.batches, func(a, b oracleBatch) int { return cmp.Compare(len(a.region), len(b.region)) })
	return g
}

// batch: the region is o, c and every step strictly after o and before c.
func (g *oracleGraph) batch(id batchID, o, c stepName, queue Queue) {
	b := oracleBatch{id: id, open: o, close: c, region: map[stepName]bool{o: true, c: true}, queue: queue}
	var stages []string
	for i, s := range g.steps {
		if g.strictly(g.index[o], i) && g.strictly(i, g.index[c]) {
			b.region[s] = true
		}
		if b.region[s] && s.event == StageStarted {
			stages = append(stages, s.target)
		}
	}
	slices.Sort(stages)
	b.stages = strings.Join(stages, " ")
	g.batches = append(g.batches, b)
}

func (g *oracleGraph) byID(id batchID) *oracleBatch {
	for i := range g.batches {
		if g.batches[i].id == id {
			return &g.batches[i]
		}
	}
	return nil
}

func stageOf(target string) string {
	parts := strings.Split(target, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

func groupOf(target string) string {
	parts := strings.Split(target, "/")
	if len(parts) < 3 {
		return ""
	}
	return strings.Join(parts[:3], "/")
}

func isHostPath(target string) bool {
	return strings.Count(target, "/") == 3 && waveNumber(target) == 0
}

// gatesOf: the gates before the first host, or after the last one; a gate stage has them all before.
func gatesOf(path string, s *Stage, when GateWhen) []stepName {
	var gates []stepName
	for _, gate := range s.Gates {
		if s.Kind == GateStage && when == Before || s.Kind != GateStage && gate.When == when {
			gates = append(gates, stepName{path, "gate-passed/" + gate.Name})
		}
	}
	return gates
}

// afterGates: the groups; none: the finish of a host stage, the bake or the finish of a gate stage.
func (g *oracleGraph) afterGates(path string, s *Stage) []stepName {
	var next []stepName
	for _, gr := range s.Groups {
		next = append(next, stepName{Path(path, gr.Name), GroupStarted})
	}
	switch {
	case len(next) > 0:
		return next
	case s.Kind == EnvironmentStage:
		return []stepName{{path, EnvPromoted}}
	case s.Kind == GateStage:
		return []stepName{bakeOrFinish(path, s)}
	}
	return []stepName{{path, StageFinished}}
}

func bakeOrFinish(path string, s *Stage) stepName {
	if s.Bake != nil {
		return stepName{path, StageBaked}
	}
	return stepName{path, StageFinished}
}

func (g *oracleGraph) group(path string) *Group {
	_, group, _, _ := g.d.Find(path)
	return group
}

// waveNumber: 2 for shop/prod/east/wave-2, 0 for what is not a wave.
func waveNumber(target string) int {
	_, number, ok := strings.Cut(target, "/wave-")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(target)
	}
	return n
}

// waveOf: the number of the wave that a host is in, 0 for none.
func (g *oracleGraph) waveOf(host string) int {
	at := strings.LastIndexByte(host, '/')
	for i, names := range g.waves[host[:at]] {
		if slices.Contains(names, host[at+1:]) {
			return i + 1
		}
	}
	return 0
}
