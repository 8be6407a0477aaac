package postgres

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/queue"
)

// Bounds of how claims pass over dead rows.
const (
	quickScan  = 5 * time.Millisecond   // a claim from the start that takes no longer, beside its rows, needs no floor
	quickRow   = 100 * time.Microsecond // what a claimed row may take
	scanPart   = 10                     // claims from the start take at most this part of the time
	scanAtMost = 10 * time.Second       // between two of them
)

// floors is where claims begin in lanes whose beginning is slow: while another connection holds an old snapshot, every row that was
// ever claimed stays there, dead. A row that is more urgent than what was claimed last is seen by claims from the start.
type floors struct {
	mu    sync.Mutex
	lanes map[string]*floor
}

type floor struct {
	rank time.Time     // of the last row that was claimed
	took time.Duration // the last claim from the start
	next time.Time     // when one is to be made again, by this process's clock
}

// of is where the next claim of a lane begins; zero: at the start.
func (f *floors) of(lane string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.lanes[lane]; known != nil && now.Before(known.next) {
		return known.rank
	}
	return time.Time{}
}

// learn notes what a claim took that began at the floors, and the highest rank that it claimed in each lane.
func (f *floors) learn(wants []queue.Want, from []time.Time, highest map[string]time.Time, rows int, took time.Duration, now time.Time) {
	slow := took > quickScan+time.Duration(rows)*quickRow
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, w := range wants {
		known := f.lanes[w.Lane]
		switch {
		case !from[i].IsZero():
		case !slow:
			delete(f.lanes, w.Lane)
			continue
		default:
			if known == nil {
				known = &floor{}
				f.lanes[w.Lane] = known
			}
			known.took, known.next = took, now.Add(min(scanPart*took, scanAtMost))
		}
		if rank := highest[w.Lane]; known != nil && rank.After(known.rank) {
			known.rank = rank
		}
	}
}

// high are the lanes that have a floor now, in order, and their floors.
func (f *floors) high(now time.Time) (lanes []string, ranks []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for lane, known := range f.lanes {
		if now.Before(known.next) && !known.rank.IsZero() {
			lanes = append(lanes, lane)
		}
	}
	slices.Sort(lanes)
	for _, lane := range lanes {
		ranks = append(ranks, f.lanes[lane].rank)
	}
	return lanes, ranks
}

// stretch is a range of lanes of one handler, from low on and before high.
type stretch struct{ handler, low, high string }

// stretches are the lanes of handlers but those that have a floor, which are in order.
func stretches(handlers, high []string) (parts []stretch) {
	for _, h := range handlers {
		p := stretch{handler: h, low: h, high: h + "0"} // which follows h + "/"
		for _, lane := range high {
			if lane == h || strings.HasPrefix(lane, h+"/") {
				parts = append(parts, stretch{h, p.low, lane})
				p.low = lane + "\x01" // the next lane there can be
			}
		}
		parts = append(parts, p)
	}
	return parts
}
