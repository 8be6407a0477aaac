//go:build linux && services

// Package faults kills what builds depend on while they run: workers, aggregators, servers, the provisioner, the watchdog and the
// database, each by kill -9 at random moments, and cuts connections. The processes are those of the real program. Afterwards every
// build must have ended for a true reason, with each line that it printed once and in order, and nothing may be left over.
package faults_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/test/chaos"
)

var (
	rounds = flag.Int("rounds", 3, "rounds with each database, in each of which builds run and something is killed")
	lines  = flag.Int("lines", 100_000, "lines that each build prints")
	seed   = flag.Uint64("seed", 0, "of the random moments; 0: a new one")
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(chaos.RunTests(m, "../..", &binary))
}

// TestBuildsOutliveEveryProcess runs each role in a process of its own, over PostgreSQL.
func TestBuildsOutliveEveryProcess(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t)
	w := newWorld(t, database)
	w.serve("server", "api", "conductor", "deployer")
	w.serve("provisioner", "provisioner")
	w.serve("aggregator 1", "aggregator")
	w.serve("aggregator 2", "aggregator")
	w.serve("watchdog", "watchdog")
	w.endure(chaos.Moments(t.Logf, *seed))
}

// TestBuildsOutliveTheOnlyProcess runs all roles in one process, over SQLite.
func TestBuildsOutliveTheOnlyProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.serve("server", "api", "conductor", "deployer", "provisioner", "aggregator", "watchdog")
	w.endure(chaos.Moments(t.Logf, *seed))
}

// endure has builds run, round after round, while faults occur, and judges what they have left.
func (w *world) endure(random *rand.Rand) {
	w.t.Helper()
	for round := range *rounds {
		began := time.Now()
		w.ship()
		for range 1 + random.IntN(3) {
			w.pause(time.Duration(random.IntN(2500)) * time.Millisecond)
			w.fault(random)
		}
		w.settle(round)
		w.judge()
		w.t.Logf("round %d took %s; faults so far: %v", round, time.Since(began).Round(time.Millisecond), w.faults)
		if w.t.Failed() {
			w.t.FailNow() // while the processes' last words are about it
		}
	}
	w.ship() // and once without any fault, which also removes what killed workers have left
	w.settle(*rounds)
	w.judge()
	w.nothingLeft()
	w.t.Logf("%d builds, by status %v; faults %v", w.builds, w.ends, w.faults)
}

// fault makes one fault. What was killed is started again, some time later. Each kind occurs once before any occurs again.
func (w *world) fault(random *rand.Rand) {
	w.t.Helper()
	if len(w.kinds) == 0 {
		w.kinds = append(slices.Clone(w.names), "worker", "workers' connections")
		if w.server != nil {
			w.kinds = append(w.kinds, "database", "database's connections")
		}
		random.Shuffle(len(w.kinds), func(i, j int) { w.kinds[i], w.kinds[j] = w.kinds[j], w.kinds[i] })
	}
	kind, away := w.kinds[0], time.Duration(random.IntN(1500))*time.Millisecond
	w.kinds = w.kinds[1:]
	switch kind {
	case "worker":
		if !w.killWorker(random) {
			w.kinds = append(w.kinds, kind) // when there is one
			return
		}
	case "workers' connections":
		w.front.cut()
	case "database":
		w.must(w.server.Kill())
		w.pause(away)
		w.must(w.server.Run(w.t.Context()))
	case "database's connections":
		w.proxy.Cut(chaos.Any)
	default:
		w.processes[kind].kill()
		w.pause(away)
		w.serve(kind, w.roles[kind]...)
	}
	w.faults[kind]++
}

// pause lets some time pass, in which work continues or a fault lasts.
func (w *world) pause(d time.Duration) {
	select {
	case <-w.t.Context().Done():
	case <-time.After(d):
	}
}
