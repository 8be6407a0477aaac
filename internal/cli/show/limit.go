package show

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// Limits returns the rows of a list of limiters.
func Limits(limits []queue.Limiter, now time.Time) []string {
	var t table
	t.add("LANE", "STATE", "RATE", "SLOTS", "WINDOW", "REASON")
	for _, l := range limits {
		t.add(l.Key, limitState(l, now), rateText(l), slotsText(l), windowText(l), dash(cut(OneLine(l.Reason), reasonWidth)))
	}
	return t.lines()
}

// limitState returns the state of a lane, and since or until when it has it.
func limitState(l queue.Limiter, now time.Time) string {
	switch l.State {
	case "disabled":
		return "disabled since " + Clock(now, l.DisabledAt)
	case "paused":
		if l.PauseUntil.IsZero() {
			return "paused by " + l.PausedBy
		}
		return "paused until " + Clock(now, l.PauseUntil)
	case "slowed", "half-open":
		return service.LaneWord(l.State) + " since " + Clock(now, l.SlowedAt)
	}
	return l.State
}

// whyLane returns why a lane does not run freely, with the command that resumes it when only a person can.
func whyLane(l queue.Limiter, now time.Time) string {
	text := fmt.Sprintf("lane %s is %s", l.Key, limitState(l, now))
	if l.Reason != "" {
		text += ": " + OneLine(l.Reason)
	}
	switch {
	case l.Disabled():
		text += "; resume with: waybill action limits --enable " + l.Key
	case l.PausedBy != "" && l.PauseUntil.IsZero():
		text += "; resume with: waybill action limits --resume " + l.Key
	case l.Slowed > 0 && l.PausedBy == "":
		text += "; " + rateText(l)
	}
	return text
}

// rateText returns the rate of a lane. For a slowed lane it adds the full rate.
func rateText(l queue.Limiter) string {
	switch {
	case l.Slowed > 0 && l.PausedBy == "":
		return action.PerSecond(l.Rate) + " of " + action.PerSecond(l.Full())
	case l.Configured > 0:
		return action.PerSecond(l.Configured)
	}
	return "-"
}

func slotsText(l queue.Limiter) string {
	if limit := l.Concurrency(); limit > 0 {
		return fmt.Sprintf("%d of %d", l.Held, limit)
	}
	return "-"
}

func windowText(l queue.Limiter) string {
	if n := l.OK + l.Bad; n > 0 {
		return fmt.Sprintf("%d of %d refused", l.Bad, n)
	}
	return "-"
}
