package build

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

func buildListCommand(a *cmdline.App) *cobra.Command {
	var q buildview.Query
	var since, until string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the builds that this computer has results of, or a server, newest first",
		Example: cmdline.Examples("waybill build list", "waybill build list --server https://waybill.example.org",
			"waybill build list --server https://waybill.example.org --status Failed --project shop --since 24h"),
		Args: cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			now := time.Now()
			if q.Since, err = cmdline.ReadPast("--since", since, now); err != nil {
				return err
			}
			if q.Until, err = cmdline.ReadPast("--until", until, now); err != nil {
				return err
			}
			o := listBuildsOptions{Builds: shelfOf(a), Query: q, Shorten: a.Shorten, Out: a.Printer(), Now: time.Now}
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
		{(*string)(&q.Status), "status",
			"with this status: Scheduling, Running, Completed, Failed, Canceled, TimedOut, Lost or Skipped"},
		{&q.Pipeline, "project", "of this project or pipeline"},
		{&q.Branch, "branch", "of this branch"}, {&q.Commit, "commit", "of commits that begin so"},
		{&q.Environment, "environment", "for this environment"},
		{&q.Stage, "stage", "with this stage"}, {&since, "since", "since this time (RFC 3339), or at most this long ago, such as 10m"},
		{&until, "until", "before this time (RFC 3339), or longer ago, such as 10m"},
		{&q.Input, "input", "with this input (NAME=VALUE), or with an input that has this in its value"},
		{&q.Artifact, "artifact", "with this in the name of an artifact"}, {&q.Test, "test", "with this in the name of a test"},
		{&q.Text, "search", "with this in any of these, or in the reason"},
	} {
		c.Flags().StringVar(flag.into, flag.name, "", of+flag.usage)
	}
	c.Flags().IntVar(&q.Limit, "limit", 0, "with --server: at most so many; 0: all")
	return c
}

type listBuildsOptions struct {
	Server  buildServer // nil: the builds of this computer
	Query   buildview.Query
	Builds  buildShelf
	Shorten func(string) string
	Out     show.Printer
	Now     func() time.Time
}

// runListBuilds prints every build of this computer, or of a server.
func runListBuilds(ctx context.Context, o listBuildsOptions) error {
	var all []show.BuildSummary
	switch {
	case o.Server == nil && o.Query != buildview.Query{}:
		return fault.New(fault.Invalid, "filters select builds of a server").WithHint("add --server ADDRESS")
	case o.Server == nil:
		all = o.Builds.summaries()
	default:
		found, err := o.Server.AllBuilds(ctx, o.Query)
		if err != nil {
			return err
		}
		for _, s := range found {
			all = append(all, summaryFrom(s))
		}
	}
	if len(all) == 0 {
		none := "no builds yet"
		if o.Query != (buildview.Query{}) {
			none = "no build fits"
		}
		return o.Out.Answer(show.Items(all), none)
	}
	return o.Out.Answer(all, show.Builds(all, o.Shorten, o.Now())...)
}
