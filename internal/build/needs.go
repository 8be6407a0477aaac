package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Need is a step that another one waits for: step or stage/step.
type Need struct {
	Text string
	At   fault.Position
}

// Bounds of needs.
const (
	maxNeeds  = 200_000 // of all steps, combinations of matrices counted
	maxCycles = 10      // that are reported
	maxCircle = 20      // steps of a circle that are named
)

// readNeeds returns the needs of a list, each once.
func readNeeds(n *document.Node) []Need {
	needs, seen := []Need{}, map[string]bool{}
	for _, item := range n.Items {
		if !seen[item.Text] {
			needs = append(needs, Need{item.Text, item.At})
		}
		seen[item.Text] = true
	}
	return needs
}

// place is where a step is in a file.
type place struct{ stage, step int }

// needs checks what the steps of a file wait for: each need names one step, and no step waits for itself.
func (r *reader) needs(file *File) {
	index := indexSteps(file)
	edges, count := map[place][]place{}, 0
	for i := range file.Stages {
		stage := &file.Stages[i]
		for j := range stage.Steps {
			step := &stage.Steps[j]
			for k, need := range step.Needs {
				found, code, text := index.find(need.Text, i)
				if name, _, isOne := strings.Cut(need.Text, " ("); isOne && code == "need-unknown" && r.replaced == nil {
					found, code, text = index.find(name, i) // perhaps a combination of a matrix, which is not yet expanded
				}
				switch {
				case code == "":
					if count += len(found); count > maxNeeds {
						r.Problems.Add(fault.Problem{Position: need.At, Code: "too-large", Scope: fmt.Sprintf("%s/%s/needs[%d]", stage.Name, step.Name, k),
							Text: fmt.Sprintf("the steps of the file need each other more than %d times, combinations of matrices included", maxNeeds)})
						return
					}
					edges[place{i, j}] = append(edges[place{i, j}], found...)
				case r.replaced != nil || !strings.Contains(need.Text, "${"):
					r.Problems.Add(fault.Problem{Position: need.At, Code: code, Scope: fmt.Sprintf("%s/%s/needs[%d]", stage.Name, step.Name, k),
						Text: text, Suggestion: index.nearest(code, need.Text)})
				}
			}
		}
	}
	r.cycles(file, edges)
}

// stepIndex has the steps of a file by name. A step of a matrix has two: its own, and the one that all combinations have.
type stepIndex struct {
	byName map[string][]place // in file order
	byPath map[string][]place // by stage/step
	paths  []string
}

func indexSteps(file *File) stepIndex {
	index := stepIndex{map[string][]place{}, map[string][]place{}, nil}
	for i, stage := range file.Stages {
		for j, step := range stage.Steps {
			index.add(stage.Name, step.Name, place{i, j})
			if step.Key != step.Name {
				index.add(stage.Name, step.Key, place{i, j})
			}
		}
	}
	return index
}

func (x *stepIndex) add(stage, step string, at place) {
	path := stage + "/" + step
	x.byName[step] = append(x.byName[step], at)
	if x.byPath[path] = append(x.byPath[path], at); len(x.byPath[path]) == 1 {
		x.paths = append(x.paths, path)
	}
}

// find returns the steps that a need of a stage names: one, or the combinations of a matrix. Else it returns a code and a text that say
// what is wrong. A name alone is that of a step of the same stage, else of the only stage that has it.
func (x stepIndex) find(need string, stage int) (found []place, code, text string) {
	if found = x.byPath[need]; found != nil {
		return found, "", ""
	}
	stages := 0
	for i, at := range x.byName[need] {
		if at.stage == stage {
			found = append(found, at)
		}
		if i == 0 || at.stage != x.byName[need][i-1].stage {
			stages++
		}
	}
	switch {
	case found != nil:
		return found, "", ""
	case stages == 0:
		return nil, "need-unknown", fmt.Sprintf("step %q not found", need)
	case stages == 1:
		return x.byName[need], "", ""
	}
	return nil, "need-ambiguous", fmt.Sprintf("%d stages have a step %q; write stage/%s", stages, need, need)
}

func (x stepIndex) nearest(code, need string) string {
	if code != "need-unknown" {
		return ""
	}
	known := x.paths
	if !strings.Contains(need, "/") {
		known = nil
		for _, path := range x.paths {
			known = append(known, path[strings.LastIndexByte(path, '/')+1:])
		}
	}
	return fault.Nearest(need, known)
}

// cycles reports each circle of steps that wait for each other at the need that closes it. A step without needs waits for all earlier
// stages: barrier i is the end of stages 0 to i, and stands for them.
func (r *reader) cycles(file *File, needs map[place][]place) {
	const barrier = -1
	const open, closed = 1, 2
	state, cycles := map[place]int{}, 0
	var path []place
	var visit func(at place)
	before := func(at place) (list []place) {
		switch {
		case at.step == barrier:
			for j := range file.Stages[at.stage].Steps {
				list = append(list, place{at.stage, j})
			}
		case file.Stages[at.stage].Steps[at.step].Needs != nil:
			return needs[at]
		}
		if at.stage > 0 {
			list = append(list, place{at.stage - 1, barrier})
		}
		return list
	}
	visit = func(at place) {
		state[at] = open
		path = append(path, at)
		for _, next := range before(at) {
			switch state[next] {
			case 0:
				visit(next)
			case open:
				if cycles++; cycles > maxCycles {
					continue
				}
				r.cycle(file, path[slices.Index(path, next):], barrier)
			}
		}
		path = path[:len(path)-1]
		state[at] = closed
	}
	for i := range file.Stages {
		for j := range file.Stages[i].Steps {
			if state[place{i, j}] == 0 {
				visit(place{i, j})
			}
		}
	}
}

// cycle reports a circle of steps, each of which waits for the next one, at one of its needs.
func (r *reader) cycle(file *File, circle []place, barrier int) {
	var names []string
	var at *Step
	var scope string
	for _, p := range circle {
		if p.step == barrier {
			continue
		}
		step := &file.Stages[p.stage].Steps[p.step]
		name := file.Stages[p.stage].Name + "/" + step.Name
		names = append(names, name)
		if len(step.Needs) > 0 {
			at, scope = step, name+"/needs"
		}
	}
	if more := len(names) - maxCircle; more > 0 {
		names = append(names[:maxCircle], fmt.Sprintf("%d more", more))
	}
	names = append(names, names[0])
	r.Problems.Add(fault.Problem{Position: at.Needs[0].At, Code: "need-cycle", Scope: scope,
		Text: "these steps wait for each other: " + strings.Join(names, " → ")})
}
