package revision

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/operation"
)

func revisionArtifactCommand(a *cmdline.App) *cobra.Command {
	arch := ""
	c := &cobra.Command{
		Use:   "artifact PIPELINE LABEL --arch ARTIFACT FILE",
		Short: "Upload an artifact of a revision that another program builds",
		Long: `Uploads one artifact of a stage with build: external. --arch is its label there. The last one that
a stage expects lets its deployments continue. The same file may be uploaded again, such as after
a broken connection; another one under the same label is refused.`,
		Example: cmdline.Examples("waybill revision artifact greeter v1.4.2 --arch arm64 dist/greeter-arm64.tar.gz"),
		Args:    cmdline.Arguments(3, 3, "PIPELINE", "LABEL", "FILE"),
		ValidArgsFunction: cmdline.InTurn(cmdline.CompletePipelines(a), cmdline.CompleteRevisions(
			a), func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // files
		}),
		RunE: func(c *cobra.Command, arguments []string) error {
			if arch == "" {
				return cmdline.UsageFault(c, fault.New(fault.Invalid, "which artifact?").
					WithHint("--arch ARTIFACT, a label of artifacts in waybill.yaml"))
			}
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
				a.WarnPrivateBlobs(s.PrivateBlobs())
				return runPutArtifact(ctx, putArtifactOptions{
					Artifacts: s, Pipeline: arguments[0], Label: arguments[1], Artifact: arch, File: a.Path(arguments[2]), Out: a.Printer(),
				})
			})
		},
	}
	c.Flags().StringVar(&arch, "arch", "", "label of the artifact, usually an architecture (required)")
	cmdline.OfferFrom(c, completeArtifacts(a), "arch")
	return c
}

// completeArtifacts offers the artifacts that the pipeline in the first argument expects from outside.
func completeArtifacts(a *cmdline.App) cmdline.Completer {
	return cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		if len(given) == 0 {
			return nil, nil
		}
		return artifactLabels(ctx, s, given[0])
	})
}

func artifactLabels(ctx context.Context, log operation.Caller, name string) ([]string, error) {
	v, err := operation.GetVersion.Call(ctx, log, operation.VersionPath{PipelinePath: operation.PipelinePath{Pipeline: name}})
	var labels []string
	for _, a := range v.Definition.ExternalArtifacts() {
		labels = append(labels, a.Label)
	}
	return labels, err
}

type putArtifactOptions struct {
	Artifacts       operation.Caller
	Pipeline, Label string // names of the revision
	Artifact        string // its label
	File            string
	Out             show.Printer
}

// runPutArtifact uploads a file. Its digest goes ahead and is compared with the stored one, so neither a file that
// changes in the meantime nor a broken connection registers anything else.
func runPutArtifact(ctx context.Context, o putArtifactOptions) error {
	opened, size, err := openArtifact(o.File)
	if err != nil {
		return err
	}
	defer opened.Close()
	sum, reading := sha256.New(), show.NewMeter(o.Out, "reading "+o.Artifact, size, opened)
	_, err = io.Copy(sum, reading)
	reading.Close()
	if err != nil {
		return fault.New(fault.Unavailable, "read %s: %w", o.File, file.Plain(err))
	}
	if _, err := opened.Seek(0, io.SeekStart); err != nil {
		return fault.New(fault.Unavailable, "read %s: %w", o.File, file.Plain(err))
	}
	meter := show.NewMeter(o.Out, "uploading "+o.Artifact, size, opened)
	want := operation.ArtifactUpload{
		LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: o.Pipeline}, Label: o.Label},
		Artifact:  o.Artifact,
		Name:      filepath.Base(o.File),
		Digest:    hex.EncodeToString(sum.Sum(nil)),
		Content:   operation.Content{Reader: meter, Size: size},
	}
	stored, err := operation.PutArtifact.Call(ctx, o.Artifacts, want)
	meter.Close()
	if err != nil {
		return err
	}
	if stored.Digest != want.Digest {
		return fault.New(fault.Internal, "artifact %s was stored with SHA-256 %s, not %s", o.Artifact, stored.Digest, want.Digest)
	}
	return o.Out.Answer(stored, fmt.Sprintf("%s  revision %s  %s", o.Pipeline, o.Label, show.Artifact(stored)))
}

// openArtifact opens a file and returns its size in bytes.
func openArtifact(path string) (*os.File, int64, error) {
	f, info, err := file.Open(path)
	if errors.Is(err, file.ErrKind) {
		return nil, 0, fault.New(fault.Invalid, "%s is not a file", path)
	}
	if err != nil {
		return nil, 0, fault.New(fault.Invalid, "read %s: %w", path, file.Plain(err))
	}
	return f, info.Size(), nil
}
