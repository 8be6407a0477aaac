// Package ship has the commands that take a folder's revision through its pipeline: waybill ship and waybill plan.
package ship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/deployment"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/workspace"
)

const shipHelp = `Registers the revision in this folder (or DIR) and takes it through the pipeline of
its waybill.yaml, here and now, on the log in its home. Run it again: it resumes
where it was, or says that there is nothing to do. Kill it at any moment.

A revision is named after the last commit that touched the folder. Uncommitted changes
add a digest: 3f2c9a1+5d81e0. What is shipped is this state of the tracked and
unignored files, stored before anything is built.

A changed waybill.yaml is applied first. When that skips or loses work of deployments
inside, ship asks; without a terminal it stops with status 4 unless --yes says so.

When there is nothing to do for this revision, ship works on the pipeline's newest active
deployment, such as one of waybill deployment create.

Ctrl-C, SIGTERM and a closed terminal hand running attempts back and leave the deployment active,
with status 130. So does --timeout, with status 124: a deployment that waits for an approval or a
window may wait for days. --detach waits for nothing. Where another process holds the log, and with
--store or --server, ship registers and watches.`

// shipFlags are the flags of `waybill ship`.
type shipFlags struct {
	yes, again, older, detach bool
	until                     string        // the stage to stop behind; "": none
	timeout                   time.Duration // 0: none
}

func Command(a *cmdline.App) *cobra.Command {
	var flags shipFlags
	c := &cobra.Command{
		Use:   "ship [DIR]",
		Short: "Take this folder's revision through its pipeline",
		Long:  shipHelp,
		Example: cmdline.Examples("waybill ship", "waybill ship examples/hello", "waybill ship --yes -o json | jq .event",
			"waybill ship --again   # the same revision once more", "waybill ship --until beta",
			"waybill ship --timeout 30m   # in CI"),
		Args: cmdline.Arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, arguments []string) error {
			ctx, stop := lifecycle.UntilHangup(c.Context())
			defer stop()
			return cmdline.Within(ctx, flags.timeout, func(ctx context.Context) error { return ship(ctx, a, arguments, flags) })
		},
	}
	c.Flags().BoolVar(&flags.yes, "yes", false, "apply an edit of the pipeline although it skips or loses work inside")
	c.Flags().BoolVar(&flags.again, "again", false, "deploy a revision once more that has ended")
	c.Flags().BoolVar(&flags.older, "older", false, "ship an ancestor of a revision that was registered")
	c.Flags().StringVar(&flags.until, "until", "", "go no further than this `STAGE`; a later ship resumes")
	cmdline.OfferFrom(c, completeStages(a), "until")
	cmdline.AddTimeout(c, &flags.timeout, cmdline.LeaveDeployment)
	cmdline.AddDials(a, c)
	c.Flags().BoolVar(&flags.detach, "detach", false, "register only; processes that run roles do the work")
	return c
}

// ship checks everything that can be wrong before it writes anything, then fills the options of runShip.
func ship(ctx context.Context, a *cmdline.App, arguments []string, flags shipFlags) error {
	p, err := a.Project(arguments)
	if err != nil {
		return err
	}
	if err := checkUntil(p.Definition, flags.until); err != nil {
		return err
	}
	if err := a.CheckBuilds(ctx, p); err != nil {
		return err
	}
	if err := cmdline.CheckHostKeys(a, p, flags.until); err != nil {
		return err
	}
	tree, err := p.Tree(ctx, a.HomeOf(p.Dir))
	if err != nil {
		return err
	}
	head, err := git.Open(p.Dir).Head(ctx)
	if err != nil {
		return err
	}
	s, err := a.Open(ctx, p.Dir, assembly.Create)
	if err != nil {
		return err
	}
	defer s.Close()
	a.WarnPrivateBlobs(s.PrivateBlobs())
	a.PrintProblems(a.SecretWarnings(ctx, p))
	a.PrintNotes(tree.Notes)
	o := shipOptions{
		Log: s, Flags: flags, Pipeline: p.Definition.Pipeline, Proposal: p.Proposal(a.User()), By: a.User(),
		Warn:  func() { a.PrintProblems(p.Warnings) },
		Label: tree.Label, Branch: head.Branch, Commit: tree.Commit, Precedes: git.Open(p.Dir).Precedes,
		Pack: func(ctx context.Context, w io.Writer) error {
			if _, _, err := workspace.Pack(ctx, w, p.Dir, tree.Files); err != nil {
				return err
			}
			return p.Unchanged(ctx, s.Home, tree.Label)
		},
		Idle: s.IsIdle, Ask: a.Confirm, Retry: deployment.OfferRetry(a, s), Out: a.Printer(), Now: time.Now,
	}
	if s.Kind == assembly.Embedded {
		o.Worker = &sessionWorker{session: s}
	}
	return runShip(ctx, o)
}

