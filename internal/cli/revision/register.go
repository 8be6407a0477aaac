package revision

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func revisionRegisterCommand(a *cmdline.App) *cobra.Command {
	commit, noDeploy := "", false
	c := &cobra.Command{
		Use:   "register PIPELINE LABEL",
		Short: "Register a revision that another program builds",
		Long: `Registers a revision of a pipeline whose artifacts come from outside (build: external), and
makes its forward deployment, which waits for the artifacts: waybill revision artifact. The same
label may be registered again. Revisions that Waybill builds are registered by waybill ship.`,
		Example: cmdline.Examples("waybill revision register greeter v1.4.2 --commit 3f2c9a1",
			"waybill revision artifact greeter v1.4.2 --arch arm64 dist/greeter-arm64.tar.gz"),
		Args:              cmdline.Arguments(2, 2, "PIPELINE", "LABEL"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: func(c *cobra.Command, arguments []string) error {
			deploy := !noDeploy
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
				a.WarnPrivateBlobs(s.PrivateBlobs())
				return runRegisterRevision(ctx, registerRevisionOptions{
					Log: s, Idle: s.IsIdle, Out: a.Printer(),
					Revision: operation.RevisionInput{
						PipelinePath: operation.PipelinePath{Pipeline: arguments[0]},
						Body:         operation.RevisionBody{Label: arguments[1], Commit: commit, Deploy: &deploy},
					},
				})
			})
		},
	}
	c.Flags().StringVar(&commit, "commit", "", "hash of its commit")
	c.Flags().BoolVar(&noDeploy, "no-deploy", false, "make no deployment; waybill deployment create does later")
	return c
}

type registerRevisionOptions struct {
	Log      operation.Caller
	Revision operation.RevisionInput
	Idle     func(context.Context) bool
	Out      show.Printer
}

// runRegisterRevision registers a revision without files, whose artifacts all come from outside.
func runRegisterRevision(ctx context.Context, o registerRevisionOptions) error {
	version, err := operation.GetVersion.Call(ctx, o.Log, operation.VersionPath{PipelinePath: o.Revision.PipelinePath})
	if err != nil {
		return err
	}
	for _, stage := range version.Definition.Stages {
		if stage.Build != nil && !stage.Build.External {
			return fault.New(fault.Refused, "stage %q of %s builds from a revision's files, which waybill ship registers",
				stage.Name, o.Revision.Pipeline).
				WithHint("waybill ship; or build: external, if another program builds")
		}
	}
	done, err := operation.RegisterRevision.Call(ctx, o.Log, o.Revision)
	if err != nil {
		return err
	}
	if err := o.Out.Answer(done, registeredText(done, version.Definition.ExternalArtifacts())); err != nil {
		return err
	}
	if !o.Out.JSON && done.Deployment != nil {
		cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
	}
	return nil
}

// registeredText returns a revision with its deployment and with the artifacts that it lacks.
func registeredText(done journal.Registered, expected []pipeline.Artifact) string {
	text := "revision " + done.Revision.Label
	if done.Deployment != nil {
		text = fmt.Sprintf("%s  %s", show.RefOf(*done.Deployment), text)
	}
	if !done.Created {
		text += "  registered already"
	}
	if lacks := lacking(done.Revision, expected); len(lacks) > 0 {
		text += "  waits for artifact " + strings.Join(lacks, ", ")
	}
	return text
}

// lacking returns the labels of the expected artifacts that a revision does not have.
func lacking(r pipeline.RegisteredRevision, expected []pipeline.Artifact) (labels []string) {
	has := map[string]bool{}
	for _, a := range r.Artifacts {
		has[a.Label] = true
	}
	for _, a := range expected {
		if !has[a.Label] {
			labels = append(labels, a.Label)
		}
	}
	return labels
}
