package assembly

import (
	"cmp"
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builds"
	handler "github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
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
		text, err := ReadRegular(path, tokenSize)
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

// workers returns how the handler of builds has them run in workers; nil without a provisioner.
func (s *Session) workers() *handler.Workers {
	client := s.provisionerClient()
	if client == nil {
		return nil
	}
	return &handler.Workers{
		Builds: s.Ledger.Builds, Provisioner: client, Instance: s.Live.Now().Builder.Instance, Now: s.Ledger.Now,
		Waiter: func() func(ctx context.Context, until time.Time) error {
			waiter := s.Ledger.NewWaiter()
			return func(ctx context.Context, until time.Time) error { return waiter.Wait(ctx, store.TopicBuild, until) }
		},
	}
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

// aggregator makes the role that stores what the workers of builds record.
func (s *Session) aggregator(o RoleOptions) (role lifecycle.Role, err error) {
	client, err := s.needProvisioner(RoleAggregator)
	if err != nil {
		return role, err
	}
	keys, err := s.Home.BuilderKeys(s.Live.Now().Builder.Key)
	if err != nil {
		return role, err
	}
	wake, identity := make(chan struct{}, 1), s.instance()
	part := share{shard: o.Shard, self: identity.Name, now: s.Ledger.Now, instances: func(context.Context) ([]queue.InstanceRow, error) { return nil, nil }}
	if s.Kind == shared {
		part.instances = s.Ledger.Instances
	}
	a := aggregator.New(aggregator.Config{
		Workers: running{client, keys, s.Live.Now().Builder.Instance, s.Ledger.Builds, part}, Store: s.Ledger.Builds, Blobs: s.blobs, Wake: wake,
		Log: o.Log, Metrics: obs.NewAggregator(o.registerer()),
	})
	changes := s.Ledger.NewWaiter()
	return lifecycle.Role{Name: RoleAggregator, Run: func(ctx context.Context) error {
		go wakeUp(ctx, changes.Wait, wake)
		both, ctx := errgroup.WithContext(ctx)
		if s.Kind == shared {
			both.Go(func() error { return s.present(RoleAggregator, o.Log)(ctx) })
		}
		both.Go(func() error { return a.Run(ctx) })
		return both.Wait()
	}}, nil
}

// wakePause is the least time between two wake-ups of an aggregator: its own writes are changes of builds, too.
const wakePause = time.Second

// wakeUp has the workers listed soon after a build has changed, since it may have got a worker. It returns when ctx ends.
func wakeUp(ctx context.Context, wait func(context.Context, store.Topic, time.Time) error, wake chan<- struct{}) {
	for wait(ctx, store.TopicBuild, time.Time{}) == nil && loop.Pause(ctx, wakePause) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// running lists the workers that serve results.
type running struct {
	client   *provisionerv1.Client
	keys     build.BuilderKeys
	instance string
	builds   *builds.Builds
	share    share
}

// Workers lists the workers of this instance's builds that are this process's share, with the tokens that they ask for.
func (r running) Workers(ctx context.Context) ([]aggregator.Worker, error) {
	list, err := r.client.List(ctx, provisionerv1.Filter{Statuses: []string{string(build.WorkerRunning)}, Instance: r.instance})
	if err != nil {
		return nil, err
	}
	if !list.Complete {
		return nil, fault.New(fault.Unavailable, "the provisioner cannot list all workers")
	}
	if list.Workers, err = r.share.of(ctx, list.Workers); err != nil {
		return nil, err
	}
	var ids []builds.ID
	for _, w := range list.Workers {
		ids = append(ids, builds.ID(w.BuildID))
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := r.builds.List(ctx, builds.Query{IDs: ids})
	if err != nil {
		return nil, err
	}
	nonces := map[int64]string{}
	for i := range found {
		nonces[int64(found[i].ID)] = found[i].Nonce
	}
	var workers []aggregator.Worker
	for _, w := range list.Workers {
		key, known := r.keys.Numbered(w.Key)
		nonce := nonces[w.BuildID]
		if !known || nonce == "" || w.Address == "" { // of a build that was deleted, or of a key that was withdrawn
			continue
		}
		workers = append(workers, aggregator.Worker{Build: builds.ID(w.BuildID), ID: w.WorkerID, Address: w.Address,
			Token: key.WorkerToken(w.Instance, w.BuildID, nonce)})
	}
	return workers, nil
}
