package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/server"
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

Ctrl-C, SIGTERM and a closed terminal hand running attempts back and leave the deployment
active, with status 130. Where another process holds the log, and with --store or --server,
ship registers and watches.`

// shipFlags are what `waybill ship` may be told.
type shipFlags struct {
	yes, again, older, detach bool
	until                     string // the stage to stop behind; "": none
}

func (a *app) shipCommand() *cobra.Command {
	var flags shipFlags
	c := &cobra.Command{
		Use:   "ship [DIR]",
		Short: "Take this folder's revision through its pipeline",
		Long:  shipHelp,
		Example: examples("waybill ship", "waybill ship examples/hello", "waybill ship --yes -o json | jq .event",
			"waybill ship --again   # the same revision once more", "waybill ship --until beta"),
		Args: arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, arguments []string) error {
			ctx, stop := lifecycle.UntilHangup(c.Context())
			defer stop()
			return a.ship(ctx, arguments, flags)
		},
	}
	c.Flags().BoolVar(&flags.yes, "yes", false, "apply an edit of the pipeline although it skips or loses work inside")
	c.Flags().BoolVar(&flags.again, "again", false, "deploy a revision once more that has ended")
	c.Flags().BoolVar(&flags.older, "older", false, "ship an ancestor of a revision that was registered")
	c.Flags().StringVar(&flags.until, "until", "", "go no further than this `STAGE`; a later ship resumes")
	c.Flags().BoolVar(&flags.detach, "detach", false, "register only; processes that run roles do the work")
	return c
}

// shipment is one run of `waybill ship`.
type shipment struct {
	*app
	*assembly.Session
	flags   shipFlags
	project project
	tree    git.Tree
	resumed bool // the deployment is one of another revision, which waits for a process that works on it
	works   bool // this process runs what the deployment needs
}

// ship reads everything that can be wrong before it writes anything.
func (a *app) ship(ctx context.Context, arguments []string, flags shipFlags) error {
	p, err := a.project(arguments)
	if err != nil {
		return err
	}
	if err := checkUntil(p.definition, flags.until); err != nil {
		return err
	}
	if err := a.checkBuilds(ctx, p); err != nil {
		return err
	}
	s, err := a.Open(ctx, p.dir, assembly.Create)
	if err != nil {
		return err
	}
	defer s.Close()
	a.warnPrivateBlobs(s)
	a.printProblems(a.secretWarnings(ctx, p))
	tree, err := p.tree(ctx, s.Home)
	if err != nil {
		return err
	}
	return (&shipment{app: a, Session: s, flags: flags, project: p, tree: tree}).run(ctx)
}

// run finds or makes the deployment, then does its work or watches it.
func (s *shipment) run(ctx context.Context) error {
	d, err := s.deployment(ctx)
	if err != nil && interrupted(ctx) {
		fmt.Fprintf(s.err, "waybill: %s; run waybill ship again\n", endedBy(ctx))
	}
	if err != nil || d == nil {
		return err
	}
	ref := server.Ref{Pipeline: d.Pipeline, Number: d.Number}
	if !s.resumed {
		if err := s.bound(ctx, ref); err != nil {
			return err
		}
	}
	if s.flags.detach {
		return s.detached(ctx, ref)
	}
	for {
		v, err := s.drive(ctx, ref)
		if err != nil {
			return s.reportInterrupted(ctx, ref, v, err)
		}
		again, err := s.outcome(ctx, v)
		if err != nil || !again {
			return err
		}
	}
}

// deployment is the one to take further; nil when there is nothing to do.
func (s *shipment) deployment(ctx context.Context) (*ledger.Deployment, error) {
	known, err := s.Revision(ctx, s.project.definition.Pipeline, s.tree.Label)
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

// storeAgain stores the files of a registered revision when the blob store does not have them, as when the revision was
// shipped into another store.
func (s *shipment) storeAgain(ctx context.Context, known ledger.Revision) error {
	view, err := s.Snapshot(ctx, known.Pipeline, known.Label)
	if err != nil || view.Stored || view.Key == "" {
		return err
	}
	if _, err = s.snapshot(ctx, known.Pipeline, known.Label); err != nil {
		return err
	}
	s.printer().Note("stored the files of %s again: the blob store did not have them", known.Label)
	return nil
}

// register applies the definition, stores the files, and makes the revision with its deployment.
func (s *shipment) register(ctx context.Context) (*ledger.Deployment, error) {
	name, label := s.project.definition.Pipeline, s.tree.Label
	if err := s.refuseOlder(ctx); err != nil {
		return nil, err
	}
	if err := s.apply(ctx, s.Session, s.project, s.flags.yes); err != nil {
		return nil, err
	}
	key, err := s.snapshot(ctx, name, label)
	if err != nil {
		return nil, err
	}
	registered, err := s.Register(ctx, ledger.Revision{
		Pipeline: name, Label: label, Snapshot: key, By: s.User(),
		Commit: s.tree.Commit.Hash, Subject: s.tree.Commit.Subject, CommittedAt: s.tree.Commit.At,
	}, true, s.flags.until)
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", label, err)
	}
	return registered.Deployment, nil
}

// refuseOlder stops a revision that was committed before one that is registered, unless somebody insists.
func (s *shipment) refuseOlder(ctx context.Context) error {
	if s.flags.older || s.tree.Commit.Hash == "" {
		return nil
	}
	known, err := s.Revisions(ctx, s.project.definition.Pipeline, ancestryLimit)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	repository, asked := git.Open(s.project.dir), map[string]bool{}
	for _, r := range known {
		if asked[r.Commit] {
			continue
		}
		asked[r.Commit] = true
		if repository.Precedes(ctx, s.tree.Commit.Hash, r.Commit) {
			return fault.New(fault.Refused, "%s is older than %s, which is registered in %s", s.tree.Label, r.Label, r.Pipeline).
				WithHint("waybill ship --older, if the older one is what should run")
		}
	}
	return nil
}

// ancestryLimit is how many of the newest revisions are compared.
const ancestryLimit = 50

// applyAgain applies the file of the newest revision when it differs from what is in force: it may be one that git
// ignores. The file of an older revision is history and changes nothing.
func (s *shipment) applyAgain(ctx context.Context, known ledger.Revision) error {
	if newest, err := isNewest(ctx, s.Session, known); err != nil || !newest {
		return err
	}
	return s.apply(ctx, s.Session, s.project, s.flags.yes)
}

// resume takes a registered revision further, as nextStep decides.
func (s *shipment) resume(ctx context.Context, r ledger.Revision) (*ledger.Deployment, error) {
	next, err := s.nextStep(ctx, s.Session, r, s.flags)
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

// once makes one more deployment of a registered revision.
func (s *shipment) deployAgain(ctx context.Context, r ledger.Revision) (*ledger.Deployment, error) {
	d, err := s.Deploy(ctx, server.NewDeployment{Pipeline: r.Pipeline, Revision: r.Label, Until: s.flags.until, By: s.User()})
	if err != nil {
		return nil, fmt.Errorf("deploy %s again: %w", r.Label, err)
	}
	return &d, nil
}

// left prints what becomes of a deployment whose ship ended before it did.
func (s *shipment) reportInterrupted(ctx context.Context, ref server.Ref, v server.DeploymentView, err error) error {
	if !interrupted(ctx) {
		return err
	}
	if v.State.Held != "" {
		fmt.Fprintf(s.err, "waybill: %s; %s stays active and held %s: %s\n", endedBy(ctx), ref, v.State.Held, v.State.Resume)
	} else if s.works {
		fmt.Fprintf(s.err, "waybill: %s; %s stays active, and what ran here was handed back: waybill ship resumes it\n", endedBy(ctx), ref)
	} else {
		fmt.Fprintf(s.err, "waybill: %s; the processes that work on the log continue %s: waybill deployment watch %s\n", endedBy(ctx), ref, ref)
	}
	return err
}

// endedBy returns what ended a context, when a signal did.
func endedBy(ctx context.Context) string {
	cause := context.Cause(ctx)
	if errors.Is(cause, lifecycle.ErrTerminated) {
		return lifecycle.ErrTerminated.Error()
	}
	return cause.Error()
}
