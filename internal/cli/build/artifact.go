package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

func buildArtifactCommand(a *cmdline.App) *cobra.Command {
	to := ""
	c := &cobra.Command{
		Use:   "artifact BUILD [NAME|ID]",
		Short: "List what a build's steps made, or copy one of it",
		Long: `Lists the artifacts of a build. With the name or the id of one, copies it into a file of this
folder, or into --to. A file that is there already is not replaced, and the digest of the copy is
verified.`,
		Example: cmdline.Examples("waybill build artifact 3", "waybill build artifact 3 dist/shop.tar.gz",
			"waybill build artifact 3 7 --to - | tar tz"),
		Args:              cmdline.Arguments(1, 2, "BUILD", "NAME|ID"),
		ValidArgsFunction: cmdline.InTurn(completeBuilds(a), completeBuildArtifacts(a)),
		RunE: func(c *cobra.Command, given []string) error {
			o := buildArtifactOptions{Builds: shelfOf(a), Build: given[0], Artifact: cmdline.Optional(given, 1), To: to,
				Bytes: show.Ungated(a.Out), Out: a.Printer()}
			if to != "" && to != "-" {
				o.To = a.Path(to)
			}
			o.Path = a.Path
			if address := a.Flags.Server; address != "" {
				o.Server = buildClient(a, address)
			}
			return runBuildArtifact(c.Context(), o)
		},
	}
	c.Flags().StringVar(&to, "to", "", "file for the copy; -: standard output (default: the artifact's own name, in this folder)")
	return c
}

// artifactServer is a server that has artifacts of builds.
type artifactServer interface {
	operation.Caller
	OpenBuildArtifact(ctx context.Context, id string, artifact int) (io.ReadCloser, error)
}

type buildArtifactOptions struct {
	Server   artifactServer // nil: the builds of this computer
	Builds   buildShelf
	Build    string
	Artifact string // "": all are listed
	To       string // file, - or ""
	Path     func(string) string
	Bytes    io.Writer // output for the name -
	Out      show.Printer
}

// completeBuildArtifacts offers the names of the artifacts of the build in the first argument.
func completeBuildArtifacts(a *cmdline.App) cmdline.Completer {
	return func(_ *cobra.Command, given []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if r, err := shelfOf(a).open(given[0]); err == nil {
			all, _ := r.Artifacts() // without results, no names
			for _, artifact := range all {
				names = append(names, artifact.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// madeArtifacts are the artifacts of a build's steps.
type madeArtifacts struct {
	build string // its id
	plan  *build.Plan
	all   []build.Artifact
	open  func(build.Artifact) (io.ReadCloser, error)
}

// made reads the artifacts of the build, here or from the server.
func (o buildArtifactOptions) made(ctx context.Context) (m madeArtifacts, err error) {
	if o.Server != nil {
		path := operation.BuildPath{ID: o.Build}
		view, err := operation.GetBuild.Call(ctx, o.Server, path)
		if err != nil {
			return m, err
		}
		m = madeArtifacts{build: view.ID, plan: view.Plan, open: func(a build.Artifact) (io.ReadCloser, error) {
			return o.Server.OpenBuildArtifact(ctx, view.ID, a.ID)
		}}
		m.all, err = artifactsFrom(ctx, o.Server, path)
		return m, err
	}
	r, err := o.Builds.open(o.Build)
	if err != nil {
		return m, err
	}
	b, err := r.Build()
	if err != nil {
		return m, err
	}
	m = madeArtifacts{build: b.ID, plan: b.Plan, open: func(a build.Artifact) (io.ReadCloser, error) {
		content, err := r.OpenArtifact(a)
		if err != nil {
			return nil, fault.New(fault.NotFound, "artifact %s of build %s: %w", a.Name, b.ID, err)
		}
		return content, nil
	}}
	m.all, err = r.Artifacts()
	return m, err
}

// runBuildArtifact lists the artifacts of a build, or copies one.
func runBuildArtifact(ctx context.Context, o buildArtifactOptions) error {
	made, err := o.made(ctx)
	if err != nil {
		return err
	}
	if o.Artifact == "" {
		if o.To != "" {
			return fault.New(fault.Invalid, "--to is for one artifact").WithHint("waybill build artifact %s   # lists them", fault.Quote(o.Build))
		}
		return o.Out.Answer(show.Items(made.all), show.BuildArtifacts(made.plan, made.all)...)
	}
	artifact, err := findArtifact(made.plan, made.all, o.Artifact)
	if err != nil {
		return err
	}
	in, err := made.open(artifact)
	if err != nil {
		return err
	}
	defer in.Close()
	if o.To == "-" {
		return copyArtifact(o.Bytes, in, artifact)
	}
	if o.To == "" {
		o.To = o.Path(build.FileNameOf(artifact.Name))
	}
	if err := saveArtifact(o.To, in, artifact); err != nil {
		return err
	}
	return o.Out.Answer(artifact, fmt.Sprintf("%s: %s", o.To, show.ArtifactText(artifact.Size, artifact.SHA256)))
}

// findArtifact finds an artifact by its id or its name. Several steps may have one of the same name.
func findArtifact(p *build.Plan, all []build.Artifact, name string) (build.Artifact, error) {
	var found []build.Artifact
	var names []string
	for _, artifact := range all {
		if strconv.Itoa(artifact.ID) == name {
			return artifact, nil
		}
		if artifact.Name == name {
			found = append(found, artifact)
		}
		names = append(names, artifact.Name)
	}
	switch len(found) {
	case 0:
		return build.Artifact{}, fault.New(fault.NotFound, "the build has no artifact %q; %s", name, listedNames(names)).WithNearest(name, names)
	case 1:
		return found[0], nil
	}
	which := ""
	for _, artifact := range found {
		which += fmt.Sprintf(" %d (%s)", artifact.ID, show.StepPath(p, artifact.Step))
	}
	return build.Artifact{}, fault.New(fault.Invalid, "several artifacts are named %s: name one by its id:%s", name, which)
}

// mostNames bounds the names that an error lists.
const mostNames = 20

// listedNames reports which names there are: it has a, b and 3 more.
func listedNames(names []string) string {
	if len(names) == 0 {
		return "it has none"
	}
	shown := names[:min(len(names), mostNames)]
	text := "it has " + strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// saveArtifact writes a file that is not there yet; one that cannot be written whole does not stay.
func saveArtifact(path string, in io.Reader, artifact build.Artifact) error {
	mode := fs.FileMode(0o644)
	if artifact.Executable {
		mode = 0o755
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Refused, "%s is there already", path).WithHint("name another file with --to")
	}
	if err != nil {
		return fault.New(fault.Invalid, "write the artifact: %w", err)
	}
	if err := errors.Join(copyArtifact(f, in, artifact), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// copyArtifact copies the bytes of an artifact. It returns an error if they are not those that the build kept.
func copyArtifact(w io.Writer, in io.Reader, artifact build.Artifact) error {
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), in); err != nil {
		return fault.New(fault.Unavailable, "copy artifact %s: %w", filepath.Base(artifact.Name), err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != artifact.SHA256 {
		return fault.New(fault.Corrupt, "artifact %s has changed since the build: its SHA-256 is %s, want %s", artifact.Name,
			got, artifact.SHA256)
	}
	return nil
}
