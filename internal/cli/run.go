package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

const runHelp = `Runs the .wharf-ci.yml of this folder (or DIR) without a server, and shows what a
server would show. Stages run one after another, the steps of a stage side by side,
each in a copy of the folder of its own: in containers if a Docker Engine answers within
2 s, otherwise as processes on this computer. --runner, or else WAYBILL_RUNNER, decides it.

--resume runs again what failed: steps that completed in an earlier build of the folder
and are still described the same way are reused, with their logs and artifacts.

Everything that is printed and made stays in the results folder: see waybill build log
and waybill build show. Ctrl-C cancels the build, a second one ends it at once.

With --serve programs read the results while they are made, over the worker API: its address
and token are in worker.json of the results folder. The command then stays after the build's
end, also after a failure, until a reader has acknowledged that it has everything, or for
--linger. SIGTERM or Ctrl-C cancels the build, and leaves readers --termination-grace.`

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

func runCommand(a *app) *cobra.Command {
	var flags runFlags
	var passwords []string
	c := &cobra.Command{
		Use:     "run [DIR]",
		Short:   "Run the build of this folder on this computer",
		Long:    runHelp,
		Example: examples("waybill run", "waybill run --stage test", "waybill run --step test/unit", "waybill run --environment stage --dry-run"),
		Args:    arguments(0, 1, "DIR"),
		RunE: func(c *cobra.Command, arguments []string) error {
			values, err := a.readPasswords(c.Context(), passwords)
			if err != nil {
				return err
			}
			flags.hide(values)
			arguments = a.resumeArguments(arguments, &flags)
			run := func(ctx context.Context) error { return a.runWith(ctx, c.Flags(), arguments, flags) }
			if flags.watch {
				return a.watchBuilds(c.Context(), arguments, flags, run)
			}
			return run(c.Context())
		},
	}
	addRunFlags(a, c, &flags)
	passwordFlag(c, &passwords)
	return c
}

