package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/fault"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Look at the configuration of the control plane", "server.yaml says where the log is and which handlers there are.",
		a.configCheckCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report every fault of server.yaml",
		Long: `Reads FILE, else --config, WAYBILL_CONFIG or the home's server.yaml, and reports every fault with
its place: keys, references, templates, schemas, response rules. The exit status is 2 when
there are faults, and 0 when there are only warnings.`,
		Example: examples("waybill config check", "waybill config check deploy/server.yaml -o json"),
		Args:    arguments(0, 1, "FILE"),
		RunE: func(_ *cobra.Command, given []string) error {
			path, _ := a.configPath(a.homeOf(a.dir))
			if len(given) > 0 {
				path = a.path(given[0])
			}
			return a.checkConfig(path)
		},
	}
}

func (a *app) checkConfig(path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return fault.New(fault.Invalid, "read the configuration %s: %w", a.shorten(path), plain(err))
	}
	config, problems := catalog.Check(path, source)
	if a.json() {
		if err := a.printJSON(list(problems)); err != nil {
			return err
		}
		if err := problems.Err(); err != nil {
			return shown{err}
		}
		return nil
	}
	a.printProblems(problems)
	if err := problems.Err(); err != nil {
		faults := len(problems) - len(problems.Warnings())
		fmt.Fprintf(a.err, "waybill: %s\n", count(faults, "problem"))
		return shown{err}
	}
	_, err = fmt.Fprintf(a.out, "%s is sound: %s, %s\n", a.shorten(path), count(len(config.Handlers), "handler"), count(len(config.Workflows), "process"))
	return err
}
