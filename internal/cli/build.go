package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/server"
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
	for name, value := range map[string]string{"--server": a.flags.server, "--store": a.flags.store} {
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
			root := a.dir
			if len(given) > 0 {
				root = a.path(given[0])
			}
			file, err := a.readBuildFile(root, build.FileName, a.shorten(filepath.Join(root, build.FileName)))
			if err != nil {
				return err
			}
			advice := file.Advice()
			a.printProblems(advice)
			if a.json() {
				return a.printJSON(list(advice))
			}
			_, err = fmt.Fprintf(a.out, "%s is sound: %s\n", build.FileName, count(len(file.Stages), "stage"))
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
	roots := []results.Root{results.RootAt(a.homeOf(a.dir).builds())}
	if own, err := results.Default(); err == nil { // else nothing can have been run by hand
		roots = append([]results.Root{own}, roots...)
	}
	return roots
}

// openBuild finds a build by number, id or folder.
func (a *app) openBuild(name string) (*results.Reader, error) {
	if strings.ContainsRune(name, filepath.Separator) || name == "." {
		return results.Open(a.path(name))
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

// buildSummary is one build for `list` and `show`.
type buildSummary struct {
	ID        string       `json:"buildId"`
	Status    build.Status `json:"status"`
	Reason    string       `json:"reason,omitempty"`
	Source    string       `json:"source,omitempty"`
	Steps     int          `json:"steps"`
	StartedAt time.Time    `json:"startedAt"`
	EndedAt   time.Time    `json:"endedAt,omitzero"`
	Results   string       `json:"results"`
}

// lost is the status of a build whose worker died without ending it.
const lost = build.Status("Lost")

func summarize(r *results.Reader) (buildSummary, error) {
	b, err := r.Build()
	if err != nil {
		return buildSummary{}, err
	}
	last, err := r.Last(0)
	s := buildSummary{ID: b.ID, Status: last.Status, Reason: last.Reason, Source: b.Source, Steps: len(b.Plan.Steps),
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
func (a *app) summaries() []buildSummary {
	var all []buildSummary
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
	slices.SortStableFunc(all, func(x, y buildSummary) int { return y.StartedAt.Compare(x.StartedAt) })
	return all
}

func (a *app) listBuilds() error {
	all := a.summaries()
	if a.json() {
		return a.printJSON(list(all))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.out, "no builds yet")
		return err
	}
	var t table
	t.add("BUILD", "STATUS", "STEPS", "STARTED", "TOOK", "OF")
	now := time.Now()
	for _, s := range all {
		duration := "-"
		if !s.EndedAt.IsZero() {
			duration = server.Took(s.EndedAt.Sub(s.StartedAt))
		}
		t.add(s.ID, string(s.Status), strconv.Itoa(s.Steps), ago(now, s.StartedAt), duration, a.shorten(s.Source))
	}
	return t.write(a.out)
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

// buildDocument is `waybill build show -o json`.
type buildDocument struct {
	buildSummary
	Plan      *build.Plan              `json:"plan"`
	Updates   map[int][]results.Update `json:"updates"`
	Artifacts []results.Artifact       `json:"artifacts"`
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
	document := buildDocument{buildSummary: s, Plan: b.Plan, Updates: map[int][]results.Update{}}
	for id := range len(b.Plan.Steps) + 1 {
		if document.Updates[id], err = r.Updates(id); err != nil {
			return err
		}
	}
	if document.Artifacts, err = r.Artifacts(); err != nil {
		return err
	}
	if a.json() {
		document.Artifacts = list(document.Artifacts)
		return a.printJSON(document)
	}
	return a.printBuild(document, name)
}

func (a *app) printBuild(d buildDocument, name string) error {
	board := newBuildBoard(d.Plan)
	for id, updates := range d.Updates {
		for _, u := range updates {
			board.status(id, u)
		}
	}
	head := fmt.Sprintf("build %s %s", d.ID, d.Status)
	if d.Reason != "" {
		head += ": " + oneLine(d.Reason)
	}
	fmt.Fprintf(a.out, "%s   results: %s\n", head, d.Results)
	for _, row := range board.rows(a.style(a.out), time.Now(), "…") {
		fmt.Fprintln(a.out, row)
	}
	for _, artifact := range d.Artifacts {
		fmt.Fprintf(a.out, "   artifact %s  %s\n", artifact.Name, artifactText(artifact.Size, artifact.SHA256))
	}
	_, err := fmt.Fprintf(a.out, "logs: waybill build log %s [STAGE/STEP]\n", name)
	return err
}
