package simulation_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// observer reads the log as it grows and checks every row: by an engine of its own, which asserts its
// invariants, and against what has happened on the hosts.
type observer struct {
	t     *testing.T
	log   *ledger.Ledger
	fleet *fleet

	mu      sync.Mutex
	engine  *pipeline.Engine
	facts   map[pipeline.StepKey]int
	claimed map[pipeline.StepKey]bool // live actions
	started map[string]int64          // by the name of a host: the last deployment that started it
	shipped int                       // deployments of revisions that were registered
	kinds   map[string]int            // of deployments, how many
	edited  bool
}

func newObserver(t *testing.T, log *ledger.Ledger, f *fleet) *observer {
	return &observer{t: t, log: log.NewWaiter(), fleet: f, engine: pipeline.New("shop"), facts: map[pipeline.StepKey]int{},
		claimed: map[pipeline.StepKey]bool{}, started: map[string]int64{}, kinds: map[string]int{}}
}

func (o *observer) run(ctx context.Context) {
	for ctx.Err() == nil {
		o.catchUp(ctx)
		if o.log.Wait(ctx, store.TopicEntry, time.Now().Add(time.Minute)) != nil {
			return
		}
	}
}

// catchUp checks the rows that are new.
func (o *observer) catchUp(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := deployer.Catch(ctx, o.log, "shop", o.engine, o.check); err != nil && ctx.Err() == nil {
		o.t.Errorf("the log: %v", err)
	}
}

func (o *observer) has(key pipeline.StepKey) bool {
	o.catchUp(o.t.Context())
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.facts[key] > 0
}

func (o *observer) check(row pipeline.Entry) {
	key := pipeline.StepKey{Deployment: row.Deployment, Target: row.Target, Event: row.Event}
	switch {
	case row.Event == pipeline.PipelineDefined:
		o.edited = o.edited || row.Version > 1
	case row.Event == pipeline.DeploymentCreated:
		o.created(row)
	case row.Class == pipeline.Fact:
		o.fact(key)
	case row.Event == pipeline.StepClaimed, row.Event == pipeline.StepFailed, row.Event == pipeline.StepCanceled:
		key.Event = detailEvent(row)
		o.claimed[key] = row.Event == pipeline.StepClaimed
		o.checkParallel(key)
	}
}

// created counts a deployment by its kind.
func (o *observer) created(row pipeline.Entry) {
	var about struct{ Kind string }
	if err := json.Unmarshal(row.Detail, &about); err != nil {
		o.t.Error(err)
	}
	o.kinds[about.Kind]++
	if about.Kind == journal.Forward {
		o.shipped++
	}
}

// fact checks that a fact is there once, that what it says has happened, and that what must come
// before it has.
func (o *observer) fact(key pipeline.StepKey) {
	o.facts[key]++
	if o.facts[key] > 1 {
		o.t.Errorf("%v is recorded %d times", key, o.facts[key])
	}
	if o.claimed[key] && !o.fleet.was(key) {
		o.t.Errorf("%v is recorded and was not done", key)
	}
	delete(o.claimed, key)
	if key.Event == pipeline.HostStarted {
		host := addressOf(key.Target)
		if o.engine.Outranks(o.started[host], key.Deployment) {
			o.t.Errorf("%v: deployment %d has started the host", key, o.started[host])
		}
		o.started[host] = key.Deployment
	}
	chain := []string{pipeline.HostStarted, pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested, pipeline.HostFinished}
	if i := slices.Index(chain, key.Event); i > 0 && !o.edited {
		before := key
		before.Event = chain[i-1]
		if o.facts[before] == 0 {
			o.t.Errorf("%v is recorded before %s", key, before.Event)
		}
	}
}

// checkParallel checks that a stage has no more hosts at work than its group allows. An edit may
// lower the limit, or take a host away that is at work.
func (o *observer) checkParallel(key pipeline.StepKey) {
	_, graph := o.engine.Current()
	stage, _, _, ok := graph.Definition().Find(key.Target)
	if !ok || len(stage.Groups) == 0 || o.edited {
		return
	}
	hosts := 0
	for other, live := range o.claimed {
		if in, _, _, _ := graph.Definition().Find(other.Target); live && in == stage {
			hosts++
		}
	}
	if limit := stage.Groups[0].MaxParallel.N; hosts > limit {
		o.t.Errorf("%v: %d hosts of %s are at work, at most %d", key, hosts, stage.Name, limit)
	}
}

// alarm fails the test when a role logs what must never happen.
type alarm struct{ t *testing.T }

func (alarm) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (a alarm) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "invariant broken" || r.Message == "handler panicked" {
		r.Attrs(func(attr slog.Attr) bool { a.t.Errorf("%s: %s", r.Message, attr); return true })
	}
	return nil
}

func (a alarm) WithAttrs([]slog.Attr) slog.Handler { return a }

func (a alarm) WithGroup(string) slog.Handler { return a }
