package ship

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/deployment"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

const planHelp = `Shows what waybill ship would do here: the steps of this folder's revision in their order, beside
what is under way, with times measured in earlier deployments; a step that never ran has no time,
since its time limit is not an expectation. Approvals are assumed to be given, and windows and
freezes are met. A * marks the steps that the end depends on. When waybill.yaml differs from the
definition in force, it also shows what the edit changes and what it adds, leaves out or drains in
each deployment that is active, or that has failed and may be retried. Changes nothing, and makes no
log.

With --what-if fail=TARGET it assumes that this fails: a stage, group or host, whose build or
deploy it is unless TARGET:STEP names another step. It shows where that stops, what the policy of
the stage does, and what becomes of the other deployments.

For a pipeline of Kubernetes it shows what would be promoted now, everything that is in the way, and
the lines that change in its repositories. With --revision the first environment is assumed to be
ready at that revision.

Exit status 5 when something would be done, 0 when there is nothing to do.`

// planFlags are the flags of `waybill plan`.
type planFlags struct {
	edit, why      string
	revision, from string
	whatIf         []string
}

// query adds the flags to a query about a pipeline. Each --what-if is fail=TARGET.
func (f planFlags) query(q operation.PlanInput) (operation.PlanInput, error) {
	q.Revision, q.From = f.revision, f.from
	for _, text := range f.whatIf {
		target, ok := strings.CutPrefix(text, "fail=")
		if !ok || target == "" {
			return q, fault.New(fault.Invalid, "--what-if %s: want fail=TARGET or fail=TARGET:STEP", text).
				WithHint("--what-if fail=prod/east/elm:test")
		}
		q.Fail = append(q.Fail, target)
	}
	return q, nil
}

func PlanCommand(a *cmdline.App) *cobra.Command {
	var flags planFlags
	c := &cobra.Command{
		Use:   "plan [PIPELINE]",
		Short: "Show what ship would do, and what an edit does to deployments inside; change nothing",
		Long:  planHelp,
		Example: cmdline.Examples("waybill plan", "waybill plan --edit edited.yaml", "waybill plan greeter   # as it is in the log",
			"waybill plan greeter --what-if fail=prod/east/elm:test", "waybill plan greeter --revision 3f2c9a1 --from 2h",
			"waybill plan --why greeter#7", "waybill plan apps:podinfo --revision 6.7.0"),
		Args:              cmdline.Arguments(0, 2, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: func(c *cobra.Command, arguments []string) error {
			if err := cmdline.Exclusive(c, "why", "edit", "revision", "from", "what-if"); err != nil {
				return err
			}
			if flags.revision != "" && len(arguments) == 0 {
				return fault.New(fault.Invalid, "--revision is of a pipeline of the log: name it").
					WithHint("waybill plan PIPELINE --revision %s", flags.revision)
			}
			if flags.why != "" {
				return planWhy(a, c, flags.why, strings.Join(arguments, ""))
			}
			if len(arguments) > 0 && service.OfKubernetes(arguments[0]) {
				return planPromotion(a, c, arguments[0], flags)
			}
			return plan(a, c, arguments, flags)
		},
	}
	c.Flags().StringVar(&flags.edit, "edit", "", "a waybill.yaml to compare with the definition in force in the log of its folder")
	c.Flags().StringVar(&flags.why, "why", "", "list the open steps of this deployment with their reasons; a target may follow")
	c.Flags().StringVar(&flags.revision, "revision", "", "plan one more deployment of this registered revision of PIPELINE")
	c.Flags().StringVar(&flags.from, "from", "", "when it begins: a time, or how long from now, such as 2h")
	c.Flags().StringArrayVar(&flags.whatIf, "what-if", nil, "fail=TARGET[:STEP]: assume that this fails; may be repeated")
	_ = c.RegisterFlagCompletionFunc("why", cmdline.CompleteDeployments(a))
	_ = c.RegisterFlagCompletionFunc("revision", cmdline.CompleteRevisions(a))
	cmdline.OfferFrom(c, completeFailing(a), "what-if")
	return c
}

// errPending returns the error that ends a plan that would do something.
func errPending() error { return cmdline.Printed(fault.New(fault.Pending, "something would be done")) }

// planWhy is `waybill deployment why` with plan's exit status.
func planWhy(a *cmdline.App, c *cobra.Command, name, target string) error {
	return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
		ref, err := cmdline.Resolve(ctx, s, name)
		if err != nil {
			return err
		}
		open, err := deployment.RunWhy(ctx, deployment.WhyOptions{Deployments: s, Ref: ref, Target: target, Out: a.Printer()})
		if err != nil || open == 0 {
			return err
		}
		return errPending()
	})
}

