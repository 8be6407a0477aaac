package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/build"
)

// failureOf returns why an attempt failed; "" if it succeeded. fault is the runner's own.
func failureOf(ctx context.Context, exit build.Exit, fault error) build.Fault {
	why := build.FaultOf(context.Cause(ctx), exit.Code)
	if why == "" && fault != nil && ctx.Err() == nil { // such as required test results that are missing
		return build.Failure
	}
	return why
}

// keepFailed moves the workspace of an attempt that failed into a folder of its own in KeepFailed, unless another
// attempt follows, and notes where it is.
func (r *Runner) keepFailed(run build.Run, repo string, why build.Fault, sink build.Sink) error {
	if _, again := run.Step.Retry.After(run.Attempt, why); why == "" || again {
		return nil
	}
	if _, err := os.Stat(repo); err != nil {
		return nil //nolint:nilerr // the attempt ended before it had a workspace
	}
	if err := os.MkdirAll(r.KeepFailed, 0o700); err != nil {
		return fmt.Errorf("keep the step's folder: %w", err)
	}
	own, err := os.MkdirTemp(r.KeepFailed, fmt.Sprintf("%s-%d-", run.Build, run.Step.ID))
	if err != nil {
		return fmt.Errorf("keep the step's folder: %w", err)
	}
	kept := filepath.Join(own, filepath.Base(repo))
	if err := os.Rename(repo, kept); err != nil {
		return fmt.Errorf("keep the step's folder: %w", err)
	}
	if r.Kept != nil {
		r.Kept(Kept{Step: run.Step.Path(), Dir: kept, Environ: func(own string) ([]string, error) {
			spec, err := r.specEnvironment(run.Step.Spec, own)
			return append(r.environment(run, kept), spec...), err
		}})
	}
	return sink.Note("the step's folder is kept: " + kept)
}

// Kept describes the folder of a failed step.
type Kept struct {
	Step string // stage/step
	Dir  string // its workspace
	// Environ returns the variables of the step's program. It writes the files that they name into the folder own.
	Environ func(own string) ([]string, error)
}

// Shell runs an interactive shell in the folder on a terminal, with the step's variables, until the user leaves it. Its
// exit status does not count.
func (k Kept) Shell(ctx context.Context, shell string, terminal *os.File, more ...string) (err error) {
	own, err := os.MkdirTemp(filepath.Dir(k.Dir), "own-")
	if err != nil {
		return fmt.Errorf("open a shell: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	environ, err := k.Environ(own)
	if err != nil {
		return fmt.Errorf("open a shell: %w", err)
	}
	// The shell is of this process's session, as it reads the terminal: Command would give it one of its own.
	c := exec.CommandContext(ctx, shell)
	c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr = k.Dir, append(environ, more...), terminal, terminal, terminal
	if _, exited := errors.AsType[*exec.ExitError](c.Run()); !exited && c.ProcessState == nil {
		return fmt.Errorf("open a shell: %s cannot be started", shell)
	}
	return nil
}
