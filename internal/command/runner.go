package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// DefaultGrace is a step's time between SIGTERM and SIGKILL.
const DefaultGrace = 10 * time.Second

// Runner runs build steps as processes on this computer, with its shell and its
// tools; images are ignored. Each step works in a copy of the workspace of its own.
type Runner struct {
	Supervisor []string      // argv of a program that calls Supervise, such as waybill supervise
	Grace      time.Duration // between SIGTERM and SIGKILL once a step's context has ended
	Keep       []string      // names of further environment variables that steps get
	InPlace    string        // folder in which all steps work, instead of copies; "": each has a copy

	// Clusters are the clusters that steps can reach, by the name of the ConfigMap that has it in a cluster. The
	// current context of the user is not among them.
	Clusters     map[string]Cluster
	Certificates string // folder with certificates of authorities for steps that trust build.CertificatesObject; "": none

	KeepFailed string     // folder to which workspaces of failed steps are moved, in the file system of Run.Scratch; "": they are removed
	Kept       func(Kept) // gets each of these, also concurrently; nil: nothing does

	Cache *buildcache.Shelf // cache of the project; nil: steps get nothing from earlier builds. It is not used with InPlace

	supervisors supervisors
}

// Run makes one attempt at a step. When ctx ends the step gets SIGTERM, and
// SIGKILL after the grace; nothing that it started is alive when Run returns.
func (r *Runner) Run(ctx context.Context, run build.Run, sink build.Sink) (exit build.Exit, err error) {
	folder := filepath.Join(run.Scratch, strconv.Itoa(run.Step.ID))
	repo := filepath.Join(folder, "repo")
	defer func() {
		if r.KeepFailed != "" {
			err = errors.Join(err, r.keepFailed(run, repo, failureOf(ctx, exit, err), sink))
		}
		err = errors.Join(err, workspace.Remove(folder))
	}()
	if err := sink.Phase(build.Initializing); err != nil {
		return build.Exit{}, err
	}
	shelf := r.Cache
	if r.InPlace != "" {
		repo, shelf, run.Needed = r.InPlace, nil, nil // what needed steps made is there already
		err = os.MkdirAll(folder, 0o700)
	} else {
		_, err = workspace.Copy(ctx, run.Tree, repo, workspace.Selection{})
	}
	if err != nil {
		return build.Exit{}, err
	}
	files := attempt.Files{Run: run, Shelf: shelf, Sink: sink}
	if err := files.Prepare(ctx, repo); err != nil {
		return build.Exit{}, err
	}
	defer files.Close()
	if err := sink.Phase(build.Running); err != nil {
		return build.Exit{}, err
	}
	exit, err = r.execute(ctx, run, place{repo, folder}, sink)
	if err != nil {
		return exit, err
	}
	if r.InPlace == "" {
		if err := os.MkdirAll(repo, 0o700); err != nil { // a step that has removed it leaves no files
			return exit, err
		}
	}
	return files.Keep(ctx, exit)
}

// place is the folders of one attempt.
type place struct {
	repo string // where the step works
	own  string // this user's alone, removed after the attempt
}

// execute runs the step's program and hands its output on until both streams have ended.
func (r *Runner) execute(ctx context.Context, run build.Run, at place, sink build.Sink) (build.Exit, error) {
	argv, err := argvOf(run.Step.Spec, at.own)
	if err != nil {
		return build.Exit{}, err
	}
	own, err := r.specEnvironment(run.Step.Spec, at.own)
	if err != nil {
		return build.Exit{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outputs, err := readOutputs(sink, run.Mask, cancel)
	if err != nil {
		return build.Exit{}, err
	}
	exit, err := r.supervise(ctx, order{Argv: argv, Dir: at.repo, Env: append(r.environment(run, at.repo), own...)}, outputs.writers)
	if exit.Signal != 0 { // the supervisor was killed, so the rest has no parent
		killMarked(attempt.Marker(at.repo))
	}
	return build.Exit{Code: exit.Code}, errors.Join(err, outputs.end())
}

// argvOf returns the argument list of a step. Every user of the computer can read those of its
// processes, so commands with passwords are in a file of the folder, which is this user's alone.
func argvOf(spec build.Spec, folder string) ([]string, error) {
	if !spec.Secret {
		return localArgv(spec.Argv), nil
	}
	last := len(spec.Argv) - 1
	path := filepath.Join(folder, "commands")
	if err := os.WriteFile(path, []byte(spec.Argv[last]), 0o600); err != nil {
		return nil, fmt.Errorf("write the commands of step %s: %w", spec.Step, err)
	}
	return []string{spec.Argv[0], path}, nil
}

// kept returns the names of environment variables that every step gets from this process.
func kept() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"}
}

// environment returns all variables that a step sees: a few of this process's own, and those that
// describe the run.
func (r *Runner) environment(run build.Run, repo string) []string {
	var env []string
	names := append(kept(), r.Keep...)
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if slices.Contains(names, name) || strings.HasPrefix(name, "LC_") || run.Step.Spec.Build != nil && name == build.BuildKitHost {
			env = append(env, pair)
		}
	}
	return append(env, attempt.Environ(run, repo)...)
}
