package store

import "time"

// Tx is one transaction: the driver's, with the signals that follow its commit and the state that
// packages keep for its duration. A run that the database repeats gets a new Tx.
type Tx struct {
	Rows
	began   time.Time // time before the first statement, by this process's clock
	signals []Signal  // at most one for each topic
	states  []state
}

// state is one owner's state in a transaction.
type state struct{ owner, value any }

// State returns what the owner has kept in this transaction, or nil. A package that another package
// calls back inside a transaction finds here what it has locked before, and does not lock it again.
func (t *Tx) State(owner any) any {
	for _, s := range t.states {
		if s.owner == owner {
			return s.value
		}
	}
	return nil
}

// Keep keeps a value for an owner until the transaction ends. Call it once for each owner: State
// returns the first value.
func (t *Tx) Keep(owner, value any) { t.states = append(t.states, state{owner, value}) }

// Touch wakes the topic's waiters when the transaction commits.
func (t *Tx) Touch(topic Topic) { t.announce(Signal{Topic: topic}) }

// TouchReady wakes the waiters that claim when the transaction commits: these lanes have more ready
// work.
func (t *Tx) TouchReady(lanes ...string) {
	t.announce(Signal{Topic: TopicReady, Lanes: append([]string{}, lanes...)})
}

// announce adds a signal to those that are sent when the transaction commits. It merges signals of
// one topic, and sorts the lanes of the first by merging it with itself.
func (t *Tx) announce(c Signal) {
	for i := range t.signals {
		if t.signals[i].Topic == c.Topic {
			t.signals[i] = t.signals[i].And(c)
			return
		}
	}
	t.signals = append(t.signals, c.And(c))
}
