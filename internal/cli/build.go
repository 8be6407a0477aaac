package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/server"
)

const buildHelp = `A build is described by .wharf-ci.yml. Run one with waybill run; a deployment's build
runs the same way. A build run by hand is named by its number, a deployment's by the id
that its error and waybill build list show, and any by the folder of its results. The
results are on the machine that built, or in the database for builds in workers;
--server reads what the server has.`

func buildCommand(a *cmdline.App) *cobra.Command {
	c := cmdline.Group("build", "Check a build's file; run builds on a server; read what they printed and made", buildHelp,
		buildInitCommand(a), buildLintCommand(a), buildSchemaCommand(a), buildVarsCommand(a), buildListCommand(a), buildShowCommand(a), buildLogCommand(a), buildSearchCommand(a), buildArtifactCommand(a),
		buildRunCommand(a), buildRerunCommand(a), buildCancelCommand(a), buildDeleteCommand(a))
	for _, sub := range c.Commands() {
		sub.PreRunE = func(*cobra.Command, []string) error {
			served := map[string]bool{"artifact": true, "list": true, "show": true, "log": true, "search": true, "run": true, "rerun": true, "cancel": true, "delete": true}
			return refuseElsewhere(a.Flags, "builds are read on the machine that built them", served[sub.Name()])
		}
	}
	return c
}

// refuseElsewhere returns an error for flags that name a log or a server elsewhere: the command reads this machine. With
// served the command also has a meaning through a server.
func refuseElsewhere(flags assembly.Flags, why string, served bool) error {
	for name, value := range map[string]string{"--server": flags.Server, "--store": flags.Store} {
		if value != "" && !(served && name == "--server") {
			return fault.New(fault.Invalid, "%s has no effect here: %s", name, why).WithHint("run the command there, or leave %s out", name)
		}
	}
	return nil
}

// lintFailed prints the faults of a file as JSON where that is asked for, as sound files have their warnings there.
func lintFailed(a *cmdline.App, err error) error {
	problems, ok := errors.AsType[fault.Problems](err)
	if !ok || !a.JSON() {
		return err
	}
	if err := a.Printer().Document(problems); err != nil {
		return err
	}
	return cmdline.Printed(err)
}

func buildLintCommand(a *cmdline.App) *cobra.Command {
	var flags local.Options
	c := &cobra.Command{
		Use:   "lint [DIR|FILE]",
		Short: "Report every fault and warning of a .wharf-ci.yml",
		Long: `Reports every fault and warning of a file. --strict-vars also refuses a variable that has no
value, as waybill run --strict-vars does: with --environment in that one, else in all.`,
		Example: cmdline.Examples("waybill build lint", "waybill build lint examples/hello -o json", "waybill build lint --strict-vars --environment prod"),
		Args:    cmdline.Arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, given []string) error {
			root, name := a.Dir, build.FileName
			if len(given) > 0 {
				root = a.Path(given[0])
			}
			switch info, err := os.Stat(root); {
			case errors.Is(err, fs.ErrNotExist):
				return fault.New(fault.Invalid, "%s not found", a.Shorten(root))
			case err == nil && !info.IsDir():
				root, name = filepath.Split(root)
			}
			file, warnings, err := builder(a).ReadFile(root, name, a.Shorten(filepath.Join(root, name)), flags.Strict)
			if err == nil {
				err = file.Loops().Err()
			}
			if err == nil && flags.StrictVars {
				err = builder(a).LintVariables(c.Context(), root, name, file, flags)
			}
			if err != nil {
				return lintFailed(a, err)
			}
			advice := append(warnings, file.Advice()...)
			advice.Sort()
			a.PrintProblems(advice)
			return a.Printer().Answer(show.Items(advice), fmt.Sprintf("%s is sound: %s", name, show.Count(len(file.Stages), "stage")))
		},
	}
	c.Flags().BoolVar(&flags.Strict, "strict", false, "refuse an unknown field of a step type, instead of a warning")
	c.Flags().BoolVar(&flags.StrictVars, "strict-vars", false, "refuse a variable that has no value, also in commands")
	c.Flags().StringVar(&flags.Environment, "environment", "", "with --strict-vars: the environment whose variables count (default: each)")
	return c
}

func buildSchemaCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of .wharf-ci.yml, for editors",
		Example: cmdline.Examples("waybill build schema > .wharf-ci.schema.json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			schema, err := build.Schema()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(schema)
			return err
		},
	}
}

// buildShelf is the builds that this computer has results of.
type buildShelf struct {
	roots []results.Root
	path  func(string) string // returns a path that a person wrote as an absolute one
}

// shelfOf returns the builds run by hand, and those of the home.
func shelfOf(a *cmdline.App) buildShelf {
	roots := []results.Root{results.RootAt(a.HomeOf(a.Dir).Builds())}
	if own, err := results.Default(); err == nil { // else no build was run by hand
		roots = append([]results.Root{own}, roots...)
	}
	return buildShelf{roots, a.Path}
}

// open finds a build by number, id or folder; the newest one as "last".
func (b buildShelf) open(name string) (*results.Reader, error) {
	if name == local.Last {
		if all := b.summaries(); len(all) > 0 {
			return results.Open(all[0].Results)
		}
	}
	if strings.ContainsRune(name, filepath.Separator) || name == "." {
		return results.Open(b.path(name))
	}
	for _, root := range b.roots {
		if r, err := results.Open(root.Dir(name)); err == nil {
			return r, nil
		} else if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	if slices.ContainsFunc(b.roots, func(r results.Root) bool { return r.Gone(name) }) {
		return nil, fault.New(fault.NotFound, "the results of build %s were removed: it was deleted, or is older than what is kept", name).WithHint("waybill build list")
	}
	return nil, fault.New(fault.NotFound, "build %s not found on this computer", name).WithHint("waybill build list")
}

// summaries returns every build, the newest first.
func (b buildShelf) summaries() []show.BuildSummary {
	var all []show.BuildSummary
	for _, root := range b.roots {
		for _, id := range root.IDs() {
			r, err := results.Open(root.Dir(id))
			if err != nil {
				continue // removed just now
			}
			if s, err := summarize(r); err == nil {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y show.BuildSummary) int { return y.StartedAt.Compare(x.StartedAt) })
	return all
}

// stepNames returns the steps of a build; none for a build that is not there.
func (b buildShelf) stepNames(name string) (names []string) {
	r, err := b.open(name)
	if err != nil {
		return nil
	}
	described, err := r.Build()
	if err != nil {
		return nil
	}
	for i := range described.Plan.Steps {
		names = append(names, described.Plan.Steps[i].Path())
	}
	return names
}

func summarize(r *results.Reader) (show.BuildSummary, error) {
	b, err := r.Build()
	if err != nil {
		return show.BuildSummary{}, err
	}
	last, alive, err := r.State()
	s := show.BuildSummary{ID: b.ID, RerunOf: b.RerunOf, Status: last.Status, Reason: last.Reason, Source: b.Source, Branch: b.Branch, Commit: b.Commit, Subject: b.Subject,
		Steps: len(b.Plan.Steps), StartedAt: b.StartedAt, Results: r.Dir()}
	switch {
	case last.Status.Ended():
		s.EndedAt = last.Timestamp
	case !alive:
		s.Status, s.Lost, s.Reason = build.Lost, true, "its worker ended before the build did"
	}
	return s, err
}

func buildListCommand(a *cmdline.App) *cobra.Command {
	var q server.BuildQuery
	var since, until string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the builds that this computer has results of, or a server, newest first",
		Example: cmdline.Examples("waybill build list", "waybill build list --server https://waybill.example.org",
			"waybill build list --server https://waybill.example.org --status Failed --project shop --since 24h"),
		Args: cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			now := time.Now()
			if q.Since, err = readPast("--since", since, now); err != nil {
				return err
			}
			if q.Until, err = readPast("--until", until, now); err != nil {
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
		{(*string)(&q.Status), "status", "with this status: Scheduling, Running, Completed, Failed, Canceled, TimedOut, Lost or Skipped"}, {&q.Pipeline, "project", "of this project or pipeline"},
		{&q.Branch, "branch", "of this branch"}, {&q.Commit, "commit", "of commits that begin so"}, {&q.Environment, "environment", "for this environment"},
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

// buildServer is a server that knows of builds.
type buildServer interface {
	AllBuilds(ctx context.Context, q server.BuildQuery) ([]server.BuildSummary, error)
	Build(ctx context.Context, id string) (server.BuildView, error)
	BuildArtifacts(ctx context.Context, id string) ([]build.Artifact, error)
	BuildTests(ctx context.Context, id string) ([]build.TestFile, error)
	OpenBuildArtifact(ctx context.Context, id string, artifact int) (io.ReadCloser, error)
}

func buildClient(a *cmdline.App, address string) *server.Client {
	return a.Client(a.HomeOf(a.Dir), address)
}

// summaryFrom returns a server's summary in the form that is printed.
func summaryFrom(s server.BuildSummary) show.BuildSummary {
	deployment := ""
	if s.Deployment != 0 {
		deployment = fmt.Sprintf("%s#%d", s.Pipeline, s.Deployment)
	}
	return show.BuildSummary{ID: s.ID, RerunOf: s.RerunOf, Status: s.Status, Reason: s.Reason, Source: cmp.Or(s.Source, s.Pipeline),
		Branch: s.Branch, Commit: s.Commit, Subject: s.Subject, Deployment: deployment, Steps: s.Steps, StartedAt: s.StartedOn, EndedAt: s.FinishedOn, Results: s.Results}
}

type listBuildsOptions struct {
	Server  buildServer // nil: the builds of this computer
	Query   server.BuildQuery
	Builds  buildShelf
	Shorten func(string) string
	Out     show.Printer
	Now     func() time.Time
}

// runListBuilds prints every build of this computer, or of a server.
func runListBuilds(ctx context.Context, o listBuildsOptions) error {
	var all []show.BuildSummary
	switch {
	case o.Server == nil && o.Query != server.BuildQuery{}:
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
		if o.Query != (server.BuildQuery{}) {
			none = "no build fits"
		}
		return o.Out.Answer(show.Items(all), none)
	}
	return o.Out.Answer(all, show.Builds(all, o.Shorten, o.Now())...)
}

func buildShowCommand(a *cmdline.App) *cobra.Command {
	verbose := false
	c := &cobra.Command{
		Use:               "show BUILD",
		Short:             "Show a build's steps, failed tests and artifacts",
		Example:           cmdline.Examples("waybill build show 3", "waybill build show 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77.1 --server https://waybill.example.org"),
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
	Server buildServer // nil: the build is on this computer
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
	view, err := o.Server.Build(ctx, o.Name)
	if err != nil {
		return d, nil, err
	}
	d.BuildSummary, d.Plan, d.Updates = summaryFrom(view.BuildSummary), view.Plan, map[int][]build.Update{}
	d.Updates[0] = view.Done[0]
	for i := range d.Plan.Steps { // those that have begun since are left out
		id := d.Plan.Steps[i].ID
		d.Updates[id] = view.Done[id]
	}
	if d.Artifacts, err = o.Server.BuildArtifacts(ctx, o.Name); err != nil {
		return d, nil, err
	}
	tests, err = o.Server.BuildTests(ctx, o.Name)
	return d, tests, err
}

// completeBuilds offers the builds of this computer for the first argument, then the steps of the one named.
func completeBuilds(a *cmdline.App) cmdline.Completer {
	return func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		var words []string
		switch shelf := shelfOf(a); len(given) {
		case 0:
			for _, s := range shelf.summaries() {
				words = append(words, s.ID+"\t"+string(s.Status))
			}
		case 1:
			words = shelf.stepNames(given[0])
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOwnBuilds offers the builds of this computer for the only argument, unless a server is asked.
func completeOwnBuilds(a *cmdline.App) cmdline.Completer {
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		if a.Flags.Server != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return cmdline.First(completeBuilds(a))(c, given, begun)
	}
}
