package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Choice is what a person or the conductor asks of a file.
type Choice struct {
	Environment string    // selected; "": none
	Stages      []string  // only these; none: all
	Variables   Variables // placed after the environment's own
	Timeout     time.Duration
	MaxParallel int // steps at a time; 0: no limit
}

// DefaultTimeout limits a build whose timeout is not set.
const DefaultTimeout = 6 * time.Hour

// Plan is what a build will do. Step ids count from 1 over the selected steps in
// file order; step 0 is the build itself, whose log is the worker's own notes.
type Plan struct {
	File        string        `json:"file"`
	Environment string        `json:"environment,omitempty"`
	Stages      []PlanStage   `json:"stages"`
	Steps       []PlanStep    `json:"steps"`
	Timeout     time.Duration `json:"timeout"` // of the whole build, in ns
	MaxParallel int           `json:"maxParallel,omitempty"`
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
	After     []int          `json:"after"` // all steps of earlier selected stages
	Timeout   time.Duration  `json:"timeout,omitempty"`
	Artifacts []ArtifactRule `json:"artifacts,omitempty"`
	Tests     *TestRules     `json:"testResults,omitempty"`
	Spec      Spec           `json:"spec"`
	Digest    string         `json:"digest"` // SHA-256 of what the step is, 64 hex digits
}

// Path names a step for people: stage/step.
func (s PlanStep) Path() string { return s.Stage + "/" + s.Name }

// Spec is what a runner must know of a step, whatever its type.
type Spec struct {
	Step  string   `json:"step"` // stage/step, for people
	Image string   `json:"image"`
	OS    string   `json:"os"`
	Argv  []string `json:"argv"`
}

// MakePlan decides what a build of the file does. Faults anywhere in it are
// returned, also in stages that are not selected; warnings do not block.
func MakePlan(file *File, choice Choice) (*Plan, fault.Problems) {
	variables, problems := file.variables(choice)
	s := &substituter{variables: variables, replaced: map[*document.Node]bool{}}
	root := s.stages(file.root)
	chosen, faults := read(root, s.replaced)
	problems = append(append(problems, s.problems...), faults...)
	problems = append(problems, chosen.unknownStages(choice.Stages, root.At)...)
	problems.Sort()
	if problems.Err() != nil {
		return nil, problems
	}
	plan := &Plan{File: root.At.File, Environment: choice.Environment, Timeout: choice.Timeout, MaxParallel: choice.MaxParallel}
	if plan.Timeout == 0 {
		plan.Timeout = DefaultTimeout
	}
	for _, stage := range chosen.Stages {
		if choice.selects(stage) {
			plan.add(stage)
		}
	}
	return plan, problems
}

// variables puts the selected environment's variables before the chosen ones.
func (f *File) variables(choice Choice) (Variables, fault.Problems) {
	if choice.Environment == "" {
		return choice.Variables, nil
	}
	var names []string
	for _, e := range f.Environments {
		if e.Name == choice.Environment {
			own := Source{Name: "environment " + e.Name, Values: e.Values}
			return append(Variables{own}, choice.Variables...), nil
		}
		names = append(names, e.Name)
	}
	at := f.root.At
	for _, field := range f.root.Fields {
		if field.Key == keyEnvironments {
			at = field.At
		}
	}
	return choice.Variables, fault.Problems{{Position: at, Code: "environment-unknown", Scope: keyEnvironments,
		Text:       fmt.Sprintf("environment %q not found", choice.Environment),
		Suggestion: fault.Nearest(choice.Environment, names)}}
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

// selects reports whether a stage takes part.
func (c Choice) selects(stage Stage) bool {
	if len(c.Stages) > 0 && !slices.Contains(c.Stages, stage.Name) {
		return false
	}
	return len(stage.Environments) == 0 || slices.Contains(stage.Environments, c.Environment)
}

// add puts a stage and its steps at the end of the plan.
func (p *Plan) add(stage Stage) {
	after := make([]int, 0, len(p.Steps))
	for _, earlier := range p.Steps {
		after = append(after, earlier.ID)
	}
	out := PlanStage{Name: stage.Name, RunsIf: stage.RunsIf, FailFast: stage.FailFast, Steps: []int{}}
	for _, s := range stage.Steps {
		step := PlanStep{ID: len(p.Steps) + 1, Stage: stage.Name, Name: s.Name, Type: s.Type, At: s.At, After: after,
			Timeout: s.Timeout, Artifacts: s.Artifacts, Tests: s.Tests}
		step.Spec = s.Container.spec(step.Path())
		step.Digest = step.digest()
		p.Steps = append(p.Steps, step)
		out.Steps = append(out.Steps, step.ID)
	}
	p.Stages = append(p.Stages, out)
}

// spec returns the program of the step type container: one shell process for all commands.
func (c Container) spec(step string) Spec {
	shell, flag := c.Shell, "-c"
	if c.OS == "windows" && shell == "/bin/sh" {
		shell, flag = "powershell.exe", "-C"
	}
	return Spec{Step: step, Image: c.Image, OS: c.OS, Argv: []string{shell, flag, strings.Join(c.Commands, "\n")}}
}

// digest returns the digest of what the step does, regardless of its place in the plan.
func (s PlanStep) digest() string {
	s.ID, s.After, s.At, s.Digest = 0, nil, fault.Position{}, ""
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

// Step returns the step with an id, or nil.
func (p *Plan) Step(id int) *PlanStep {
	if id < 1 || id > len(p.Steps) {
		return nil
	}
	return &p.Steps[id-1]
}
