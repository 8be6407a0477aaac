package config

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// acceptedDocument is `waybill config accept -o json`.
type acceptedDocument struct {
	Home string `json:"home"`
}

func configAcceptCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "accept [DIR]",
		Short: "Trust the home that is beside this folder's waybill.yaml",
		Long: `What is in a home decides where commands connect, which hosts they believe, and what waybill up
runs. A home that Waybill did not make on this machine may have come with a clone or an archive, so
it is refused until you have looked at it and accept it: server.yaml, known_hosts, and the log. The
acceptance is noted in your account (~/.local/state/waybill, or XDG_STATE_HOME). When git tracks
server.yaml or known_hosts of the home, each changed content is accepted again. Other files of a
home are never taken from git. A home that --home or WAYBILL_HOME names, and a server.yaml that
--config names, need no acceptance.`,
		Example: cmdline.Examples("waybill config accept", "waybill config accept ../shop"),
		Args:    cmdline.Arguments(0, 1, "DIR"),
		RunE: func(_ *cobra.Command, given []string) error {
			dir := a.Dir
			if len(given) > 0 {
				dir = a.Path(given[0])
			}
			home := a.HomeOf(dir)
			if err := a.Accept(home); err != nil {
				return err
			}
			return a.Printer().Answer(acceptedDocument{Home: home.Dir}, fmt.Sprintf("accepted %s", a.Shorten(home.Dir)))
		},
	}
}

// Completes reports whether a command line is a shell's request for the completion of another.
func Completes(arguments []string) bool {
	return len(arguments) > 0 && slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, arguments[0])
}
