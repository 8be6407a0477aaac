package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

const planHelp = `Shows what waybill ship would do here: the steps of this folder's revision in their order, with
times measured in earlier deployments; a step that never ran has no time, since its time limit
is not an expectation. When waybill.yaml differs from the definition in force, it also shows what
the edit changes and what it adds, leaves out or drains in each deployment that is active, or
that has failed and may be retried. Changes nothing, and makes no log.

Exit status 5 when something would be done, 0 when there is nothing to do.`

// planFlags are the flags of `waybill plan`.
type planFlags struct{ edit, why string }

func planCommand(a *app) *cobra.Command {
	var flags planFlags
	c := &cobra.Command{
		Use:   "plan [PIPELINE]",
		Short: "Show what ship would do, and what an edit does to deployments inside; change nothing",
		Long:  planHelp,
		Example: examples("waybill plan", "waybill plan --edit edited.yaml", "waybill plan greeter   # as it is in the log",
			"waybill plan --why greeter#7"),
		Args:              arguments(0, 2, "PIPELINE"),
		ValidArgsFunction: completePipelines(a),
		RunE: func(c *cobra.Command, arguments []string) error {
			if flags.why != "" {
				return a.planWhy(c, flags.why, strings.Join(arguments, ""))
			}
			return a.plan(c, arguments, flags)
		},
	}
	c.Flags().StringVar(&flags.edit, "edit", "", "a waybill.yaml to compare with the definition in force in the log of its folder")
	c.Flags().StringVar(&flags.why, "why", "", "list the open steps of this deployment with their reasons; a target may follow")
	_ = c.RegisterFlagCompletionFunc("why", completeDeployments(a))
	return c
}

// errPending returns the error that ends a plan that would do something.
func errPending() error { return shown{fault.New(fault.Pending, "something would be done")} }

// planWhy is `waybill deployment why` with plan's exit status.
func (a *app) planWhy(c *cobra.Command, deployment, target string) error {
	return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
		ref, err := resolve(ctx, s, deployment)
		if err != nil {
			return err
		}
		open, err := runWhy(ctx, whyOptions{Deployments: s, Ref: ref, Target: target, Out: a.printer()})
		if err != nil || open == 0 {
			return err
		}
		return errPending()
	})
}

// plan plans for this folder, for a file, or for a pipeline of the log.
func (a *app) plan(c *cobra.Command, arguments []string, flags planFlags) error {
	if len(arguments) > 0 && flags.edit == "" {
		return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
			return runPlanStored(ctx, planStoredOptions{Pipelines: s, Name: arguments[0], Out: a.printer()})
		})
	}
	ctx := c.Context()
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
	return runPlan(ctx, planOptions{
		Plans: s, Revisions: s, Deployments: s, Pipelines: s, Proposal: p.proposal(a.User()), EditOnly: flags.edit != "", Out: a.printer(),
		Label: func(ctx context.Context) (string, error) {
			tree, err := p.tree(ctx, s.Home)
			return tree.Label, err
		},
	})
}

func (a *app) planProject(flags planFlags) (project, error) {
	if flags.edit != "" {
		return a.projectFrom([]string{flags.edit})
	}
	return a.project(nil)
}

// printPlan prints a plan. The error is the exit status of a plan that would do something.
func printPlan(d show.PlanDocument, out show.Printer) error {
	if err := out.Answer(d, show.ShipPlan(d, out.Style)...); err != nil || d.Todo == show.TodoNothing {
		return err
	}
	return errPending()
}

// planner plans one more deployment of a pipeline, with a new definition when proposal is not nil.
type planner interface {
	Plan(ctx context.Context, pipeline string, proposal *server.Proposal) (server.PlanView, error)
}

type planStoredOptions struct {
	Pipelines planner
	Name      string
	Out       show.Printer
}

// runPlanStored prints the plan for one more deployment of a pipeline with the definition in force.
func runPlanStored(ctx context.Context, o planStoredOptions) error {
	v, err := o.Pipelines.Plan(ctx, o.Name, nil)
	if err != nil {
		return err
	}
	return printPlan(show.PlanDocument{Pipeline: o.Name, Todo: show.TodoShip, Steps: workOf(v.Steps), Total: v.Total}, o.Out)
}

type planOptions struct {
	Plans interface {
		planner
		PlanEdit(context.Context, server.Proposal) (server.EditView, error)
	}
	Revisions interface {
		revisionReader
		revisionLister
	}
	Deployments deploymentFinder
	Pipelines   pipelineReader

	Proposal server.Proposal                       // the definition of the folder, or of the file
	EditOnly bool                                  // plan what the file changes, and nothing else
	Label    func(context.Context) (string, error) // of the folder's revision
	Out      show.Printer
}

// runPlan prints what ship would do with a folder, or what its file would change.
func runPlan(ctx context.Context, o planOptions) error {
	name := o.Proposal.Definition.Pipeline
	edit, err := o.Plans.PlanEdit(ctx, o.Proposal)
	if err != nil {
		return err
	}
	d := show.PlanDocument{Pipeline: name, Todo: show.TodoNothing, Edit: &edit, Steps: []pipeline.PlanStep{}}
	if !edit.Unchanged {
		d.Todo = show.TodoApply
	}
	if !o.EditOnly {
		if err := o.planRevision(ctx, &d); err != nil {
			return err
		}
	}
	if d.Todo == show.TodoShip || o.EditOnly && !edit.Unchanged {
		v, err := o.Plans.Plan(ctx, name, &o.Proposal)
		if err != nil {
			return err
		}
		d.Steps, d.Total = workOf(v.Steps), v.Total
	}
	return printPlan(d, o.Out)
}

// planRevision adds what ship would do with the folder's revision.
func (o planOptions) planRevision(ctx context.Context, d *show.PlanDocument) error {
	var err error
	if d.Revision, err = o.Label(ctx); err != nil {
		return err
	}
	known, err := o.Revisions.Revision(ctx, d.Pipeline, d.Revision)
	if fault.Is(err, fault.NotFound) {
		d.Todo = show.TodoShip
		return nil
	}
	if err != nil {
		return err
	}
	if newest, err := isNewest(ctx, o.Revisions, known); err != nil {
		return err
	} else if !newest { // ship does not apply its file
		d.Todo, d.Edit = show.TodoNothing, nil
	}
	next, err := decideNext(ctx, o.Deployments, o.Pipelines, known, shipFlags{})
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

// workOf leaves out the markers that take no time and wait for nothing.
func workOf(steps []pipeline.PlanStep) []pipeline.PlanStep {
	work := []pipeline.PlanStep{}
	for _, s := range steps {
		if s.Work || s.Reason != "" {
			work = append(work, s)
		}
	}
	return work
}
