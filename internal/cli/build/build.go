// Package build has the commands of builds: waybill build, which checks their files, runs them on servers and reads
// the output and made, and waybill run, which runs one on this computer with package builder/local.
package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

const buildHelp = `A build is described by .wharf-ci.yml. Run one with waybill run; a deployment's build
runs the same way. A build run by hand is named by its number, a deployment's by the id
that its error and waybill build list show, and any by the folder of its results. The
results are on the machine that built, or in the database for builds in workers;
--server reads what the server has.`

// Command returns `waybill build` with every command below it.
func Command(a *cmdline.App) *cobra.Command {
	c := cmdline.Group("build", "Check a build's file; run builds on a server; read what they printed and made", buildHelp,
		buildInitCommand(a), buildLintCommand(a), buildSchemaCommand(a), buildVarsCommand(a), buildListCommand(a),
		buildShowCommand(a), buildLogCommand(a), buildSearchCommand(a), buildArtifactCommand(a),
		buildRunCommand(a), buildRerunCommand(a), buildCancelCommand(a), buildDeleteCommand(a))
	for _, sub := range c.Commands() {
		sub.PreRunE = func(*cobra.Command, []string) error {
			served := map[string]bool{"artifact": true, "list": true, "show": true, "log": true, "search": true, "run": true,
				"rerun": true, "cancel": true, "delete": true}
			return refuseElsewhere(a.Flags, "builds are read on the machine that built them", served[sub.Name()])
		}
	}
	return c
}

// refuseElsewhere returns an error for flags that name a log or a server elsewhere: the command reads this machine. With
// served the command also has a meaning through a server.
func refuseElsewhere(flags assembly.Flags, why string, served bool) error {
	for name, value := range map[string]string{"--server": flags.Server, "--store": flags.Store} {
		if value != "" && !(served && name == "--server") {
			return fault.New(fault.Invalid, "%s has no effect here: %s", name, why).WithHint("run the command there, or leave %s out", name)
		}
	}
	return nil
}

// lintFailed prints the faults of a file as JSON where that is requested, as sound files have their warnings there.
func lintFailed(a *cmdline.App, err error) error {
	problems, ok := errors.AsType[fault.Problems](err)
	if !ok || !a.JSON() {
		return err
	}
	if err := a.Printer().Document(problems); err != nil {
		return err
	}
	return cmdline.Printed(err)
}

func buildLintCommand(a *cmdline.App) *cobra.Command {
	var flags local.Options
	c := &cobra.Command{
		Use:   "lint [DIR|FILE]",
		Short: "Report every fault and warning of a .wharf-ci.yml",
		Long: `Reports every fault and warning of a file. --strict-vars also refuses a variable that has no
value, as waybill run --strict-vars does: with --environment in that one, else in all.`,
		Example: cmdline.Examples("waybill build lint", "waybill build lint examples/hello -o json",
			"waybill build lint --strict-vars --environment prod"),
		Args: cmdline.Arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, given []string) error {
			root, name := a.Dir, build.FileName
			if len(given) > 0 {
				root = a.Path(given[0])
			}
			switch info, err := os.Stat(root); {
			case errors.Is(err, fs.ErrNotExist):
				return fault.New(fault.Invalid, "%s not found", a.Shorten(root))
			case err == nil && !info.IsDir():
				root, name = filepath.Split(root)
			}
			file, warnings, err := builder(a).ReadFile(root, name, a.Shorten(filepath.Join(root, name)), flags.Strict)
			if err == nil {
				err = file.Loops().Err()
			}
			if err == nil && flags.StrictVars {
				flags.File = name
				err = builder(a).LintVariables(c.Context(), root, file, flags)
			}
			if err != nil {
				return lintFailed(a, err)
			}
			advice := append(warnings, file.Advice()...)
			advice.Sort()
			a.PrintProblems(advice)
			return a.Printer().Answer(show.Items(advice), fmt.Sprintf("%s is sound: %s", name, show.Count(len(file.Stages), "stage")))
		},
	}
	c.Flags().BoolVar(&flags.Strict, "strict", false, "refuse an unknown field of a step type, instead of a warning")
	c.Flags().BoolVar(&flags.StrictVars, "strict-vars", false, "refuse a variable that has no value, also in commands")
	c.Flags().StringVar(&flags.Environment, "environment", "", "with --strict-vars: the environment whose variables count (default: each)")
	return c
}

func buildSchemaCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of .wharf-ci.yml, for editors",
		Example: cmdline.Examples("waybill build schema > .wharf-ci.schema.json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			schema, err := build.Schema()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(schema)
			return err
		},
	}
}
