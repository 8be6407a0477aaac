package build

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

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
		return nil, fault.New(fault.NotFound,
			"the results of build %s were removed: it was deleted, or is older than what is kept", name).WithHint("waybill build list")
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
	s := show.BuildSummary{ID: b.ID, RerunOf: b.RerunOf, Status: last.Status, Reason: last.Reason, Source: b.Source,
		Branch: b.Branch, Commit: b.Commit, Subject: b.Subject,
		Steps: len(b.Plan.Steps), StartedAt: b.StartedAt, Results: r.Dir()}
	switch {
	case last.Status.Ended():
		s.EndedAt = last.Timestamp
	case !alive:
		s.Status, s.Lost, s.Reason = build.Lost, true, "its worker ended before the build did"
	}
	return s, err
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

// completeOwnBuilds offers the builds of this computer for the only argument, unless a server is named.
func completeOwnBuilds(a *cmdline.App) cmdline.Completer {
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		if a.Flags.Server != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return cmdline.First(completeBuilds(a))(c, given, begun)
	}
}
