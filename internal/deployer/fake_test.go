package deployer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

var _ deployer.Ledger = (*fake)(nil)

// fake is the log of several pipelines in memory, with the faults that a test
// wants. It replaces the ledger where virtual time is needed; the real one
// is tested beside it.
type fake struct {
	mu      sync.Mutex
	logs    map[string]*log
	alive   map[action.ID]bool
	joined  []action.ID
	changed chan struct{}

	slow       func(pipeline string)       // delays a pass; other methods run in the meantime
	beforePass func(pipeline string) error // refuses a pass
	afterPass  func()                      // delays the answer of a pass
	loseAnswer int                         // passes that commit and answer with an error
	tryTwice   int                         // passes whose decider is called again, as after a deadlock
	silent     bool                        // changes are not announced
	ahead      time.Duration               // lead of the ledger's clock
}

// log is one pipeline.
type log struct {
	journal.Head
	versions []pipeline.Definition
	entries  []pipeline.Entry
	live     []action.Action
	passes   int
	archives []journal.ArchivedDeployment
}

func newFake() *fake {
	return &fake{logs: map[string]*log{}, alive: map[action.ID]bool{}, changed: make(chan struct{})}
}

// define makes a pipeline with its first definition.
func (f *fake) define(t *testing.T, d pipeline.Definition) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &log{Head: journal.Head{Pipeline: d.Pipeline, Version: 1}, versions: []pipeline.Definition{d}}
	f.logs[d.Pipeline] = l
	l.add(pipeline.Entry{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: 1})
	f.announce()
}

// create registers revision n with its artifacts and makes deployment n.
func (f *fake) create(name string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[name]
	l.add(pipeline.Entry{Event: pipeline.DeploymentCreated, Class: pipeline.Note, Deployment: n, Revision: n})
	f.announce()
}

// add appends an entry as it is.
func (f *fake) add(name string, e pipeline.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[name].add(e)
	f.announce()
}

func (l *log) add(e pipeline.Entry) {
	l.Seq++
	e.Pipeline, e.Seq, e.At = l.Pipeline, l.Seq, time.Now()
	if e.Target == "" {
		e.Target = l.Pipeline
	}
	if e.Version == 0 {
		e.Version = l.Version
	}
	e.Digest = e.Link(l.Digest)
	l.Digest = e.Digest
	l.entries = append(l.entries, e)
}

func (f *fake) announce() {
	if f.silent {
		return
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// archive deletes the entries of deployments.
func (l *log) archive(some []journal.ArchivedDeployment) {
	for _, a := range some {
		l.Archived = l.Seq
		l.archives = append(l.archives, a)
		l.entries = slices.DeleteFunc(l.entries, func(e pipeline.Entry) bool { return e.Deployment == a.Number })
	}
}

// work ends live actions successfully until none is left, and returns their number.
func (f *fake) work(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[name]
	n := len(l.live)
	for _, a := range l.live {
		if a.Step.Event == pipeline.BuildCompleted {
			l.add(pipeline.Entry{Event: pipeline.ArtifactRegistered, Class: pipeline.Change, Revision: a.Step.Revision,
				Detail: json.RawMessage(`{"label":"any"}`)})
		}
		l.add(pipeline.Entry{Event: a.Step.Event, Class: pipeline.Fact, Deployment: a.Step.Deployment, Target: a.Step.Target,
			Revision: a.Step.Revision, Version: a.Step.Version})
	}
	l.live = nil
	f.announce()
	return n
}

// events lists the facts of a deployment as "target event".
func (f *fake) facts(name string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var facts []string
	for _, e := range f.logs[name].entries {
		if e.Class == pipeline.Fact {
			facts = append(facts, e.Target+" "+e.Event)
		}
	}
	return facts
}

func (f *fake) head(name string) log {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.logs[name]
}

func (f *fake) Entries(_ context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rows []pipeline.Entry
	for _, e := range f.logs[q.Pipeline].after(q.After) {
		if q.UpTo != 0 && e.Seq > q.UpTo || q.Limit != 0 && len(rows) == q.Limit {
			break
		}
		if q.Deployment != 0 && e.Deployment != q.Deployment {
			continue
		}
		if !q.Digests {
			e.Digest = pipeline.Digest{}
		}
		rows = append(rows, e)
	}
	return rows, nil
}

// after returns the entries after a position, which the caller does not change.
func (l *log) after(seq int64) []pipeline.Entry {
	first, _ := slices.BinarySearchFunc(l.entries, seq+1, func(e pipeline.Entry, seq int64) int { return cmp.Compare(e.Seq, seq) })
	return l.entries[first:len(l.entries):len(l.entries)]
}

func (f *fake) Head(_ context.Context, name string) (journal.Head, error) {
	return f.head(name).Head, nil
}

func (f *fake) Version(_ context.Context, name string, version int) (journal.Version, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return journal.Version{Pipeline: name, Version: version, Definition: f.logs[name].versions[version-1]}, nil
}

func (f *fake) Heads(context.Context) (heads []journal.Head, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.logs {
		heads = append(heads, l.Head)
	}
	return heads, nil
}

func (f *fake) Lease(_ context.Context, name string, instance action.ID) (lease journal.Lease, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[name]
	if l.Owner != instance {
		if f.alive[l.Owner] {
			return lease, false, nil
		}
		l.Owner = instance
		l.Epoch++
	}
	return journal.Lease{Pipeline: name, Instance: instance, Epoch: l.Epoch}, true, nil
}

func (f *fake) Pass(_ context.Context, lease journal.Lease, since int64, decide journal.Decider) (journal.Head, error) {
	if f.slow != nil {
		f.slow(lease.Pipeline)
	}
	f.mu.Lock()
	defer func() {
		after := f.afterPass
		f.mu.Unlock()
		if after != nil {
			after()
		}
	}()
	l := f.logs[lease.Pipeline]
	if l.Epoch != lease.Epoch {
		return l.Head, fault.New(fault.StaleEpoch, "epoch %d, ours is %d", l.Epoch, lease.Epoch)
	}
	if f.beforePass != nil {
		if err := f.beforePass(lease.Pipeline); err != nil {
			return l.Head, err
		}
	}
	l.passes++
	locked := journal.Locked{Head: l.Head, Now: time.Now().Add(f.ahead), Newer: slices.Clone(l.after(since))}
	change, err := decide(locked)
	if err == nil && f.tryTwice > 0 {
		f.tryTwice--
		change, err = decide(locked)
	}
	if err != nil {
		return l.Head, err
	}
	for _, e := range change.Entries {
		l.add(e)
	}
	l.archive(change.Archived)
	l.live = append(l.live, change.Actions...)
	if len(change.Entries) > 0 {
		f.announce()
	}
	if f.loseAnswer > 0 {
		f.loseAnswer--
		return journal.Head{}, fault.New(fault.LedgerUnavailable, "connection lost at commit")
	}
	return l.Head, nil
}

func (f *fake) Wait(ctx context.Context, _ store.Topic, _ time.Time) error {
	f.mu.Lock()
	changed := f.changed
	f.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *fake) Join(_ context.Context, i queue.Instance) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alive[i.ID] = true
	f.joined = append(f.joined, i.ID)
	return nil
}

func (f *fake) Heartbeat(_ context.Context, i queue.Instance) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.alive[i.ID] {
		return fault.New(fault.StaleClaim, "declared dead")
	}
	return nil
}

func (f *fake) UpdateReport(func(*queue.Report)) {}

func (f *fake) Leave(_ context.Context, i queue.Instance) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.alive, i.ID)
	return nil
}
