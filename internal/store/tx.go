package store

import "time"

// Tx is one transaction: the driver's, with the signals that follow its commit and the state that packages keep for its
// duration.
type Tx struct {
	Rows
	began   time.Time // by this process's clock, when Now was by the database's
	signals []Signal
	states  []state
}

// state is what one owner keeps in a transaction.
type state struct{ owner, value any }

// State returns what the owner has kept in this transaction, or nil. A package that other packages call back inside a
// transaction finds there what it has locked before.
func (t *Tx) State(owner any) any {
	for _, s := range t.states {
		if s.owner == owner {
			return s.value
		}
	}
	return nil
}

// Keep keeps a value for an owner until the transaction ends. It is called once for each owner.
func (t *Tx) Keep(owner, value any) { t.states = append(t.states, state{owner, value}) }

// Touch wakes the topic's waiters when the transaction commits.
func (t *Tx) Touch(topic Topic) { t.announce(Signal{Topic: topic}) }

// TouchReady wakes those who claim when the transaction commits: these lanes have more ready work.
func (t *Tx) TouchReady(lanes ...string) {
	t.announce(Signal{Topic: TopicReady, Lanes: append([]string{}, lanes...)})
}

// announce adds a signal to those that are sent when the transaction commits: one of a topic, with its lanes sorted.
func (t *Tx) announce(c Signal) {
	for i := range t.signals {
		if t.signals[i].Topic == c.Topic {
			t.signals[i] = t.signals[i].And(c)
			return
		}
	}
	t.signals = append(t.signals, c.And(c))
}
