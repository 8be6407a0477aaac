package build

import (
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/docker"
)

// addRunFlags declares the flags of waybill run.
func addRunFlags(a *cmdline.App, c *cobra.Command, flags *local.Options) {
	addVariableFlags(a, c, flags)
	f := c.Flags()
	f.StringArrayVar(&flags.Stages, "stage", nil, "run only this stage (repeatable)")
	f.StringArrayVar(&flags.Steps, "step", nil,
		"run only this step, as STAGE/STEP (repeatable); with --resume, what it needs is taken from the earlier build")
	f.BoolVar(&flags.Strict, "strict", false, "refuse a file with an unknown field of a step type, instead of a warning")
	f.BoolVar(&flags.StrictVars, "strict-vars", false, "refuse a file with a variable that has no value, also in commands")
	f.StringVar(&flags.ResultsDir, "results-dir", "", "folder for the results (default: a numbered one in the temporary folder)")
	f.IntVar(&flags.MaxParallel, "max-parallel", runtime.NumCPU(), "steps at a time; 20 on Kubernetes")
	f.DurationVar(&flags.Timeout, "timeout", build.DefaultTimeout, "end the build after this long")
	f.DurationVar(&flags.Grace, "grace", command.DefaultGrace, "between SIGTERM and SIGKILL of a step that is ended")
	f.Int64Var(&flags.MaxStepLog, "max-step-log", 4<<30, "fail a step whose log grows beyond this many bytes")
	f.StringArrayVar(&flags.Env, "env", nil, "hand this environment variable on to steps (repeatable)")
	f.StringVar(&flags.Runner, "runner", "", "how steps run: auto, process, docker or kubernetes (default: WAYBILL_RUNNER, else auto)")
	f.StringVar(&flags.Pull, "pull", string(docker.PullMissing), "when Docker pulls images: missing, always or never")
	f.StringVar(&flags.Workspace, "workspace", "", "build this snapshot instead of a folder")
	addServeBuildFlags(c, &flags.Serve)
	f.StringVar(&flags.Launch.Path, "launch", "",
		"with --results-dir: what a provisioner wants built, as a file of JSON, or - for the standard input")
	f.BoolVar(&flags.InPlace, "in-place", false, "run the steps in the folder itself, one at a time: what they write stays there")
	f.BoolVar(&flags.TrackedOnly, "tracked-only", false, "give the steps .git and the files that git tracks, changed ones as they are")
	f.BoolVar(&flags.NoIgnored, "no-ignored", false, "give the steps all files but those that git ignores")
	f.BoolVar(&flags.KeepWorkspace, "keep-workspace", false,
		"keep the files that the steps get as workspace.tar.zst of the results, for --workspace")
	f.BoolVar(&flags.Watch, "watch", false, "run again each time the files of the folder change, until Ctrl-C")
	f.BoolVar(&flags.KeepFailed, "keep-failed", false, "keep the folder of a step that fails, and print where it is: for steps as processes")
	f.BoolVar(&flags.Shell, "shell", false,
		"as --keep-failed, and open a shell in the folder of the first step that failed, with its variables")
	addDryRunOf(c, &flags.DryRun)
	f.StringVar(&flags.SecretsDir, "secrets", "",
		"folder whose files NAME.env have the secrets of steps (default: in the user's configuration)")
	f.StringVar(&flags.Certificates, "certificates", "", "folder with certificates of authorities for steps that want those of the cluster")
	f.StringArrayVar(&flags.Clusters, "cluster", nil,
		"let helm and kubectl reach a cluster by its name in the file, as NAME=KUBECONFIG#CONTEXT (repeatable)")
	f.BoolVar(&flags.NoPush, "no-push", false, "keep images where they are built")
	f.StringVar(&flags.CacheDir, "cache-dir", "", "folder in which steps leave files for later builds (default: in the user's cache)")
	f.Int64Var(&flags.CacheSize, "cache-size", 10<<30, "how many bytes of these files are kept; 0: none, and none are used")
	f.StringVar(&flags.Resume, "resume", "", "reuse the steps that completed in this build, or in the last one of the folder")
	f.Lookup("resume").NoOptDefVal = local.Last
	cmdline.OfferFrom(c, completeBuilds(a), "resume")
	addKubernetesFlags(c, &flags.Kubernetes)
	cmdline.Offer(c, "runner", local.RunnerAuto, local.RunnerProcess, local.RunnerDocker, local.RunnerKubernetes)
	cmdline.Offer(c, "pull", string(docker.PullMissing), string(docker.PullAlways), string(docker.PullNever))
	cmdline.OfferFrom(c, completeFile(a, func(file *build.File) (names []string) {
		for _, stage := range file.Stages {
			names = append(names, stage.Name)
		}
		return names
	}), "stage")
	cmdline.OfferFrom(c, completeFile(a, func(file *build.File) (paths []string) {
		for _, stage := range file.Stages {
			for _, step := range stage.Steps {
				paths = append(paths, stage.Name+"/"+step.Key)
			}
		}
		return slices.Compact(paths) // a matrix makes several of a key
	}), "step")
}

