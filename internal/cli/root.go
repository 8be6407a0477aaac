package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Groups of commands in the help.
const (
	groupWork  = "work"
	groupLook  = "look"
	groupServe = "serve"
)

const rootHelp = `Waybill takes a revision from commit to every environment that should run it,
and never loses its place: kill it at any moment, run it again, and it resumes.

A project describes its pipeline in waybill.yaml. In its folder, run

  waybill ship

Commands read and act on the log in .waybill/ beside waybill.yaml, on another one
(--home, --store), or through a running server (--server).

Exit status: 0 done or nothing to do; 1 the work failed; 2 usage, a file or the
configuration is wrong; 3 a needed part is not there; 4 canceled, superseded or
refused; 5 plan only: something would be done; 130 ended by Ctrl-C,
SIGTERM or a closed terminal.`

// rootCommand returns `waybill` with every command below it.
func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:               "waybill",
		Short:             "Ship a revision through its pipeline, and never lose its place",
		Long:              rootHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.check() },
		Args:              cobra.ArbitraryArgs,
		RunE:              showHelp,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(usageFault)
	addGlobals(a, root)
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Ship:"},
		&cobra.Group{ID: groupLook, Title: "Read and act:"},
		&cobra.Group{ID: groupServe, Title: "Serve:"},
	)
	addCommands(a, root)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommandGroupID(groupServe)
	return root
}

// addCommands adds every command to the root, in its group of the help.
func addCommands(a *app, root *cobra.Command) {
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupWork, shipCommand(a), planCommand(a), runCommand(a))
	add(groupLook, statusCommand(a), deploymentCommand(a), pipelineCommand(a), revisionCommand(a), actionCommand(a), processCommand(a), buildCommand(a), serviceCommand(a), logCommand(a))
	add(groupServe, upCommand(a), serveCommand(a), tokenCommand(a), configCommand(a), backupCommand(a), restoreCommand(a), completionCommand(a), versionCommand(a))
}

// addGlobals declares the flags that every command has.
func addGlobals(a *app, root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.Flags.Home, "home", "", "folder of the log (default: WAYBILL_HOME, else .waybill beside waybill.yaml)")
	flags.StringVar(&a.Flags.Config, "config", "", "server.yaml (default: WAYBILL_CONFIG, else the home's)")
	flags.StringVar(&a.Flags.Store, "store", "", "URL of the ledger, such as postgres://host/waybill (default: waybill.db in the home); other users of the machine can read it, so keep its password in ~/.pgpass, PGPASSFILE, or ledger.url of server.yaml")
	flags.StringVar(&a.Flags.Server, "server", "", "URL of a running server; WAYBILL_TOKEN is its token, unless it is this home's own")
	flags.StringVarP(&a.output, "output", "o", textOutput, "text, or json, whose form is stable")
	offer(root, "output", textOutput, jsonOutput)
}

// showHelp runs a command that only groups others: it prints the help, or an error for a name that is not in the group.
func showHelp(c *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return c.Help()
	}
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return nearestHint(fault.New(fault.Invalid, "command %q not found", c.CommandPath()+" "+arguments[0]), arguments[0], known,
		c.CommandPath()+" %s", c.CommandPath()+" --help")
}

// usageFault returns a flag's error with the code of wrong usage.
func usageFault(c *cobra.Command, err error) error {
	return fault.Wrap(fault.Invalid, err).WithHint("%s --help", c.CommandPath())
}

// arguments checks that there are between least and most arguments. The names are for the message.
func arguments(least, most int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return fault.New(fault.Invalid, "%s wants %s", c.CommandPath(), strings.Join(names[len(given):least], " and ")).WithHint("%s", c.UseLine())
		case len(given) > most:
			return fault.New(fault.Invalid, "%s: unexpected argument %q", c.CommandPath(), given[most]).WithHint("%s", c.UseLine())
		}
		return nil
	}
}

// group returns a command that only groups others.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: showHelp}
	c.AddCommand(commands...)
	return c
}

// examples indents the lines of a command's examples as the help wants them.
func examples(lines ...string) string {
	return fmt.Sprintf("  %s", strings.Join(lines, "\n  "))
}
