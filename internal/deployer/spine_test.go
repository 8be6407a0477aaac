package deployer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

// Deployer, conductor and the real ledger together, with model hosts, on
// virtual time: processes that die at any write, before or after its commit, and
// between an effect and its record. The end equals that of the run without faults.

// world is the state that handlers change. It outlives every process.
type world struct {
	mu       sync.Mutex
	random   *rand.Rand
	inside   map[string]pipeline.StepKey // the attempt now at work on each host, or build
	applied  map[pipeline.StepKey]int    // effects
	current  map[string]int64            // the deployment whose release is on each host
	faults   []string                    // what must never happen
	unsteady bool                        // handlers fail now and then
	pace     int                         // half a step takes less than so many milliseconds
}

func newWorld(seed uint64) *world {
	return &world{random: rand.New(rand.NewPCG(seed, 0)), inside: map[string]pipeline.StepKey{},
		applied: map[pipeline.StepKey]int{}, current: map[string]int64{}, pace: 1000}
}

func (w *world) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// enter begins an attempt at a place, which must not have another attempt.
func (w *world) enter(place string, key pipeline.StepKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other, busy := w.inside[place]; busy {
		w.faults = append(w.faults, fmt.Sprintf("%v and %v at once on %s", other, key, place))
	}
	w.inside[place] = key
}

func (w *world) leave(place string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.inside, place)
}

// apply takes the effect of a step: done once however often it is requested.
func (w *world) apply(place string, key pipeline.StepKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied[key]++
	if key.Event != pipeline.HostDeployed {
		return
	}
	if w.current[place] > key.Deployment {
		w.faults = append(w.faults, fmt.Sprintf("%s went from %d back to %d", place, w.current[place], key.Deployment))
	}
	w.current[place] = key.Deployment
}

// handler does the work of steps and builds in the world.
func (w *world) handler(l *ledger.Ledger) conductor.Handler {
	return doer(func(ctx context.Context, a conductor.Attempt) action.Outcome {
		step := a.Action.Step
		key := pipeline.StepKey{Deployment: step.Deployment, Target: step.Target, Event: step.Event}
		place := a.Action.Lane
		if step.Event == pipeline.BuildCompleted {
			place = step.Target + fmt.Sprint(step.Deployment)
		}
		w.enter(place, key)
		defer w.leave(place)
		if !pauseFor(ctx, w.pick(w.pace)) {
			return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
		}
		w.apply(place, key)
		if step.Event == pipeline.BuildCompleted {
			artifact := pipeline.RevisionArtifact{Label: "any", Name: "app", Digest: fmt.Sprintf("%064d", step.Revision),
				Size: 1, Blob: fmt.Sprint(step.Revision)}
			if err := l.RegisterArtifact(ctx, step.Pipeline, step.Revision, artifact); err != nil {
				return action.Outcome{Kind: action.Throttle, Error: err.Error()}
			}
		}
		if !pauseFor(ctx, w.pick(w.pace)) {
			return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
		}
		if w.unsteady && a.Spent == 0 && w.pick(4) == 0 {
			return action.Outcome{Kind: action.Retry, Error: "now and then"}
		}
		return action.Outcome{Kind: action.Done}
	})
}

