package action

import (
	"math"
	"strconv"
	"time"
)

// Limits bounds the attempts of a handler, over all instances. The zero value limits nothing.
type Limits struct {
	Lane    Limit // in each of its lanes
	Handler Limit // in all its lanes together; Slots alone counts
}

// Limit configures one limiter. The zero value limits nothing.
type Limit struct {
	Rate   float64       // attempts a second; 0: the bucket binds only while its lane is slowed
	Burst  int           // attempts that may be saved up; 0: those of one second, at least 1
	Slots  int           // attempts at a time; 0: any number
	Window time.Duration // over which results are judged; 0: Window
}

// The figures of the adaptive bucket.
const (
	Window       = 10 * time.Second // over which results are judged, where nothing else is configured
	MaxPause     = time.Hour        // longest pause that a target may request
	earlyAfter   = time.Second      // a window is judged from here on …
	earlyBad     = 10               // … when so many results are bad
	staleWindows = 10               // windows without a result after which the learned rate no longer counts
	badShare     = 0.5              // share of a window's results from which the lane is slowed
	goodShare    = 0.1              // up to which it is sped up
	floorPart    = 64               // the floor is this part of the full rate
	peakDecay    = 0.9              // factor per window for the peak of a rate that was only observed
	minPeak      = 1                // attempts a second
)

// Bucket is the adaptive token bucket and the breaker of one lane. It is a value: its methods
// return the bucket after the operation. Make it with Bucket{}.With.
//
// The bucket slows a lane when at least half of the results in a window are refusals, to a quarter
// of its rate, down to the probe rate. It speeds the lane up by a quarter of the full rate after
// each window with at most a tenth of refusals. So it backs off fast, and recovers within some
// windows.
type Bucket struct {
	Configured float64   `json:"configured"` // R, tokens a second; 0: none, R is the peak
	Burst      int       `json:"burst,omitempty"`
	Slots      int       `json:"slots,omitempty"`  // attempts at a time; 0: any number
	Window     Duration  `json:"window"`           // over which results are judged
	Slowed     float64   `json:"slowed,omitempty"` // tokens a second while the lane is slowed; 0: it is not
	SlowedAt   time.Time `json:"slowedAt,omitzero"`
	Tokens     float64   `json:"tokens"`
	RefilledAt time.Time `json:"refilledAt,omitzero"` // Tokens are as of then; zero: the bucket is new
	WindowAt   time.Time `json:"windowAt,omitzero"`   // beginning of the current window, or of the quiet time since the last one
	OK         int       `json:"ok"`                  // results in the window
	Bad        int       `json:"bad"`
	Peak       float64   `json:"peak,omitempty"` // results a second, the best of late
	PausedBy   string    `json:"pausedBy,omitempty"`
	PauseUntil time.Time `json:"pauseUntil,omitzero"` // zero while PausedBy is set: until resumed
	DisabledAt time.Time `json:"disabledAt,omitzero"`
	Reason     string    `json:"reason,omitempty"` // why it is slowed, paused or disabled
}

// ByTarget is the PausedBy of a pause that the target requested with a time (Retry-After).
const ByTarget = "target"

// With returns the bucket with a configuration. Its knowledge of the target stays, cut to the new limits.
func (b Bucket) With(l Limit, now time.Time) Bucket {
	b.Configured, b.Burst, b.Slots, b.Window = max(l.Rate, 0), max(l.Burst, 0), max(l.Slots, 0), Duration(l.Window)
	if b.Window <= 0 {
		b.Window = Duration(Window)
	}
	if b.RefilledAt.IsZero() {
		b.RefilledAt, b.Tokens = now, b.capacity()
	}
	b.Slowed = min(b.Slowed, b.Full())
	b.Tokens = min(b.Tokens, b.capacity())
	return b
}

// Limit returns the bucket's configuration.
func (b Bucket) Limit() Limit {
	return Limit{Rate: b.Configured, Burst: b.Burst, Slots: b.Slots, Window: time.Duration(b.Window)}
}

// window returns Window as a time.Duration.
func (b Bucket) window() time.Duration { return time.Duration(b.Window) }

// Full returns R, the rate of the lane while its target accepts work: the configured one, else the
// peak.
func (b Bucket) Full() float64 {
	if b.Configured > 0 {
		return b.Configured
	}
	return max(b.Peak, minPeak)
}

// Probe returns P, the floor: the rate of attempts at a target that refuses everything. It is at
// least one attempt per window, so that the window can show that the target has recovered.
func (b Bucket) Probe() float64 {
	return min(b.Full(), max(b.Full()/floorPart, 1/b.window().Seconds()))
}

// Rate returns r, the rate now.
func (b Bucket) Rate() float64 {
	if b.Slowed > 0 {
		return b.Slowed
	}
	return b.Full()
}

