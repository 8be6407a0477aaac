package cli

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
	runnerAuto    = "auto"
	runnerProcess = "process"
	runnerDocker  = "docker"
)

// runnerVariable has the runner when no flag names one.
const runnerVariable = "WAYBILL_RUNNER"

// Words above a build.
const (
	processesWord = "Steps run as processes on this computer."
	fallbackWord  = "Docker does not answer, so steps run as processes on this computer."
)

// chooseRunner sets the runner that no flag names to that of the environment.
func chooseRunner(flags *runFlags, environment func(string) string) {
	if flags.runner == "" {
		flags.runner = environment(runnerVariable)
	}
	if flags.runner == "" {
		flags.runner = runnerAuto
	}
}

// checkRunner returns an error for flags of runners that mean nothing.
func (f runFlags) checkRunner() error {
	switch {
	case !slices.Contains([]string{runnerAuto, runnerProcess, runnerDocker, runnerKubernetes}, f.runner):
		return fault.New(fault.Invalid, "the runner %q is not supported", f.runner).WithHint("--runner auto, process, docker or kubernetes; else %s names it", runnerVariable)
	case f.runner == runnerDocker && f.inPlace:
		return fault.New(fault.Invalid, "--in-place and --runner docker exclude each other: containers work on copies of the folder")
	case f.keepFailed && f.inPlace:
		return fault.New(fault.Invalid, "--keep-failed and --in-place exclude each other: what the steps write in the folder stays there")
	case f.keepFailed && (f.runner == runnerDocker || f.runner == runnerKubernetes):
		return f.keepsNothing(f.runner)
	case !slices.Contains([]docker.Pull{"", docker.PullMissing, docker.PullAlways, docker.PullNever}, docker.Pull(f.pull)):
		return fault.New(fault.Invalid, "--pull %q: want missing, always or never", f.pull)
	}
	return nil
}

// keepsNothing returns the error for --keep-failed with a runner whose steps work elsewhere.
func (f runFlags) keepsNothing(runner string) error {
	return fault.New(fault.Invalid, "--keep-failed keeps folders of steps that run as processes, and these run with %s", runner).WithHint("--runner process; else keep files with artifacts: [{path: out/**, when: fail}]")
}

// chosenRunner is what runs the steps of a build.
type chosenRunner struct {
	worker.Runner
	name  string       // process, docker or kubernetes
	word  string       // what is said of it above the build
	close func() error // at the build's end

	kept chan command.Kept // the first folder of a failed step that was kept; nil: none is
}

// runnerOf makes the runner of a build. auto asks the Docker Engine for two seconds at most.
func (b *builder) runnerOf(ctx context.Context, j job) (chosenRunner, error) {
	if j.flags.runner == runnerProcess || j.flags.inPlace {
		return b.processes(j, processesWord)
	}
	if j.flags.runner == runnerKubernetes {
		return b.pods(ctx, j)
	}
	engine, err := docker.Connect(ctx)
	switch {
	case err == nil && j.flags.keepFailed:
		return chosenRunner{}, errors.Join(j.flags.keepsNothing(runnerDocker), engine.Close())
	case err == nil:
		return b.containers(ctx, j, engine)
	case ctx.Err() != nil:
		return chosenRunner{}, context.Cause(ctx)
	case j.flags.runner == runnerAuto:
		return b.processes(j, fallbackWord)
	}
	return chosenRunner{}, fault.Wrap(fault.Unavailable, err).WithHint("start Docker, name it in DOCKER_HOST, or use --runner process")
}

// processes runs steps under `waybill supervise`, which is this binary.
func (b *builder) processes(j job, word string) (chosenRunner, error) {
	self, err := os.Executable()
	if err != nil {
		return chosenRunner{}, fmt.Errorf("find this program: %w", err)
	}
	clusters, err := b.clusters(j.flags.clusters)
	if err != nil {
		return chosenRunner{}, err
	}
	certificates, err := b.certificates(j.flags)
	if err != nil {
		return chosenRunner{}, err
	}
	runner := &command.Runner{Supervisor: []string{self, superviseName}, Grace: j.flags.grace, Keep: j.flags.env, Cache: b.buildCache(j), Clusters: clusters, Certificates: certificates}
	kept := make(chan command.Kept, 1)
	if j.flags.keepFailed {
		runner.Kept = func(k command.Kept) {
			select {
			case kept <- k:
			default: // one has failed before
			}
		}
		runner.KeepFailed = filepath.Join(filepath.Dir(filepath.Dir(j.source.scratch)), "kept")
	}
	if j.flags.inPlace {
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
	return chosenRunner{runner, runnerProcess, word, runner.Close, kept}, nil
}

func (b *builder) containers(ctx context.Context, j job, engine *docker.Engine) (chosenRunner, error) {
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
	return chosenRunner{Runner: runner, name: runnerDocker, word: dockerWord(engine), close: end}, nil
}

// dockerWord says which Engine runs the steps.
func dockerWord(engine *docker.Engine) string {
	return fmt.Sprintf("runner docker (Engine %s)", engine.Version)
}

// containerConfig returns how the steps of a build run in containers.
func (b *builder) containerConfig(j job) (docker.Config, error) {
	config := docker.Config{Grace: j.flags.grace, Pull: docker.Pull(j.flags.pull), Cache: b.buildCache(j)}
	for _, name := range j.flags.env {
		if value := b.Environment(name); value != "" {
			config.Environ = append(config.Environ, name+"="+value)
		}
	}
	var err error
	config.Workers, err = workersDir()
	return config, errors.Join(err, b.mountable(&config, j.flags))
}

// mountable sets what containers get in place of the objects of a cluster.
func (b *builder) mountable(config *docker.Config, flags runFlags) (err error) {
	clusters, err := b.clusters(flags.clusters)
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
			fmt.Fprintf(b.Err, "waybill: warning: --cluster %s: %s is this computer, which containers do not reach by that address\n", name, build.VisibleText([]byte(server)))
		}
		config.Clusters[name] = text
	}
	config.Certificates, err = b.certificates(flags)
	return err
}

// certificates returns the full path of the folder that --certificates names; "" if it names none.
func (b *builder) certificates(flags runFlags) (string, error) {
	if flags.certificates == "" {
		return "", nil
	}
	folder := b.Path(flags.certificates)
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
