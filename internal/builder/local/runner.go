package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
)

// Runners by name. auto is docker if a Docker Engine answers, else process.
const (
	RunnerAuto    = "auto"
	RunnerProcess = "process"
	RunnerDocker  = "docker"
)

// runnerVariable has the runner when no flag names one.
const runnerVariable = "WAYBILL_RUNNER"

// Words above a build.
const (
	processesWord = "Steps run as processes on this computer."
	fallbackWord  = "Docker does not answer, so steps run as processes on this computer."
)

// ChooseRunner sets the runner that no flag names to that of the environment.
func ChooseRunner(flags *Options, environment func(string) string) {
	if flags.Runner == "" {
		flags.Runner = environment(runnerVariable)
	}
	if flags.Runner == "" {
		flags.Runner = RunnerAuto
	}
}

// checkRunner returns an error for flags of runners that mean nothing.
func (f Options) checkRunner() error {
	switch {
	case !slices.Contains([]string{RunnerAuto, RunnerProcess, RunnerDocker, RunnerKubernetes}, f.Runner):
		return fault.New(fault.Invalid, "the runner %q is not supported", f.Runner).
			WithHint("--runner auto, process, docker or kubernetes; else %s names it", runnerVariable)
	case f.Runner == RunnerDocker && f.InPlace:
		return fault.New(fault.Invalid, "--in-place and --runner docker exclude each other: containers work on copies of the folder")
	case f.KeepFailed && f.InPlace:
		return fault.New(fault.Invalid, "--keep-failed and --in-place exclude each other: what the steps write in the folder stays there")
	case f.KeepFailed && (f.Runner == RunnerDocker || f.Runner == RunnerKubernetes):
		return f.keepsNothing(f.Runner)
	case !slices.Contains([]docker.Pull{"", docker.PullMissing, docker.PullAlways, docker.PullNever}, docker.Pull(f.Pull)):
		return fault.New(fault.Invalid, "--pull %q: want missing, always or never", f.Pull)
	}
	return nil
}

// keepsNothing returns the error for --keep-failed with a runner whose steps work elsewhere.
func (f Options) keepsNothing(runner string) error {
	return fault.New(fault.Invalid, "--keep-failed keeps folders of steps that run as processes, and these run with %s",
		runner).WithHint("--runner process; else keep files with artifacts: [{path: out/**, when: fail}]")
}

// chosenRunner runs the steps of a build.
type chosenRunner struct {
	worker.Runner
	name  string       // process, docker or kubernetes
	word  string       // remark about it above the build
	close func() error // at the build's end

	kept chan command.Kept // the first folder of a failed step that was kept; nil: none is
}

// runnerOf makes the runner of a build. auto waits for the Docker Engine for two seconds at most.
func (b *Builder) runnerOf(ctx context.Context, j job) (chosenRunner, error) {
	if j.flags.Runner == RunnerProcess || j.flags.InPlace {
		return b.processes(j, processesWord)
	}
	if j.flags.Runner == RunnerKubernetes {
		return b.pods(ctx, j)
	}
	engine, err := docker.Connect(ctx)
	switch {
	case err == nil && j.flags.KeepFailed:
		return chosenRunner{}, errors.Join(j.flags.keepsNothing(RunnerDocker), engine.Close())
	case err == nil:
		return b.containers(ctx, j, engine)
	case ctx.Err() != nil:
		return chosenRunner{}, context.Cause(ctx)
	case j.flags.Runner == RunnerAuto:
		return b.processes(j, fallbackWord)
	}
	return chosenRunner{}, fault.Wrap(fault.Unavailable, err).WithHint("start Docker, name it in DOCKER_HOST, or use --runner process")
}

