package cron

import (
	"fmt"
	"time"
)

// Kind is the effect of a window on the time that it covers.
type Kind string

// The kinds.
const (
	Allow Kind = "Allow" // work may begin
	Deny  Kind = "Deny"  // work may not begin, also within an Allow
)

// Window is the spans that begin at the minutes of Start and last for Length of elapsed time each.
// The first moment of a span belongs to it, the moment of its end does not. A start that clocks skip
// or show twice is as in Expression.Next, so a Deny that begins every hour leaves no hour open.
type Window struct {
	Kind   Kind
	Start  Expression
	Zone   *time.Location
	Length time.Duration
	Reason string // text for people
}

// Windows are several windows together: they are open at a moment that no Deny covers, if there is
// no Allow or one covers it. Without any window they are always open.
type Windows []Window

// Opening reports whether windows are open at a moment.
type Opening struct {
	Open bool
	// Until is the first later moment at which closed windows are open, if Opens is set. Else none was
	// found near, and they are closed until then at least. Zero: they never open.
	Until time.Time
	Opens bool
	By    *Window // the Deny that covers the moment; nil: no Allow covers it, or the windows are open
}

// Horizon bounds the search for an opening.
const Horizon = 5 * 365 * 24 * time.Hour

// mostSpans bounds the search too: spans that follow one another without a gap, such as a Deny of an hour
// that begins every minute, would keep it busy for long. Spans of a day reach the horizon.
const mostSpans = 2000

// mostOpenSpans bounds the search for the end of spans of Allows that follow one another without a gap.
const mostOpenSpans = 100

// At returns the windows' opening at a moment.
func (w Windows) At(now time.Time) Opening {
	var o Opening
	for at, i := now, 0; i < mostSpans && at.Sub(now) < Horizon; i++ {
		end, deny := w.denied(at)
		if deny == nil {
			if w.allows(at) {
				return Opening{Open: i == 0, Until: at, Opens: true, By: o.By}
			}
			if end = w.next(Allow, at); end.IsZero() {
				return Opening{By: o.By}
			}
		}
		if i == 0 {
			o.By = deny
		}
		at, o.Until = end, end
	}
	return o
}

// OpenUntil returns the first later moment at which windows that are open at a moment are closed. It is zero if they
// never close; where no end is found near, they are open until the result at least. The result is now if they are
// closed.
func (w Windows) OpenUntil(now time.Time) time.Time {
	if _, deny := w.denied(now); deny != nil || !w.allows(now) {
		return now
	}
	denied, at := w.next(Deny, now), now
	for range mostOpenSpans {
		end, covers := w.allowed(at)
		switch {
		case !covers: // no Allow exists
			return denied
		case !denied.IsZero() && !denied.After(end):
			return denied
		}
		if at = end; at.Sub(now) >= Horizon {
			return time.Time{}
		}
		if !w.allows(at) {
			break
		}
	}
	return at
}

// allowed returns the latest end of the spans of Allows that cover a moment, and false if none covers it.
func (w Windows) allowed(at time.Time) (end time.Time, covers bool) {
	for i := range w {
		if w[i].Kind != Allow {
			continue
		}
		if start, is := w[i].covering(at); is {
			if of := w[i].latest(start, at).Add(w[i].Length); !covers || of.After(end) {
				end, covers = of, true
			}
		}
	}
	return end, covers
}

// denied returns a Deny that covers a moment, and when the latest span of it that does so ends; nil if
// none covers it.
func (w Windows) denied(at time.Time) (end time.Time, by *Window) {
	for i := range w {
		if start, covers := w[i].covering(at); covers && w[i].Kind == Deny {
			return w[i].latest(start, at).Add(w[i].Length), &w[i]
		}
	}
	return time.Time{}, nil
}

// latest returns the start of the latest span that covers a moment, or of one that starts less than two minutes
// before it; start is that of another. Of spans that overlap it is the one that leads furthest.
func (w Window) latest(start, at time.Time) time.Time {
	for back := w.Length / 2; back >= time.Minute; back /= 2 {
		later := w.Start.Next(at.Add(-back), w.Zone)
		if later.IsZero() || later.After(at) {
			break
		}
		start = later
	}
	return start
}

// allows reports whether an Allow covers a moment, or there is none.
func (w Windows) allows(at time.Time) bool {
	any := false
	for i := range w {
		if w[i].Kind != Allow {
			continue
		}
		if _, covers := w[i].covering(at); covers {
			return true
		}
		any = true
	}
	return !any
}

// next returns the first start of a window of a kind after a moment; zero if there is none.
func (w Windows) next(kind Kind, after time.Time) time.Time {
	var first time.Time
	for i := range w {
		if w[i].Kind != kind {
			continue
		}
		if at := w[i].Start.Next(after, w[i].Zone); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// covering returns the start of the earliest span that covers a moment, and false if none does.
func (w Window) covering(at time.Time) (start time.Time, covers bool) {
	start = w.Start.Next(at.Add(-w.Length), w.Zone)
	return start, !start.IsZero() && !start.After(at)
}

// LoadZone returns the time zone with a name of the IANA database; UTC for "". The zone of the
// machine has no name here, because two machines would read one file in two ways.
func LoadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("time zone %q not found: want one such as Europe/Stockholm, or UTC", name)
	}
	return zone, nil
}