// runWith runs a build with flags that were read from a set.
func (a *app) runWith(ctx context.Context, set *pflag.FlagSet, arguments []string, flags runFlags) error {
	ctx, stop := lifecycle.UntilUnread(ctx)
	defer stop()
	if flags.shell && !(a.canAsk() && onTerminal(a.out)) {
		return fault.New(fault.Invalid, "--shell wants a terminal").WithHint("--keep-failed")
	}
	flags.keepFailed = flags.keepFailed || flags.shell
	a.chooseRunner(&flags)
	if flags.runner == runnerKubernetes && !set.Changed("max-parallel") {
		flags.maxParallel = kubernetesParallel
	}
	flags.kept = a.keptFlags(set)
	return a.runBuild(ctx, arguments, flags)
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

// runBuild plans, then shows the plan or runs it.
func (a *app) runBuild(ctx context.Context, arguments []string, flags runFlags) (err error) {
	if err := a.readLaunch(arguments, &flags); err != nil {
		return err
	}
	if err := flags.check(); err != nil {
		return err
	}
	source, err := a.buildSource(ctx, arguments, flags)
	if err != nil {
		return err
	}
	defer source.close()
	in, err := a.openInbox(ctx, source, flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	j, err := a.planBuild(ctx, source, flags, in)
	switch {
	case err != nil && flags.serve.on && !flags.dryRun.on():
		return a.workUnplanned(ctx, source, flags, in, err)
	case err != nil:
		return err
	case flags.dryRun.on():
		return a.printPlan(ctx, j)
	}
	j.inbox = in
	return a.work(ctx, j)
}

// planBuild reads the file and makes the plan.
func (a *app) planBuild(ctx context.Context, source *buildSource, flags runFlags, in *inbox) (planned job, err error) {
	if err := source.receive(ctx, flags.launch, in); err != nil {
		return job{}, err
	}
	resumes, err := a.resumption(ctx, &flags, source, in)
	if err != nil {
		return job{}, err
	}
	if err := source.checkReceived(flags); err != nil {
		return job{}, err
	}
	file, err := a.readFileOf(source, flags)
	if err != nil {
		return job{}, err
	}
	facts, err := source.facts(ctx)
	if err != nil {
		return job{}, err
	}
	if flags.dryRun.on() { // else the build shows them
		a.printNotes(source.notes)
	}
	id, place, err := a.buildPlace(flags)
	if err != nil {
		return job{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, place.giveBack(id))
		}
	}()
	choice, warnings, err := a.buildChoice(source, flags, facts, id)
	if err != nil {
		return job{}, err
	}
	if err := a.passwords(ctx, file, &choice, source, flags); err != nil {
		return job{}, err
	}
	resumes.addNeeded(&choice, func() (*build.Plan, error) {
		plan, _, err := makePlan(ctx, file, choice, source, flags.strict)
		return plan, err
	})
	plan, problems, err := makePlan(ctx, file, choice, source, flags.strict)
	if plan != nil {
		a.printProblems(append(warnings, problems.Warnings()...))
	}
	if err != nil {
		return job{}, err
	}
	if flags.dryRun.on() {
		return job{plan: plan, source: source, flags: flags}, nil
	}
	missing, err := a.giveSecrets(plan, flags)
	if err != nil {
		return job{}, err
	}
	if resumes != nil {
		resumes.choose(plan, source)
	}
	return job{id: id, place: place, plan: plan, source: source, facts: facts, flags: flags, given: flags.given(source, file, choice.Inputs), resumes: resumes, missing: missing}, nil
}

// makePlan plans a choice, files with variables included. The problems are warnings.
func makePlan(ctx context.Context, file *build.File, choice build.Choice, source *buildSource, strict bool) (*build.Plan, fault.Problems, error) {
	plan, problems := build.MakePlan(file, choice)
	if strict {
		problems = build.Strict(problems) // a variable may decide the name of a field
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	return plan, problems, replaceInFiles(ctx, plan, source)
}

// replaceInFiles records which files of the workspace have variables that steps replace. In the folder itself nothing is replaced.
func replaceInFiles(ctx context.Context, plan *build.Plan, source *buildSource) error {
	var problems fault.Problems
	for i := range plan.Steps {
		step := &plan.Steps[i]
		err := worker.Texts(ctx, source.root, step.Spec.Files, func(t worker.Text) error {
			problems.Add(plan.Replace(step.ID, t.Name, t.Content)...)
			return nil
		})
		if err != nil {
			return fault.New(fault.Invalid, "%s: %s: %w", step.At, step.Path(), err)
		}
		if source.inPlace && len(step.Replaces) > 0 {
			return fault.New(fault.Invalid, "--in-place would replace the variables in %s itself", step.Replaces[0].Path).WithHint("waybill run   # in copies of the folder")
		}
	}
	problems.Sort()
	return slices.Compact(problems).Err() // two steps may have a file in common
}

// readFileOf reads the file of what is built.
func (a *app) readFileOf(source *buildSource, flags runFlags) (*build.File, error) {
	if err := source.stays(filepath.Join(source.root, filepath.FromSlash(flags.file))); err != nil {
		return nil, err
	}
	file, _, err := a.readBuildFile(source.root, flags.file, source.shown(a, flags.file), flags.strict)
	return file, err
}

// readBuildFile reads and parses the build's file. The error has every fault; shown is the name of the file in it and in the
// warnings. strict makes unknown fields faults.
func (a *app) readBuildFile(root, name, shown string, strict bool) (file *build.File, warnings fault.Problems, err error) {
	path := filepath.Join(root, filepath.FromSlash(name))
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, nil, fault.New(fault.Invalid, "--file %s leaves the folder", name)
	}
	data, err := assembly.ReadRegular(path, yamltree.BuildFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, a.noBuildFile(root, name)
	case err != nil:
		return nil, nil, fault.New(fault.Invalid, "read %s: %w", a.Shorten(path), assembly.Plain(err))
	}
	node, problems := yamltree.Parse(shown, data, yamltree.BuildFile)
	if problems.Err() != nil {
		return nil, nil, problems.Err()
	}
	file, problems = build.Parse(node)
	if strict || problems.Err() != nil { // an unknown field may be the one that is missing
		problems = build.Strict(problems)
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	return file, problems.Warnings(), nil
}

// noBuildFile returns the error for a missing build file, with the name of a similar one.
func (a *app) noBuildFile(root, name string) error {
	missing := fault.New(fault.Invalid, "%s not found in %s", name, root)
	if other := strings.TrimSuffix(name, ".yml") + ".yaml"; name == build.FileName {
		if _, err := os.Stat(filepath.Join(root, other)); err == nil {
			return missing.WithHint("mv %s %s   # only this name is read", other, name)
		}
	}
	for dir := filepath.Dir(root); name == build.FileName; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			if err := a.Trust(dir, filepath.Join(dir, name)); err != nil {
				break // its owner could have commands run
			}
			return missing.WithHint("waybill run %s   # a folder above has one", show.Quote(a.Shorten(dir)))
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return missing.WithHint("%s", strings.TrimLeft(`waybill build init   # writes one, such as:

    build:
      binary:
        artifacts: [dist/*]
        container: {image: "golang:1.26", cmds: [go build -o dist/ .]}`, "\n"))
}

// resultsPlace is where a build's results go.
type resultsPlace struct {
	root     results.Root // of builds that were run by hand; zero with --results-dir
	dir      string
	numbered bool // the build has its number from root
}

// buildPlace numbers the build. A dry run uses up no number.
func (a *app) buildPlace(flags runFlags) (id string, at resultsPlace, err error) {
	if flags.resultsDir != "" {
		id = flags.buildID
		if id == "" {
			id = filepath.Base(flags.resultsDir)
		}
		return id, resultsPlace{dir: a.Path(flags.resultsDir)}, nil
	}
	if at.root, err = results.Default(); err != nil {
		return "", resultsPlace{}, fault.Wrap(fault.Unavailable, err).WithHint("name a folder with --results-dir")
	}
	id = flags.buildID
	switch {
	case flags.dryRun.on() && id == "":
		id = "0"
	case id == "":
		if id, err = at.root.NextID(); err != nil {
			return "", resultsPlace{}, fault.Wrap(fault.Unavailable, err).WithHint("name a folder with --results-dir")
		}
		at.numbered = true
	}
	at.dir = at.root.Dir(id)
	return id, at, nil
}

// giveBack gives back the number of a build that did not begin.
func (p resultsPlace) giveBack(id string) error {
	if !p.numbered {
		return nil
	}
	return p.root.GiveBack(id)
}

// job is one build that is about to run.
type job struct {
	id     string
	place  resultsPlace
	plan   *build.Plan
	source *buildSource
	facts  map[string]string
	flags  runFlags
	given  results.Given
	runner string // its name; "": none could be made
	inbox  *inbox // through which the files came; nil: not through the worker API

	missing fault.Problems // secrets without a value
	resumes *resumption    // nil: no build
}

// work runs a plan and shows it.
func (a *app) work(ctx context.Context, j job) (err error) {
	runner, err := a.runnerOf(ctx, j)
	if err == nil {
		defer func() { err = errors.Join(err, runner.close()) }()
		problems := append(j.missing, runner.Check(ctx, j.plan.Steps)...)
		problems.Sort()
		a.printProblems(problems.Warnings())
		err = problems.Err()
	}
	if err != nil {
		if j.flags.serve.on {
			return a.failServed(ctx, j, err)
		}
		return errors.Join(err, j.place.giveBack(j.id))
	}
	j.runner = runner.name
	head := show.BuildHead{ID: j.id, Name: a.buildName(j), Label: j.source.label, Results: j.place.dir, Log: a.readLogWith(j), Resume: a.resumeWith(j), Plan: j.plan, Runner: runner.word, Advice: j.source.advice}
	if j.resumes != nil {
		head.Resumes = j.resumes.text
	}
	view := show.NewBuildView(a.printer(), head)
	result, err := a.record(ctx, j, view, worker.Config{Runner: runner.Runner})
	if result == "" {
		return err
	}
	if j.flags.shell && ctx.Err() == nil {
		err = errors.Join(err, a.openShell(ctx, runner.kept))
	}
	if result == build.Canceled && ctx.Err() != nil { // by a signal, which has a status of its own
		return errors.Join(shown{fault.New(fault.Interrupted, "build %s was canceled", j.id)}, err)
	}
	return errors.Join(outcomeOf(j.id, result), err)
}

// given describes a folder by its repository, and a snapshot by what the caller of the build passed.
func (a *app) given(facts map[string]string, name string) string {
	return cmp.Or(facts[name], a.Environment("WHARF_VAR_"+name))
}

// record runs a build on results of its own, and serves them if that is asked for. Of config, it is given the runner or the
// fault. Without a result the build could not be recorded.
func (a *app) record(ctx context.Context, j job, view show.BuildView, config worker.Config) (build.Status, error) {
	token, err := j.flags.serve.token(a.Path)
	if err != nil {
		return "", err
	}
	store, err := results.Create(j.place.dir, j.flags.maxStepLog)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err).WithHint("name another folder with --results-dir")
	}
	described := results.Build{ID: j.id, Plan: j.plan, Source: j.source.name, Branch: a.given(j.facts, "GIT_BRANCH"), Commit: a.given(j.facts, "GIT_COMMIT"),
		Subject: a.given(j.facts, "GIT_COMMIT_SUBJECT"),
		Runner:  j.runner, Version: a.Version, StartedAt: time.Now().UTC(), Given: j.given, RerunOf: j.flags.rerunOf}
	if self, err := command.InstanceOf(os.Getpid()); err == nil && !j.flags.launch.on() { // else it is canceled where it runs
		described.Process = results.Process(self)
	}
	if j.resumes != nil {
		described.RerunOf, config.Resumes = j.resumes.before.ID, &j.resumes.Resumed
	}
	if err := store.Describe(described); err != nil {
		return "", errors.Join(err, store.Close())
	}
	metrics := obs.NewRegistry()
	served, err := a.serveBuild(ctx, j, store, token, metrics)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	view.Begin()
	config.ID, config.Plan, config.Observer, config.Workspace, config.Remarks, config.Store, config.Scratch = j.id, j.plan, view, j.source.workspace(), j.source.notes, store, j.source.scratch
	if j.flags.keepWorkspace {
		config.Packer = j.source.packer()
	}
	config.Metrics = obs.NewWorker(metrics)
	tracing := a.traceBuild(ctx)
	defer func() { _ = tracing.Close(context.WithoutCancel(ctx)) }() // a collector that does not answer loses the last spans
	config.Tracing, config.Trace = tracing, cmp.Or(j.flags.launch.Trace, a.Environment("TRACEPARENT"))
	result, err := worker.New(config).Run(ctx)
	view.End(result)
	if err := errors.Join(err, served.stay(ctx, err), store.Close()); err != nil {
		return "", fault.Wrap(fault.Unavailable, err).WithHint("look at the disk that holds %s", j.place.dir)
	}
	if j.place.root != (results.Root{}) {
		if err := j.place.root.Prune(time.Now()); err != nil {
			fmt.Fprintf(a.err, "waybill: old builds cannot be removed: %v\n", err)
		}
	}
	return result, nil
}

