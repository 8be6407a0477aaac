// Package conductor runs actions: it claims them, calls their handlers, and
// records how each attempt ended.
//
// # States
//
// An attempt is claimed (a committed row), running (its handler's Do), ended (it
// has an outcome, in memory) and recorded (committed). Only the first and the
// last are facts; what lies between is lost with the process, and the claim is
// then given back by whoever finds this process dead.
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
// turns (records what ended and claims what is ready, in one transaction),
// dues (makes actions ready when their time comes), watch (wakes both), cancels
// (ends attempts that somebody canceled), beats (keeps this instance alive, wakes the others for what there is,
// gives back the claims of dead ones), maintain (what the ledger needs ahead and
// no longer) and ticks (makes the actions of schedules; every instance computes
// the same ones, and their ids make each of them one action). What they share is under one mutex: which attempts run, and which have
// ended and wait for the next turn.
//
// # Limits
//
// The turn's loop has a gate: it counts how attempts end, and once a second tells
// the ledger of all lanes and takes tokens and slots of those with limits, or
// whose targets refuse work, in one transaction. The ledger's rows are the truth;
// what the gate holds may be lost with the process, never exceeded. Slots of a lane
// are lent to nobody who has none of its handler's, so that no two instances wait for what the other keeps. A lane that
// may start nothing is held beside the others until it may.
//
// # Drain and stop
//
// When Run's context ends nothing more is claimed; attempts have Config.Drain to
// end by themselves, then their contexts end with ErrShutdown and what they did
// not finish is given back unspent. Claims that even then do not come back stay
// as they are: Leave says that this instance is gone, and the next one finds out
// what happened.
package conductor
