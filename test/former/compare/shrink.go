package main

import (
	"fmt"
	"runtime/debug"
)

// replay does ops in a new world, and returns the difference that they show; nil if they show none.
func replay(ops []op, other func() engine) *difference {
	w := newWorld(other())
	w.doAll(ops)
	return w.found
}

// doAll does ops. A panic of an engine counts as a difference.
func (w *world) doAll(ops []op) {
	defer w.recovered()
	for _, o := range ops {
		w.do(o)
	}
}

// recovered notes a panic as the difference.
func (w *world) recovered() {
	if r := recover(); r != nil && w.found == nil {
		w.found = &difference{what: "panic", today: fmt.Sprintf("%v\n%s", r, debug.Stack()), then: "the stack names the engine"}
	}
}

// tries bounds how many shorter programs are played for one that shows a difference.
const tries = 300

// shrink returns a part of the ops that still shows a difference, without those that it can be shown
// without. Later ones are dropped first.
func shrink(ops []op, other func() engine) ([]op, *difference) {
	found, left := replay(ops, other), tries
	if found == nil {
		return ops, nil
	}
	for size := len(ops) / 2; size > 0; {
		before := len(ops)
		for at := len(ops) - size; at >= 0; at -= size {
			if left--; left < 0 {
				return ops, found
			}
			fewer := append(append([]op{}, ops[:at]...), ops[at+size:]...)
			if shown := replay(fewer, other); shown != nil {
				ops, found = fewer, shown
			}
		}
		if size > 1 || len(ops) == before {
			size /= 2
		}
	}
	return ops, found
}