// buildCache returns where the steps of a build leave files for later builds of the same repository, else of the same folder; nil if
// nowhere.
func (a *app) buildCache(j job) *buildcache.Shelf {
	dir := a.Path(j.flags.cacheDir)
	if j.flags.cacheDir == "" {
		own, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(own, "waybill", "builds")
	}
	if j.flags.cacheSize == 0 {
		return nil
	}
	return buildcache.Open(dir, j.flags.cacheSize).Of(j.cacheOwner(a.Environment("WHARF_VAR_REPO_NAME")))
}

// cacheOwner names the builds that share files. Those of a server share them by their project or pipeline: the URL of origin is in the files that
// are built, which may name the repository of another project.
func (j job) cacheOwner(pipeline string) string {
	switch launch := j.flags.launch; {
	case launch.on() && launch.Repository != nil:
		return fmt.Sprintf("worker of %s: %q %s", launch.Instance, launch.Project, launch.Repository.URL)
	case launch.on():
		return fmt.Sprintf("worker of %s: %q", launch.Instance, cmp.Or(launch.Project, launch.Variables["REPO_NAME"], j.source.name))
	case j.source.unpacked && pipeline != "":
		return pipeline
	case j.source.origin != "": // with its host: another one may have a repository of the same name
		return j.source.origin
	}
	return j.source.name
}

