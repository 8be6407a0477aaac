package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Choice selects parts of a file, as a person or the conductor requests.
type Choice struct {
	Environment string            // selected; "": none
	Stages      []string          // only these and Steps; none of both: all
	Steps       []string          // single steps, as stage/step; that of a matrix means all its combinations
	Also        []string          // steps of the other stages, by path, that take part because they are reused
	Inputs      map[string]string // values of inputs by name; an input without one has its default
	Variables   Variables         // placed after the inputs and the environment's own
	// where PROJECT_ID and WHARF_INSTANCE count for the names of Secrets, whatever the file sets; nil: everywhere
	Project     Variables
	Strict      bool // a variable without a value is an error
	NoPush      bool // images stay where they are built
	Tools       Tools
	Timeout     time.Duration
	MaxParallel int // steps at a time; 0: no limit
}

// DefaultTimeout limits a build whose timeout is not set.
const DefaultTimeout = 6 * time.Hour

// Plan is the work of a build. Step ids count from 1 over the selected steps in file order; step 0 is the build
// itself, whose log is the worker's own notes.
type Plan struct {
	File        string        `json:"file"`
	Environment string        `json:"environment,omitempty"`
	Stages      []PlanStage   `json:"stages"`
	Steps       []PlanStep    `json:"steps"`
	Timeout     time.Duration `json:"timeout"` // bounds the whole build, in ns
	MaxParallel int           `json:"maxParallel,omitempty"`

	secrets    []string
	environ    map[int][]string // secrets of steps, by id
	passwords  map[int][]string // inputs with passwords that steps get as variables, by id
	unselected []string         // see Unselected
	named      []string         // see Names
	inputs     []string         // NAME=value, which every step gets
}

// PlanStage is a selected stage.
type PlanStage struct {
	Name     string    `json:"name"`
	RunsIf   Condition `json:"runsIf"`
	FailFast bool      `json:"failFast"`
	Steps    []int     `json:"steps"` // ids, ascending
}

// PlanStep is one step, with everything substituted.
type PlanStep struct {
	ID        int            `json:"id"`
	Stage     string         `json:"stage"`
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	At        fault.Position `json:"at"`
	After     []int          `json:"after"`          // its needs, else all steps of earlier selected stages
	Needs     []int          `json:"needs,omitzero"` // ids of the steps that it names; nil: it names none
	Retry     *Retry         `json:"retry,omitempty"`
	Timeout   time.Duration  `json:"timeout,omitempty"`
	Artifacts []ArtifactRule `json:"artifacts,omitempty"`
	Cache     []CacheRule    `json:"cache,omitempty"`
	Secrets   []string       `json:"secrets,omitempty"` // names of environment variables
	Tests     *TestRules     `json:"testResults,omitempty"`
	Spec      Spec           `json:"spec"`
	Replaces  []Replacement  `json:"replaces,omitempty"` // files with variables
	Digest    string         `json:"digest"`             // SHA-256 of what the step is, 64 hex digits

	clear       *PlanStep    // the step with passwords; nil: it has none
	secretsAt   []SecretName // Secrets, with their places
	secretsLeft bool         // those of Spec.Secrets come from the cluster
	variables   Variables    // variables in texts of files; a plan that was stored has none
	strict      bool
	password    bool // it is given a password, in its spec or in a file
}

// Path names a step for people: stage/step.
func (s PlanStep) Path() string { return s.Stage + "/" + s.Name }

