package build

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// changesOf returns the server that --server names. Without one the error names the command for this computer.
func changesOf(a *cmdline.App, here string) (*client.Client, error) {
	if address := a.Flags.Server; address != "" {
		return buildClient(a, address), nil
	}
	return nil, fault.New(fault.Invalid, "want --server: the command changes builds of a server").WithHint("%s", here)
}

func buildRunCommand(a *cmdline.App) *cobra.Command {
	in := operation.RunBuildInput{Body: &operation.RunBuildBody{}}
	var inputs, passwords, steps []string
	var follow following
	c := &cobra.Command{
		Use:   "run PROJECT",
		Short: "Have a server build a project of its configuration",
		Long: `Has the server build a commit of a project's repository, without a deployment: the one that the
branch is at when the build begins, or --commit. A value of --input is stored and shown as it is,
so an input of type password is refused there: give it by --password, which is kept encrypted
until the build's worker has it. Another build engine is given no passwords. A server runs whole
stages; waybill run --step runs single steps on this computer.`,
		Example: cmdline.Examples("waybill build run shop --server https://waybill.example.org --follow",
			"waybill build run shop --branch topic --stage test -i log-level=debug"),
		Args: cmdline.Arguments(1, 1, "PROJECT"),
		ValidArgsFunction: func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeProjects(a, c, given), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, given []string) error {
			if len(steps) > 0 {
				return fault.New(fault.Invalid, "--step %s: a server runs whole stages", steps[0]).
					WithHint("--stage, or waybill run --step %s on this computer", fault.Quote(steps[0]))
			}
			changes, err := changesOf(a, "waybill run   # builds this folder on this computer")
			if err != nil {
				return err
			}
			in.Project, in.IdempotencyKey = given[0], rand.Text()
			if in.Body.Inputs, err = local.ReadInputs(inputs); err != nil {
				return err
			}
			if in.Body.Passwords, err = readPasswords(c.Context(), a, passwords); err != nil {
				return err
			}
			made, err := operation.RunBuild.Call(c.Context(), changes, in)
			if err != nil {
				return err
			}
			if in.DryRun {
				return a.Printer().Answer(made.Summary, fmt.Sprintf("a build of %s can be started; nothing was", in.Project))
			}
			return follow.begun(c.Context(), a, changes, made.Summary)
		},
	}
	f := c.Flags()
	f.StringVar(&in.Branch, "branch", "", "build this branch (default: the project's, else the repository's own)")
	f.StringVar(&in.Body.Commit, "commit", "", "build this commit, given as all of its hex digits")
	f.StringVar(&in.Environment, "environment", "", "select an environment of the file")
	f.StringVar(&in.Engine, "engine", "",
		"start the build at this other build engine of the server, or in a worker: waybill (default: as the server is configured)")
	f.StringArrayVar(&in.Stages, "stage", nil, "run only this stage (repeatable)")
	f.StringArrayVar(&steps, "step", nil, "refused")
	_ = f.MarkHidden("step") // it is declared
	f.StringArrayVarP(&inputs, "input", "i", nil, "give an input of the file its value, as name=value (repeatable)")
	passwordFlag(c, &passwords)
	f.BoolVar(&in.DryRun, "dry-run", false, "have the server check the request and the types of its inputs, and start nothing")
	follow.add(c, "print what the build prints until it has ended; its failure is status 1")
	return c
}

// completeProjects offers the projects of the server that --server names.
func completeProjects(a *cmdline.App, c *cobra.Command, given []string) (words []string) {
	if a.Flags.Server == "" || len(given) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), cmdline.CompletionPatience)
	defer cancel()
	server := buildClient(a, a.Flags.Server)
	projects, _ := operation.ListProjects.Call(ctx, server, operation.Nothing{}) // a shell has no place for an error
	for _, p := range projects {
		words = append(words, p.Name+"\t"+p.Repository)
	}
	return words
}

// following has the flags of a command that can follow the build that it begins.
type following struct {
	on      bool
	timeout time.Duration
}

func (f *following) add(c *cobra.Command, help string) {
	c.Flags().BoolVarP(&f.on, "follow", "f", false, help)
	cmdline.AddTimeout(c, &f.timeout, "with --follow: "+cmdline.StopWatching)
}

// begun answers with a new build, or follows it to its end.
func (f following) begun(ctx context.Context, a *cmdline.App, from *client.Client, made buildview.Summary) error {
	if !f.on {
		return a.Printer().Answer(made, fmt.Sprintf("build %s: %s", made.ID, statusLine(made.Status, made.Reason)))
	}
	return cmdline.Within(ctx, f.timeout, func(ctx context.Context) error {
		err := followNew(ctx, a, from, made)
		return cmdline.Unended(ctx, err, "build "+made.ID, "waybill build log "+made.ID+" --follow"+atServer(a.Flags.Server))
	})
}

