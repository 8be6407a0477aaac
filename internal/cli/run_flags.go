package cli

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
)

// runFlags are the flags of `waybill run`.
type runFlags struct {
	file, environment, resultsDir, buildID, workspace string
	runner, pull                                      string
	projectID                                         string
	strict, strictVars                                bool
	stages, steps, env, inputs                        []string
	passwords                                         []string // inputs of the build that is resumed, whose values are not kept
	hidden                                            []string // inputs that were given as passwords
	maxParallel                                       int
	timeout, grace                                    time.Duration
	maxStepLog                                        int64
	dryRun                                            dryRun
	inPlace, watch, shell                             bool
	trackedOnly, noIgnored, keepWorkspace, keepFailed bool
	resume                                            string // a build, or resumeLast
	secretsDir, certificates                          string
	clusters                                          []string
	noPush                                            bool
	cacheDir                                          string
	cacheSize                                         int64
	serve                                             serveBuildFlags
	launch                                            launchFlags
	kubernetes                                        kubernetesFlags
	kept                                              []string // flags that waybill build rerun gives again
	rerunOf                                           string   // id of the build that is run again; "": none
}

// addRunFlags declares the flags of waybill run.
func addRunFlags(a *app, c *cobra.Command, flags *runFlags) {
	addVariableFlags(a, c, flags)
	f := c.Flags()
	f.StringArrayVar(&flags.stages, "stage", nil, "run only this stage (repeatable)")
	f.StringArrayVar(&flags.steps, "step", nil, "run only this step, as STAGE/STEP (repeatable); with --resume, what it needs is taken from the earlier build")
	f.BoolVar(&flags.strict, "strict", false, "refuse a file with an unknown field of a step type, instead of a warning")
	f.BoolVar(&flags.strictVars, "strict-vars", false, "refuse a file with a variable that has no value, also in commands")
	f.StringVar(&flags.resultsDir, "results-dir", "", "folder for the results (default: a numbered one in the temporary folder)")
	f.IntVar(&flags.maxParallel, "max-parallel", runtime.NumCPU(), "steps at a time; 20 on Kubernetes")
	f.DurationVar(&flags.timeout, "timeout", build.DefaultTimeout, "end the build after this long")
	f.DurationVar(&flags.grace, "grace", command.DefaultGrace, "between SIGTERM and SIGKILL of a step that is ended")
	f.Int64Var(&flags.maxStepLog, "max-step-log", 4<<30, "fail a step whose log grows beyond this many bytes")
	f.StringArrayVar(&flags.env, "env", nil, "hand this environment variable on to steps (repeatable)")
	f.StringVar(&flags.runner, "runner", "", "how steps run: auto, process, docker or kubernetes (default: WAYBILL_RUNNER, else auto)")
	f.StringVar(&flags.pull, "pull", string(docker.PullMissing), "when Docker pulls images: missing, always or never")
	f.StringVar(&flags.workspace, "workspace", "", "build this snapshot instead of a folder")
	flags.serve.add(c)
	f.StringVar(&flags.launch.file, "launch", "", "with --results-dir: what a provisioner wants built, as a file of JSON, or - for the standard input")
	f.BoolVar(&flags.inPlace, "in-place", false, "run the steps in the folder itself, one at a time: what they write stays there")
	f.BoolVar(&flags.trackedOnly, "tracked-only", false, "give the steps .git and the files that git tracks, changed ones as they are")
	f.BoolVar(&flags.noIgnored, "no-ignored", false, "give the steps all files but those that git ignores")
	f.BoolVar(&flags.keepWorkspace, "keep-workspace", false, "keep the files that the steps get as workspace.tar.zst of the results, for --workspace")
	f.BoolVar(&flags.watch, "watch", false, "run again each time the files of the folder change, until Ctrl-C")
	f.BoolVar(&flags.keepFailed, "keep-failed", false, "keep the folder of a step that fails, and print where it is: for steps as processes")
	f.BoolVar(&flags.shell, "shell", false, "as --keep-failed, and open a shell in the folder of the first step that failed, with its variables")
	addDryRunOf(c, &flags.dryRun)
	f.StringVar(&flags.secretsDir, "secrets", "", "folder whose files NAME.env have the secrets of steps (default: in the user's configuration)")
	f.StringVar(&flags.certificates, "certificates", "", "folder with certificates of authorities for steps that want those of the cluster")
	f.StringArrayVar(&flags.clusters, "cluster", nil, "let helm and kubectl reach a cluster by its name in the file, as NAME=KUBECONFIG#CONTEXT (repeatable)")
	f.BoolVar(&flags.noPush, "no-push", false, "keep images where they are built")
	f.StringVar(&flags.cacheDir, "cache-dir", "", "folder in which steps leave files for later builds (default: in the user's cache)")
	f.Int64Var(&flags.cacheSize, "cache-size", 10<<30, "how many bytes of these files are kept; 0: none, and none are used")
	f.StringVar(&flags.resume, "resume", "", "reuse the steps that completed in this build, or in the last one of the folder")
	f.Lookup("resume").NoOptDefVal = resumeLast
	offerFrom(c, completeBuilds(a), "resume")
	flags.kubernetes.add(c)
	offer(c, "runner", runnerAuto, runnerProcess, runnerDocker, runnerKubernetes)
	offer(c, "pull", string(docker.PullMissing), string(docker.PullAlways), string(docker.PullNever))
	offerFrom(c, completeFile(a, func(file *build.File) (names []string) {
		for _, stage := range file.Stages {
			names = append(names, stage.Name)
		}
		return names
	}), "stage")
	offerFrom(c, completeFile(a, func(file *build.File) (paths []string) {
		for _, stage := range file.Stages {
			for _, step := range stage.Steps {
				paths = append(paths, stage.Name+"/"+step.Key)
			}
		}
		return slices.Compact(paths) // a matrix makes several of a key
	}), "step")
}