// MakePlan decides the steps of a build of the file. Faults anywhere in it are returned, also in stages that are not
// selected; warnings do not block.
//
// The plan has *** in the place of passwords; PlanStep.Clear returns a step with them.
func MakePlan(file *File, choice Choice) (*Plan, fault.Problems) {
	variables, problems := file.Variables(choice)
	inputs, unfit := file.inputEnviron(variables)
	plan, faults := file.plan(variables.masked(), choice, inputs.plain)
	secrets, large := variables.secrets()
	if large == nil {
		large = unfit
		faults = slices.DeleteFunc(faults, func(p fault.Problem) bool { // the input's circle, again where a step uses it
			return p.Code == "variable-loop" && slices.ContainsFunc(unfit,
				func(of fault.Problem) bool { return of.Code == p.Code && strings.Contains(of.Text, p.Text) })
		})
	}
	problems = slices.Concat(problems, large, variables.shortPasswords(), faults)
	problems.Sort()
	if problems.Err() != nil {
		return nil, problems
	}
	if len(secrets) > 0 {
		clear, faults := file.plan(variables, choice, inputs.plain)
		switch {
		case faults.Err() != nil: // a password does not fit its field, and keys with faults were not read
		case len(clear.Steps) != len(plan.Steps):
			faults.Add(fault.Problem{Position: file.root.At, Code: "matrix-password", Text: "what a matrix excludes must not depend on a password"})
		default:
			faults.Add(plan.cachePasswords(clear)...)
			faults.Add(plan.argumentPasswords(clear)...)
		}
		if faults.Err() != nil {
			return nil, maskProblems(faults, secrets)
		}
		plan.conceal(clear, secrets)
	}
	plan.givePasswords(inputs)
	return plan, problems
}

// plan plans the file with these variables. environ has the inputs for every step.
func (f *File) plan(variables Variables, choice Choice, environ []string) (*Plan, fault.Problems) {
	s := &substituter{variables: variables, others: environmentsOf(f.Environments), strict: choice.Strict,
		replaced: map[*document.Node]bool{}, plain: map[*document.Node]bool{}}
	root := s.stages(f.root)
	chosen, faults := (&reader{replaced: s.replaced, variables: variables, project: choice.Project, noPush: choice.NoPush,
		tools: choice.Tools}).read(root)
	problems := append(s.problems, faults...)
	problems = append(problems, chosen.unknownStages(choice.Stages, root.At)...)
	single, unknown := chosen.named(choice.Steps, root.At)
	problems = append(problems, unknown...)
	problems.Sort()
	plan := &Plan{File: root.At.File, Environment: choice.Environment, Timeout: choice.Timeout,
		MaxParallel: choice.MaxParallel, inputs: environ}
	if plan.Timeout == 0 {
		plan.Timeout = DefaultTimeout
	}
	ids := map[place][]int{}
	size := len(strings.Join(environ, "\x00")) // size of the part that every step gets
	for i, stage := range chosen.Stages {
		chosen := choice.steps(stage, i, single)
		if chosen == nil {
			continue
		}
		if steps := len(plan.Steps) + len(chosen); steps*size > maxDocument {
			problems.Add(fault.Problem{Position: f.rootKey(keyInputs), Code: "input-large", Scope: keyInputs,
				Text: fmt.Sprintf("each of %d steps gets the values of the inputs, which come to more than %d bytes in all", steps, maxDocument)})
			return plan, distinct(problems)
		}
		plan.add(stage, i, chosen, ids)
		for j, id := range plan.Stages[len(plan.Stages)-1].Steps {
			step, from := plan.Step(id), stage.Steps[chosen[j]]
			if single[place{i, chosen[j]}] {
				plan.named = append(plan.named, step.Path())
			}
			problems = append(problems, from.lacks...)
			step.variables, step.strict = variables, choice.Strict
			if from.matrix.Values != nil {
				step.variables = append(Variables{from.matrix}, variables...)
			}
		}
	}
	return plan, distinct(append(plan.relevant(problems, chosen), plan.connect(chosen, ids)...))
}

// relevant returns the problems without warnings about stages that are not selected.
func (p *Plan) relevant(problems fault.Problems, file *File) fault.Problems {
	selected := map[string]bool{}
	for _, stage := range p.Stages {
		selected[stage.Name] = true
	}
	return slices.DeleteFunc(problems, func(problem fault.Problem) bool {
		return problem.Warning && slices.ContainsFunc(file.Stages, func(stage Stage) bool {
			return !selected[stage.Name] && strings.HasPrefix(problem.Scope, stage.Name+"/")
		})
	})
}

