package main

import (
	"fmt"
	"runtime/debug"
)

// replay does ops in a new world, and returns it. A panic of an engine counts as a difference.
func replay(ops []op) (w *world, err error) {
	if w, err = newWorld(); err != nil {
		return nil, err
	}
	defer w.recovered()
	for _, o := range ops {
		w.do(o)
	}
	return w, nil
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
func shrink(ops []op) ([]op, *difference) {
	w, err := replay(ops)
	if err != nil || w.found == nil {
		return ops, nil
	}
	found, left := w.found, tries
	for size := len(ops) / 2; size > 0; size /= 2 {
		for at := len(ops) - size; at >= 0; at -= size {
			if left--; left < 0 {
				return ops, found
			}
			fewer := append(append([]op{}, ops[:at]...), ops[at+size:]...)
			if w, err := replay(fewer); err == nil && w.found != nil {
				ops, found = fewer, w.found
			}
		}
	}
	return ops, found
}