// HalfOpen reports whether the lane is at its floor: one attempt runs at a time.
func (b Bucket) HalfOpen() bool { return b.Slowed > 0 && b.Slowed <= b.Probe() }

// Paused reports whether a pause withholds tokens now. It may end on its own.
func (b Bucket) Paused(now time.Time) bool {
	return b.PausedBy != "" && (b.PauseUntil.IsZero() || now.Before(b.PauseUntil))
}

// Disabled reports whether nothing runs until a person enables the lane.
func (b Bucket) Disabled() bool { return !b.DisabledAt.IsZero() }

// Metered reports whether attempts need tokens: always with a configured rate, otherwise only while
// the lane is slowed, paused or disabled.
func (b Bucket) Metered() bool {
	return b.Configured > 0 || b.Troubled()
}

// Troubled reports whether the lane is slowed, paused or disabled.
func (b Bucket) Troubled() bool { return b.Slowed > 0 || b.PausedBy != "" || b.Disabled() }

// State returns the lane's state in a word: open, slowed, half-open, paused or disabled.
func (b Bucket) State(now time.Time) string {
	switch {
	case b.Disabled():
		return "disabled"
	case b.Paused(now):
		return "paused"
	case b.HalfOpen():
		return "half-open"
	case b.Slowed > 0:
		return "slowed"
	}
	return "open"
}

// Concurrency returns how many attempts may run at a time; 0: any number. While half-open it is
// one: a single probe shows whether the target has recovered.
func (b Bucket) Concurrency() int {
	if b.HalfOpen() {
		return 1
	}
	return b.Slots
}

// capacity returns the most tokens that the bucket can save. While half-open that is at most one
// second's worth, because a burst of probes would defeat their purpose.
func (b Bucket) capacity() float64 {
	saved := max(b.Full(), 1)
	if b.Configured > 0 && b.Burst > 0 {
		saved = float64(b.Burst)
	}
	if b.HalfOpen() {
		saved = min(saved, max(b.Probe(), 1))
	}
	return saved
}

// At returns the bucket as of now: tokens are refilled, and a window or a pause that has passed has
// ended. Nothing else makes the bucket change with time, so a row may be stored as it was and read
// at any later time.
func (b Bucket) At(now time.Time) Bucket {
	b = b.refill(now)
	if b.OK+b.Bad > 0 && now.Sub(b.WindowAt) >= b.window() {
		b = b.judge(b.WindowAt.Add(b.window())) // as of the window's end, however late this is
	}
	if b.PausedBy != "" && !b.Paused(now) {
		b.PausedBy, b.WindowAt = "", later(b.WindowAt, b.PauseUntil)
		b.PauseUntil = time.Time{}
	}
	// A rate that was learned long ago proves nothing about the target now.
	if b.PausedBy == "" && b.OK+b.Bad == 0 && now.Sub(b.WindowAt) >= staleWindows*b.window() {
		b = b.recover()
	}
	return b
}

// refill adds the tokens of the time since the last refill. A clock that went back adds none.
func (b Bucket) refill(now time.Time) Bucket {
	if passed := now.Sub(b.RefilledAt); passed > 0 {
		b.Tokens = min(b.capacity(), b.Tokens+b.Rate()*passed.Seconds())
		b.RefilledAt = now
	}
	return b
}

// judge ends the window and sets the rate by its results. Between badShare and goodShare the rate
// stays, so that it does not swing around a target's own limit.
func (b Bucket) judge(end time.Time) Bucket {
	n := float64(b.OK + b.Bad)
	bad := float64(b.Bad) / n
	b.Peak = max(n/max(end.Sub(b.WindowAt), min(earlyAfter, b.window())).Seconds(), peakDecay*b.Peak, minPeak)
	switch {
	case bad >= badShare:
		b = b.slow(max(b.Probe(), b.Rate()/4), end)
	case bad <= goodShare && b.Slowed > 0:
		if b.Slowed += b.Full() / 4; b.Slowed >= b.Full() {
			b = b.recover()
		}
	}
	b.WindowAt, b.OK, b.Bad = end, 0, 0
	return b.unexplained()
}

// slow sets a lower rate. A lane that was not metered starts without tokens: otherwise the first
// thing after a refusal would be a burst.
func (b Bucket) slow(rate float64, now time.Time) Bucket {
	if !b.Metered() {
		b.Tokens, b.RefilledAt = 0, later(b.RefilledAt, now)
	}
	if b.Slowed == 0 {
		b.SlowedAt = now
	}
	b.Slowed = rate
	b.Tokens = min(b.Tokens, b.capacity())
	return b
}

// recover returns to the full rate.
func (b Bucket) recover() Bucket {
	b.Slowed, b.SlowedAt = 0, time.Time{}
	return b.unexplained()
}

