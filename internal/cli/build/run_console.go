package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs/otlp"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/service"
)

// builder returns the runner of builds in this place and shows them on this command line.
func builder(a *cmdline.App) *local.Builder {
	b := &local.Builder{Files: a.Place, Console: buildConsole{a}, Environment: a.Environment, Dir: a.Dir,
		Home: a.Flags.Home, Version: a.Version, Err: a.Err,
		Earlier: func(name, folder string) (*results.Reader, error) { return earlierBuild(a, name, folder) },
		Trace: func(ctx context.Context, errors *slog.Logger) (trace.TracerProvider, func(context.Context) error) {
			return traceBuild(ctx, a, errors)
		},
		Waits: func(limit time.Duration) {
			fmt.Fprintf(
				a.Err,
				"waiting up to %s until a reader has acknowledged the results; Ctrl-C ends this\n",
				service.ShortDuration(limit),
			)
		},
		Terminated: func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), lifecycle.ErrTerminated) },
	}
	if path, named := a.ConfigPath(assembly.Home{}); named {
		b.Config = path
	}
	return b
}

// traceBuild returns where the spans of a build go. Variables that may be meant for programs of the build do not fail it: with those
// that cannot be followed spans go nowhere, which is a warning.
func traceBuild(ctx context.Context, a *cmdline.App, log *slog.Logger) (trace.TracerProvider, func(context.Context) error) {
	tracing, err := otlp.Open(ctx, a.Environment, a.Version, log)
	if err != nil {
		fmt.Fprintf(a.Err, "waybill: warning: the build is not traced: %s\n", build.VisibleText([]byte(err.Error())))
		tracing = otlp.Nowhere()
	}
	return tracing, tracing.Close
}

// buildConsole is this command line as a build uses it.
type buildConsole struct{ a *cmdline.App }

func (c buildConsole) Problems(problems fault.Problems) { c.a.PrintProblems(problems) }

func (c buildConsole) CanAsk() bool { return c.a.CanAsk() }

func (c buildConsole) Password(ctx context.Context, name string) (string, error) {
	return askPassword(ctx, c.a, name)
}

func (c buildConsole) Shell(ctx context.Context, kept command.Kept) error {
	terminal, ok := cmdline.TerminalOf(c.a.In)
	if !ok {
		return nil
	}
	fmt.Fprintf(c.a.Err, "a shell in the folder of %s; exit leaves it, and the folder stays: %s\n", kept.Step, c.a.Shorten(kept.Dir))
	return kept.Shell(ctx, cmp.Or(c.a.Environment("SHELL"), "/bin/sh"), terminal, "TERM="+c.a.Environment("TERM"))
}

func (c buildConsole) View(h local.Head) worker.View {
	return show.NewBuildView(c.a.Printer(), show.BuildHead{ID: h.ID, Name: buildName(c.a, h), Label: h.Label,
		Results: h.Results, Log: readLogWith(c.a, h),
		Resume: resumeWith(c.a, h), Resumes: describeResumed(h), Plan: h.Plan, Runner: h.Runner, Advice: h.Advice})
}

// buildName returns the name of a build for other commands: its id, or the folder of its results, which has a
// separator.
func buildName(a *cmdline.App, h local.Head) string {
	if h.Named {
		return h.ID
	}
	dir := a.Shorten(filepath.Clean(h.Results))
	if !strings.ContainsRune(dir, filepath.Separator) {
		dir += string(filepath.Separator)
	}
	return dir
}

// readLogWith returns the command that prints the log of a build's step, without the step.
func readLogWith(a *cmdline.App, h local.Head) string {
	return "waybill build log " + fault.Quote(buildName(a, h))
}

// resumeWith returns the command that resumes a build that failed; "" for one of a snapshot or a commit, whose files do not change.
func resumeWith(a *cmdline.App, h local.Head) string {
	switch {
	case h.Folder == "":
		return ""
	case !h.Named:
		return "waybill run --resume=" + fault.Quote(buildName(a, h))
	}
	if folder := a.Shorten(h.Folder); folder != "." {
		return "waybill run " + fault.Quote(folder) + " --resume"
	}
	return "waybill run --resume"
}
