package build

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

func buildListCommand(a *cmdline.App) *cobra.Command {
	var in operation.BuildsInput
	var since, until string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the builds that this computer has results of, or a server, newest first",
		Example: cmdline.Examples("waybill build list", "waybill build list --server https://waybill.example.org",
			"waybill build list --server https://waybill.example.org --status Failed --project shop --since 24h"),
		Args: cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			now := time.Now()
			if in.Since, err = cmdline.ReadPast("--since", since, now); err != nil {
				return err
			}
			if in.Until, err = cmdline.ReadPast("--until", until, now); err != nil {
				return err
			}
			o := listBuildsOptions{Builds: shelfOf(a), Query: in, Shorten: a.Shorten, Out: a.Printer(), Now: time.Now}
			if address := a.Flags.Server; address != "" {
				o.Server, o.Shorten = buildClient(a, address), func(path string) string { return path }
			}
			return runListBuilds(c.Context(), o)
		},
	}
	const of = "with --server: only builds "
	for _, flag := range []struct {
		into        *string
		name, usage string
	}{
		{&in.Status, "status",
			"with this status: Scheduling, Running, Completed, Failed, Canceled, TimedOut, Lost or Skipped"},
		{&in.Project, "project", "of this project or pipeline"},
		{&in.Branch, "branch", "of this branch"}, {&in.Commit, "commit", "of commits that begin so"},
		{&in.Environment, "environment", "for this environment"},
		{&in.Stage, "stage", "with this stage"}, {&since, "since", "since this time (RFC 3339), or at most this long ago, such as 10m"},
		{&until, "until", "before this time (RFC 3339), or longer ago, such as 10m"},
		{&in.Value, "input", "with this input (NAME=VALUE), or with an input that has this in its value"},
		{&in.Artifact, "artifact", "with this in the name of an artifact"}, {&in.Test, "test", "with this in the name of a test"},
		{&in.Search, "search", "with this in any of these, or in the reason"},
	} {
		c.Flags().StringVar(flag.into, flag.name, "", of+flag.usage)
	}
	c.Flags().IntVar(&in.Limit, "limit", 0, "with --server: at most so many; 0: all")
	return c
}

type listBuildsOptions struct {
	Server  operation.Caller // nil: the builds of this computer
	Query   operation.BuildsInput
	Builds  buildShelf
	Shorten func(string) string
	Out     show.Printer
	Now     func() time.Time
}

// runListBuilds prints every build of this computer, or of a server.
func runListBuilds(ctx context.Context, o listBuildsOptions) error {
	var all []show.BuildSummary
	switch {
	case o.Server == nil && o.Query != operation.BuildsInput{}:
		return fault.New(fault.Invalid, "filters select builds of a server").WithHint("add --server ADDRESS")
	case o.Server == nil:
		all = o.Builds.summaries()
	default:
		found, err := operation.AllBuilds(ctx, o.Server, o.Query)
		if err != nil {
			return err
		}
		for _, s := range found {
			all = append(all, summaryFrom(s))
		}
	}
	if len(all) == 0 {
		none := "no builds yet"
		if o.Query != (operation.BuildsInput{}) {
			none = "no build fits"
		}
		return o.Out.Answer(show.Items(all), none)
	}
	return o.Out.Answer(all, show.Builds(all, o.Shorten, o.Now())...)
}