// Results are the outcomes of a lane's attempts since the last report.
type Results struct {
	OK, Bad int           // attempts that the target accepted, and refused
	Over    time.Duration // how long they were gathered
	Reason  string        // the error of a refusal
	Pause   time.Time     // the target wants no request before; zero: it named no time
	Disable bool          // the target is gone for good
}

// Observe adds results to the window; the bucket is brought up to now first.
func (b Bucket) Observe(r Results, now time.Time) Bucket {
	b = b.At(now)
	// A window begins with its first result, which came before the report.
	if b.OK+b.Bad == 0 && now.Sub(b.WindowAt) >= b.window() {
		b.WindowAt = now.Add(-min(max(r.Over, 0), b.window()))
	}
	b.OK, b.Bad = b.OK+r.OK, b.Bad+r.Bad
	if r.Reason != "" && (r.Bad > 0 || r.Disable) {
		b.Reason = r.Reason
	}
	// Many refusals need not wait for the window's end.
	if b.Bad >= earlyBad && float64(b.Bad) >= badShare*float64(b.OK+b.Bad) && now.Sub(b.WindowAt) >= earlyAfter {
		b = b.judge(now)
	}
	if r.Pause.After(now) {
		b = b.pausedByTarget(r.Pause, now)
	}
	if r.Disable && !b.Disabled() {
		b.DisabledAt = now
	}
	return b
}

// pausedByTarget pauses the lane until the time that its target named, and slows it to the probe
// rate for afterwards. It never shortens a pause, nor replaces one that a person made without an
// end.
func (b Bucket) pausedByTarget(until, now time.Time) Bucket {
	b = b.slow(b.Probe(), now)
	b.WindowAt, b.OK, b.Bad = now, 0, 0
	if limit := now.Add(MaxPause); until.After(limit) {
		until = limit
	}
	switch {
	case b.PausedBy == "":
		b.PausedBy, b.PauseUntil = ByTarget, until
	case !b.PauseUntil.IsZero():
		b.PauseUntil = later(b.PauseUntil, until)
	}
	return b
}

// Take takes up to want whole tokens and returns their number; the bucket is brought up to now
// first.
func (b Bucket) Take(want int, now time.Time) (Bucket, int) {
	b = b.At(now)
	if b.Disabled() || b.Paused(now) {
		return b, 0
	}
	got := max(0, min(want, int(math.Floor(b.Tokens))))
	b.Tokens -= float64(got)
	return b, got
}

// Return puts back tokens that were taken and not used, up to the bucket's capacity.
func (b Bucket) Return(n int) Bucket {
	b.Tokens = min(b.capacity(), b.Tokens+float64(max(n, 0)))
	return b
}

// Pause pauses the lane until a time, after which it starts at the probe rate. With a zero time the
// pause lasts until Resume, and the rate stays as it is.
func (b Bucket) Pause(by, reason string, until, now time.Time) Bucket {
	b = b.At(now)
	if !until.IsZero() {
		b = b.slow(b.Probe(), now)
		b.WindowAt, b.OK, b.Bad = now, 0, 0
	}
	b.PausedBy, b.PauseUntil = by, until
	if reason != "" {
		b.Reason = reason
	}
	return b
}

// Resume ends a pause, whether a person or the target made it.
func (b Bucket) Resume(now time.Time) Bucket {
	b = b.At(now)
	if b.PausedBy == "" {
		return b
	}
	b.PausedBy, b.PauseUntil, b.WindowAt = "", time.Time{}, later(b.WindowAt, now)
	return b.unexplained()
}

// Enable lets a disabled lane run again.
func (b Bucket) Enable() Bucket {
	b.DisabledAt = time.Time{}
	return b.unexplained()
}

// unexplained drops the reason once the lane is neither slowed, paused nor disabled.
func (b Bucket) unexplained() Bucket {
	if !b.Troubled() {
		b.Reason = ""
	}
	return b
}

// Reset forgets the lane's knowledge of the target: the rate, the window, its pause. A person's pause and a disabled
// lane remain.
func (b Bucket) Reset(now time.Time) Bucket {
	b = b.At(now)
	b.OK, b.Bad, b.WindowAt = 0, 0, now
	if b.PausedBy == ByTarget {
		b.PausedBy, b.PauseUntil = "", time.Time{}
	}
	return b.recover()
}

// Forgettable reports whether a new bucket would behave the same, so that its row may be deleted.
func (b Bucket) Forgettable(now time.Time) bool {
	b = b.At(now)
	quiet := b.OK+b.Bad == 0 && !b.Troubled()
	return quiet && (b.Configured == 0 || b.Tokens >= b.capacity())
}

// PerSecond formats a rate for people, to at least two digits: 20/s, 0.31/s.
func PerSecond(rate float64) string {
	return strconv.FormatFloat(rate, 'g', 1+len(strconv.Itoa(int(rate))), 64) + "/s"
}