// addVariableFlags declares the flags that give variables their values.
func addVariableFlags(a *cmdline.App, c *cobra.Command, flags *local.Options) {
	f := c.Flags()
	f.StringVar(&flags.File, "file", build.FileName, "the build's file, from the folder's root")
	f.StringArrayVarP(&flags.Inputs, "input", "i", nil, "give an input of the file its value, as name=value (repeatable)")
	f.StringVar(&flags.Environment, "environment", "", "select an environment of the file")
	f.StringVar(&flags.BuildID, "build-id", "", "the build's id (default: the next number)")
	f.StringVar(&flags.ProjectID, "project-id", "", "the project's number, for ${PROJECT_ID}")
	cmdline.OfferFrom(c, completeInputs(a), "input")
	cmdline.OfferFrom(c, completeFile(a, func(file *build.File) (names []string) {
		for _, environment := range file.Environments {
			names = append(names, environment.Name)
		}
		return names
	}), "environment")
}

// Defaults of the worker API.
const (
	defaultLinger    = 24 * time.Hour
	defaultStopGrace = 10 * time.Minute
)

// addServeBuildFlags declares the flags of the worker API.
func addServeBuildFlags(c *cobra.Command, f *local.ServeOptions) {
	to := c.Flags()
	to.BoolVar(&f.On, "serve", false, "serve the results to programs, and stay until they are acknowledged")
	to.StringVar(&f.Listen, "listen", local.AnyLoopbackPort, "with --serve: the address; port 0 takes a free one")
	to.StringVar(&f.TokenFile, "token-file", "", "with --serve: a file with the token that readers need (default: a new one in worker.json)")
	to.DurationVar(&f.Linger, "linger", defaultLinger, "with --serve: how long to stay after the build's end")
	to.DurationVar(&f.StopWait, "termination-grace", defaultStopGrace,
		"with --serve: how long to stay after SIGTERM or Ctrl-C has canceled the build")
}

// addKubernetesFlags declares the flags that choose the cluster of the steps.
func addKubernetesFlags(c *cobra.Command, f *local.ClusterOptions) {
	flags := c.Flags()
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "with --runner kubernetes: file that names the cluster (default: as kubectl finds it)")
	flags.StringVar(&f.Context, "context", "", "with --runner kubernetes: context of the kubeconfig (default: its current one)")
	flags.StringVar(&f.Namespace, "namespace", "", "with --runner kubernetes: namespace of the pods (default: the context's)")
	flags.StringVar(&f.Image, "shim-image", "", "with --runner kubernetes: image that has waybill in its PATH, for the pods' helpers")
	flags.StringVar(&f.Pull, "image-pull-policy", "",
		"with --runner kubernetes: Always, IfNotPresent or Never (default: Always, but not for digests and the shim)")
	flags.StringVar(&f.Accounts, "service-accounts", "",
		"with --runner kubernetes: accounts that steps may name, with commas between them (default: any)")
	flags.DurationVar(&f.PullDeadline, "pull-deadline", 0,
		"with --runner kubernetes: how long an image that cannot be pulled is waited for (default 5m)")
	cmdline.Offer(c, "image-pull-policy", "Always", "IfNotPresent", "Never")
}

// addDryRunOf declares the flag --dry-run.
func addDryRunOf(c *cobra.Command, value *local.DryRun) {
	f := c.Flags()
	f.StringVar((*string)(value), "dry-run", "",
		"print what would run, and run nothing; =server also asks what runs the steps: a cluster for each pod, Docker for the images")
	f.Lookup("dry-run").NoOptDefVal = local.DryClient
	cmdline.Offer(c, "dry-run", local.DryClient, local.DryServer)
}
