package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Pulse is what a conductor is to see to.
type Pulse struct {
	Lost   bool // claims may be there to take back: Rescue looks
	Others bool // other instances hold claims: while they do, ask again each second
	Leads  bool // of the living instances with the same roles this one is the first: what one should do is its to do
}

// Beat is a Pulse with what a driver has seen beside it.
type Beat struct {
	Pulse
	There  bool          // the instance has a row
	Newer  bool          // a newer Waybill has migrated the database
	Ready  bool          // an action of its handlers may be claimed, or is about to be due or to pass its deadline
	Cancel bool          // a claim of its is to be ended, or handed-off work to be stopped
	Now    time.Time     // of the database
	Shared []InstanceRow // the instances, each with its id and the end of its lease
}

// Pulse asks for everything that an instance waits for, and wakes who waits for what is there; with renew it is a
// heartbeat as well. While it is asked regularly, nobody else in this process has to look. fault.StaleClaim says that
// the instance was declared dead.
func (l *Ledger) Pulse(ctx context.Context, i Instance, renew bool) (Pulse, error) {
	if renew && l.driver.Embedded() {
		if err := l.Heartbeat(ctx, i); err != nil {
			return Pulse{}, err
		}
	}
	lease := time.Duration(0)
	if renew {
		i.Report, lease = l.Report(), i.lease()
	}
	ctx, cancel := bounded(ctx, "heartbeat of "+i.Name)
	defer cancel()
	beat, err := l.driver.Pulse(ctx, i, lease)
	switch {
	case err != nil:
		return Pulse{}, named(ctx, "heartbeat of "+i.Name, err)
	case !beat.There:
		return Pulse{}, fault.New(fault.StaleClaim, "%s was declared dead", i.Name)
	}
	for _, id := range l.silent(i.ID, beat.Shared, time.Now()) {
		beat.Lost = beat.Lost || id != i.ID
	}
	l.outdated(beat.Newer)
	l.pulsed.Store(time.Now().UnixNano())
	if beat.Ready {
		l.wakes.poke(Signal{Topic: TopicReady})
	}
	if beat.Cancel {
		l.wakes.poke(Signal{Topic: TopicCancel})
	}
	return beat.Pulse, nil
}

// covered reports whether the pulse of this process sees to a topic, so that its waiters need not poll.
func (c *core) covered(t Topic) bool {
	pulsed := time.Since(time.Unix(0, c.pulsed.Load())) < InstanceLease
	return pulsed && (t == TopicReady || t == TopicCancel) && c.driver.Poll() >= HeartbeatEvery
}