// followNew prints the output of a new build, and how it has ended.
func followNew(ctx context.Context, a *cmdline.App, from *client.Client, made buildview.Summary) error {
	out, terminal := a.Printer(), cmdline.OnTerminal(a.Out)
	out.Note("build %s of %s", made.ID, made.Pipeline)
	lines := logPrinter{out: out, bytes: show.Ungated(a.Out), visible: show.LogText(terminal), named: true, live: terminal}
	if err := from.FollowBuild(ctx, made.ID, "", lines.print); err != nil {
		return err
	}
	ended, err := showBuildOptions{Server: from, Name: made.ID}.read(ctx)
	if err != nil {
		return err
	}
	for _, line := range show.BuildEnd(ended, out.Style) {
		out.Note("%s", line)
	}
	text := fmt.Sprintf("build %s: %s", made.ID, statusLine(ended.Status, ended.Reason))
	switch ended.Status {
	case build.Completed, build.Skipped:
		out.Note("%s", text)
		return nil
	case build.Canceled:
		return fault.New(fault.Canceled, "%s", text)
	}
	return fault.New(fault.Failed, "%s", text).WithHint("waybill build show %s --server %s", made.ID, a.Flags.Server)
}

func buildRerunCommand(a *cmdline.App) *cobra.Command {
	var passwords []string
	var follow following
	var resume bool
	c := &cobra.Command{
		Use:   "rerun BUILD",
		Short: "Run an ended build of this computer again, or have a server do so",
		Long: `Runs a build again with the same file, stages, environment and inputs. Passwords are not kept, so
they are given again.

Without --server it is one that waybill run ran in a folder of this computer: as waybill run does
there, with the same flags, on the files as they are now. With --server the server builds the
same commit; a step of a deployment is retried by its deployment.

--resume reuses the steps that completed, with their logs, artifacts and test results. The log
of the new build says of every step why it is reused or runs again.`,
		Example: cmdline.Examples("waybill build rerun 3", "waybill build rerun 3 --resume -p token",
			"waybill build rerun 41 --resume --server https://waybill.example.org"),
		Args:              cmdline.Arguments(1, 1, "BUILD"),
		ValidArgsFunction: completeOwnBuilds(a),
		RunE: func(c *cobra.Command, given []string) error {
			values, err := readPasswords(c.Context(), a, passwords)
			if err != nil {
				return err
			}
			if a.Flags.Server == "" && follow.timeout != 0 {
				return fault.New(fault.Invalid, "--timeout limits the watching of a server's build").
					WithHint("waybill run --timeout limits the build itself, and a rerun has the same limit")
			}
			if a.Flags.Server == "" {
				run, err := rerunOf(a, given[0], values, resume)
				if err != nil {
					return err
				}
				return run.once(c.Context())
			}
			changes := buildClient(a, a.Flags.Server)
			made, err := operation.RerunBuild.Call(c.Context(), changes, operation.RerunBuildInput{
				BuildPath: operation.BuildPath{ID: given[0]}, Resume: resume, IdempotencyKey: rand.Text(),
				Body: &operation.RerunBuildBody{Passwords: values}})
			if err != nil {
				return err
			}
			if resume && !made.Resume {
				a.Printer().Note("the server is of an older version: it runs every step again")
			}
			return follow.begun(c.Context(), a, changes, made.Summary)
		},
	}
	passwordFlag(c, &passwords)
	c.Flags().BoolVar(&resume, "resume", false, "reuse the steps that completed and are still described the same way")
	follow.add(c, "with --server: print what the build prints until it has ended; its failure is status 1")
	return c
}

func buildCancelCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel BUILD",
		Short: "Cancel a build that waybill run runs on this computer, or one of a server",
		Long: `Cancels a build. What it has printed and made by then stays.

Without --server: one that waybill run runs on this computer, as Ctrl-C does where it runs.
The command returns once the build has ended. With --server: at once if the build has no
worker, else once its worker has stopped what runs.`,
		Example:           cmdline.Examples("waybill build cancel 3", "waybill build cancel 41 --server https://waybill.example.org"),
		Args:              cmdline.Arguments(1, 1, "BUILD"),
		ValidArgsFunction: completeOwnBuilds(a),
		RunE: func(c *cobra.Command, given []string) error {
			if a.Flags.Server == "" {
				return cancelHere(c.Context(), a, given[0])
			}
			changes := buildClient(a, a.Flags.Server)
			now, err := operation.CancelBuild.Call(c.Context(), changes, operation.BuildPath{ID: given[0]})
			if err != nil {
				return err
			}
			done := "asked to stop"
			if now.Ended() {
				done = "canceled"
			}
			return a.Printer().Answer(now, fmt.Sprintf("build %s: %s", given[0], done))
		},
	}
}

func buildDeleteCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "delete BUILD",
		Short: "Delete the results of an ended build of this computer, or of a server",
		Long: `Deletes the logs, artifacts and test results of a build that has ended, for good. Its number is not
used again. Without --server it is one that waybill run ran on this computer; other files
in the folder of its results stay. With --server, artifacts that a deployment has registered
stay.`,
		Example:           cmdline.Examples("waybill build delete 3", "waybill build delete 41 --server https://waybill.example.org"),
		Args:              cmdline.Arguments(1, 1, "BUILD"),
		ValidArgsFunction: completeOwnBuilds(a),
		RunE: func(c *cobra.Command, given []string) error {
			if a.Flags.Server == "" {
				return deleteHere(a, given[0])
			}
			changes := buildClient(a, a.Flags.Server)
			if _, err := operation.DeleteBuild.Call(c.Context(), changes, operation.BuildPath{ID: given[0]}); err != nil {
				return err
			}
			return a.Printer().Answer(map[string]string{"buildId": given[0]}, "build "+given[0]+": deleted")
		},
	}
}
