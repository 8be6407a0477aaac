package assembly

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	handler "github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// tokenSize bounds a file with a token, in bytes.
const tokenSize = 4 << 10

// provisionerClient returns the client of the configured provisioner; nil if none is configured.
func (s *Session) provisionerClient() *provisionerv1.Client {
	c := s.Live.Now().Builder.Provisioner
	if c.URL == "" {
		return nil
	}
	path := cmp.Or(c.TokenFile, s.Home.Token())
	return &provisionerv1.Client{URL: c.URL, Token: func() (string, error) {
		text, err := file.ReadRegular(path, tokenSize)
		return strings.TrimSpace(string(text)), err
	}}
}

// needProvisioner returns the client of the configured provisioner for a role that does nothing without one.
func (s *Session) needProvisioner(role string) (*provisionerv1.Client, error) {
	client := s.provisionerClient()
	if client == nil {
		return nil, fault.New(fault.Invalid, "the role %s needs a provisioner, and server.yaml names none", role).
			WithHint("builder: {provisioner: {url: \"http://127.0.0.1:5009\"}}")
	}
	return client, nil
}

// workers returns the means of the handler of builds to run those of the database.
func (s *Session) workers(log *slog.Logger) (*handler.Workers, error) {
	w := &handler.Workers{Builds: s.Ledger.Builds, Instance: s.Live.Now().Builder.Instance, Now: s.Ledger.Now, Project: s.project,
		ProjectOf: func(id string) string { return s.Live.Now().Builds.ProjectOf(id) },
		Engine:    s.engines(log), Inputs: s.buildInputs, Waiter: s.buildWaiter,
		Hasten: func(ctx context.Context, wait time.Duration, ids ...action.ID) error {
			return s.Ledger.Hasten(ctx, handler.CodeWaiting, builds.ActionKind, wait, ids...)
		}}
	client := s.provisionerClient()
	if client == nil {
		return w, nil // without a key, which would be made now
	}
	var err error
	w.Provisioner = client
	w.Keys, err = s.Home.BuilderKeys(s.Live.Now().Builder.Key)
	return w, err
}

// engines returns a function that finds another build engine in the configuration in force.
func (s *Session) engines(log *slog.Logger) func(name string) (handler.Engine, error) {
	var lock sync.Mutex
	var of *config.Config // what made was made of: connections are kept while the configuration is in force
	made := map[string]conductor.Handler{}
	return func(name string) (e handler.Engine, err error) {
		now := s.Live.Now()
		c, ok := now.Builds.Engines[name]
		if !ok {
			return e, fault.New(fault.NotFound, "the conductor's server.yaml has no builds.engines %q", name)
		}
		lock.Lock()
		defer lock.Unlock()
		if of != now {
			of = now
			clear(made)
		}
		if made[name] == nil {
			made[name] = webhook.New(c, evidence.Archive{Blobs: s.blobs, Log: log})
		}
		if e.Start = made[name]; now.Server.URL != nil {
			e.API = strings.TrimSuffix(now.Server.URL.String(), "/")
		}
		return e, nil
	}
}

// project returns a project of the configuration in force, as a conductor needs it.
func (s *Session) project(name string) (handler.Project, error) {
	now := s.Live.Now()
	p, ok := now.Builds.Projects[name]
	if !ok {
		return handler.Project{}, fault.New(fault.NotFound, "the conductor's server.yaml has no project %q", name)
	}
	credentials := now.Builder.Provisioner.Credentials[p.Credential]
	if p.Credential != "" && credentials == "" {
		return handler.Project{}, fault.New(fault.NotFound,
			"the conductor's server.yaml has no builder.provisioner.credentials %q, which project %s needs", p.Credential, name)
	}
	return handler.Project{ID: p.ID, URL: p.Repository, Branch: p.Branch, Subdirectory: p.Subdirectory,
		Credential: p.Credential, Credentials: credentials}, nil
}

