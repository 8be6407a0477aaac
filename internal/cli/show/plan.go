package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Next steps of ship, as `waybill plan -o json` names it.
const (
	TodoShip     = "ship"     // make a deployment of the revision
	TodoContinue = "continue" // take an active deployment further
	TodoRetry    = "retry"    // offer to retry the failed deployment
	TodoApply    = "apply"    // apply the definition alone
	TodoNothing  = "nothing"
)

// PlanDocument is `waybill plan -o json`.
type PlanDocument struct {
	Pipeline   string            `json:"pipeline"`
	Revision   string            `json:"revision,omitempty"`   // label of this folder
	Deployment string            `json:"deployment,omitempty"` // the one that ship would resume, or that has ended with the revision
	Todo       string            `json:"todo"`                 // one of the constants above
	Edit       *service.EditView `json:"edit,omitempty"`
	New        int64             `json:"new,omitempty"`    // number of the deployment that ship would make
	Now        time.Time         `json:"now,omitzero"`     // origin of the start and end of steps
	Begins     action.Duration   `json:"begins,omitempty"` // beginning of that deployment, after now
	// Steps are work, starts that wait for people, a window or a freeze, and the consequences of failures, in order;
	// start and end are nanoseconds.
	Steps []pipeline.PlanStep    `json:"steps"`
	Ends  []pipeline.ExpectedEnd `json:"ends,omitempty"` // ends of the active deployments, and of the new one
	Total action.Duration        `json:"total"`          // duration of the new deployment; a lower bound when some steps are unmeasured

	Differs []string `json:"-"` // gaps of hosts although the revision has finished
	Refused error    `json:"-"` // why ship would end with an error although there is nothing to do
}

// ShipPlan returns the plan of ship.
func ShipPlan(d PlanDocument, s Style) []string {
	var lines []string
	if d.Edit != nil && !d.Edit.Unchanged {
		lines = Edit(*d.Edit, s)
	}
	switch d.Todo {
	case TodoNothing:
		lines = append(lines, nothingText(d))
		for _, text := range d.Differs {
			lines = append(lines, "but "+text)
		}
	case TodoContinue:
		lines = append(lines, fmt.Sprintf("ship would resume %s: waybill deployment why %s lists what is open", d.Deployment, d.Deployment))
	case TodoRetry:
		lines = append(lines, fmt.Sprintf("ship would offer to retry %s, which failed: waybill deployment show %s", d.Deployment, d.Deployment))
	}
	if len(d.Steps) == 0 { // such as in a pipeline that is frozen for good
		return append(lines, endTexts(d)...)
	}
	if d.Begins > 0 {
		lines = append(lines, "begins "+d.Now.Add(time.Duration(d.Begins)).Local().Format("Mon 2006-01-02 15:04 MST"))
	}
	lines = append(append(lines, stepRows(d)...), totalText(d))
	if path := criticalPath(d); len(path) > 1 {
		lines = append(lines, "critical path (*): "+strings.Join(path, ", "))
	}
	return append(lines, endTexts(d)...)
}

// longestPath bounds the places of the critical path that are named.
const longestPath = 12

// criticalPath returns the places that the end of the new deployment depends on, one after the other.
func criticalPath(d PlanDocument) (path []string) {
	for _, step := range d.Steps {
		place := strings.TrimPrefix(step.Target, d.Pipeline+"/")
		if step.Critical && step.End > step.Start && (len(path) == 0 || path[len(path)-1] != place) {
			path = append(path, place)
		}
	}
	if more := len(path) - longestPath; more > 0 {
		path = append(path[:longestPath], fmt.Sprintf("and %d more", more))
	}
	return path
}

// endTexts reports how deployments end, but for the new one when it finishes.
func endTexts(d PlanDocument) (lines []string) {
	for _, end := range d.Ends {
		ref := service.Ref{Pipeline: d.Pipeline, Number: end.Deployment}.String() + " (" + end.Label + ")"
		switch {
		case end.Status == pipeline.StatusActive && end.Deployment == d.subject() && len(d.Steps) > 0: // the headline has it
		case end.Status == pipeline.StatusActive:
			lines = append(lines, ref+" "+goesNoFurther(end))
		case end.Status != pipeline.StatusFinished:
			lines = append(lines, fmt.Sprintf("%s ends after %s: %s", ref, service.Took(end.At), end.Status))
		case end.Deployment != d.New:
			lines = append(lines, fmt.Sprintf("%s ends after %s: finished", ref, service.Took(end.At)))
		}
	}
	return lines
}

