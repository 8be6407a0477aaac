// Package conductor runs actions: it claims them, calls their handlers, and
// records how each attempt ended.
//
// # States
//
// An attempt is claimed (a committed row), running (its handler's Do), ended (it has an outcome, in
// memory) and recorded (committed). Only the first and the last are facts. The two states between
// are lost with the process. An instance that finds this one dead gives its claims back.
//
// # Who owns the truth
//
// The queue. It decides the effect of an attempt's end on its action, and refuses the end of an attempt whose claim
// this instance has lost (the fence: owner and attempt number). The conductor never retries, throttles or ends an
// action itself; it reports how the attempt ended.
//
// # Loops
//
// The main loop owns the state of claims: which actions are claimed, which ends are not recorded, and how lanes are
// limited. Package turn decides the loop's next step. The loop runs each transaction and each attempt in a goroutine
// of its own, which reports to it over a channel. Other loops have it run a function (exec). So it needs no lock, and
// never waits for the database.
//
// The other loops are:
//
//   - dues makes actions ready when their time comes.
//   - watch wakes the main loop and dues when work may be ready.
//   - cancels ends attempts that are canceled, and stops handed-off work.
//   - beats keeps this instance alive, and takes back the claims of dead instances.
//   - maintain creates partitions in advance, and deletes data older than its retention.
//   - ticks creates the actions of schedules. Every instance computes the same ticks, and a tick's
//     action has the same id everywhere, so that only one is created.
//   - measure samples the queue for the metrics, on one instance.
//
// # Why not the obvious way
//
// The obvious way is a loop per worker that claims an action, does it and records its end: two transactions for each
// action. Here one turn records the ends and claims for all workers, so that throughput is not bounded by commits.
// The price is that claims wait in memory, and that a lost answer leaves the claims unknown; most of package turn
// deals with these two.
//
// # Claims that wait
//
// A lane is claimed ahead of the workers by as much as it ran recently, at most 2,000 claims and
// 8 MiB of parameters over all lanes. A claim that has waited for a second, or for a quarter of its
// attempt's timeout, is given back and spends no attempt. No attempt begins while the last answered
// heartbeat is older than the lease: another instance may have the claim by then.
//
// # Limits
//
// Once a second the loop reports how attempts ended, and takes tokens and slots of lanes that have limits or whose
// targets refuse work, in one transaction. The queue's rows are the truth. Tokens and slots that were granted may be
// lost with the process, and are never exceeded. An instance gets a lane's slot only while it has one of the
// handler's. Otherwise two instances could deadlock, each holding slots that the other needs. A lane that may start
// nothing is blocked, and delays no other lane. Searches and claims leave out lanes that are paused, disabled or
// slowed without a token.
//
// # Finding work
//
// The transaction that makes work ready names its lanes, to this process and to other instances,
// and the next turn claims from these lanes. So there is one transaction between the signal and the
// attempt, however many lanes are blocked. The loop searches for lanes only when it does not know
// them: at the start, after a heartbeat or a poll that found something, and after changes of many
// lanes.
//
// # Drain and stop
//
// When Run's context ends, no action is claimed any more; attempts have Config.Drain to end on their own, then their
// contexts end with ErrShutdown and unfinished ones are given back unspent. Claims that even then do not come back
// stay as they are: Leave reports that this instance is gone, and the next one finds out what happened.
//
// # Where to look
//
// run.go starts and ends everything. claimloop.go is the one goroutine that knows the claims, and turn.go makes the
// turns that package turn decides. attempt.go calls a handler and judges its outcome. member.go sends heartbeats, and
// joins again after this instance was declared dead. limits.go requests tokens and slots. watch.go makes due actions
// ready and ends canceled work, stop.go ends work that was handed off, drain.go waits for the rest. table.go holds
// the part that a reload replaces.
//
// See docs/design/conductor.md and, for the ledger's decisions, docs/design/queue.md.
package conductor
