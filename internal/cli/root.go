package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/cli/action"
	"github.com/waybill-dev/waybill/internal/cli/backup"
	"github.com/waybill-dev/waybill/internal/cli/broker"
	"github.com/waybill-dev/waybill/internal/cli/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/config"
	"github.com/waybill-dev/waybill/internal/cli/deployment"
	"github.com/waybill-dev/waybill/internal/cli/flow"
	"github.com/waybill-dev/waybill/internal/cli/pipeline"
	"github.com/waybill-dev/waybill/internal/cli/revision"
	"github.com/waybill-dev/waybill/internal/cli/server"
	"github.com/waybill-dev/waybill/internal/cli/service"
	"github.com/waybill-dev/waybill/internal/cli/ship"
)

// Groups of commands in the help.
const (
	groupWork  = "work"
	groupLook  = "look"
	groupServe = "serve"
)

// helpColumns is the number of columns at which help wraps.
const helpColumns = 100

const rootHelp = `Waybill takes a revision from commit to every environment that should run it,
and never loses its place: kill it at any moment, run it again, and it resumes.

A project describes its pipeline in waybill.yaml. In its folder, run

  waybill ship

Commands read and act on the log in .waybill/ beside waybill.yaml, on another one
(--home, --store), or through a running server (--server).

Exit status: 0 done or nothing to do; 1 the work failed; 2 usage, a file or the
configuration is wrong; 3 a needed part is not there; 4 canceled, superseded or
refused; 5 plan only: something would be done; 124 the limit of --timeout has
passed; 130 ended by Ctrl-C, SIGTERM or a closed terminal; 141 its output is not
read any more.`

// rootCommand returns `waybill` with every command below it.
func rootCommand(a *cmdline.App) *cobra.Command {
	root := &cobra.Command{
		Use:               "waybill",
		Short:             "Ship a revision through its pipeline, and never lose its place",
		Long:              rootHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.Check() },
		Args:              cobra.ArbitraryArgs,
		RunE:              cmdline.ShowHelp,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(cmdline.UsageFault)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, arguments []string) {
		if given := c.Flags().Args(); c.HasAvailableSubCommands() && len(given) > 0 {
			a.Unknown = cmdline.ShowHelp(c, given)
			return
		}
		help(c, arguments)
	})
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpColumns)))
	addGlobals(a, root)
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Ship:"},
		&cobra.Group{ID: groupLook, Title: "Read and act:"},
		&cobra.Group{ID: groupServe, Title: "Serve:"},
	)
	addCommands(a, root)
	offerNoFiles(root)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommandGroupID(groupServe)
	return root
}

// addCommands adds every command to the root, in its group of the help.
func addCommands(a *cmdline.App, root *cobra.Command) {
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupWork, ship.Command(a), ship.PlanCommand(a), build.RunCommand(a))
	add(
		groupLook,
		server.StatusCommand(a),
		deployment.Command(a),
		deployment.ApproveCommand(a),
		pipeline.Command(a),
		revision.Command(a),
		action.Command(a),
		action.ProcessCommand(a),
		build.Command(a),
		service.Command(a),
		broker.Command(a),
		flow.Command(a),
		deployment.LogCommand(a),
	)
	add(
		groupServe,
		server.UpCommand(a),
		server.ServeCommand(a),
		server.TokenCommand(a),
		config.Command(a),
		backup.Command(a),
		backup.RestoreCommand(a),
		completionCommand(a),
		versionCommand(a),
	)
}

// offerNoFiles keeps a shell from offering files for a flag that completes nothing and takes none.
func offerNoFiles(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, completes := c.GetFlagCompletionFunc(f.Name); !completes && !takesFile(f.Name) {
			cmdline.OfferFrom(c, cobra.NoFileCompletions, f.Name)
		}
	})
	for _, child := range c.Commands() {
		offerNoFiles(child)
	}
}

// takesFile reports whether the value of a flag is, or may hold, the path of a file or a folder.
func takesFile(flag string) bool {
	switch flag {
	case "home", "config", "edit", "kubeconfig", "results-dir", "workspace", "launch", "secrets", "certificates", "cache-dir", "file",
		"token-file", "inputs", "to":
		return true
	}
	return false
}

// addGlobals declares the flags that every command has.
func addGlobals(a *cmdline.App, root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.Flags.Home, "home", "", "folder of the log (default: WAYBILL_HOME, else .waybill beside waybill.yaml)")
	flags.StringVar(&a.Flags.Config, "config", "", "server.yaml (default: WAYBILL_CONFIG, else the home's)")
	flags.StringVar(&a.Flags.Store, "store", "",
		"URL of the ledger, such as postgres://host/waybill (default: waybill.db in the home); other users of the machine can "+
			"read it, so keep its password in ~/.pgpass, PGPASSFILE, or ledger.url of server.yaml")
	flags.StringVar(&a.Flags.Server, "server", "", "URL of a running server; WAYBILL_TOKEN is its token, unless it is this home's own")
	flags.StringVarP(&a.Output, "output", "o", cmdline.TextOutput, "text, or json, whose form is stable")
	cmdline.Offer(root, "output", cmdline.TextOutput, cmdline.JSONOutput)
}
