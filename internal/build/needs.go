package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Need is a step that another waits for: step or stage/step.
type Need struct {
	Text string
	At   fault.Position
}

// maxNeeds bounds the needs of all steps, combinations of matrices counted.
const maxNeeds = 200_000

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

// place is the position of a step in a file.
type place struct{ stage, step int }

// needs checks the needs of a file's steps: each need names one step, and no step waits for itself.
func (r *reader) needs(file *File) {
	if !file.hasNeeds() {
		return
	}
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
						Text: text, Suggestion: r.nearest(need.Text, index.known(code, need.Text))})
				}
			}
		}
	}
	r.cycles(file, edges)
}

// hasNeeds reports whether a step names its needs.
func (f *File) hasNeeds() bool {
	return slices.ContainsFunc(f.Stages, func(stage Stage) bool {
		return slices.ContainsFunc(stage.Steps, func(step Step) bool { return step.Needs != nil })
	})
}

// stepIndex has the steps of a file by name. A step of a matrix has two: its own, and the one that all combinations have.
type stepIndex struct {
	byName map[string][]place // in file order
	byPath map[string][]place // by stage/step
	paths  []string
	names  []string // names of the paths, without their stages
}

func indexSteps(file *File) stepIndex {
	index := stepIndex{byName: map[string][]place{}, byPath: map[string][]place{}}
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
		x.paths, x.names = append(x.paths, path), append(x.names, step)
	}
}

// find returns the steps that a need of a stage names: one, or the combinations of a matrix. Else it returns a code
// and a text that name the fault. A name alone is that of a step of the same stage, else of the only stage that has
// it.
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

// known returns the names that a need with an error of this code may mean.
func (x stepIndex) known(code, need string) []string {
	switch {
	case code != "need-unknown":
		return nil
	case strings.Contains(need, "/"):
		return x.paths
	}
	return x.names
}

// cycles reports circles of steps that wait for each other, the first few.
func (r *reader) cycles(file *File, needs map[place][]place) {
	w := &walk{file: file, needs: needs, state: map[place]int{}}
	for i := range file.Stages {
		for j := range file.Stages[i].Steps {
			if w.state[place{i, j}] == 0 {
				w.visit(place{i, j})
			}
		}
	}
	for _, circle := range w.circles {
		r.cycle(file, circle)
	}
}

// Bounds of reports about circles: a file can have very many, and long ones.
const (
	maxCircles = 3
	maxNamed   = 12
)

// walk searches for circles of steps.
type walk struct {
	file    *File
	needs   map[place][]place
	state   map[place]int // 0 at first, then open while what a step waits for is looked at, then closed
	path    []place       // the open ones
	circles [][]place
}

const (
	open = iota + 1
	closed
)

// barrier instead of a step means the end of that stage and all earlier ones, for which a step without needs waits.
const barrier = -1

// before lists the needs of a place.
func (w *walk) before(at place) (list []place) {
	steps := w.file.Stages[at.stage].Steps
	switch {
	case at.step == barrier:
		for j := range steps {
			list = append(list, place{at.stage, j})
		}
	case steps[at.step].Needs != nil:
		return w.needs[at]
	}
	if at.stage > 0 {
		list = append(list, place{at.stage - 1, barrier})
	}
	return list
}

func (w *walk) visit(at place) {
	w.state[at] = open
	w.path = append(w.path, at)
	for _, next := range w.before(at) {
		switch w.state[next] {
		case 0:
			w.visit(next)
		case open:
			if len(w.circles) < maxCircles {
				w.circles = append(w.circles, slices.Clone(w.path[slices.Index(w.path, next):]))
			}
		}
	}
	w.path = w.path[:len(w.path)-1]
	w.state[at] = closed
}

// cycle reports a circle of steps, each of which waits for the next one, at one of its needs.
func (r *reader) cycle(file *File, circle []place) {
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
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	names = append(names, names[0])
	r.Problems.Add(fault.Problem{Position: at.Needs[0].At, Code: "need-cycle", Scope: scope,
		Text: "these steps wait for each other: " + strings.Join(names, " → ")})
}