// projects returns the projects that can be built without a deployment.
func (s *Session) projects() service.Projects {
	return service.Projects{
		All:       func() map[string]config.Project { return s.Live.Now().Builds.Projects },
		Engine:    func(project, asked string) (string, error) { return s.Live.Now().Builds.EngineOf(project, asked) },
		MayReport: func(engine, token string) bool { return s.Live.Now().Builds.MayReport(engine, token) },
		Engines:   func() []string { return slices.Sorted(maps.Keys(s.Live.Now().Builds.Engines)) },
		Ready: func() error {
			if s.Live.Now().Builder.Provisioner.URL == "" {
				return fault.New(fault.Refused, "builds without a deployment need a provisioner, and server.yaml names none").
					WithHint("builder: {provisioner: {url: \"http://127.0.0.1:5009\"}}")
			}
			return nil
		},
		Keys: func() (build.BuilderKeys, error) { return s.Home.BuilderKeys(s.Live.Now().Builder.Key) },
		File: s.buildFile,
	}
}

// buildInputs reads the inputs of the build file of a project, as buildFile does.
func (s *Session) buildInputs(ctx context.Context, name, branch, commit string) ([]build.Input, error) {
	file, err := s.buildFile(ctx, name, branch, commit)
	if err != nil || file == nil {
		return nil, err
	}
	return file.Inputs, nil
}

// buildFile reads the build file of a project at a commit, else at the tip of the branch. It is nil if it is missing or
// cannot be understood: that is for the worker to report.
func (s *Session) buildFile(ctx context.Context, name, branch, commit string) (*build.File, error) {
	p, err := s.project(name)
	if err != nil {
		return nil, err
	}
	from := git.Clone{URL: p.URL, Branch: cmp.Or(branch, p.Branch), Commit: commit, Credentials: p.Credentials}
	text, ok, err := from.File(ctx, path.Join(p.Subdirectory, build.FileName), yamltree.BuildFile)
	if err != nil || !ok {
		return nil, err
	}
	root, _ := yamltree.Parse(build.FileName, text, yamltree.BuildFile)
	if root == nil {
		return nil, nil
	}
	file, _ := build.Parse(root)
	return file, nil
}

// buildWaiter returns a function that returns when a build may have changed since its last call, and at a time in any case.
func (s *Session) buildWaiter() func(ctx context.Context, until time.Time) error {
	waiter := s.Ledger.NewWaiter()
	return func(ctx context.Context, until time.Time) error { return waiter.Wait(ctx, store.TopicBuild, until) }
}

// builderRole makes one of the roles that are for workers of builds.
func (s *Session) builderRole(ctx context.Context, name string, o RoleOptions) (lifecycle.Role, error) {
	switch name {
	case RoleProvisioner:
		return s.provisioner(ctx, o)
	case RoleAggregator:
		return s.aggregator(o)
	}
	return s.watchdog(o)
}

// aggregator makes the role that stores the records of builds' workers.
func (s *Session) aggregator(o RoleOptions) (role lifecycle.Role, err error) {
	client, err := s.needProvisioner(RoleAggregator)
	if err != nil {
		return role, err
	}
	c := s.Live.Now().Builder
	keys, err := s.Home.BuilderKeys(c.Key)
	if err != nil {
		return role, err
	}
	wake, identity := make(chan struct{}, 1), s.instance()
	part := share{shard: o.Shard, self: identity.Name, now: s.Ledger.Now,
		instances: func(context.Context) ([]queue.InstanceRow, error) { return nil, nil }}
	if s.Kind == shared {
		part.instances = s.Ledger.Instances
	}
	a := aggregator.New(aggregator.Config{
		Workers: listedWorkers{client, keys, c.Instance, s.Ledger.Builds, part, untilOpened(func() (*kube.Cluster, error) {
			return builderCluster(c.Provisioner.Kubernetes)
		})},
		Store: s.Ledger.Builds, Ends: judgedBuilds{s.Ledger.Builds, s.Ledger.Now}, StartLimit: c.Provisioner.StartLimit,
		Blobs: s.blobs, Wake: wake,
		Log: o.Log, Metrics: obs.NewAggregator(o.registerer()),
	})
	changes := s.Ledger.NewWaiter()
	return lifecycle.Role{Name: RoleAggregator, Run: func(ctx context.Context) error {
		loops, ctx := errgroup.WithContext(ctx)
		loops.Go(func() error {
			wakeUp(ctx, changes.Wait, wake)
			return nil
		})
		if s.Kind == shared {
			loops.Go(func() error { return s.present(o.Log, RoleAggregator)(ctx) })
		}
		loops.Go(func() error { return a.Run(ctx) })
		return loops.Wait()
	}}, nil
}

