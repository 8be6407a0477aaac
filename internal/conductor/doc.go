// Package conductor runs actions: it claims them, calls their handlers, and
// records how each attempt ended.
//
// # States
//
// An attempt is claimed (a committed row), running (its handler's Do), ended (it
// has an outcome, in memory) and recorded (committed). Only the first and the
// last are facts. The two between are lost with the process; the instance that
// finds this one dead then gives its claims back.
//
// # Who owns the truth
//
// The ledger. It decides what a completion makes of an action, and refuses one
// whose claim is no longer ours (the fence: owner and attempt number). The
// conductor never retries, throttles or ends anything itself; it says how an
// attempt went.
//
// # Loops
//
// The main loop owns what is known of claims: what is claimed, what has ended and is not recorded, and how lanes are
// limited. Package turn decides what it does next. It runs each transaction and each attempt in a goroutine of its own,
// which reports to it over a channel; other loops have it run a function (exec). So it needs no lock, and never waits for
// the ledger.
//
// Beside it: dues (makes actions ready when their time comes), watch (wakes both), cancels (ends attempts that are
// canceled), beats (keeps this instance alive, wakes the other loops for what there is, takes back the claims of dead
// instances), maintain (what the ledger needs ahead and no longer) and ticks (makes the actions of schedules; every
// instance computes the same ones, and their ids make each of them one action).
//
// # Claims that wait
//
// What a lane ran lately is claimed ahead of the workers, at most 2,000 claims and 8 MiB of parameters. A claim that has
// waited for a second, or a quarter of its attempt's limit, is given back, unspent. None begins while the last heartbeat
// that the ledger answered is older than the lease: another instance may have the claim by then.
//
// # Limits
//
// Once a second the loop reports how attempts ended, and takes tokens and slots of lanes with
// limits, or whose targets refuse work, in one transaction. The ledger's rows are the truth. Tokens
// and slots that were granted may be lost with the process, and are never exceeded. An instance
// gets a lane's slot only while it has one of the handler's. Otherwise two instances could
// deadlock, each holding what the other needs. A lane that may start nothing is blocked, and delays
// no other lane. Searches and claims leave out lanes that are paused, disabled or slowed without a
// token.
//
// # Finding work
//
// The transaction that makes work ready names its lanes, to this process and to others, and the next turn claims from these:
// one transaction from a signal to the start, however many lanes are blocked. A search, which passes over those, is made
// where the lanes are not known: at the start, after a heartbeat or a poll that found something, and after changes of many
// lanes.
//
// # Drain and stop
//
// When Run's context ends nothing more is claimed; attempts have Config.Drain to
// end by themselves, then their contexts end with ErrShutdown and what they did
// not finish is given back unspent. Claims that even then do not come back stay
// as they are: Leave says that this instance is gone, and the next one finds out
// what happened.
//
// See docs/design/conductor.md and, for what the ledger decides, docs/design/queue.md.
package conductor
