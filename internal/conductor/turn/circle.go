package turn

import (
	"container/heap"
	"time"
)

// ring is the circle of lanes that have work. Lanes are linked into it, so that one can leave from
// any place without a search.
type ring struct {
	first *lane // the next to be served; nil: the circle is empty
	n     int
}

// enter puts a lane last, unless it is in the circle.
func (r *ring) enter(l *lane) {
	switch {
	case l.next != nil:
		return
	case r.first == nil:
		l.next, l.prev, r.first = l, l, l
	default:
		l.next, l.prev = r.first, r.first.prev
		l.prev.next, l.next.prev = l, l
	}
	r.n++
}

// leave takes a lane out of the circle, if it is there.
func (r *ring) leave(l *lane) {
	if l.next == nil {
		return
	}
	if r.first == l {
		r.first = l.next
	}
	if r.n--; r.n == 0 {
		r.first = nil
	}
	l.prev.next, l.next.prev = l.next, l.prev
	l.next, l.prev = nil, nil
}

// turn makes the second lane the first.
func (r *ring) turn() { r.first = r.first.next }

// blockedLanes is a heap of the blocked lanes, the one that returns first on top. Each lane knows
// its place, so that an event can open it without a search.
type blockedLanes []*lane

// Len, Less and Swap implement container/heap: the lane that opens first is on top. Swap keeps the place of each
// lane up to date, so that open takes a lane out of the middle without a search, as when tokens arrive or a
// reload lifts a limit.
func (b blockedLanes) Len() int           { return len(b) }
func (b blockedLanes) Less(i, j int) bool { return b[i].until.Before(b[j].until) }

func (b blockedLanes) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].place, b[j].place = i+1, j+1 // places count from 1: the zero value is not in the heap
}

// Push implements container/heap.
func (b *blockedLanes) Push(x any) {
	l := x.(*lane)
	*b = append(*b, l)
	l.place = len(*b)
}

// Pop implements container/heap.
func (b *blockedLanes) Pop() any {
	last := len(*b) - 1
	l := (*b)[last]
	(*b)[last], *b = nil, (*b)[:last]
	l.place = 0
	return l
}

// open returns a lane to the circle if it has work.
func (s *State) open(l *lane) {
	if l.place > 0 {
		heap.Remove(&s.blocked, l.place-1)
	}
	if l.ready || len(l.waiting) > 0 {
		s.circle.enter(l)
	}
}

// block takes a lane that may start nothing out of the circle until a time. If its handler has no
// room, the lane also joins the handler's queue: such lanes may be many, and when the handler gets
// room, only as many are opened as can start something.
func (s *State) block(l *lane, until time.Time) {
	s.circle.leave(l)
	l.until = until
	if l.place > 0 {
		heap.Fix(&s.blocked, l.place-1)
	} else {
		heap.Push(&s.blocked, l)
	}
	if !l.stuck && l.handler.room() <= 0 {
		l.stuck = true
		l.handler.stuck = append(l.handler.stuck, l)
	}
}

// unstick opens as many lanes of a handler as the handler has room for, the longest blocked first.
func (s *State) unstick(h *handler) {
	for n := h.room(); n > 0 && len(h.stuck) > 0; {
		l := h.stuck[0]
		h.stuck = h.stuck[1:]
		l.stuck = false
		if l.place > 0 { // otherwise another event has opened it in the meantime
			s.open(l)
			n--
		}
	}
}
