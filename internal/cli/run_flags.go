package cli

import (
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/docker"
)

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
	addServeBuildFlags(c, &flags.serve)
	f.StringVar(&flags.launch.path, "launch", "", "with --results-dir: what a provisioner wants built, as a file of JSON, or - for the standard input")
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
	addKubernetesFlags(c, &flags.kubernetes)
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

// Defaults of the worker API.
const (
	defaultLinger    = 24 * time.Hour
	defaultStopGrace = 10 * time.Minute
)

// addServeBuildFlags declares the flags of the worker API.
func addServeBuildFlags(c *cobra.Command, f *serveBuildFlags) {
	to := c.Flags()
	to.BoolVar(&f.on, "serve", false, "serve the results to programs, and stay until they are acknowledged")
	to.StringVar(&f.listen, "listen", anyLoopbackPort, "with --serve: the address; port 0 takes a free one")
	to.StringVar(&f.tokenFile, "token-file", "", "with --serve: a file with the token that readers need (default: a new one in worker.json)")
	to.DurationVar(&f.linger, "linger", defaultLinger, "with --serve: how long to stay after the build's end")
	to.DurationVar(&f.stopWait, "termination-grace", defaultStopGrace, "with --serve: how long to stay after SIGTERM or Ctrl-C has canceled the build")
}

// addKubernetesFlags declares the flags that say which cluster runs the steps.
func addKubernetesFlags(c *cobra.Command, f *kubernetesFlags) {
	flags := c.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "with --runner kubernetes: file that names the cluster (default: as kubectl finds it)")
	flags.StringVar(&f.context, "context", "", "with --runner kubernetes: context of the kubeconfig (default: its current one)")
	flags.StringVar(&f.namespace, "namespace", "", "with --runner kubernetes: namespace of the pods (default: the context's)")
	flags.StringVar(&f.image, "shim-image", "", "with --runner kubernetes: image that has waybill in its PATH, for the pods' helpers")
	flags.StringVar(&f.pull, "image-pull-policy", "", "with --runner kubernetes: Always, IfNotPresent or Never (default: Always, but not for digests and the shim)")
	flags.StringVar(&f.accounts, "service-accounts", "", "with --runner kubernetes: accounts that steps may name, with commas between them (default: any)")
	flags.DurationVar(&f.pullDeadline, "pull-deadline", 0, "with --runner kubernetes: how long an image that cannot be pulled is waited for (default 5m)")
	offer(c, "image-pull-policy", "Always", "IfNotPresent", "Never")
}

// addDryRunOf declares the flag --dry-run.
func addDryRunOf(c *cobra.Command, value *dryRun) {
	f := c.Flags()
	f.StringVar((*string)(value), "dry-run", "", "print what would run, and run nothing; =server also asks what runs the steps: a cluster for each pod, Docker for the images")
	f.Lookup("dry-run").NoOptDefVal = dryClient
	offer(c, "dry-run", dryClient, dryServer)
}