type shipOptions struct {
	Log    cmdline.EntryReader
	Worker logWorker // nil: other processes do the work

	Flags    shipFlags
	Pipeline string
	Proposal service.Proposal // the folder's definition
	By       string
	Warn     func() // prints the warnings of waybill.yaml
	Label    string // label of the folder's revision
	Branch   string // checked-out branch; "": none
	Commit   git.Commit
	Precedes func(ctx context.Context, older, newer string) bool // between commits
	Pack     func(context.Context, io.Writer) error              // writes the folder's files

	Idle  func(context.Context) bool
	Ask   cmdline.Asker
	Retry deployment.RetryOffer
	Out   show.Printer
	Now   func() time.Time
}

// shipment is one run of `waybill ship`.
type shipment struct {
	shipOptions
	resumed  bool                    // the deployment is that of another revision, which waits for a process that works on it
	works    bool                    // this process runs what the deployment needs
	idle     bool                    // no process did when the watching began
	promotes bool                    // the deployment has a stage with an environment
	undone   *service.DeploymentView // the deployment that a rollback undoes, once there is one
}

// runShip finds or makes the deployment, then does its work or watches it.
func runShip(ctx context.Context, o shipOptions) error {
	s := &shipment{shipOptions: o}
	d, err := s.deployment(ctx)
	if err != nil && cmdline.Interrupted(ctx) && !cmdline.TimedOut(ctx) {
		s.Out.Warn("waybill: %s; run waybill ship again", endedBy(ctx))
	}
	if err != nil || d == nil {
		return err
	}
	ref := show.RefOf(*d)
	if !s.resumed {
		if err := s.bound(ctx, ref); err != nil {
			return err
		}
	}
	if s.Flags.detach {
		return s.detached(ctx, ref)
	}
	for {
		v, err := s.drive(ctx, ref)
		if s.undone != nil {
			return errors.Join(s.rolledBack(ctx, v, err), show.RolledBack(*s.undone))
		}
		if err != nil {
			return s.reportInterrupted(ctx, ref, v, err)
		}
		again, err := deployment.Outcome(ctx, v, s.Out, s.Retry)
		if err != nil || !again {
			return err
		}
	}
}

// rolledBack reports how a rollback ended. err is that of driving it.
func (s *shipment) rolledBack(ctx context.Context, v service.DeploymentView, err error) error {
	if err != nil {
		return s.reportInterrupted(ctx, rollbackOf(*s.undone), v, err)
	}
	_, err = deployment.Outcome(ctx, v, s.Out, s.Retry)
	return err
}

