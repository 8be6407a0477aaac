package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

const planHelp = `Shows what waybill ship would do here: the steps of this folder's revision in their order, with
times measured in earlier deployments; a step that never ran has no time, since its time limit
is no expectation. When waybill.yaml differs from the definition in force, it also shows what
the edit changes and what it adds, leaves out or drains in each deployment that is active, or
that has failed and may be retried. Changes nothing, and makes no log where there is none.

Exit status 5 when something would be done, 0 when there is nothing to do.`

// planFlags are what `waybill plan` may be told.
type planFlags struct{ edit, why string }

func (a *app) planCommand() *cobra.Command {
	var flags planFlags
	c := &cobra.Command{
		Use:   "plan [PIPELINE]",
		Short: "Show what ship would do, and what an edit does to deployments inside; change nothing",
		Long:  planHelp,
		Example: examples("waybill plan", "waybill plan --edit new/waybill.yaml", "waybill plan greeter   # as it is in the log",
			"waybill plan --why greeter#7"),
		Args:              arguments(0, 2, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			if flags.why != "" {
				return a.planWhy(c, flags.why, arguments)
			}
			return a.plan(c.Context(), arguments, flags)
		},
	}
	c.Flags().StringVar(&flags.edit, "edit", "", "a waybill.yaml to compare with the definition in force")
	c.Flags().StringVar(&flags.why, "why", "", "list the open steps of this deployment with their reasons; a target may follow")
	_ = c.RegisterFlagCompletionFunc("why", a.completeDeployments)
	return c
}

// errPending is the end of a plan that would do something.
func errPending() error { return shown{fault.New(fault.Pending, "something would be done")} }

// planWhy is `waybill deployment why` with plan's exit status.
func (a *app) planWhy(c *cobra.Command, deployment string, arguments []string) error {
	return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
		ref, err := resolve(ctx, s, deployment)
		if err != nil {
			return err
		}
		open, err := s.Why(ctx, ref, strings.Join(arguments, ""))
		if err != nil {
			return err
		}
		if err := a.showOpen(ref, open); err != nil || len(open) == 0 {
			return err
		}
		return errPending()
	})
}

// showPlan prints a plan. The error is the exit status of a plan that would do something.
func (a *app) showPlan(d show.PlanDocument) error {
	p := a.printer()
	if err := p.Answer(d, show.ShipPlan(d, p.Style)...); err != nil || d.Todo == show.TodoNothing {
		return err
	}
	return errPending()
}

// plan answers for this folder, for a file, or for a pipeline of the log.
func (a *app) plan(ctx context.Context, arguments []string, flags planFlags) error {
	if len(arguments) > 0 && flags.edit == "" {
		return a.planStored(ctx, arguments[0])
	}
	p, err := a.planProject(flags)
	if err != nil {
		return err
	}
	a.printProblems(append(p.warnings, a.secretWarnings(ctx, p)...))
	if err := a.checkIgnored(ctx, p); err != nil {
		return err
	}
	s, done, err := a.OpenScratch(ctx, p.dir)
	if err != nil {
		return err
	}
	defer done()
	d, err := a.planFor(ctx, s, p, flags.edit != "")
	if err != nil {
		return err
	}
	return a.showPlan(d)
}

func (a *app) planProject(flags planFlags) (project, error) {
	if flags.edit != "" {
		return a.projectFrom([]string{flags.edit})
	}
	return a.project(nil)
}

// planStored is the plan for one more deployment of a pipeline as the log has it.
func (a *app) planStored(ctx context.Context, name string) error {
	s, err := a.Open(ctx, a.Dir, assembly.Existing)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := s.Plan(ctx, name, nil)
	if err != nil {
		return err
	}
	return a.showPlan(show.PlanDocument{Pipeline: name, Todo: show.TodoShip, Steps: workOf(v.Steps), Total: v.Total})
}

// planFor asks what ship would do with a project, or what its file would change when that is all that was asked.
func (a *app) planFor(ctx context.Context, s *assembly.Session, p project, editOnly bool) (show.PlanDocument, error) {
	name := p.definition.Pipeline
	proposal := p.proposal(a.User())
	edit, err := s.PlanEdit(ctx, proposal)
	if err != nil {
		return show.PlanDocument{}, err
	}
	d := show.PlanDocument{Pipeline: name, Todo: show.TodoNothing, Edit: &edit, Steps: []pipeline.PlanStep{}}
	if !edit.Unchanged {
		d.Todo = show.TodoApply
	}
	if !editOnly {
		if err := a.planRevision(ctx, s, p, &d); err != nil {
			return d, err
		}
	}
	if d.Todo != show.TodoShip && (!editOnly || edit.Unchanged) {
		return d, nil
	}
	v, err := s.Plan(ctx, name, &proposal)
	d.Steps, d.Total = workOf(v.Steps), v.Total
	return d, err
}

// planRevision finds out what ship would do with the folder's revision.
func (a *app) planRevision(ctx context.Context, s *assembly.Session, p project, d *show.PlanDocument) error {
	tree, err := p.tree(ctx, s.Home)
	if err != nil {
		return err
	}
	d.Revision = tree.Label
	known, err := s.Revision(ctx, d.Pipeline, tree.Label)
	if fault.Is(err, fault.NotFound) {
		d.Todo = show.TodoShip
		return nil
	}
	if err != nil {
		return err
	}
	if newest, err := isNewest(ctx, s, known); err != nil {
		return err
	} else if !newest { // ship does not apply its file
		d.Todo, d.Edit = show.TodoNothing, nil
	}
	next, err := a.nextStep(ctx, s, known, shipFlags{})
	if err != nil {
		return err
	}
	d.Differs, d.Refused = next.differs, next.refused
	if next.deployment != nil {
		d.Deployment = show.RefOf(*next.deployment).String()
	}
	if next.todo != show.TodoNothing {
		d.Todo = next.todo
	}
	return nil
}

// workOf leaves out the markers: they take no time.
func workOf(steps []pipeline.PlanStep) []pipeline.PlanStep {
	work := []pipeline.PlanStep{}
	for _, s := range steps {
		if s.Work {
			work = append(work, s)
		}
	}
	return work
}
