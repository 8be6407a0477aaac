// Package simulation runs the whole control plane in one bubble of virtual time: the log on SQLite,
// the deployer, the conductor and the service that people ask, with model hosts. A seed decides what
// goes wrong: calls to the log that are refused or lose their answers, roles that die between an
// effect and its record, hosts that are slow or whose answers get lost, steps that fail, edits and
// retries in the middle, freezes, approvals, rejections, rollbacks and catch-ups, and jumps of the
// database's clock. An observer checks every row of the log; the end equals that of a run in
// which nothing goes wrong.
package simulation_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/store"
)

var (
	first = flag.Uint64("first", 1, "the first seed")
	count = flag.Int("seeds", 2, "how many seeds, of each kind of simulation")
)

// faulty returns what may go wrong under a seed. Some seeds have many deaths, others many lost
// answers, and so on.
func faulty(seed uint64) fate {
	f := fate{seed: seed}
	some := func(what string, most int) int { return f.pick(most+1, what) }
	f.refuse, f.lose, f.death = some("refuse", 10), some("lose", 10), some("death", 4)
	f.cut, f.retry, f.slow, f.jumps = some("cut", 30), some("retry", 30), some("slow", 40), some("jumps", 6)
	return f
}

// TestFaultsChangeNothing ships three revisions through a pipeline without edits. Whatever goes
// wrong, the log has the same facts at the end as without faults.
func TestFaultsChangeNothing(t *testing.T) {
	t.Parallel()
	var want map[string]bool
	bubbletest.Test(t, func(t *testing.T) { want = newSimulation(t, fate{}).shipAll(3) })
	if len(want) < 100 {
		t.Fatalf("without faults the log has only %d facts", len(want))
	}
	for seed := *first; seed < *first+uint64(*count); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			reproducible(t, seed)
			bubbletest.Test(t, func(t *testing.T) {
				sameFacts(t, newSimulation(t, faulty(seed)).shipAll(3), want)
			})
		})
	}
}

// sameFacts compares the facts of a run with those of a run without faults.
func sameFacts(t *testing.T, got, want map[string]bool) {
	t.Helper()
	for fact := range want {
		if !got[fact] {
			t.Errorf("missing: %s", fact)
		}
	}
	for fact := range got {
		if !want[fact] {
			t.Errorf("without faults, %s is missing", fact)
		}
	}
}

// TestEditsAndRetriesUnderFaults ships revisions through a pipeline that is edited meanwhile, and
// whose steps fail until a person retries them. At the end the last revision is on every host of the
// last definition.
func TestEditsAndRetriesUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := *first; seed < *first+uint64(*count); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			reproducible(t, seed)
			bubbletest.Test(t, func(t *testing.T) {
				f := faulty(seed)
				f.broken = f.pick(20, "broken")
				newSimulation(t, f).meddle()
			})
		})
	}
}

// reproducible prints how to run a seed alone, should it fail.
func reproducible(t *testing.T, seed uint64) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d: go test ./test/simulation -run '^%s$' -first %d -seeds 1 -count 5 -v", seed, testOf(t), seed)
		}
	})
}

func testOf(t *testing.T) string { return filepath.Dir(t.Name()) }

// simulation is one control plane with its hosts.
type simulation struct {
	t       *testing.T
	fate    fate
	log     *ledger.Ledger
	service *service.Service
	blobs   blob.Store
	fleet   *fleet
	seen    *observer
	clock   *clock
	stop    context.CancelFunc
	roles   sync.WaitGroup
	late    sync.WaitGroup
	lives   atomic.Int32 // of roles
	shipped int          // revisions
}

// newSimulation starts the roles on a new log with the pipeline shop.
func newSimulation(t *testing.T, f fate) *simulation { return newSimulationOf(t, f, shop(0)) }

// newSimulationOf starts the roles on a new log with a version of the pipeline.
func newSimulationOf(t *testing.T, f fate, d pipeline.Definition) *simulation {
	t.Helper()
	clock := &clock{}
	driver, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "waybill.db"), sqlite.WithClock(clock.now))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &simulation{t: t, fate: f, log: ledger.New(driver, ledger.Options{}), clock: clock, blobs: blobs}
	s.service = service.New(s.log.NewWaiter(), nil, service.Options{})
	s.fleet = newFleet(f, s.log)
	s.apply(d)
	s.seen = newObserver(t, s.log, s.fleet)
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	t.Cleanup(func() { // in the bubble, also after a failure
		s.end()
		if err := s.log.Close(); err != nil {
			t.Error(err)
		}
	})
	s.roles.Go(func() { s.seen.run(ctx) })
	s.roles.Go(func() { clock.run(ctx, f) })
	s.roles.Go(func() {
		s.live(ctx, "conductor", func(ctx context.Context, l *line) error {
			return conductor.New(l, conductor.Config{Handlers: map[string]conductor.Handler{"step": s.fleet, "build": s.fleet},
				Workers: 20, Log: slog.New(alarm{t})}).Run(ctx)
		})
	})
	archives := &shelf{blobs: blobs, fate: f}
	s.roles.Go(func() {
		s.live(ctx, "deployer", func(ctx context.Context, l *line) error {
			return deployer.New(l, deployer.Config{Blobs: archives, FirstArchive: 10 * time.Second, Log: slog.New(alarm{t})}).Run(ctx)
		})
	})
	return s
}

