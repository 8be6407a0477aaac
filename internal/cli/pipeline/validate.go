package pipeline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func pipelineValidateCommand(a *cmdline.App) *cobra.Command {
	var live bool
	c := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a waybill.yaml: every fault at once, nothing applied",
		Long: `Reads a waybill.yaml and the build files it names, and reports every fault with its line and
column. Nothing is stored and no log is needed. Exit status 2 when something is wrong.

With --live it also logs in to each ssh host, by way of the jump host, and says whether the key of
the host is known and one of ours is accepted. Exit status 1 when a host does not let this machine
in.`,
		Example: cmdline.Examples("waybill pipeline validate", "waybill pipeline validate staging/waybill.yaml -o json",
			"waybill pipeline validate --live"),
		Args: cmdline.Arguments(0, 1, "FILE"),
		RunE: func(c *cobra.Command, arguments []string) error {
			if err := cmdline.ReachedFromHere(a, "waybill pipeline validate --live"); err != nil && live {
				return err
			}
			return validate(c.Context(), a, arguments, live)
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

func validate(ctx context.Context, a *cmdline.App, arguments []string, live bool) error {
	p, err := judged(ctx, a, arguments)
	problems, wrong := cmdline.ProblemsOf(err)
	if err != nil && !wrong {
		return err
	}
	answer := validDocument{File: a.Shorten(p.File), Valid: err == nil, Problems: append(append(fault.Problems{}, problems...), p.Warnings...)}
	if answer.Valid && live {
		if answer.Hosts, err = logins(ctx, a, p); answer.Hosts == nil && err != nil {
			return err
		}
	}
	if a.JSON() {
		if printErr := a.Printer().Document(answer); printErr != nil || err == nil {
			return printErr
		}
		return cmdline.Printed(err)
	}
	if !answer.Valid {
		return err
	}
	a.PrintProblems(p.Warnings)
	for _, l := range answer.Hosts {
		a.Printer().Note("%s", l)
	}
	if err != nil {
		return err
	}
	return a.Printer().Lines(answer.File + " is valid: " + show.Summary(p.Definition))
}

// judged reads a project and all that is wrong with it; doubts are in its warnings.
func judged(ctx context.Context, a *cmdline.App, arguments []string) (cmdline.Project, error) {
	p, err := a.ProjectFrom(arguments)
	if err != nil {
		return p, err
	}
	err = a.CheckIgnored(ctx, p)
	p.Warnings = append(p.Warnings, a.SecretWarnings(ctx, p)...)
	if err != nil {
		return p, err
	}
	if err := a.TrustHome(a.HomeOf(p.Dir)); err != nil {
		return p, err
	}
	unknown, err := cmdline.UnknownHosts(a, p, a.HomeOf(p.Dir), "")
	p.Warnings = append(p.Warnings, cmdline.AsWarnings(unknown)...)
	return p, err
}