// goesNoFurther explains why a deployment stays active, and how to change that.
func goesNoFurther(end pipeline.ExpectedEnd) string {
	text := "goes no further: " + FirstOf(OneLine(end.Reason), "nothing is left to do")
	if end.Who != "" {
		text += " (" + end.Who + ")"
	}
	return text
}

// stepRows returns the steps of a plan with their times.
func stepRows(d PlanDocument) []string {
	var t table
	unmeasured, work := countSteps(d.Steps)
	several := len(d.Ends) > 1
	head := []string{"   START", "     END", "WHERE", "STEP"}
	if several {
		head = slices.Insert(head, 2, "DEPLOYMENT")
	}
	t.add(head...)
	for _, step := range d.Steps {
		start, end, what := service.Took(step.Start), service.Took(step.End), service.StepName(step.Event)
		switch {
		case !step.Work:
			end, what = "", step.Reason
		case step.Failed:
			what += " fails"
		}
		if step.Once {
			what += ", once"
		}
		if step.Critical && step.End > step.Start {
			what += " *"
		}
		if step.Unmeasured {
			end = "-"
		}
		if unmeasured == work {
			start = "-"
		}
		row := []string{fmt.Sprintf("%8s", start), fmt.Sprintf("%8s", end), strings.TrimPrefix(step.Target, d.Pipeline+"/"), what}
		if several {
			row = slices.Insert(row, 2, service.Ref{Pipeline: d.Pipeline, Number: step.Deployment}.String())
		}
		t.add(row...)
	}
	return t.lines()
}

func nothingText(d PlanDocument) string {
	if d.Refused != nil {
		return "nothing to do: " + OneLine(d.Refused.Error()) + "; " + fault.HintOf(d.Refused)
	}
	if d.Deployment != "" {
		return fmt.Sprintf("nothing to do: %s has ended as %s", d.Revision, d.Deployment)
	}
	return "nothing to do: the definition is the one in force"
}

// totalText returns the headline of a plan: why the deployment goes no further, or the time of the whole plan and of
// each stage, such as ship would take 32s: build 6s, beta 7s, prod 19s. A step that has never run has no measured
// time, since its time limit is not an expectation; the text counts them.
func totalText(d PlanDocument) string {
	subject := "ship"
	if d.Revision != "" {
		subject = "ship of " + d.Revision
	}
	if i := slices.IndexFunc(d.Ends, func(e pipeline.ExpectedEnd) bool {
		return e.Deployment == d.subject() && e.Status == pipeline.StatusActive
	}); i >= 0 {
		return subject + " " + goesNoFurther(d.Ends[i])
	}
	does := "would take"
	if slices.ContainsFunc(d.Ends, func(e pipeline.ExpectedEnd) bool { return e.Deployment == d.New && e.Status == pipeline.StatusFailed }) {
		does = "would fail after"
	}
	took, parts := service.Took(time.Duration(d.Total)), strings.Join(stageTimes(d), ", ")
	switch unmeasured, work := countSteps(d.Steps); unmeasured {
	case 0:
		return fmt.Sprintf("%s %s %s: %s", subject, does, took, parts)
	case work:
		return fmt.Sprintf("%s would do %s; none of this has run here yet, so how long it takes is not known", subject, Count(unmeasured, "step"))
	default:
		return fmt.Sprintf("%s %s at least %s: %s\n(%d of %s never ran here and are not counted)",
			subject, does, took, parts, unmeasured, Count(work, "step"))
	}
}

// subject returns the number of the deployment that the plan is about: the new one, or the one that ship would resume.
func (d *PlanDocument) subject() int64 {
	if ref, err := service.ParseRef(d.Deployment); d.New == 0 && err == nil {
		return ref.Number
	}
	return d.New
}

// countSteps returns how many steps are work, and of how many of these nothing is known.
func countSteps(steps []pipeline.PlanStep) (unmeasured, work int) {
	for _, s := range steps {
		if s.Unmeasured {
			unmeasured++
		}
		if s.Work {
			work++
		}
	}
	return unmeasured, work
}

// stageTimes returns each stage with the time from its first step's start to its last one's end.
func stageTimes(d PlanDocument) []string {
	type span struct{ start, End time.Duration }
	spans, order := map[string]span{}, []string{}
	for _, step := range d.Steps {
		stage, _ := placeOf(d.Pipeline, step.Target)
		if stage == "" || d.New != 0 && step.Deployment != d.New {
			continue
		}
		s, known := spans[stage]
		if !known {
			order, s = append(order, stage), span{step.Start, step.End}
		}
		spans[stage] = span{min(s.start, step.Start), max(s.End, step.End)}
	}
	var parts []string
	for _, stage := range order {
		parts = append(parts, stage+" "+service.Took(spans[stage].End-spans[stage].start))
	}
	return parts
}
