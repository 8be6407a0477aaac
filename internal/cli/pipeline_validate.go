package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func pipelineValidateCommand(a *app) *cobra.Command {
	var live bool
	c := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a waybill.yaml: every fault at once, nothing applied",
		Long: `Reads a waybill.yaml and the build files it names, and reports every fault with its line and
column. Nothing is stored and no log is needed. Exit status 2 when something is wrong.

With --live it also logs in to each ssh host, by way of the jump host, and says whether the key of
the host is known and one of ours is accepted. Exit status 1 when a host does not let this machine in.`,
		Example: examples("waybill pipeline validate", "waybill pipeline validate staging/waybill.yaml -o json", "waybill pipeline validate --live"),
		Args:    arguments(0, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			if err := a.reachedFromHere("waybill pipeline validate --live"); err != nil && live {
				return err
			}
			return a.validate(c.Context(), arguments, live)
		},
	}
	c.Flags().BoolVar(&live, "live", false, "log in to each ssh host as well")
	return c
}

// validDocument is `waybill pipeline validate -o json`.
type validDocument struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Problems fault.Problems  `json:"problems"`        // warnings too
	Hosts    []loginDocument `json:"hosts,omitempty"` // with --live
}

// asWarnings returns problems as warnings.
func asWarnings(problems fault.Problems) fault.Problems {
	for i := range problems {
		problems[i].Warning = true
	}
	return problems
}

func (a *app) validate(ctx context.Context, arguments []string, live bool) error {
	p, err := a.judged(ctx, arguments)
	problems, wrong := problemsOf(err)
	if err != nil && !wrong {
		return err
	}
	answer := validDocument{File: a.Shorten(p.file), Valid: err == nil, Problems: append(append(fault.Problems{}, problems...), p.warnings...)}
	if answer.Valid && live {
		if answer.Hosts, err = a.logins(ctx, p); answer.Hosts == nil && err != nil {
			return err
		}
	}
	if a.json() {
		if printErr := a.printer().Document(answer); printErr != nil || err == nil {
			return printErr
		}
		return printed(err)
	}
	if !answer.Valid {
		return err
	}
	a.printProblems(p.warnings)
	for _, l := range answer.Hosts {
		a.printer().Note("%s", l)
	}
	if err != nil {
		return err
	}
	return a.printer().Lines(answer.File + " is valid: " + show.Summary(p.definition))
}

// judged reads a project and all that is wrong with it; what may be wrong is in its warnings.
func (a *app) judged(ctx context.Context, arguments []string) (project, error) {
	p, err := a.projectFrom(arguments)
	if err != nil {
		return p, err
	}
	err = a.checkIgnored(ctx, p)
	p.warnings = append(p.warnings, a.secretWarnings(ctx, p)...)
	if err != nil {
		return p, err
	}
	if err := a.TrustHome(a.HomeOf(p.dir)); err != nil {
		return p, err
	}
	unknown, err := a.unknownHosts(p, a.HomeOf(p.dir), "")
	p.warnings = append(p.warnings, asWarnings(unknown)...)
	return p, err
}
