package build

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

func buildSearchCommand(a *cmdline.App) *cobra.Command {
	var o buildSearchOptions
	var since, until string
	c := &cobra.Command{
		Use:   "search TEXT [BUILD]",
		Short: "Search the logs of builds of a server, newest first",
		Long: `Prints the lines that contain a text, of one build or of all builds of a project or a
time. Upper and lower case are alike. Nothing is indexed: the logs are read, the newest
first, so narrow the search down.`,
		Example: cmdline.Examples(
			"waybill build search panic 41 --server https://waybill.example.org",
			"waybill build search 'connection refused' --project shop --since 24h",
		),
		Args:              cmdline.Arguments(1, 2, "TEXT", "BUILD"),
		ValidArgsFunction: completeBuilds(a),
		RunE: func(c *cobra.Command, given []string) (err error) {
			now := time.Now()
			if o.Query.Since, err = cmdline.ReadPast("--since", since, now); err != nil {
				return err
			}
			if o.Query.Until, err = cmdline.ReadPast("--until", until, now); err != nil {
				return err
			}
			o.Query.Text, o.Build, o.Out, o.Bytes = given[0], cmdline.Optional(given, 1), a.Printer(), show.Ungated(a.Out)
			if a.Flags.Server == "" {
				return fault.New(fault.Invalid, "the logs of a server's builds are searched").
					WithHint("add --server ADDRESS; here: waybill build log BUILD | grep TEXT")
			}
			return runBuildSearch(c.Context(), buildClient(a, a.Flags.Server), o)
		},
	}
	c.Flags().StringVar(&o.Query.Project, "project", "", "search all builds of this project or pipeline")
	c.Flags().StringVar(&since, "since", "", "search builds since this time (RFC 3339), or at most this long ago, such as 24h")
	c.Flags().StringVar(&until, "until", "", "search builds before this time (RFC 3339), or longer ago, such as 24h")
	c.Flags().IntVar(&o.Query.Limit, "limit", 100, "end after so many lines; 0: none")
	return c
}

type buildSearchOptions struct {
	Build string
	Query operation.SearchLogsInput
	Out   show.Printer
	Bytes io.Writer
}

// stepNamer names the steps of builds.
type stepNamer struct {
	from  operation.Caller
	build string // the last one; a search gives those of a build one after another
	plan  *build.Plan
}

// name returns stage/step, or the step's number if the build cannot be read any more.
func (n *stepNamer) name(ctx context.Context, id string, step int) string {
	if n.build != id {
		n.build, n.plan = id, nil
		if view, err := operation.GetBuild.Call(ctx, n.from, operation.BuildPath{ID: id}); err == nil {
			n.plan = view.Plan
		}
	}
	if n.plan == nil {
		return strconv.Itoa(step)
	}
	return show.StepPath(n.plan, step)
}

// runBuildSearch prints each entry that is found as it is found: build, step, number of the line, text.
func runBuildSearch(ctx context.Context, s operation.Caller, o buildSearchOptions) error {
	in := o.Query
	all := in.Project != "" || !in.Since.IsZero() || !in.Until.IsZero()
	switch {
	case o.Build != "" && all:
		return fault.New(fault.Invalid, "--project, --since and --until select builds, and build %s is named", o.Build)
	case o.Build == "" && in.Project == "" && in.Since.IsZero():
		return fault.New(fault.Invalid, "a search needs a build, --project or --since: it reads every log that is selected")
	case in.Limit < 0:
		return fault.New(fault.Invalid, "--limit %d: want 0 or more", in.Limit)
	}
	found, steps := 0, stepNamer{from: s}
	each := func(e buildview.LogEntry) error {
		found++
		if o.Out.JSON {
			return o.Out.Line(e)
		}
		step := build.Printable(steps.name(ctx, e.BuildID, e.StepID), nil)
		_, err := fmt.Fprintf(o.Bytes, "%s %s:%d %s\n", build.Printable(e.BuildID, nil), step, e.ID, build.VisibleText([]byte(e.Message)))
		return err
	}
	var err error
	if o.Build != "" {
		err = operation.EachBuildMatch(ctx, s,
			operation.SearchBuildInput{BuildPath: operation.BuildPath{ID: o.Build}, LogSearch: in.LogSearch}, each)
	} else {
		err = operation.EachMatch(ctx, s, in, each)
	}
	if err == nil && found == 0 && !o.Out.JSON {
		return o.Out.Lines("not found")
	}
	return err
}
