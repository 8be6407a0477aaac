package postgres

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/queue"
)

// Floors of package queue's claims: a memory of this process, and no rows.

// Bounds that decide when a lane has a floor.
const (
	quickScan  = 5 * time.Millisecond   // a claim from the start that takes no longer, apart from its rows, needs no floor
	quickRow   = 100 * time.Microsecond // time that a claimed row may take
	scanPart   = 10                     // claims from the start take at most one part in this many of the time
	scanAtMost = 10 * time.Second       // greatest time between two claims from the start
)

// floors are the ranks at which claims begin in lanes whose beginning is slow. While a transaction
// holds an old snapshot, vacuum cannot remove dead rows, so every row that was ever claimed is
// still passed over.
//
// A row that is more urgent than the last claimed one is below the floor. Claims from the start,
// now and then, find it.
type floors struct {
	quick time.Duration // quickScan, but in tests
	mu    sync.Mutex
	lanes map[string]*floor
}

// floor is this process's knowledge of one lane.
type floor struct {
	rank time.Time     // rank of the last row that was claimed
	took time.Duration // duration of the last claim from the start
	next time.Time     // time of the next claim from the start, by this process's clock
}

// of returns where the next claim of a lane begins; zero for the start.
func (f *floors) of(lane string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.lanes[lane]; known != nil && now.Before(known.next) {
		return known.rank
	}
	return time.Time{}
}

// learn records how long a claim took that began at the ranks from, and the highest rank that it
// claimed in each lane. A lane whose claim from the start was quick loses its floor.
func (f *floors) learn(wants []queue.Want, from []time.Time, highest map[string]time.Time, rows int, took time.Duration, now time.Time) {
	slow := took > f.quick+time.Duration(rows)*quickRow
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

// high returns the lanes that have a floor now, sorted, and their floors.
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

// stretch is a range of lanes of one handler: low included, high not.
type stretch struct{ handler, low, high string }

// stretches returns the lanes of handlers without those in high, which is sorted.
func stretches(handlers, high []string) (parts []stretch) {
	for _, h := range handlers {
		p := stretch{handler: h, low: h, high: h + "0"} // "0" follows "/"
		for _, lane := range high {
			if lane == h || strings.HasPrefix(lane, h+"/") {
				parts = append(parts, stretch{h, p.low, lane})
				p.low = lane + "\x01" // the next possible lane
			}
		}
		parts = append(parts, p)
	}
	return parts
}
