package cli

import (
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

const completionHelp = `Prints a script that teaches your shell Waybill's commands, pipelines and deployments.

  bash:  source <(waybill completion bash)   # needs the package bash-completion
  zsh:   waybill completion zsh > "${fpath[1]}/_waybill"
  fish:  waybill completion fish > ~/.config/fish/completions/waybill.fish`

func completionCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a completion script for your shell",
		Long:      completionHelp,
		Example:   cmdline.Examples("source <(waybill completion bash)"),
		Args:      cmdline.Arguments(1, 1, "the name of a shell: bash, zsh or fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, arguments []string) error {
			switch arguments[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(a.Out, true)
			case "zsh":
				return c.Root().GenZshCompletion(a.Out)
			case "fish":
				return c.Root().GenFishCompletion(a.Out, true)
			}
			return cmdline.UsageFault(c, fault.New(fault.Invalid, "completion for shell %q not found", arguments[0]))
		},
	}
}