// distinct sorts problems and drops repeated ones, which the combinations of a matrix have in common.
func distinct(problems fault.Problems) fault.Problems {
	problems.Sort()
	seen := map[fault.Problem]bool{}
	return slices.DeleteFunc(problems, func(p fault.Problem) bool {
		repeated := seen[p]
		seen[p] = true
		return repeated
	})
}

// Variables returns every variable of a build in the order of precedence: the inputs, the selected
// environment, then the choice's own.
func (f *File) Variables(choice Choice) (Variables, fault.Problems) {
	variables, problems := f.inputSources(choice.Inputs)
	if choice.Environment != "" {
		i := slices.IndexFunc(f.Environments, func(e Environment) bool { return e.Name == choice.Environment })
		if i < 0 {
			problems = append(problems, f.unknownEnvironment(choice.Environment))
		} else {
			e := f.Environments[i]
			variables = append(variables, Source{Name: "environment " + e.Name, Values: e.Values})
		}
	}
	return append(variables, choice.Variables...), problems
}

func (f *File) unknownEnvironment(name string) fault.Problem {
	var names []string
	for _, e := range f.Environments {
		names = append(names, e.Name)
	}
	known := "the file has no environments"
	if len(names) > 0 {
		known = "the file has " + strings.Join(names, ", ")
	}
	return fault.Problem{Position: f.rootKey(keyEnvironments), Code: "environment-unknown", Scope: keyEnvironments,
		Text: fmt.Sprintf("environment %q not found; %s", name, known), Suggestion: fault.Nearest(name, names)}
}

func (f *File) unknownStages(names []string, at fault.Position) fault.Problems {
	var known []string
	for _, stage := range f.Stages {
		known = append(known, stage.Name)
	}
	var problems fault.Problems
	for _, name := range names {
		if !slices.Contains(known, name) {
			problems = append(problems, fault.Problem{Position: at, Code: "stage-unknown",
				Text:       fmt.Sprintf("stage %q not found; the file has %s", name, strings.Join(known, ", ")),
				Suggestion: fault.Nearest(name, known)})
		}
	}
	return problems
}

// stepList lists the steps of the file as a choice names them, of which it shows the first ten.
func (f *File) stepList() string {
	const most = 10
	var paths []string
	for _, stage := range f.Stages {
		for _, step := range stage.Steps {
			paths = append(paths, stage.Name+"/"+step.Key)
		}
	}
	paths = slices.Compact(paths) // the combinations of a matrix are next to each other
	if len(paths) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
	}
	return strings.Join(paths, ", ")
}

// named returns the steps that a choice names.
func (f *File) named(steps []string, at fault.Position) (map[place]bool, fault.Problems) {
	if len(steps) == 0 {
		return nil, nil
	}
	named, index := map[place]bool{}, indexSteps(f)
	var problems fault.Problems
	for _, step := range steps {
		found, code, text := index.find(step, -1)
		if code != "" {
			if code == "need-unknown" {
				text += "; the file has " + f.stepList()
			}
			problems.Add(fault.Problem{Position: at, Code: "step" + strings.TrimPrefix(code, "need"), Text: text,
				Suggestion: fault.Nearest(step, index.known(code, step))})
		}
		for _, at := range found {
			named[at] = true
		}
	}
	return named, problems
}

// steps returns the numbers of the steps of a stage, by its number, that take part, which may have none; nil if the
// stage does not take part.
func (c Choice) steps(stage Stage, number int, named map[place]bool) []int {
	if len(stage.Environments) > 0 && !slices.Contains(stage.Environments, c.Environment) {
		return nil
	}
	if len(c.Stages)+len(c.Steps) == 0 || slices.Contains(c.Stages, stage.Name) {
		all := make([]int, len(stage.Steps))
		for i := range all {
			all[i] = i
		}
		return all
	}
	var some []int
	for i, step := range stage.Steps {
		if named[place{number, i}] || slices.Contains(c.Also, stage.Name+"/"+step.Name) {
			some = append(some, i)
		}
	}
	return some
}

