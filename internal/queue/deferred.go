package queue

import (
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Deferred is ends that wait until what follows them can be planned. Their actions stay as they are, with their claims, so a
// caller that has a lease tries again before it ends. The zero value has none.
type Deferred struct {
	IDs []action.ID // in the order in which they were left out
	Why string      // the reason for the first
}

// Err returns an error with the code unavailable that names the first end; nil when none is deferred.
func (d Deferred) Err() error {
	if len(d.IDs) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "action %s cannot end yet, since its callbacks cannot be planned: %s", d.IDs[0], d.Why)
}

// add adds one end. Of several reasons the first is kept: it is usually the same store or address that is away for all.
func (d *Deferred) add(id action.ID, why string) {
	if len(d.IDs) == 0 {
		d.Why = why
	}
	d.IDs = append(d.IDs, id)
}

// and returns the ends of both.
func (d Deferred) and(more Deferred) Deferred {
	for _, id := range more.IDs {
		d.add(id, more.Why)
	}
	return d
}

// has reports whether the end of an action was left out.
func (d Deferred) has(id action.ID) bool { return slices.Contains(d.IDs, id) }