// live runs a role; when it dies, a new life begins on the same log.
func (s *simulation) live(ctx context.Context, name string, run func(context.Context, *line) error) {
	for life := 1; ctx.Err() == nil; life++ {
		s.lives.Add(1)
		l := newLine(s.log, s.fate, &s.late, fmt.Sprint(name, " ", life))
		mortal, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- run(mortal, l) }()
		select {
		case <-l.dead:
			end()
			<-ended // whatever it says, it died
		case err := <-ended:
			if err != nil && ctx.Err() == nil {
				s.t.Errorf("%s: %v", l.name, err)
			}
		}
		end()
		pauseFor(ctx, s.fate.pick(3000, l.name, "reborn"))
	}
}

// end stops the roles and waits for what they have begun.
func (s *simulation) end() {
	s.stop()
	s.roles.Wait()
	s.late.Wait()
	s.fleet.programs.Wait()
}

// close ends the roles and judges what is left.
func (s *simulation) close() {
	s.end()
	s.seen.catchUp(context.WithoutCancel(s.t.Context()))
	for _, text := range s.fleet.faults {
		s.t.Error(text)
	}
	s.judge()
	if s.seen.shipped != s.shipped {
		s.t.Errorf("%d revisions were shipped, and they have %d deployments", s.shipped, s.seen.shipped)
	}
	s.t.Logf("%d rows, %d lives of roles, %v", s.seen.engine.Seq(), s.lives.Load(), s.seen.kinds)
}

// ship registers a revision, with its forward deployment. Now and then the answer gets lost, and it is
// registered again.
func (s *simulation) ship(label string) {
	s.shipped++
	if s.fate.happens(s.fate.lose, "ship", label) {
		s.register(label)
	}
	s.register(label)
}

func (s *simulation) register(label string) {
	if _, err := s.service.Register(s.t.Context(), pipeline.RegisteredRevision{Pipeline: "shop", Label: label}, true, ""); err != nil {
		s.t.Errorf("ship %s: %v", label, err)
	}
}

// apply puts a definition in force, and reports whether it was accepted.
func (s *simulation) apply(d pipeline.Definition) bool {
	_, err := s.service.Apply(s.t.Context(), service.Proposal{Definition: d, Yes: true})
	return err == nil
}

// patience bounds a simulation, in virtual time. Slow hosts and back-offs take minutes.
const patience = 2 * time.Hour