// pauseFor waits for so many milliseconds, unless the attempt ends.
func pauseFor(ctx context.Context, ms int) bool {
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

type doer func(ctx context.Context, a conductor.Attempt) action.Outcome

func (d doer) Do(ctx context.Context, a conductor.Attempt) action.Outcome { return d(ctx, a) }

// mortal is a process' ledger. At one of its writes the process dies: nothing of
// it reaches the ledger any more.
type mortal struct {
	*ledger.Ledger
	mu     sync.Mutex
	writes int
	dieAt  int  // this write; 0: never
	after  bool // its commit
	dead   chan struct{}
}

var errDead = fault.New(fault.LedgerUnavailable, "this process is dead")

func (m *mortal) isDead() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

// write makes one write, or dies at it.
func (m *mortal) write(do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDead() {
		return errDead
	}
	m.writes++
	if m.writes != m.dieAt {
		return do()
	}
	if m.after {
		_ = do() // the process dies before it could use the answer
	}
	close(m.dead)
	return errDead
}

func (m *mortal) CompleteAndClaim(ctx context.Context, owner queue.Instance, completions []queue.Completion,
	wants []queue.Want) (done queue.Turned, err error) {
	err = m.write(func() error {
		done, err = m.Ledger.CompleteAndClaim(ctx, owner, completions, wants)
		return err
	})
	if m.isDead() {
		return queue.Turned{}, errDead
	}
	return done, err
}

func (m *mortal) Pass(ctx context.Context, lease journal.Lease, since int64, decide journal.Decider) (head journal.Head, err error) {
	err = m.write(func() error {
		head, err = m.Ledger.Pass(ctx, lease, since, decide)
		return err
	})
	return head, err
}

func (m *mortal) Rescue(ctx context.Context, self action.ID, began func(action.ID) bool) (r []queue.Rescued, err error) {
	err = m.write(func() error {
		r, err = m.Ledger.Rescue(ctx, self, began)
		return err
	})
	return r, err
}

func (m *mortal) Due(ctx context.Context) (next time.Time, err error) {
	if m.isDead() {
		return next, errDead
	}
	return m.Ledger.Due(ctx)
}

func (m *mortal) Leave(ctx context.Context, i queue.Instance) error {
	if m.isDead() {
		return errDead
	}
	return m.Ledger.Leave(ctx, i)
}

func (m *mortal) Pulse(ctx context.Context, i queue.Instance, renew bool) (queue.Pulse, error) {
	if m.isDead() {
		return queue.Pulse{}, errDead
	}
	return m.Ledger.Pulse(ctx, i, renew)
}

func (m *mortal) Heartbeat(ctx context.Context, i queue.Instance) error {
	if m.isDead() {
		return errDead
	}
	return m.Ledger.Heartbeat(ctx, i)
}

// process runs conductor and deployer on a ledger until it dies, or until done returns true.
func process(t *testing.T, w *world, m *mortal, done func(*ledger.Ledger) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handler := w.handler(m.Ledger)
	c := conductor.New(m, conductor.Config{Handlers: map[string]conductor.Handler{"step": handler, "build": handler}, Workers: 20})
	d := deployer.New(m, deployer.Config{})
	var roles sync.WaitGroup
	for _, role := range []func(context.Context) error{c.Run, d.Run} {
		roles.Go(func() {
			if err := role(ctx); err != nil {
				t.Errorf("role: %v", err)
			}
		})
	}
	watch := m.NewWaiter()
	for over := false; !over; {
		if watch.Wait(ctx, store.TopicEntry, time.Now().Add(time.Second)) != nil {
			break
		}
		over = m.isDead() || done(m.Ledger)
	}
	cancel()
	roles.Wait()
	if stopped := d.Stopped(); len(stopped) > 0 {
		t.Fatalf("decisions stopped: %v", stopped)
	}
}

// define stores a pipeline's first definition.
func define(t *testing.T, l *ledger.Ledger, d pipeline.Definition) {
	t.Helper()
	plan, problems := pipeline.Compile(d)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	_, err := l.Define(t.Context(), d.Pipeline, 0, func(locked journal.Locked) (journal.Change, error) {
		edit := pipeline.New(d.Pipeline).Edit(1, plan, 0, locked.Now)
		return journal.Change{Definition: &d, Entries: edit.Entries}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// register registers a revision and makes its deployment.
func register(t *testing.T, l *ledger.Ledger, name, label string) {
	t.Helper()
	if _, err := l.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: name, Label: label}, true, ""); err != nil {
		t.Fatal(err)
	}
}

// allEnded registers the second revision, if one is wanted, when the first one
// is in beta, and reports whether all deployments have ended.
func allEnded(t *testing.T, name string, revisions int) func(*ledger.Ledger) bool {
	return func(l *ledger.Ledger) bool {
		all, err := l.Deployments(t.Context(), journal.DeploymentQuery{Pipeline: name})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) < revisions {
			beta, err := l.Entries(t.Context(), journal.EntryQuery{Pipeline: name, Deployment: 1, Target: name + "/beta", Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(beta) > 0 {
				register(t, l, name, "two")
			}
			return false
		}
		return !slices.ContainsFunc(all, func(d journal.Deployment) bool { return d.Status == pipeline.StatusActive })
	}
}

// trial is the work to do, and the result to find at the end.
type trial struct {
	pipeline       pipeline.Definition
	revisions      int
	facts, effects int // facts and effects of each revision
}

// whole returns the pipeline greeter with the numbers of its facts and effects.
func whole(revisions int) trial { return trial{greeter("greeter"), revisions, 36, 13} }

// short returns the beginning of the pipeline greeter: build and one host.
func short() trial {
	d := greeter("greeter")
	d.Stages = d.Stages[:2]
	return trial{d, 1, 15, 4}
}

// judge searches for violations, in the log and in the world.
func (tr trial) judge(t *testing.T, l *ledger.Ledger, w *world) {
	t.Helper()
	name, deployments := tr.pipeline.Pipeline, tr.revisions
	for _, f := range w.faults {
		t.Error(f)
	}
	engine, err := deployer.Fold(t.Context(), l, name) // asserts the invariants on the way
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= int64(deployments); n++ {
		if d, _ := engine.Deployment(n); d.Status != pipeline.StatusFinished {
			t.Errorf("deployment %d is %s (%s), want finished", n, d.Status, d.Reason)
		}
		tr.judgeFacts(t, l, w, n)
	}
	live, err := l.Actions(t.Context(), queue.ActionQuery{Pipeline: name, LiveOnly: true})
	if err != nil || len(live) > 0 {
		t.Errorf("%d actions live at the end (%v)", len(live), err)
	}
	for place, n := range w.current {
		if n != int64(deployments) {
			t.Errorf("%s runs deployment %d at the end", place, n)
		}
	}
}

// judgeFacts checks that a deployment has the wanted number of facts, each once, and that every
// effect is recorded as a fact.
func (tr trial) judgeFacts(t *testing.T, l *ledger.Ledger, w *world, n int64) {
	t.Helper()
	entries, err := l.Entries(t.Context(), journal.EntryQuery{Pipeline: tr.pipeline.Pipeline, Deployment: n})
	if err != nil {
		t.Fatal(err)
	}
	got := map[pipeline.StepKey]int{}
	for _, e := range entries {
		if e.Class == pipeline.Fact {
			got[pipeline.StepKey{Deployment: n, Target: e.Target, Event: e.Event}]++
		}
	}
	for key, times := range got {
		if times > 1 {
			t.Errorf("%v is recorded %d times", key, times)
		}
	}
	if len(got) != tr.facts {
		t.Errorf("deployment %d has %d facts, want %d", n, len(got), tr.facts)
	}
	effects := 0
	for key := range w.applied {
		if key.Deployment == n {
			effects++
			if got[key] == 0 {
				t.Errorf("%v was done and is not recorded", key)
			}
		}
	}
	if effects != tr.effects {
		t.Errorf("deployment %d had %d effects, want %d", n, effects, tr.effects)
	}
}

// open opens a ledger file as a new process would.
func open(t *testing.T, path string) *ledger.Ledger {
	t.Helper()
	driver := sqlitetest.Open(t, path)
	return ledger.New(driver, ledger.Options{})
}

// live runs processes one after another until all is through; dieAt sets the time of each death. It returns all
// writes.
func (tr trial) live(t *testing.T, w *world, dieAt func(process int) (write int, after bool)) (writes int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "waybill.db")
	l := open(t, path)
	define(t, l, tr.pipeline)
	register(t, l, "greeter", "one")
	done := allEnded(t, "greeter", tr.revisions)
	for n := 0; !done(l); n++ {
		if n > 500 {
			t.Fatal("500 processes did not finish it")
		}
		m := &mortal{Ledger: l, dead: make(chan struct{})}
		m.dieAt, m.after = dieAt(n)
		process(t, w, m, done)
		writes += m.writes
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, path)
	}
	tr.judge(t, l, w)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return writes
}

func never(int) (int, bool) { return 0, false }

func TestTwoRevisionsGoThroughOnSQLite(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) { whole(2).live(t, newWorld(1), never) })
}

func TestDyingAgainAndAgainLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				w := newWorld(seed)
				w.unsteady = seed%2 == 1
				whole(2).live(t, w, func(int) (int, bool) { return 1 + w.pick(12), w.pick(2) == 0 })
			})
		})
	}
}

func TestDyingAtAnyWriteLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	var writes int
	bubbletest.Test(t, func(t *testing.T) { writes = short().live(t, newWorld(1), never) })
	for at := 1; at <= writes; at++ {
		for when, after := range map[string]bool{"before": false, "after": true} {
			t.Run(fmt.Sprintf("%s write %d", when, at), func(t *testing.T) {
				t.Parallel()
				bubbletest.Test(t, func(t *testing.T) {
					short().live(t, newWorld(1), func(process int) (int, bool) {
						if process > 0 {
							return never(process)
						}
						return at, after
					})
				})
			})
		}
	}
}