// addVariableFlags declares the flags that give variables their values.
func addVariableFlags(a *app, c *cobra.Command, flags *runFlags) {
	f := c.Flags()
	f.StringVar(&flags.file, "file", build.FileName, "the build's file, from the folder's root")
	f.StringArrayVarP(&flags.inputs, "input", "i", nil, "give an input of the file its value, as name=value (repeatable)")
	f.StringVar(&flags.environment, "environment", "", "select an environment of the file")
	f.StringVar(&flags.buildID, "build-id", "", "the build's id (default: the next number)")
	f.StringVar(&flags.projectID, "project-id", "", "the project's number, for ${PROJECT_ID}")
	offerFrom(c, completeInputs(a), "input")
	offerFrom(c, completeFile(a, func(file *build.File) (names []string) {
		for _, environment := range file.Environments {
			names = append(names, environment.Name)
		}
		return names
	}), "environment")
}

// check returns an error for values that mean nothing.
func (f runFlags) check() error {
	switch {
	case f.dryRun != "" && f.dryRun != dryClient && f.dryRun != dryServer:
		return fault.New(fault.Invalid, "--dry-run=%s: want client, which is the default, or server", f.dryRun)
	case f.resume != "" && f.dryRun.on():
		return fault.New(fault.Invalid, "--resume and --dry-run exclude each other")
	case slices.ContainsFunc(f.env, func(name string) bool { return strings.Contains(name, "=") }):
		return fault.New(fault.Invalid, "--env wants the name of a variable of this environment, without a value").WithHint("NAME=value waybill run --env NAME")
	case f.cacheSize < 0:
		return fault.New(fault.Invalid, "--cache-size %d: want zero or more", f.cacheSize)
	case f.maxParallel < 1:
		return fault.New(fault.Invalid, "--max-parallel %d: at least one step must run", f.maxParallel)
	case f.timeout <= 0:
		return fault.New(fault.Invalid, "--timeout %s: want more than zero", f.timeout)
	case strings.ContainsAny(f.buildID, `/\`) || f.buildID == "." || f.buildID == "..":
		return fault.New(fault.Invalid, "--build-id %q cannot be the name of a folder", f.buildID)
	case strings.Trim(f.projectID, "0123456789") != "":
		return fault.New(fault.Invalid, "--project-id %q is not a number", f.projectID)
	}
	return errors.Join(f.checkSelection(), f.checkRunner(), f.kubernetes.check(f.runner, f.inPlace), f.serve.check())
}

// checkSelection returns an error for flags that do not agree about the files that steps get.
func (f runFlags) checkSelection() error {
	switch {
	case f.inPlace && f.workspace != "":
		return fault.New(fault.Invalid, "--in-place and --workspace exclude each other: a snapshot has no place of its own")
	case f.trackedOnly && f.noIgnored:
		return fault.New(fault.Invalid, "--tracked-only and --no-ignored exclude each other")
	case (f.trackedOnly || f.noIgnored) && (f.inPlace || f.workspace != ""):
		return fault.New(fault.Invalid, "--tracked-only and --no-ignored are for builds in copies of a folder, without --in-place and --workspace")
	}
	return nil
}
