package build

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
)

func buildVarsCommand(a *cmdline.App) *cobra.Command {
	var flags local.Options
	c := &cobra.Command{
		Use:   "vars [DIR]",
		Short: "List the variables that a build may use",
		Long: `Lists every variable that a build of this folder (or DIR) would have, with its value and
where it comes from. Of several with one name the one that wins is listed. Of a password
*** is shown; BUILD_REF has its value once a build starts. Steps also have the value of an
input in their environment, as WAYBILL_INPUT_NAME, which is safe in commands.`,
		Example: cmdline.Examples("waybill build vars", "waybill build vars --environment stage -i level=debug -o json"),
		Args:    cmdline.Arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, given []string) error {
			return listBuildVariables(c.Context(), a, given, flags)
		},
	}
	addVariableFlags(a, c, &flags)
	return c
}

// listBuildVariables prints the variables of a build that does not run.
func listBuildVariables(ctx context.Context, a *cmdline.App, arguments []string, flags local.Options) error {
	all, warnings, err := builder(a).ListVariables(ctx, cmdline.Optional(arguments, 0), flags)
	if err != nil {
		return err
	}
	a.PrintProblems(warnings)
	return a.Printer().Answer(show.Items(all), show.BuildVariables(all)...)
}