// buildName returns what other commands take for a build: its id, or the folder of its results, which has a separator.
func (a *app) buildName(j job) string {
	if j.place.root != (results.Root{}) {
		return j.id
	}
	dir := a.Shorten(filepath.Clean(j.place.dir))
	if !strings.ContainsRune(dir, filepath.Separator) {
		dir += string(filepath.Separator)
	}
	return dir
}

// readLogWith returns the command that prints the log of a build's step, without the step.
func (a *app) readLogWith(j job) string { return "waybill build log " + show.Quote(a.buildName(j)) }

// resumeWith returns the command that resumes a build that failed; "" for one of a snapshot or a commit, whose files do not change.
func (a *app) resumeWith(j job) string {
	switch {
	case j.source.unpacked, j.source.received:
		return ""
	case j.place.root == (results.Root{}):
		return "waybill run --resume=" + show.Quote(a.buildName(j))
	}
	if folder := a.Shorten(j.source.root); folder != "." {
		return "waybill run " + show.Quote(folder) + " --resume"
	}
	return "waybill run --resume"
}

// outcomeOf returns the error for the end of a build, which has been printed.
func outcomeOf(id string, result build.Status) error {
	switch result {
	case build.Completed, build.Skipped:
		return nil
	case build.Canceled:
		return shown{fault.New(fault.Canceled, "build %s was canceled", id)}
	}
	return shown{fault.New(fault.Failed, "build %s failed", id)}
}
