package cron

import "time"

// Overlap sets the handling of a tick while the work of the one before still runs.
type Overlap string

// The ways.
const (
	Skip    Overlap = "skip"    // it is left out
	Queue   Overlap = "queue"   // it waits for its turn, one after another
	Replace Overlap = "replace" // the work of the one before is canceled
)

// CatchUp sets the handling of ticks that passed while no instance ran.
type CatchUp string

// The ways.
const (
	CatchLast CatchUp = "last" // the last missed tick is made up for
	CatchNone CatchUp = "none" // they are left out
	CatchAll  CatchUp = "all"  // all are made up for, at most MostMissed
)

// MostMissed bounds the missed ticks that are made up for, or wait for their turn.
const MostMissed = 1000

// Schedule sets the times of some work, and the handling of missed ones.
type Schedule struct {
	Cron    Expression
	Zone    *time.Location
	Overlap Overlap
	CatchUp CatchUp
}

// Past is the last tick that led to work.
type Past struct {
	At    time.Time // zero: there was none
	Lives bool      // its work is still going on
	Ended time.Time // else when its work ended
}

// Due is the work of a schedule that is due now.
type Due struct {
	Tick    time.Time // zero: nothing
	Replace bool      // cancel the work of the past tick
	Waiting int       // ticks that wait until the past one's work has ended
}

// Due decides the ticks at now, given the past tick and the time since which an instance has served the schedule.
// Every call returns the same tick until it is done, because calling Due changes nothing: only the work of its
// forerunner makes a tick skipped.
func (s Schedule) Due(past Past, since, now time.Time) Due {
	ticks := s.open(past, since, now)
	if len(ticks) == 0 {
		return Due{}
	}
	if s.Overlap == Queue {
		if past.Lives {
			return Due{Waiting: len(ticks)}
		}
		return Due{Tick: ticks[0], Waiting: len(ticks) - 1}
	}
	return Due{Tick: ticks[len(ticks)-1], Replace: past.Lives}
}

// open lists the ticks after the past one that are not left out, at most MostMissed, oldest first.
func (s Schedule) open(past Past, since, now time.Time) []time.Time {
	if s.Overlap == Skip && past.Lives && !past.At.IsZero() {
		return nil
	}
	var ticks []time.Time
	lastMissed, from := -1, s.after(past, since)
	for at := s.Cron.Next(from, s.Zone); !at.IsZero() && !at.After(now); at = s.Cron.Next(at, s.Zone) {
		waited := s.Overlap == Queue && !past.At.IsZero() && (past.Lives || !at.After(past.Ended))
		if missed := !at.After(since) && !waited; missed {
			if s.CatchUp == CatchNone {
				continue
			}
			if s.CatchUp == CatchLast && lastMissed >= 0 {
				ticks = append(ticks[:lastMissed], ticks[lastMissed+1:]...)
			}
			lastMissed = len(ticks)
		}
		if ticks = append(ticks, at); len(ticks) >= 2*MostMissed {
			ticks, lastMissed = append(ticks[:0], ticks[len(ticks)-MostMissed:]...), lastMissed-len(ticks)+MostMissed
		}
	}
	return ticks[max(0, len(ticks)-MostMissed):]
}

// after returns the time after which ticks are open.
func (s Schedule) after(past Past, since time.Time) time.Time {
	switch {
	case past.At.IsZero():
		return since // a new schedule makes up for nothing
	case s.Overlap == Skip && past.Ended.After(past.At):
		return past.Ended
	}
	return past.At
}