// wakePause is the least time between two wake-ups of an aggregator.
const wakePause = 100 * time.Millisecond

// wakeUp has the workers listed when a build has got one. It returns when ctx ends.
func wakeUp(ctx context.Context, wait func(context.Context, store.Topic, time.Time) error, wake chan struct{}) {
	for wait(ctx, store.TopicWorker, time.Time{}) == nil {
		loop.Poke(wake)
		if !loop.Pause(ctx, wakePause) {
			return
		}
	}
}

// listedWorkers lists the workers of this instance's builds.
type listedWorkers struct {
	client   *provisionerv1.Client
	keys     build.BuilderKeys
	instance string
	builds   *builds.Builds
	share    share
	cluster  func() (*kube.Cluster, error) // cluster of workers that are pods
}

// Workers lists the workers of this instance's builds that are this process's share, with the tokens that they
// request.
func (l listedWorkers) Workers(ctx context.Context) ([]aggregator.Worker, error) {
	list, err := l.client.List(ctx, provisionerv1.Filter{Instance: l.instance})
	if err != nil {
		return nil, err
	}
	if !list.Complete {
		return nil, fault.New(fault.Unavailable, "the provisioner cannot list all workers")
	}
	if list.Workers, err = l.share.of(ctx, list.Workers); err != nil {
		return nil, err
	}
	var ids []builds.ID
	for _, w := range list.Workers {
		ids = append(ids, builds.ID(w.BuildID))
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := l.builds.List(ctx, builds.Query{IDs: ids})
	if err != nil {
		return nil, err
	}
	nonces := map[int64]string{}
	for i := range found {
		nonces[int64(found[i].ID)] = found[i].Nonce
	}
	var workers []aggregator.Worker
	for _, w := range list.Workers {
		key, known := l.keys.Numbered(w.Key)
		nonce := nonces[w.BuildID]
		if !known || nonce == "" { // the build was deleted, or its key was withdrawn
			continue
		}
		one := aggregator.Worker{Build: builds.ID(w.BuildID), ID: w.WorkerID, Address: w.Address,
			Token:  key.WorkerToken(w.Instance, w.BuildID, nonce),
			Status: build.WorkerStatus(w.Status), Reason: w.Reason, Age: list.Age(w), Began: !w.StartedAt.IsZero()}
		if strings.HasPrefix(w.Address, kube.PodScheme+"://") {
			l.reach(&one)
		}
		workers = append(workers, one)
	}
	return workers, nil
}

// reach sets how a worker that is a pod is reached: through its cluster. A fault of its address or of the cluster is
// an error of the connection, which is tried again, and hides no other worker.
func (l listedWorkers) reach(w *aggregator.Worker) {
	pod, err := kube.ParsePodAddress(w.Address)
	if err != nil {
		w.Address = "http://nowhere"
		w.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, fmt.Errorf("reach worker %s: %w", w.ID, err)
		}
		return
	}
	w.Address = "http://" + pod.UID // another pod of the same name is another worker
	w.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		cluster, err := l.cluster()
		if err != nil {
			return nil, fmt.Errorf("reach worker %s: %w", w.ID, err)
		}
		return cluster.DialPod(ctx, pod)
	}
	w.LastLines = func(ctx context.Context) (string, error) {
		cluster, err := l.cluster()
		if err != nil {
			return "", err
		}
		return cluster.In(pod.Namespace).LastLines(ctx, pod.Pod, provisioner.WorkerContainer)
	}
}

// untilOpened returns a function that opens a cluster, and from then on returns the same one. An error is not kept: the
// next call tries again.
func untilOpened(open func() (*kube.Cluster, error)) func() (*kube.Cluster, error) {
	var lock sync.Mutex
	var opened *kube.Cluster
	return func() (cluster *kube.Cluster, err error) {
		lock.Lock()
		defer lock.Unlock()
		if opened == nil {
			opened, err = open()
		}
		return opened, err
	}
}

// judgedBuilds is the builds as an aggregator sees them that judges their workers.
type judgedBuilds struct {
	*builds.Builds
	now func(context.Context) (time.Time, error)
}

// Now returns the database's time.
func (b judgedBuilds) Now(ctx context.Context) (time.Time, error) { return b.now(ctx) }