// until waits for the log to grow until the condition holds.
func (s *simulation) until(what string, holds func([]journal.Deployment) bool) {
	s.t.Helper()
	waiter := s.log.NewWaiter()
	for end := time.Now().Add(patience); ; {
		all, err := s.log.Deployments(s.t.Context(), journal.DeploymentQuery{Pipeline: "shop"})
		if err != nil {
			s.t.Fatal(err)
		}
		if holds(all) {
			return
		}
		if time.Now().After(end) {
			s.explain(all)
			s.t.Fatalf("%s: not within %s", what, patience)
		}
		if err := waiter.Wait(s.t.Context(), store.TopicEntry, time.Now().Add(5*time.Second)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// explain prints what every active deployment waits for.
func (s *simulation) explain(all []journal.Deployment) {
	for _, d := range all {
		s.t.Logf("#%d %s", d.Number, d.Status)
		for _, step := range s.seen.engine.Explain(d.Number, s.clock.now()) {
			if d.Status == pipeline.StatusActive && step.State != pipeline.StateComplete {
				s.t.Logf("  %s %s: %s %s", step.Target, step.Event, step.State, step.Reason)
			}
		}
	}
}

func allEnded(all []journal.Deployment) bool {
	return !slices.ContainsFunc(all, func(d journal.Deployment) bool { return d.Status == pipeline.StatusActive })
}

// shipAll ships so many revisions, one as soon as the one before has left the first stages, and
// returns the facts of the log.
func (s *simulation) shipAll(revisions int) map[string]bool {
	for n := range revisions {
		s.ship(fmt.Sprint("r", n+1))
		s.until("the stage lab", func([]journal.Deployment) bool {
			return s.seen.has(pipeline.StepKey{Deployment: int64(n + 1), Target: "shop/lab", Event: pipeline.StageFinished})
		})
	}
	s.until("the end", allEnded)
	s.settle()
	facts := map[string]bool{}
	for key := range s.seen.facts {
		facts[fmt.Sprint(key)] = true
	}
	s.close()
	return facts
}

// settle waits until no action is live: an ended deployment may still have one.
func (s *simulation) settle() {
	s.t.Helper()
	s.until("rest", func([]journal.Deployment) bool {
		live, err := s.log.Actions(s.t.Context(), queue.ActionQuery{Pipeline: "shop", LiveOnly: true})
		return err == nil && len(live) == 0
	})
	s.seen.catchUp(s.t.Context())
}

// meddle ships, edits, holds, cancels and retries at random moments, as people do.
func (s *simulation) meddle() {
	revision := 0
	for n := range 12 {
		pauseFor(s.t.Context(), s.fate.pick(8000, "people", n))
		switch s.fate.pick(5, "do", n) {
		case 0, 1:
			if revision < 4 {
				revision++
				s.ship(fmt.Sprint("r", revision))
			}
		case 2, 3:
			s.apply(shop(s.fate.pick(shops, "edit", n)))
		case 4:
			s.command(int64(1+s.fate.pick(4, "of", n)), []string{"retry", "hold", "resume", "cancel"}[s.fate.pick(4, "command", n)])
		}
	}
	s.ship("last")
	s.until("the end", func(all []journal.Deployment) bool {
		s.help(all)
		return s.over(all)
	})
	s.settle()
	s.close()
	s.judgeHosts()
}

// command asks for something, which may be refused.
func (s *simulation) command(number int64, kind string) {
	// a refusal is an answer
	_ = s.service.Command(s.t.Context(), service.Ref{Pipeline: "shop", Number: number}, service.Command{Kind: kind, By: "ana"})
}

// help retries what has failed and resumes what is held.
func (s *simulation) help(all []journal.Deployment) {
	for _, d := range all {
		switch d.Status {
		case pipeline.StatusFailed:
			s.command(d.Number, "retry")
		case pipeline.StatusActive:
			s.command(d.Number, "resume")
			s.command(d.Number, "retry")
		}
	}
}

// over reports whether the last deployment has finished and nothing else is under way.
func (s *simulation) over(all []journal.Deployment) bool {
	last := slices.MaxFunc(all, func(a, b journal.Deployment) int { return int(a.Number - b.Number) })
	return last.Status == pipeline.StatusFinished && allEnded(all)
}

// judge compares what is stored beside the log with the log, and the hosts with both.
func (s *simulation) judge() {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	all, err := s.log.Deployments(ctx, journal.DeploymentQuery{Pipeline: "shop"})
	if err != nil {
		s.t.Fatal(err)
	}
	engine, err := deployer.Fold(ctx, s.log, "shop")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range all {
		if state, _ := engine.Deployment(d.Number); state.Status != d.Status && d.Archive == "" {
			s.t.Errorf("#%d is stored as %s; the log says %s", d.Number, d.Status, state.Status)
		}
		for key := range s.fleet.applied {
			// An edit may drain a step whose effect has happened: it then ends without a fact.
			if key.Deployment == d.Number && d.Status == pipeline.StatusFinished && !s.seen.edited && s.seen.facts[key] == 0 {
				s.t.Errorf("%v was done and is not recorded", key)
			}
		}
	}
	deployed := map[string]int{}
	for key := range s.fleet.applied {
		if key.Event == pipeline.HostDeployed {
			deployed[addressOf(key.Target)]++
		}
	}
	for lane, h := range s.fleet.hosts {
		if h.restarts != deployed[lane] {
			s.t.Errorf("%s restarted %d times for %d deployments", lane, h.restarts, deployed[lane])
		}
	}
}

// judgeHosts checks that every host of the last definition runs the last revision.
func (s *simulation) judgeHosts() {
	_, graph := s.seen.engine.Current()
	runs := s.running()
	for place := range graph.Definition().EachHost() {
		if got := runs[place.Host.Address()]; got != "last" {
			s.t.Errorf("%s runs %q, want last; hosts run %v", place.Host.Name, got, runs)
		}
	}
}

// running returns the label of the revision that each host runs, by address.
func (s *simulation) running() map[string]string {
	all, err := s.log.Deployments(context.WithoutCancel(s.t.Context()), journal.DeploymentQuery{Pipeline: "shop"})
	if err != nil {
		s.t.Fatal(err)
	}
	labels := map[string]string{}
	for address, number := range s.fleet.runs() {
		for _, d := range all {
			if d.Number == number {
				labels[address] = d.Label
			}
		}
	}
	return labels
}
