package assembly

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// prepare builds the parts of the configuration in force that the named roles need, and arranges that a reload does
// the same.
func (s *Session) prepare(ctx context.Context, o RoleOptions, names []string) error {
	d := duties{observes: slices.Contains(names, RoleCaboose)}
	switch {
	case slices.Contains(names, RoleConductor):
		var err error
		if d.builtIn, err = s.builtIn(o.Log); err != nil {
			return err
		}
		d.promotes = s.Live.Now().Promoter != nil || slices.Contains(names, RolePromoter)
	case !d.observes:
		return nil // the other roles need no handlers
	}
	s.rebuildHandlers = func(ctx context.Context, cfg *config.Config) (commit func(), err error) {
		next, err := s.buildHandlers(ctx, cfg, d, o.Log)
		if err != nil {
			return nil, err
		}
		return func() {
			s.handlers.Store(next)
			for _, serve := range s.serves {
				serve(next.table)
			}
		}, nil
	}
	commit, err := s.rebuildHandlers(ctx, s.Live.Now())
	if err != nil {
		return err
	}
	commit()
	return nil
}

// reloading is the role that puts a changed server.yaml in force: within seconds, or at once on request.
func (s *Session) reloading(o RoleOptions) lifecycle.Role {
	path, _ := s.place.ConfigPath(s.Home)
	reloader := config.NewReloader(config.ReloadOptions{
		File: path, Read: s.source, Live: s.Live, Asked: o.Reload, Log: o.Log, Metrics: obs.NewReload(o.registerer()),
		Report: func(now queue.Reload) {
			if s.Ledger != nil {
				s.Ledger.UpdateReport(func(r *queue.Report) { r.Reload = &now })
			}
		},
		Prepare: func(ctx context.Context, cfg *config.Config) (commit func(), err error) {
			if err := s.place.override(cfg); err != nil {
				return nil, err
			}
			if s.checkPromoter != nil && cfg.Promoter != nil {
				if err := s.checkPromoter(*cfg.Promoter); err != nil {
					return nil, err
				}
			}
			if s.rebuildHandlers == nil {
				return nil, nil
			}
			return s.rebuildHandlers(ctx, cfg)
		},
	})
	return lifecycle.Role{Name: "config", Run: reloader.Run}
}

// runCaboose observes the workflows of every handler that hands work to a cluster. When the handlers differ after a
// reload, it starts another caboose, which does the work that the first one left.
func (s *Session) runCaboose(ctx context.Context, o RoleOptions, metrics *obs.Caboose) error {
	for ctx.Err() == nil {
		cfg := s.Live.Now()
		c := caboose.New(s.Ledger.NewWaiter(), s.blobs, caboose.Config{
			Instance: s.instance(), Clusters: s.handlers.Load().clusters, Buckets: s.handlers.Load().buckets,
			Output: func(process string) *config.ArgoOutput { return s.Live.Now().ArgoOutput(process) },
			Cirrus: s.handlers.Load().cirrus, Workers: cfg.Caboose.Workers,
			Pace: caboose.Pace{Resync: cfg.Caboose.Resync}, Log: o.Log, Metrics: metrics,
		})
		own, cancel := context.WithCancel(ctx)
		var follower sync.WaitGroup
		follower.Go(func() {
			s.until(own, func(now *config.Config) bool { return !reflect.DeepEqual(watched(now), watched(cfg)) })
			cancel()
		})
		err := c.Run(own)
		cancel()
		follower.Wait()
		if err != nil {
			return err
		}
	}
	return nil
}

// until returns when the configuration in force is as wanted, or ctx ends.
func (s *Session) until(ctx context.Context, wanted func(*config.Config) bool) {
	for {
		changed := s.Live.Changed()
		if wanted(s.Live.Now()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// watched returns the part of the configuration that a caboose depends on.
func watched(cfg *config.Config) (parts struct {
	caboose  config.Caboose
	clusters map[string]config.Argo
	cirrus   map[string]config.Cirrus
}) {
	parts.caboose, parts.clusters, parts.cirrus = cfg.Caboose, map[string]config.Argo{}, map[string]config.Cirrus{}
	for name, h := range cfg.Handlers {
		if h.Argo != nil && !h.Argo.Resume {
			parts.clusters[name] = *h.Argo
		}
		if h.Cirrus != nil {
			parts.cirrus[name] = *h.Cirrus
		}
	}
	return parts
}

// outdating ends the process once a newer Waybill has migrated the log: processes that work on it drain. The API
// alone has nothing to drain; it answers, and /readyz reports that it should be replaced.
func (s *Session) outdating() lifecycle.Role {
	return lifecycle.Role{Name: "schema", Run: func(ctx context.Context) error {
		select {
		case <-s.Ledger.Outdated():
			return store.ErrOutdated
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}
