package build

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

const runHelp = `Runs the .wharf-ci.yml of this folder (or DIR) without a server, and shows what a
server would show. Stages run one after another, the steps of a stage side by side,
each in a copy of the folder of its own: in containers if a Docker Engine answers within
2 s, otherwise as processes on this computer. --runner, or else WAYBILL_RUNNER, decides it.

--resume runs again what failed: steps that completed in an earlier build of the folder
and are still described the same way are reused, with their logs and artifacts.

--stage and --step run a part of the file: --step test/unit with --resume takes what the step
needs from the earlier build. -p NAME gives a password from the standard input, or asks for it on
a terminal; -p NAME=value shows it to other users of the computer.

To find out why a step fails: --keep-failed keeps its folder if it ran as a process, --shell
opens a shell there, and --watch runs the build again each time files of the folder change.

Everything that is printed and made stays in the results folder: see waybill build log
and waybill build show. Ctrl-C cancels the build, a second one ends it at once.

With --serve programs read the results while they are made, over the worker API: its address
and token are in worker.json of the results folder. The command then stays after the build's
end, also after a failure, until a reader has acknowledged that it has everything, or for
--linger. SIGTERM or Ctrl-C cancels the build, and leaves readers --termination-grace.`

// RunCommand returns `waybill run`.
func RunCommand(a *cmdline.App) *cobra.Command {
	run := &localRun{app: a}
	var passwords []string
	c := &cobra.Command{
		Use:   "run [DIR]",
		Short: "Run the build of this folder on this computer",
		Long:  runHelp,
		Example: cmdline.Examples("waybill run", "waybill run --stage test", "waybill run --step test/unit",
			"waybill run --environment stage --dry-run"),
		Args: cmdline.Arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, arguments []string) error {
			values, err := readPasswords(c.Context(), a, passwords)
			if err != nil {
				return err
			}
			run.flags.Hide(values)
			run.set, run.folder = c.Flags(), cmdline.Optional(resumeArguments(a, arguments, &run.flags), 0)
			if run.flags.Watch {
				return run.watch(c.Context())
			}
			return run.once(c.Context())
		},
	}
	addRunFlags(a, c, &run.flags)
	passwordFlag(c, &passwords)
	return c
}

// localRun is a build of a folder on this computer.
type localRun struct {
	app    *cmdline.App
	set    *pflag.FlagSet // as it was given the flags
	flags  local.Options
	folder string // "": this one
}

// once runs the build.
func (r *localRun) once(ctx context.Context) (err error) {
	a, flags := r.app, r.flags
	ctx, stop := lifecycle.UntilUnread(ctx)
	defer stop()
	defer func() {
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, lifecycle.ErrUnread) {
			err = errors.Join(err, cause)
		}
	}()
	if flags.Shell && !(a.CanAsk() && cmdline.OnTerminal(a.Out)) {
		return fault.New(fault.Invalid, "--shell wants a terminal").WithHint("--keep-failed")
	}
	flags.KeepFailed = flags.KeepFailed || flags.Shell
	local.ChooseRunner(&flags, a.Environment)
	if flags.Runner == local.RunnerKubernetes && !r.set.Changed("max-parallel") {
		flags.MaxParallel = local.KubernetesParallel
	}
	flags.Kept = keptFlags(a, r.set)
	return runBuild(ctx, a, r.folder, flags)
}

// runBuild runs a build, or shows its plan.
func runBuild(ctx context.Context, a *cmdline.App, folder string, flags local.Options) error {
	if flags.DryRun.On() {
		return printBuildPlan(ctx, a, folder, flags)
	}
	ended, err := builder(a).Run(ctx, folder, flags)
	switch {
	case ended.Status == "":
		return err
	case ended.Status == build.Canceled && ctx.Err() != nil: // by a signal, which has a status of its own
		return errors.Join(cmdline.Printed(fault.New(fault.Interrupted, "build %s was canceled", ended.ID)), err)
	}
	return errors.Join(outcomeOf(ended.ID, ended.Status), err)
}

// outcomeOf returns the error for the end of a build, which has been printed.
func outcomeOf(id string, result build.Status) error {
	switch result {
	case build.Completed, build.Skipped:
		return nil
	case build.Canceled:
		return cmdline.Printed(fault.New(fault.Canceled, "build %s was canceled", id))
	}
	return cmdline.Printed(fault.New(fault.Failed, "build %s failed", id))
}
