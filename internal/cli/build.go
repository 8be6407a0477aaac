package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

const buildHelp = `A build is described by .wharf-ci.yml. Run one with waybill run; a deployment's build
runs the same way. A build run by hand is named by its number, a deployment's by the id
that its error and waybill build list show, and any by the folder of its results. The
results are on the machine that built.`

func (a *app) buildCommand() *cobra.Command {
	c := group("build", "Check a build's file; read what builds printed and made", buildHelp,
		a.buildLintCommand(), a.buildSchemaCommand(), a.buildListCommand(), a.buildShowCommand(), a.buildLogCommand())
	for _, sub := range c.Commands() {
		sub.PreRunE = func(*cobra.Command, []string) error {
			return a.here("builds are read on the machine that built them", sub.Name() == "log")
		}
	}
	return c
}

// here refuses flags that name a log or a server elsewhere, for a command that reads this machine, or one that a server serves.
func (a *app) here(why string, served bool) error {
	for name, value := range map[string]string{"--server": a.Flags.Server, "--store": a.Flags.Store} {
		if value != "" && !(served && name == "--server") {
			return fault.New(fault.Invalid, "%s has no effect here: %s", name, why).WithHint("run the command there, or leave %s out", name)
		}
	}
	return nil
}

func (a *app) buildLintCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "lint [DIR]",
		Short:   "Report every fault of a .wharf-ci.yml",
		Example: examples("waybill build lint", "waybill build lint examples/hello -o json"),
		Args:    arguments(0, 1, "DIR"),
		RunE: func(_ *cobra.Command, given []string) error {
			root := a.Dir
			if len(given) > 0 {
				root = a.Path(given[0])
			}
			file, err := a.readBuildFile(root, build.FileName, a.Shorten(filepath.Join(root, build.FileName)))
			if err != nil {
				return err
			}
			advice := file.Advice()
			a.printProblems(advice)
			if a.json() {
				return a.printer().Document(show.Items(advice))
			}
			_, err = fmt.Fprintf(a.out, "%s is sound: %s\n", build.FileName, show.Count(len(file.Stages), "stage"))
			return err
		},
	}
}

func (a *app) buildSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of .wharf-ci.yml, for editors",
		Example: examples("waybill build schema > wharf-ci.schema.json"),
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			schema, err := build.Schema()
			if err != nil {
				return err
			}
			_, err = a.out.Write(schema)
			return err
		},
	}
}

// roots are the places where this computer keeps builds: the home's, and those run by hand.
func (a *app) buildRoots() []results.Root {
	roots := []results.Root{results.RootAt(a.HomeOf(a.Dir).Builds())}
	if own, err := results.Default(); err == nil { // else nothing can have been run by hand
		roots = append([]results.Root{own}, roots...)
	}
	return roots
}

// openBuild finds a build by number, id or folder.
func (a *app) openBuild(name string) (*results.Reader, error) {
	if strings.ContainsRune(name, filepath.Separator) || name == "." {
		return results.Open(a.Path(name))
	}
	for _, root := range a.buildRoots() {
		if r, err := results.Open(root.Dir(name)); err == nil {
			return r, nil
		} else if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	return nil, fault.New(fault.NotFound, "there is no build %s on this computer", name).WithHint("waybill build list")
}

// lost is the status of a build whose worker died without ending it.
const lost = build.Status("Lost")

func summarize(r *results.Reader) (show.BuildSummary, error) {
	b, err := r.Build()
	if err != nil {
		return show.BuildSummary{}, err
	}
	last, err := r.Last(0)
	s := show.BuildSummary{ID: b.ID, Status: last.Status, Reason: last.Reason, Source: b.Source, Steps: len(b.Plan.Steps),
		StartedAt: b.StartedAt, Results: r.Dir()}
	switch {
	case last.Status.Ended():
		s.EndedAt = last.Timestamp
	case !r.Alive():
		s.Status, s.Reason = lost, "its worker ended before the build did"
	}
	return s, err
}

func (a *app) buildListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the builds that this computer has results of, newest first",
		Example: examples("waybill build list"),
		Args:    arguments(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.listBuilds() },
	}
}

// summaries are the builds that this computer has results of, the newest first.
func (a *app) summaries() []show.BuildSummary {
	var all []show.BuildSummary
	for _, root := range a.buildRoots() {
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

func (a *app) listBuilds() error {
	all := a.summaries()
	if a.json() {
		return a.printer().Document(show.Items(all))
	}
	if len(all) == 0 {
		return a.printer().Lines("no builds yet")
	}
	return a.printer().Lines(show.Builds(all, a.Shorten, time.Now())...)
}

func (a *app) buildShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show BUILD",
		Short:             "Show a build's steps and artifacts",
		Example:           examples("waybill build show 3"),
		Args:              arguments(1, 1, "BUILD"),
		ValidArgsFunction: a.completeBuilds,
		RunE:              func(_ *cobra.Command, given []string) error { return a.showBuild(given[0]) },
	}
}

func (a *app) showBuild(name string) error {
	r, err := a.openBuild(name)
	if err != nil {
		return err
	}
	s, err := summarize(r)
	if err != nil {
		return err
	}
	b, err := r.Build()
	if err != nil {
		return err
	}
	document := show.BuildDocument{BuildSummary: s, Plan: b.Plan, Updates: map[int][]results.Update{}}
	for id := range len(b.Plan.Steps) + 1 {
		if document.Updates[id], err = r.Updates(id); err != nil {
			return err
		}
	}
	if document.Artifacts, err = r.Artifacts(); err != nil {
		return err
	}
	document.Artifacts = show.Items(document.Artifacts)
	p := a.printer()
	return p.Answer(document, show.Build(document, name, p.Style, time.Now())...)
}
