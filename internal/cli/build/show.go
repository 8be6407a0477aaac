package build

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func buildShowCommand(a *cmdline.App) *cobra.Command {
	verbose := false
	c := &cobra.Command{
		Use:   "show BUILD",
		Short: "Show a build's steps, failed tests and artifacts",
		Example: cmdline.Examples("waybill build show 3",
			"waybill build show 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77.1 --server https://waybill.example.org"),
		Args:              cmdline.Arguments(1, 1, "BUILD"),
		ValidArgsFunction: completeBuilds(a),
		RunE: func(c *cobra.Command, given []string) error {
			o := showBuildOptions{Builds: shelfOf(a), Name: given[0], Verbose: verbose, Out: a.Printer(), Now: time.Now}
			if address := a.Flags.Server; address != "" {
				o.Server = buildClient(a, address)
			}
			return runShowBuild(c.Context(), o)
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print every status with its time and reason, and what steps wait for")
	return c
}

type showBuildOptions struct {
	Server operation.Caller // nil: the build is on this computer
	Builds buildShelf
	Name   string
	// Verbose prints every status too. JSON always has them.
	Verbose bool
	Out     show.Printer
	Now     func() time.Time
}

// runShowBuild prints one build.
func runShowBuild(ctx context.Context, o showBuildOptions) error {
	document, err := o.read(ctx)
	if err != nil {
		return err
	}
	lines := show.Build(document, o.Name, o.Out.Style, o.Now())
	if o.Verbose {
		lines = append(lines, show.BuildHistory(document, o.Now())...)
	}
	return o.Out.Answer(document, lines...)
}

// read reads the build with its tests by step.
func (o showBuildOptions) read(ctx context.Context) (d show.BuildDocument, err error) {
	var tests []build.TestFile
	if o.Server != nil {
		d, tests, err = o.readServer(ctx)
	} else {
		d, tests, err = o.readHere()
	}
	d.Artifacts, d.Tests = show.Items(d.Artifacts), map[int][]build.TestFile{}
	for _, f := range tests {
		d.Tests[f.Step] = append(d.Tests[f.Step], f)
	}
	return d, err
}

// readHere reads a build of this computer.
func (o showBuildOptions) readHere() (d show.BuildDocument, tests []build.TestFile, err error) {
	r, err := o.Builds.open(o.Name)
	if err != nil {
		return d, nil, err
	}
	if d.BuildSummary, err = summarize(r); err != nil {
		return d, nil, err
	}
	b, err := r.Build()
	if err != nil {
		return d, nil, err
	}
	d.Plan, d.Updates = b.Plan, map[int][]build.Update{}
	for id := range len(b.Plan.Steps) + 1 {
		if d.Updates[id], err = r.Updates(id); err != nil {
			return d, nil, err
		}
	}
	if d.Artifacts, err = r.Artifacts(); err != nil {
		return d, nil, err
	}
	tests, err = r.Tests()
	return d, tests, err
}

// readServer reads a build of a server.
func (o showBuildOptions) readServer(ctx context.Context) (d show.BuildDocument, tests []build.TestFile, err error) {
	path := operation.BuildPath{ID: o.Name}
	view, err := operation.GetBuild.Call(ctx, o.Server, path)
	if err != nil {
		return d, nil, err
	}
	d.BuildSummary, d.Plan, d.Updates = summaryFrom(view.Summary), view.Plan, map[int][]build.Update{}
	d.Updates[0] = view.Done[0]
	for i := range d.Plan.Steps { // those that have begun since are left out
		id := d.Plan.Steps[i].ID
		d.Updates[id] = view.Done[id]
	}
	if d.Artifacts, err = artifactsFrom(ctx, o.Server, path); err != nil {
		return d, nil, err
	}
	tests, err = testsFrom(ctx, o.Server, path)
	return d, tests, err
}