// deployment returns the deployment to take further; nil when there is nothing to do.
func (s *shipment) deployment(ctx context.Context) (*journal.Deployment, error) {
	known, err := operation.GetRevision.Call(
		ctx,
		s.Log,
		operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: s.Pipeline}, Label: s.Label},
	)
	if fault.Is(err, fault.NotFound) {
		return s.register(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := s.applyAgain(ctx, known); err != nil {
		return nil, err
	}
	if err := s.storeAgain(ctx, known); err != nil {
		return nil, err
	}
	return s.resume(ctx, known)
}

// register applies the definition, stores the files, and makes the revision with its deployment.
func (s *shipment) register(ctx context.Context) (*journal.Deployment, error) {
	if err := s.refuseOlder(ctx); err != nil {
		return nil, err
	}
	if err := s.apply(ctx); err != nil {
		return nil, err
	}
	key, err := storeSnapshot(ctx, s.Log, labelPath(s.Pipeline, s.Label), s.Pack)
	if err != nil {
		return nil, err
	}
	registered, err := operation.RegisterRevision.Call(ctx, s.Log, operation.RevisionInput{
		PipelinePath: operation.PipelinePath{Pipeline: s.Pipeline},
		Body: operation.RevisionBody{Label: s.Label, Snapshot: key, Until: s.Flags.until,
			Branch: s.Branch, Commit: s.Commit.Hash, Subject: s.Commit.Subject, CommittedAt: s.Commit.At},
	})
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", s.Label, err)
	}
	return registered.Deployment, nil
}

func (s *shipment) apply(ctx context.Context) error {
	_, err := cmdline.ApplyEdit(ctx, cmdline.ApplyOptions{Edits: s.Log, Proposal: s.Proposal, Warn: s.Warn,
		Yes: s.Flags.yes, Ask: s.Ask, Out: s.Out})
	return err
}

// ancestryLimit is the number of the newest revisions that are compared.
const ancestryLimit = 50

// refuseOlder returns an error for a revision that was committed before a registered one, unless --older is set.
func (s *shipment) refuseOlder(ctx context.Context) error {
	if s.Flags.older || s.Commit.Hash == "" {
		return nil
	}
	known, err := operation.ListRevisions.Call(ctx, s.Log,
		operation.RevisionsInput{PipelinePath: operation.PipelinePath{Pipeline: s.Pipeline}, Limit: ancestryLimit})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	asked := map[string]bool{}
	for _, r := range known {
		if asked[r.Commit] {
			continue
		}
		asked[r.Commit] = true
		if s.Precedes(ctx, s.Commit.Hash, r.Commit) {
			return fault.New(fault.Refused, "%s is older than %s, which is registered in %s", s.Label, r.Label, r.Pipeline).
				WithHint("waybill ship --older, if the older one is what should run")
		}
	}
	return nil
}

// applyAgain applies the file of the newest revision when it differs from the definition in force: git may ignore the
// file, so the label need not change with it. The file of an older revision is history and changes nothing.
func (s *shipment) applyAgain(ctx context.Context, known pipeline.RegisteredRevision) error {
	if newest, err := isNewest(ctx, s.Log, known); err != nil || !newest {
		return err
	}
	return s.apply(ctx)
}

// storeAgain stores the files of a registered revision when the blob store does not have them, as when the revision was
// shipped into another store.
func (s *shipment) storeAgain(ctx context.Context, known pipeline.RegisteredRevision) error {
	at := labelPath(known.Pipeline, known.Label)
	view, err := operation.GetSnapshot.Call(ctx, s.Log, at)
	if err != nil || view.Stored || view.Key == "" {
		return err
	}
	if _, err = storeSnapshot(ctx, s.Log, at, s.Pack); err != nil {
		return err
	}
	s.Out.Note("stored the files of %s again: the blob store did not have them", known.Label)
	return nil
}

// resume takes a registered revision further, as nextStep decides.
func (s *shipment) resume(ctx context.Context, r pipeline.RegisteredRevision) (*journal.Deployment, error) {
	next, err := decideNext(ctx, s.Log, r, s.Flags)
	switch {
	case err != nil:
		return nil, err
	case next.refused != nil:
		return nil, next.refused
	case next.todo == show.TodoShip:
		return s.deployAgain(ctx, r)
	case next.todo == show.TodoNothing:
		return s.nothingToDo(ctx, r, next)
	}
	s.resumed = next.deployment.Revision != r.Seq
	return next.deployment, s.inProgress(ctx, *next.deployment)
}

