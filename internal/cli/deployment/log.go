package deployment

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// logFlags are the flags of `waybill log`.
type logFlags struct {
	target string
	facts  bool
	follow bool
	verify bool
	limit  int
}

func LogCommand(a *cmdline.App) *cobra.Command {
	var flags logFlags
	c := &cobra.Command{
		Use:   "log [PIPELINE[#N]]",
		Short: "Print the deployment log: what was completed, and what was noted beside it",
		Long: `Prints the entries of a pipeline, or of one deployment, in the order in which they were
committed. Facts say that something is done: host-artifact-replicated is the end of the step
replicate, host-deployed of deploy, host-deployment-tested of test, host-NAME of an own step NAME.
Notes say what was asked, claimed, failed or decided. Without a name: this folder's pipeline.

The log of an archived deployment (keep.entries in waybill.yaml) is in the blob store, and is
printed when it is named: the log of its pipeline no longer has it.

With --verify: reads the whole log of a pipeline, checks that each entry follows from those before
it and that nothing breaks a rule, compares it with what the database keeps beside it and with the
digests that entries were written with, reads the archives, and ends with status 1 if they differ or
an archive is damaged. It changes nothing. It prints the digest at the end of the log.`,
		Example: cmdline.Examples("waybill log", "waybill log greeter#7 --facts",
			"waybill log greeter --target greeter/prod/east -f", "waybill log greeter -o json | jq -r .event",
			"waybill log greeter --verify"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE[#N]"),
		ValidArgsFunction: cmdline.CompleteDeployments(a),
		RunE: func(c *cobra.Command, arguments []string) error {
			if err := cmdline.Exclusive(c, "verify", "target", "facts", "follow", "limit"); err != nil {
				return err
			}
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
				query, err := logQuery(a, arguments, flags)
				if err != nil {
					return err
				}
				if flags.verify {
					return verifyLog(ctx, a, s, query)
				}
				return runLog(ctx, logOptions{Log: s, Query: query, Follow: flags.follow, Out: a.Printer(), Now: time.Now})
			})
		},
	}
	c.Flags().StringVar(&flags.target, "target", "", "only this target and what is below it, such as prod/east")
	c.Flags().BoolVar(&flags.facts, "facts", false, "only what was completed")
	c.Flags().BoolVarP(&flags.follow, "follow", "f", false, "keep printing what is added")
	c.Flags().IntVar(&flags.limit, "limit", 0, "only the newest entries, this many; 0: all")
	c.Flags().BoolVar(&flags.verify, "verify", false, "print nothing but whether the whole log is as it must be")
	return c
}

// logQuery returns the query for the arguments and the flags.
func logQuery(a *cmdline.App, arguments []string, flags logFlags) (journal.EntryQuery, error) {
	q := journal.EntryQuery{Limit: flags.limit, Newest: flags.limit > 0}
	if flags.facts {
		q.Class = pipeline.Fact
	}
	name, err := a.PipelineName(arguments)
	if err != nil {
		return q, err
	}
	q.Pipeline = name
	if strings.ContainsAny(name, "#/") {
		ref, err := service.ParseRef(name)
		if err != nil {
			return q, err
		}
		q.Pipeline, q.Deployment = ref.Pipeline, ref.Number
	}
	if flags.target != "" {
		q.Target = cmdline.FullTarget(q.Pipeline, flags.target)
	}
	return q, nil
}

type logOptions struct {
	Log    logReader
	Query  journal.EntryQuery
	Follow bool
	Out    show.Printer
	Now    func() time.Time
}

// logReader reads entries, and explains an empty log.
type logReader interface {
	cmdline.EntryReader
}

// runLog prints entries.
func runLog(ctx context.Context, o logOptions) error {
	each := func(e pipeline.Entry) error { return o.Out.Lines(show.Entry(e, o.Out.Style, o.Now())) }
	if o.Out.JSON {
		each = func(e pipeline.Entry) error { return o.Out.Line(e) }
	}
	if o.Follow {
		return o.Log.Follow(ctx, o.Query, each)
	}
	entries, err := operation.ReadLog.Call(ctx, o.Log, operation.LogInputOf(o.Query))
	if err != nil {
		return err
	}
	if len(entries) == 0 && o.Query.After == 0 {
		if err := explainEmpty(ctx, o.Log, o.Query); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// explainEmpty returns an error when a query finds nothing because it names something that the log does not have.
func explainEmpty(ctx context.Context, log logReader, q journal.EntryQuery) error {
	if q.Deployment > 0 {
		_, err := operation.GetDeployment.Call(ctx, log, operation.PathOf(service.Ref{Pipeline: q.Pipeline, Number: q.Deployment}))
		return err
	}
	p, err := operation.GetPipeline.Call(ctx, log, operation.PipelinePath{Pipeline: q.Pipeline})
	if err != nil || q.Target == "" {
		return err
	}
	nothing := fault.New(fault.NotFound, "nothing is recorded for %s", q.Target)
	if p.Definition != nil {
		if likely := likelyTarget(p.Definition, q.Target); likely != "" {
			return nothing.WithHint("waybill log %s --target %s", q.Pipeline, strings.TrimPrefix(likely, q.Pipeline+"/"))
		}
	}
	return nothing.WithHint("waybill log %s", q.Pipeline)
}

// likelyTarget returns the stage, group or host that a person meant by a target: one that ends with it, such as the name of a
// host alone, else the nearest spelling; "" when there is neither.
func likelyTarget(d *pipeline.Definition, target string) string {
	var all []string
	for _, stage := range d.Stages {
		all = append(all, pipeline.Path(d.Pipeline, stage.Name))
		for _, group := range stage.Groups {
			all = append(all, pipeline.Path(d.Pipeline, stage.Name, group.Name))
			for _, host := range group.Hosts {
				all = append(all, pipeline.Path(d.Pipeline, stage.Name, group.Name, host.Name))
			}
		}
	}
	end := strings.TrimPrefix(target, d.Pipeline)
	for _, known := range all {
		if known != target && strings.HasSuffix(known, end) {
			return known
		}
	}
	return fault.Nearest(target, all)
}
