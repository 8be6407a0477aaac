package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/distribution/reference"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// workdir is the folder of a step's copy of the workspace.
const workdir = "/mnt/repo"

// Config configures a Runner.
type Config struct {
	Grace   time.Duration     // between SIGTERM and SIGKILL of a step that is ended
	Pull    Pull              // policy of pulling images
	Environ []string          // NAME=value, further variables that every step gets
	Cache   *buildcache.Shelf // cache of the project; nil: steps get nothing from earlier builds
	Workers string            // folder in which the workers of this user hold their locks

	// Clusters are the clusters that steps can reach, as kubeconfigs by the name of the ConfigMap that has it in a
	// cluster.
	Clusters     map[string][]byte
	Certificates string // folder with certificates of authorities for steps that trust build.CertificatesObject; "": none
}

// Runner runs build steps in containers, each with a copy of the workspace of its own. Safe for concurrent use.
type Runner struct {
	Config
	engine *Engine
	worker *worker

	mu      sync.Mutex
	pulled  map[string]*sync.Mutex // by image: one pull at a time
	remarks []string               // about what could not be removed

	removals sync.WaitGroup
}

// NewRunner removes leftovers of gone workers in the Engine, and returns a runner and remarks about leftovers that
// could not be removed.
func NewRunner(ctx context.Context, e *Engine, c Config) (*Runner, []string, error) {
	w, err := newWorker(c.Workers)
	if err != nil {
		return nil, nil, err
	}
	remarks := w.sweep(ctx, e.api)
	return &Runner{Config: c, engine: e, worker: w, pulled: map[string]*sync.Mutex{}}, remarks, nil
}

// Close waits until everything that steps have made is removed, gives up the worker's lock, and returns remarks about
// leftovers that could not be removed.
func (r *Runner) Close() (remarks []string, err error) {
	r.removals.Wait()
	return r.remarks, r.worker.close()
}

// Check lists the steps that the Engine cannot run, all at once.
func (r *Runner) Check(_ context.Context, steps []build.PlanStep) fault.Problems {
	var problems fault.Problems
	for _, step := range steps {
		add := func(code, format string, arguments ...any) {
			problems = append(problems, fault.Problem{Position: step.At, Code: code, Scope: step.Path(), Text: fmt.Sprintf(format, arguments...)})
		}
		if step.Spec.OS != r.engine.OS {
			add("os-unfit", "the step wants %s, and the containers of this Docker Engine are %s", step.Spec.OS, r.engine.OS)
		}
		if step.Spec.Token && step.Type == "container" {
			add("cluster-only",
				"the step runs as an account of a cluster, which it does not have in a Docker Engine; leave serviceAccount out, or "+
					"use --runner kubernetes")
		}
		hasCluster := func(name string) bool { return r.Clusters[name] != nil }
		attempt.CheckMounts(step.Spec, hasCluster, r.Certificates != "", add)
		images := []string{step.Spec.Image}
		for _, s := range step.Spec.Services {
			images = append(images, s.Image)
		}
		for _, image := range images {
			if _, err := reference.ParseNormalizedNamed(image); err != nil {
				add("image-invalid", "%q is not the name of an image: %v", image, err)
			}
		}
	}
	problems.Sort()
	return problems
}

// Run makes one attempt at a step. When ctx ends the step gets SIGTERM, and SIGKILL after the grace. Nothing of it is alive when Run
// returns, unless the Engine does not answer; Close waits for its removal.
func (r *Runner) Run(ctx context.Context, run build.Run, sink build.Sink) (exit build.Exit, err error) {
	if err := sink.Phase(build.Initializing); err != nil {
		return build.Exit{}, err
	}
	s := &step{Runner: r, run: run, sink: sink, folder: filepath.Join(run.Scratch, strconv.Itoa(run.Step.ID))}
	defer func() {
		s.end(context.WithoutCancel(ctx))
		err = errors.Join(err, workspace.Remove(s.folder))
	}()
	if err := s.prepare(ctx); err != nil {
		return build.Exit{}, err
	}
	defer s.files.Close()
	if err := sink.Phase(build.Running); err != nil {
		return build.Exit{}, err
	}
	exit, err = s.execute(ctx)
	if err != nil {
		return exit, err
	}
	if s.loads() && exit.Code == 0 && ctx.Err() == nil {
		if err := s.load(ctx); err != nil {
			return exit, err
		}
	}
	return s.keep(ctx, exit)
}

// step is one attempt at a step.
type step struct {
	*Runner
	run    build.Run
	sink   build.Sink
	folder string // this user's alone, removed after the attempt
	files  *attempt.Files

	mounted mounted

	id       string // id of the container; "": there is none
	began    bool
	ended    bool   // whether it has certainly ended
	network  string // network of the step and its services; "": they have none of their own
	services []*service
}

// prepare makes the container with everything that the step finds, and starts its services.
func (s *step) prepare(ctx context.Context) (err error) {
	image, err := s.image(ctx, s.run.Step.Spec.Image, s.sink)
	if err != nil {
		return err
	}
	s.files = &attempt.Files{Run: s.run, Shelf: s.Cache, Sink: s.sink}
	if err := s.files.Stage(ctx, filepath.Join(s.folder, "repo")); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.files.Close()
		}
	}()
	if err := s.startServices(ctx); err != nil {
		return err
	}
	if err := s.mount(ctx); err != nil {
		return err
	}
	if s.id, err = s.create(ctx, s.containerOf()); err != nil {
		return err
	}
	if err := s.uploadMounts(ctx); err != nil {
		return err
	}
	return s.upload(ctx, image.user)
}

// keep takes the files that are kept out of the stopped container, also when ctx has ended.
func (s *step) keep(ctx context.Context, exit build.Exit) (build.Exit, error) {
	kept := filepath.Join(s.folder, "kept")
	if err := s.download(context.WithoutCancel(ctx), kept, s.files.Wanted(ctx, exit)); err != nil {
		return exit, err
	}
	return s.files.KeepCopies(ctx, exit, attempt.Copies{Repo: kept, Caches: kept, Named: workdir})
}