// inProgress prints how far a deployment is that an earlier command left active.
func (s *shipment) inProgress(ctx context.Context, d journal.Deployment) error {
	v, err := operation.GetDeployment.Call(ctx, s.Log, operation.PathOf(show.RefOf(d)))
	if err != nil || v.State.Status != pipeline.StatusActive {
		return err
	}
	s.Out.Note("%s", show.InProgress(v))
	return nil
}

// nothingToDo prints that a revision has finished. When hosts differ from that, it offers to deploy again.
func (s *shipment) nothingToDo(ctx context.Context, r pipeline.RegisteredRevision, next nextStep) (*journal.Deployment, error) {
	d := *next.deployment
	if s.Out.JSON {
		if err := s.Out.Line(d); err != nil {
			return nil, err
		}
	}
	s.Out.Note("nothing to do: %s finished as %s, %s", d.Label, show.RefOf(d), show.Ago(s.Now(), d.EndedAt))
	for _, text := range next.differs {
		s.Out.Note("but %s", text)
	}
	if len(next.differs) > 0 && !s.Out.JSON && !s.Flags.detach && s.Ask(ctx, "deploy it again now?") {
		return s.deployAgain(ctx, r)
	}
	return nil, nil
}

// deployAgain makes one more deployment of a registered revision.
func (s *shipment) deployAgain(ctx context.Context, r pipeline.RegisteredRevision) (*journal.Deployment, error) {
	made, err := operation.CreateDeployment.Call(ctx, s.Log, operation.DeployInput{
		PipelinePath: operation.PipelinePath{Pipeline: r.Pipeline},
		Body:         operation.DeployBody{Revision: r.Label, Until: s.Flags.until},
	})
	if err != nil {
		return nil, fmt.Errorf("deploy %s again: %w", r.Label, err)
	}
	return &made.Deployment, nil
}

// detached prints the deployment that other processes work on.
func (s *shipment) detached(ctx context.Context, ref service.Ref) error {
	if s.Out.JSON {
		v, err := operation.GetDeployment.Call(ctx, s.Log, operation.PathOf(ref))
		if err != nil {
			return err
		}
		return s.Out.Line(v.Deployment)
	}
	if err := s.Out.Lines(fmt.Sprintf("%s  revision %s  registered", ref, s.Label)); err != nil {
		return err
	}
	cmdline.WarnIfIdle(ctx, s.Out, s.Idle)
	return nil
}

// reportInterrupted prints the further course of a deployment after a signal ended ship, or returns the error of
// --timeout.
func (s *shipment) reportInterrupted(ctx context.Context, ref service.Ref, v service.DeploymentView, err error) error {
	switch {
	case !cmdline.Interrupted(ctx):
	case cmdline.TimedOut(ctx):
		return show.Late(v, context.Cause(ctx), "waybill ship")
	case v.State.Held != "":
		s.Out.Warn("waybill: %s; %s stays active and held %s: %s", endedBy(ctx), ref, v.State.Held, v.State.Resume)
	case s.works:
		s.Out.Warn("waybill: %s; %s stays active, and what ran here was handed back: waybill ship resumes it", endedBy(ctx), ref)
	case s.idle:
		s.Out.Warn("waybill: %s; %s stays active until a process works on the log: %s", endedBy(ctx), ref, startWorking)
	default:
		s.Out.Warn("waybill: %s; the processes that work on the log continue %s: waybill deployment watch %s", endedBy(ctx), ref, ref)
	}
	return err
}

// endedBy returns the signal that ended a context.
func endedBy(ctx context.Context) string {
	cause := context.Cause(ctx)
	if errors.Is(cause, lifecycle.ErrTerminated) {
		return lifecycle.ErrTerminated.Error()
	}
	return cause.Error()
}

// completeStages offers the stages of the folder that is shipped.
func completeStages(a *cmdline.App) cmdline.Completer {
	return func(_ *cobra.Command, given []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		p, err := a.Project(given)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, stage := range p.Definition.Stages {
			names = append(names, stage.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