// processes runs steps under `waybill supervise`, which is this binary.
func (b *Builder) processes(j job, word string) (chosenRunner, error) {
	self, err := os.Executable()
	if err != nil {
		return chosenRunner{}, fmt.Errorf("find this program: %w", err)
	}
	clusters, err := b.clusters(j.flags.Clusters)
	if err != nil {
		return chosenRunner{}, err
	}
	certificates, err := b.certificates(j.flags)
	if err != nil {
		return chosenRunner{}, err
	}
	runner := &command.Runner{Supervisor: []string{self, superviseName}, Grace: j.flags.Grace, Keep: j.flags.Env,
		Cache: b.buildCache(j), Clusters: clusters, Certificates: certificates}
	kept := make(chan command.Kept, 1)
	if j.flags.KeepFailed {
		runner.Kept = func(k command.Kept) {
			select {
			case kept <- k:
			default: // one has failed before
			}
		}
		runner.KeepFailed = filepath.Join(filepath.Dir(filepath.Dir(j.source.scratch)), "kept")
	}
	if j.flags.InPlace {
		if err := j.source.claim(); err != nil {
			return chosenRunner{}, err
		}
		runner.InPlace, j.plan.MaxParallel = j.source.root, 1
	}
	if images := j.plan.Images(); len(images) > 0 {
		word += " Images are ignored: " + strings.Join(images, ", ")
	} else if word == processesWord {
		word = ""
	}
	return chosenRunner{runner, RunnerProcess, word, runner.Close, kept}, nil
}

func (b *Builder) containers(ctx context.Context, j job, engine *docker.Engine) (chosenRunner, error) {
	config, err := b.containerConfig(j)
	if err != nil {
		return chosenRunner{}, errors.Join(err, engine.Close())
	}
	runner, remarks, err := docker.NewRunner(ctx, engine, config)
	if err != nil {
		return chosenRunner{}, errors.Join(fault.Wrap(fault.Unavailable, err), engine.Close())
	}
	warn := func(remarks []string) {
		for _, remark := range remarks {
			fmt.Fprintf(b.Err, "waybill: warning: %s\n", remark)
		}
	}
	warn(remarks)
	end := func() error {
		remarks, err := runner.Close()
		warn(remarks)
		return errors.Join(err, engine.Close())
	}
	return chosenRunner{Runner: runner, name: RunnerDocker, word: dockerWord(engine), close: end}, nil
}

// dockerWord reports which Engine runs the steps.
func dockerWord(engine *docker.Engine) string {
	return fmt.Sprintf("runner docker (Engine %s)", engine.Version)
}

// containerConfig returns how the steps of a build run in containers.
func (b *Builder) containerConfig(j job) (docker.Config, error) {
	config := docker.Config{Grace: j.flags.Grace, Pull: docker.Pull(j.flags.Pull), Cache: b.buildCache(j)}
	for _, name := range j.flags.Env {
		if value := b.Environment(name); value != "" {
			config.Environ = append(config.Environ, name+"="+value)
		}
	}
	var err error
	config.Workers, err = workersDir()
	return config, errors.Join(err, b.mountable(&config, j.flags))
}

// mountable sets what containers get instead of the objects of a cluster.
func (b *Builder) mountable(config *docker.Config, flags Options) (err error) {
	clusters, err := b.clusters(flags.Clusters)
	if err != nil {
		return err
	}
	config.Clusters = map[string][]byte{}
	for name, c := range clusters {
		text, server, err := kube.Excerpt(c.Kubeconfig, c.Context)
		if err != nil {
			return err
		}
		if u, err := url.Parse(server); err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()) {
			fmt.Fprintf(b.Err,
				"waybill: warning: --cluster %s: %s is this computer, which containers do not reach by that address\n", name,
				build.VisibleText([]byte(server)))
		}
		config.Clusters[name] = text
	}
	config.Certificates, err = b.certificates(flags)
	return err
}

// certificates returns the full path of the folder that --certificates names; "" if it names none.
func (b *Builder) certificates(flags Options) (string, error) {
	if flags.Certificates == "" {
		return "", nil
	}
	folder := b.Path(flags.Certificates)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return "", fault.New(fault.Invalid, "--certificates: folder %s not found", folder)
	}
	return folder, nil
}

// workersDir returns the folder with the locks of this user's workers.
func workersDir() (string, error) {
	own, err := os.UserCacheDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find a folder for the locks of builds: %w", err).WithHint("set HOME")
	}
	return filepath.Join(own, "waybill", "workers"), nil
}
