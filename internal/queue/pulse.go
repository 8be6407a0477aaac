package queue

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Pulse is the list of a conductor's duties.
type Pulse struct {
	Lost   bool // claims may be there to take back: Rescue looks
	Others bool // other instances hold claims: while they do, ask again each second
	Leads  bool // whether this is the first living instance with its roles, which does the duties of a single one
}

// Beat is a Pulse with what a driver has seen beside it.
type Beat struct {
	Pulse
	There  bool          // the instance has a row
	Newer  bool          // a newer Waybill has migrated the database
	Ready  bool          // an action of its handlers may be claimed, or is about to be due or to pass its deadline
	Cancel bool          // a claim of its is to be ended, or handed-off work to be stopped
	Now    time.Time     // time of the database
	Shared []InstanceRow // the instances, each with its id and the end of its lease alone
}

// Pulse looks up everything that an instance waits for, and wakes the waiters of what it finds; with renew it is a
// heartbeat as well. While it is called regularly, no loop that waits for TopicReady or TopicCancel polls.
// fault.StaleClaim reports that the instance was declared dead.
//
// Lost is a hint, which Rescue verifies: it is true as well when an instance was silent for long as this process has seen it.
// The topics are covered for InstanceLease from now, so when pulses stop, waiters poll again before claims are lost for want
// of one.
func (q *Queue) Pulse(ctx context.Context, i Instance, renew bool) (Pulse, error) {
	if renew && q.db.Embedded() {
		if err := q.Heartbeat(ctx, i); err != nil {
			return Pulse{}, err
		}
	}
	lease := time.Duration(0)
	if renew {
		i.Report, lease = q.options.Reporter.Report(), i.lease()
	}
	var beat Beat
	err := store.Call(ctx, "heartbeat of "+i.Name, func(ctx context.Context) (err error) {
		beat, err = q.driver.Pulse(ctx, i, lease)
		return err
	})
	switch {
	case err != nil:
		return Pulse{}, err
	case !beat.There:
		return Pulse{}, fault.New(fault.StaleClaim, "%s was declared dead", i.Name)
	}
	for _, id := range q.silent(i.ID, beat.Shared, time.Now()) {
		beat.Lost = beat.Lost || id != i.ID
	}
	q.noteNewer(beat.Newer)
	q.db.Signals().Cover(time.Now().Add(InstanceLease), store.TopicReady, store.TopicCancel)
	if beat.Ready {
		q.db.Signals().Send(store.Signal{Topic: store.TopicReady})
	}
	if beat.Cancel {
		q.db.Signals().Send(store.Signal{Topic: store.TopicCancel})
	}
	return beat.Pulse, nil
}
