package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/show"
)

func buildVarsCommand(a *app) *cobra.Command {
	var flags local.Options
	c := &cobra.Command{
		Use:   "vars [DIR]",
		Short: "List the variables that a build may use",
		Long: `Lists every variable that a build of this folder (or DIR) would have, with its value and
where it comes from. Of several with one name the one that wins is listed. Of a password
*** is shown; BUILD_REF has its value once a build starts. Steps also have the value of an
input in their environment, as WAYBILL_INPUT_NAME, which is safe in commands.`,
		Example: examples("waybill build vars", "waybill build vars --environment stage -i level=debug -o json"),
		Args:    arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, given []string) error {
			return a.listBuildVariables(c.Context(), given, flags)
		},
	}
	addVariableFlags(a, c, &flags)
	return c
}

// listBuildVariables prints the variables of a build that does not run.
func (a *app) listBuildVariables(ctx context.Context, arguments []string, flags local.Options) error {
	all, warnings, err := a.builder().ListVariables(ctx, optional(arguments, 0), flags)
	if err != nil {
		return err
	}
	a.printProblems(warnings)
	return a.printer().Answer(show.Items(all), show.BuildVariables(all)...)
}