// add puts a stage, by its number in the file, and its chosen steps at the end of the plan, and notes the ids of the steps.
func (p *Plan) add(stage Stage, number int, chosen []int, ids map[place][]int) {
	after := make([]int, 0, len(p.Steps))
	for _, earlier := range p.Steps {
		after = append(after, earlier.ID)
	}
	out := PlanStage{Name: stage.Name, RunsIf: stage.RunsIf, FailFast: stage.FailFast, Steps: make([]int, 0, len(chosen))}
	p.Steps = slices.Grow(p.Steps, len(chosen))
	for _, i := range chosen {
		s := stage.Steps[i]
		step := PlanStep{ID: len(p.Steps) + 1, Stage: stage.Name, Name: s.Name, Type: s.Type, At: s.At, After: after,
			Retry: s.Retry, Timeout: s.Timeout, Artifacts: s.Artifacts, Cache: s.Cache, Tests: s.Tests}
		for _, secret := range s.Secrets {
			step.Secrets = append(step.Secrets, secret.Name)
		}
		step.Spec, step.secretsAt = s.Spec, s.Secrets
		step.Spec.Step, step.Spec.Environ = step.Path(), slices.Concat(s.Spec.Environ, p.inputs)
		step.Digest = step.digest()
		p.Steps = append(p.Steps, step)
		out.Steps = append(out.Steps, step.ID)
		ids[place{number, i}] = append(ids[place{number, i}], step.ID)
	}
	p.Stages = append(p.Stages, out)
}

// connect has the steps with needs wait for these, and warns of needs that are not selected.
func (p *Plan) connect(file *File, ids map[place][]int) (warnings fault.Problems) {
	if !file.hasNeeds() {
		return nil
	}
	index := indexSteps(file)
	for at, its := range ids {
		step := &file.Stages[at.stage].Steps[at.step]
		if step.Needs == nil {
			continue
		}
		needs := []int{}
		for i, need := range step.Needs {
			found, _, _ := index.find(need.Text, at.stage)
			selected := false
			for _, other := range found {
				needs = append(needs, ids[other]...)
				selected = selected || len(ids[other]) > 0
				if len(ids[other]) == 0 {
					p.unselected = append(p.unselected, file.Stages[other.stage].Name+"/"+file.Stages[other.stage].Steps[other.step].Name)
				}
			}
			if !selected {
				warnings = append(warnings, fault.Problem{Position: need.At, Code: "need-unselected", Warning: true,
					Scope: fmt.Sprintf("%s/%s/needs[%d]", file.Stages[at.stage].Name, step.Name, i),
					Text:  fmt.Sprintf("step %q is not selected; %s does not wait for it, and does not get its artifacts", need.Text, step.Name)})
			}
		}
		slices.Sort(needs)
		for _, id := range its {
			p.Step(id).Needs = slices.Compact(needs)
			p.Step(id).After = p.Step(id).Needs
		}
	}
	return warnings
}

// Unselected lists the paths of the steps that steps of the plan need and that are not selected, sorted.
func (p *Plan) Unselected() []string {
	slices.Sort(p.unselected)
	return slices.Compact(p.unselected)
}

// Names reports whether the choice of the plan names a step on its own.
func (p *Plan) Names(path string) bool { return slices.Contains(p.named, path) }

// digest returns the digest of the step's work, regardless of its place in the plan.
func (s PlanStep) digest() string {
	s.ID, s.After, s.Needs, s.At, s.Digest = 0, nil, nil, fault.Position{}, ""
	text, _ := json.Marshal(s) // strings and numbers always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Images lists the images of the plan, each once, sorted.
func (p *Plan) Images() []string {
	var images []string
	for _, s := range p.Steps {
		images = append(images, s.Spec.Image)
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// Step returns the step with an id, or nil. The ids of steps that another build engine reports may have gaps.
func (p *Plan) Step(id int) *PlanStep {
	if id >= 1 && id <= len(p.Steps) && p.Steps[id-1].ID == id {
		return &p.Steps[id-1]
	}
	at, found := sort.Find(len(p.Steps), func(i int) int { return id - p.Steps[i].ID })
	if !found {
		return nil
	}
	return &p.Steps[at]
}
