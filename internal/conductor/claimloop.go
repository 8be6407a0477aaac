package conductor

import (
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/turn"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/queue"
)

// claimLoop owns the known state of claims. Package turn decides what the loop does. Transactions and attempts run in
// goroutines of their own and report to the loop over channels, so that it never waits for the ledger and needs no
// lock.
//
// A claim moves from claims to unflushed when its attempt ends, to recording while a turn records
// it, and then vanishes; or back to unflushed if the turn fails; or to deferred, and from there to
// unflushed. state keeps the same numbers, so both must change together.
type claimLoop struct {
	*Conductor
	state     *turn.State
	claims    map[claim]*attempt // claims whose attempts have not ended
	unflushed []queue.Completion // ends to be recorded, the oldest first
	deferred  []queue.Completion // ends to be recorded at until; their successors could not be planned
	recording map[claim]bool     // ends that a turn in progress records
	until     time.Time          // time at which the deferred ends are recorded again
	away      loop.Backoff       // the delay after transactions that failed

	turns   sync.WaitGroup
	answers chan func(now time.Time) // a function per finished transaction, which the loop calls with its answer
}

// newLoop makes the loop of a conductor. Its state is not joined yet.
func newClaimLoop(c *Conductor) *claimLoop {
	t := &claimLoop{
		Conductor: c,
		state:     turn.New(turn.Config{Workers: c.cfg.Workers, Rows: c.cfg.TurnRows, NotifyWait: c.cfg.NotifyWait}),
		claims:    map[claim]*attempt{},
		recording: map[claim]bool{},
		answers:   make(chan func(time.Time)),
	}
	t.configure(time.Now())
	return t
}

// background runs a transaction in a goroutine, then has the loop call the function that it returned. transaction
// must not use the loop's state; the function may.
func (t *claimLoop) background(transaction func() (answer func(now time.Time))) {
	t.turns.Go(func() {
		answer := transaction()
		select {
		case t.answers <- answer:
		case <-t.over:
		}
	})
}

// configure passes the served table's handlers and limits to the state.
func (t *claimLoop) configure(now time.Time) {
	served := t.table.Load()
	limits := make(map[string]turn.Limits, len(served.names))
	for _, name := range served.names {
		l := served.Limits[name]
		limits[name] = turn.Limits{Limits: l.Limits, Workers: l.Workers, HandOff: t.handsOff(name)}
	}
	t.state.Configure(limits, now)
	t.publish()
}

// publish copies the limiters for the metrics, which are read in other goroutines.
func (t *claimLoop) publish() {
	standings := t.state.Standings()
	t.standings.Store(&standings)
}
