package conductor

import (
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/loop"
)

// Table holds the handlers and schedules that a conductor serves. It must not change after it was passed to Serve:
// the loops read it without a lock.
type Table struct {
	Handlers  map[string]Handler // by the name that actions carry
	Limits    map[string]Limits  // by handler; without an entry, only a target that refuses work limits its lane
	Schedules []Schedule
}

// table is a Table with values that the loops need often.
type table struct {
	Table
	names    []string // sorted
	handOffs []string // handlers whose work continues elsewhere after Do
}

// Serve replaces the served table and wakes the loops that read it. Running attempts keep their
// handlers. Claims for a removed handler are given back.
func (c *Conductor) Serve(t Table) {
	c.table.Store(newTable(t))
	loop.Poke(c.served)
	loop.Poke(c.changed)
	loop.Poke(c.rescheduled)
}

// newTable computes the names that the loops read, once per table.
func newTable(t Table) *table {
	next := &table{Table: t, names: slices.Sorted(maps.Keys(t.Handlers))}
	for _, name := range next.names {
		if _, ok := t.Handlers[name].(HandOff); ok {
			next.handOffs = append(next.handOffs, name)
		}
	}
	return next
}

// handsOff reports whether the work of a handler continues elsewhere after Do.
func (c *Conductor) handsOff(handler string) bool {
	return slices.Contains(c.table.Load().handOffs, handler)
}

// refusing reports whether an error of a handler's attempt means that the target refuses work.
func (c *Conductor) refusing(handler, text string) bool {
	matches := c.table.Load().Limits[handler].Refusing
	return matches != nil && matches(text)
}
