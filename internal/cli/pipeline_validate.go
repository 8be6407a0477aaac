package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func pipelineValidateCommand(a *app) *cobra.Command {
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

// asWarnings returns problems as warnings.
func asWarnings(problems fault.Problems) fault.Problems {
	for i := range problems {
		problems[i].Warning = true
	}
	return problems
}

func (a *app) validate(ctx context.Context, arguments []string) error {
	p, err := a.projectFrom(arguments)
	if err == nil {
		err = a.checkIgnored(ctx, p)
		p.warnings = append(p.warnings, a.secretWarnings(ctx, p)...)
	}
	if err == nil {
		err = a.TrustHome(a.HomeOf(p.dir))
	}
	if err == nil {
		var unknown fault.Problems
		unknown, err = a.unknownHosts(p, a.HomeOf(p.dir))
		p.warnings = append(p.warnings, asWarnings(unknown)...)
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
	return a.printer().Lines(a.Shorten(p.file) + " is valid: " + show.Summary(p.definition))
}
