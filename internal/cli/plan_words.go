package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// showPlan prints a plan; its end says whether something would be done.
func (a *app) showPlan(d planDocument) error {
	var err error
	if a.json() {
		err = a.printJSON(d)
	} else {
		err = a.printShipPlan(d)
	}
	if err != nil || d.Todo == todoNothing {
		return err
	}
	return errPending()
}

func (a *app) printShipPlan(d planDocument) error {
	if d.Edit != nil && !d.Edit.Unchanged {
		writeEdit(a.out, *d.Edit, a.style(a.out))
	}
	switch d.Todo {
	case todoNothing:
		fmt.Fprintln(a.out, nothingText(d))
		for _, text := range d.next.differs {
			fmt.Fprintln(a.out, "but "+text)
		}
	case todoContinue:
		fmt.Fprintf(a.out, "ship would resume %s: waybill deployment why %s lists what is open\n", d.Deployment, d.Deployment)
	case todoRetry:
		fmt.Fprintf(a.out, "ship would offer to retry %s, which failed: waybill deployment show %s\n", d.Deployment, d.Deployment)
	}
	if len(d.Steps) == 0 {
		return nil
	}
	var t table
	unmeasured := countUnmeasured(d.Steps)
	t.add("   START", "     END", "WHERE", "STEP")
	for _, step := range d.Steps {
		start, end := server.Took(step.Start), server.Took(step.End)
		if step.Unmeasured {
			end = "-"
		}
		if unmeasured == len(d.Steps) {
			start = "-"
		}
		t.add(fmt.Sprintf("%8s", start), fmt.Sprintf("%8s", end),
			strings.TrimPrefix(step.Target, d.Pipeline+"/"), server.StepName(step.Event))
	}
	if err := t.write(a.out); err != nil {
		return err
	}
	fmt.Fprintln(a.out, totalText(d))
	return nil
}

func nothingText(d planDocument) string {
	if d.next.refused != nil {
		return "nothing to do: " + oneLine(d.next.refused.Error()) + "; waybill ship --again deploys it once more"
	}
	if d.Deployment != "" {
		return fmt.Sprintf("nothing to do: %s has ended as %s", d.Revision, d.Deployment)
	}
	return "nothing to do: the definition is the one in force"
}

// totalText says how long it takes, and each stage's part: ship would take 32s: build 6s, beta 7s, prod 19s. Time limits
// are no expectations: what has never run counts as nothing, and the text says so.
func totalText(d planDocument) string {
	subject := "ship"
	if d.Revision != "" {
		subject = "ship of " + d.Revision
	}
	took, parts := server.Took(time.Duration(d.Total)), strings.Join(stageTimes(d), ", ")
	switch unmeasured := countUnmeasured(d.Steps); unmeasured {
	case 0:
		return fmt.Sprintf("%s would take %s: %s", subject, took, parts)
	case len(d.Steps):
		return fmt.Sprintf("%s would do %s; none of this has run here yet, so how long it takes is not known", subject, count(unmeasured, "step"))
	default:
		return fmt.Sprintf("%s would take at least %s: %s\n(%d of %s never ran here and are not counted)",
			subject, took, parts, unmeasured, count(len(d.Steps), "step"))
	}
}

func countUnmeasured(steps []pipeline.PlanStep) int {
	n := 0
	for _, s := range steps {
		if s.Unmeasured {
			n++
		}
	}
	return n
}

// stageTimes is each stage with the time from its first step's start to its last one's end.
func stageTimes(d planDocument) []string {
	type span struct{ start, end time.Duration }
	spans, order := map[string]span{}, []string{}
	for _, step := range d.Steps {
		stage, _ := placeOf(d.Pipeline, step.Target)
		s, known := spans[stage]
		if !known {
			order, s = append(order, stage), span{step.Start, step.End}
		}
		spans[stage] = span{min(s.start, step.Start), max(s.end, step.End)}
	}
	var parts []string
	for _, stage := range order {
		parts = append(parts, stage+" "+server.Took(spans[stage].end-spans[stage].start))
	}
	return parts
}