// plan plans for this folder, for a file, or for a pipeline of the log.
func plan(a *cmdline.App, c *cobra.Command, arguments []string, flags planFlags) error {
	if len(arguments) > 0 && flags.edit == "" {
		return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
			q, err := flags.query(operation.PlanInput{PipelinePath: operation.PipelinePath{Pipeline: arguments[0]}, Simulate: true})
			if err != nil {
				return err
			}
			return runPlanStored(ctx, planStoredOptions{Log: s, Query: q, Out: a.Printer()})
		})
	}
	ctx := c.Context()
	p, err := planProject(a, flags)
	if err != nil {
		return err
	}
	proposal := p.Proposal(a.User())
	q, err := flags.query(operation.PlanInputOf(proposal))
	if err != nil {
		return err
	}
	unknown, err := cmdline.KeyWarnings(a, p)
	if err != nil {
		return err
	}
	a.PrintProblems(append(append(p.Warnings, a.SecretWarnings(ctx, p)...), unknown...))
	if err := a.CheckIgnored(ctx, p); err != nil {
		return err
	}
	s, done, err := a.OpenScratch(ctx, p.Dir)
	if err != nil {
		return err
	}
	defer done()
	return runPlan(ctx, planOptions{
		Log: s, Proposal: proposal, Query: q, EditOnly: flags.edit != "", Out: a.Printer(),
		Label: func(ctx context.Context) (string, error) {
			tree, err := p.Tree(ctx, s.Home)
			a.PrintNotes(tree.Notes)
			return tree.Label, err
		},
	})
}

func planProject(a *cmdline.App, flags planFlags) (cmdline.Project, error) {
	if flags.edit != "" {
		return a.ProjectFrom([]string{flags.edit})
	}
	return a.Project(nil)
}

// printPlan prints a plan. The error is the exit status of a plan that would do something.
func printPlan(d show.PlanDocument, out show.Printer) error {
	if err := out.Answer(d, show.ShipPlan(d, out.Style)...); err != nil || d.Todo == show.TodoNothing {
		return err
	}
	return errPending()
}

type planStoredOptions struct {
	Log   operation.Caller
	Query operation.PlanInput
	Out   show.Printer
}

// runPlanStored prints the plan for one more deployment of a pipeline with the definition in force.
func runPlanStored(ctx context.Context, o planStoredOptions) error {
	v, err := operation.PlanDeployment.Call(ctx, o.Log, o.Query)
	if err != nil {
		return err
	}
	return printPlan(planned(show.PlanDocument{Pipeline: o.Query.Pipeline, Revision: o.Query.Revision, Todo: show.TodoShip}, v), o.Out)
}

type planOptions struct {
	Log      operation.Caller
	Proposal service.Proposal                      // the definition of the folder, or of the file
	Query    operation.PlanInput                   // with that definition
	EditOnly bool                                  // plan the changes by the file, and nothing else
	Label    func(context.Context) (string, error) // label of the folder's revision
	Out      show.Printer
}

// runPlan prints the plan of ship with a folder, or what its file would change.
func runPlan(ctx context.Context, o planOptions) error {
	edit, err := operation.PlanEdit(ctx, o.Log, o.Proposal)
	if err != nil {
		return err
	}
	d := show.PlanDocument{Pipeline: o.Query.Pipeline, Todo: show.TodoNothing, Edit: &edit, Steps: []pipeline.PlanStep{}}
	if !edit.Unchanged {
		d.Todo = show.TodoApply
	}
	if !o.EditOnly {
		if err := o.planRevision(ctx, &d); err != nil {
			return err
		}
	}
	if d.Todo == show.TodoShip || o.EditOnly && !edit.Unchanged {
		v, err := operation.PlanDeployment.Call(ctx, o.Log, o.Query)
		if err != nil {
			return err
		}
		d = planned(d, v)
	}
	return printPlan(d, o.Out)
}

// planRevision adds the plan of ship with the folder's revision.
func (o planOptions) planRevision(ctx context.Context, d *show.PlanDocument) error {
	var err error
	if d.Revision, err = o.Label(ctx); err != nil {
		return err
	}
	known, err := operation.GetRevision.Call(ctx, o.Log, labelPath(d.Pipeline, d.Revision))
	if fault.Is(err, fault.NotFound) {
		d.Todo = show.TodoShip
		return nil
	}
	if err != nil {
		return err
	}
	if newest, err := isNewest(ctx, o.Log, known); err != nil {
		return err
	} else if !newest { // ship does not apply its file
		d.Todo, d.Edit = show.TodoNothing, nil
	}
	next, err := decideNext(ctx, o.Log, known, shipFlags{})
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

// planned adds the result of a simulation to a document.
func planned(d show.PlanDocument, v service.PlanView) show.PlanDocument {
	d.Now, d.Begins, d.New, d.Steps, d.Ends, d.Total = v.Now, v.Begins, v.Deployment, workOf(v.Steps), v.Ends, v.Total
	return d
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

// completeFailing offers the steps that may be assumed to fail: fail= and a host of the pipeline that is named, or of
// this folder's.
func completeFailing(a *cmdline.App) cmdline.Completer {
	return cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		name, err := a.PipelineName(given)
		if err != nil {
			return nil, err
		}
		hosts, err := cmdline.HostNames(ctx, s, name)
		for i, host := range hosts {
			hosts[i] = "fail=" + host
		}
		return hosts, err
	})
}
