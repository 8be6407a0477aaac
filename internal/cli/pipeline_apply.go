package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func (a *app) pipelineApplyCommand() *cobra.Command {
	yes := false
	c := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Make a waybill.yaml the pipeline's definition, and ship nothing",
		Long: `Stores a waybill.yaml as the pipeline's next definition version, unless it equals the one in
force. Tells first what that does to the deployments inside; when one of them would skip
or lose work it asks, and without a terminal stops with status 4 unless --yes says so.`,
		Example: examples("waybill pipeline apply", "waybill pipeline apply staging/waybill.yaml --yes"),
		Args:    arguments(0, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			p, err := a.projectFrom(arguments)
			if err != nil {
				return err
			}
			s, err := a.Open(c.Context(), p.dir, assembly.Create)
			if err != nil {
				return err
			}
			defer s.Close()
			return a.applyProject(c.Context(), s, p, yes)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "apply although a deployment inside skips or loses work")
	return c
}

// projectFrom reads the file that was named, or the waybill.yaml of this folder.
func (a *app) projectFrom(arguments []string) (project, error) {
	if len(arguments) == 0 {
		return a.project(nil)
	}
	path := a.Path(arguments[0])
	if isDirectory(path) {
		path = filepath.Join(path, assembly.ProjectFile)
	}
	return a.readProject(path)
}

// applyProject applies and says which version is in force then.
func (a *app) applyProject(ctx context.Context, s *assembly.Session, p project, yes bool) error {
	edit, err := s.PlanEdit(ctx, p.proposal(a.User()))
	if err != nil {
		return err
	}
	if err := a.apply(ctx, s, p, yes); err != nil {
		return err
	}
	if a.json() {
		edit.Applied = !edit.Unchanged
		return a.printer().Document(edit)
	}
	word := "applied"
	if edit.Unchanged {
		word = "in force already"
	}
	fmt.Fprintf(a.out, "%s: definition %d %s\n", edit.Pipeline, edit.Version, word)
	return nil
}

func (a *app) pipelineValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a waybill.yaml: every fault at once, nothing applied",
		Long: `Reads a waybill.yaml and the build files it names, and reports every fault with its line and
column. Nothing is stored and no log is needed. Exit status 2 when something is wrong.`,
		Example: examples("waybill pipeline validate", "waybill pipeline validate staging/waybill.yaml -o json"),
		Args:    arguments(0, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.validate(c.Context(), arguments)
		},
	}
}

// validDocument is `waybill pipeline validate -o json`.
type validDocument struct {
	File     string         `json:"file"`
	Valid    bool           `json:"valid"`
	Problems fault.Problems `json:"problems"` // warnings too
}

func (a *app) validate(ctx context.Context, arguments []string) error {
	p, err := a.projectFrom(arguments)
	if err == nil {
		err = a.checkIgnored(ctx, p)
		p.warnings = append(p.warnings, a.secretWarnings(ctx, p)...)
	}
	problems, wrong := problemsOf(err)
	if err != nil && !wrong {
		return err
	}
	if a.json() {
		all := append(fault.Problems{}, problems...)
		if err := a.printer().Document(validDocument{File: a.Shorten(p.file), Valid: err == nil, Problems: append(all, p.warnings...)}); err != nil {
			return err
		}
		if err != nil {
			return shown{err}
		}
		return nil
	}
	if err != nil {
		return err
	}
	a.printProblems(p.warnings)
	fmt.Fprintf(a.out, "%s is valid: %s\n", a.Shorten(p.file), show.Summary(p.definition))
	return nil
}

func (a *app) pipelineVersionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "versions [PIPELINE]",
		Short:             "List the definitions that were applied",
		Example:           examples("waybill pipeline versions greeter"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				name, err := a.pipelineName(arguments)
				if err != nil {
					return err
				}
				return a.listVersions(ctx, s, name)
			})
		},
	}
}

func (a *app) listVersions(ctx context.Context, ops assembly.Operations, name string) error {
	versions, err := ops.Versions(ctx, name)
	if err != nil {
		return err
	}
	return show.List(a.printer(), versions, "no definition was applied", show.Versions)
}
