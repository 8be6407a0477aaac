// Package cron computes recurring times: times of day by the fields of cron, in a time zone, which of those times are
// due given what has happened, and windows, which open and close at such times. It has no clock; the caller passes
// the time.
package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Expression is a set of minutes of the local time: minute, hour, day of the month, month and day
// of the week. Where both days are restricted, either suffices, as in cron. The zero value has no
// minutes.
type Expression struct {
	minute, hour, day, month, weekday uint64 // a bit for each value
	anyDay, anyWeekday                bool
	text                              string // as it was written
	anyHour                           bool   // it continues through the hours, such as * or */4: also through one that comes twice
}

// field is the set of values that one of the five permits.
type field struct {
	name        string
	least, most int
	names       []string // names of the values from least
	cycle       int      // how many values differ, where the last one is the first one again
}

var (
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

func fields() [5]field {
	return [5]field{{name: "minute", most: 59}, {name: "hour", most: 23}, {name: "day of the month", least: 1, most: 31},
		{name: "month", least: 1, most: 12, names: months}, {name: "day of the week", most: 7, names: weekdays, cycle: 7}}
}

// macros are words for whole expressions.
var macros = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}

// String returns the five fields.
func (c Expression) String() string { return c.text }

// Parse reads five fields such as "0 3 * * mon-fri": *, a value, a range a-b, a step */n, a-b/n or
// a/n, which ends at the field's greatest value, or a list of these; months and days of the week also
// by their first three letters, and 7 is Sunday as 0 is, where a step of a week begins. @hourly,
// @daily, @weekly, @monthly and @yearly are words for the obvious. An expression that no date fits is
// an error.
func Parse(text string) (Expression, error) {
	expression := strings.ToLower(strings.TrimSpace(text))
	if strings.HasPrefix(expression, "@") {
		whole, ok := macros[expression]
		if !ok {
			return Expression{}, fmt.Errorf("%q is not known: want @hourly, @daily, @weekly, @monthly, @yearly or five fields", text)
		}
		expression = whole
	}
	words := strings.Fields(expression)
	if len(words) != 5 {
		return Expression{}, fmt.Errorf("want five fields (minute hour day month weekday), found %d", len(words))
	}
	var sets [5]uint64
	for i, f := range fields() {
		var err error
		if sets[i], err = f.parse(words[i]); err != nil {
			return Expression{}, fmt.Errorf("%s %q: %w", f.name, words[i], err)
		}
	}
	c := Expression{text: strings.Join(words, " "), minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4],
		anyDay: strings.HasPrefix(words[2], "*"), anyWeekday: strings.HasPrefix(words[4], "*"), anyHour: strings.Contains(words[1], "*")}
	if c.weekday&(1<<7) != 0 {
		c.weekday |= 1
	}
	if _, ok := c.nextLocal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); !ok {
		return Expression{}, fmt.Errorf("no date has day %s in month %s", words[2], words[3])
	}
	return c, nil
}

// parse reads a list into the set of its values.
func (f field) parse(text string) (set uint64, err error) {
	for _, part := range strings.Split(text, ",") {
		some, err := f.parsePart(part)
		if err != nil {
			return 0, err
		}
		set |= some
	}
	return set, nil
}

// parsePart reads a value, a range or all, each with or without a step.
func (f field) parsePart(part string) (set uint64, err error) {
	what, every, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(every); err != nil || step < 1 || step > f.most {
			return 0, fmt.Errorf("want a step from 1 to %d, found %q", f.most, every)
		}
	}
	from, to := f.least, f.most
	if what != "*" {
		first, last, ranged := strings.Cut(what, "-")
		if from, err = f.value(first); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if to, err = f.value(last); err != nil {
				return 0, err
			}
			if to < from {
				return 0, fmt.Errorf("%q ends before it begins", what)
			}
		case !stepped:
			to = from
		case f.cycle != 0: // the last day of a week is Saturday
			from, to = from%f.cycle, f.cycle-1
		}
	}
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if text == name {
			return f.least + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.least || v > f.most {
		return 0, fmt.Errorf("want %d to %d, found %q", f.least, f.most, text)
	}
	return v, nil
}

// Next returns the first minute after a moment, in a time zone. A local time that is skipped when clocks go forward
// is taken as the moment at which they do. One that comes twice when clocks go back counts the first time only, but
// both times where the field of the hour has a *, as cron and systemd do: a schedule for every quarter of an hour
// continues, and one for 2:30 happens once. The zero Expression has no next minute: the zero time.
func (c Expression) Next(after time.Time, zone *time.Location) time.Time {
	at := c.nextFirst(after, zone)
	if c.anyHour && !at.IsZero() {
		if again := c.nextAgain(after, at, zone); !again.IsZero() {
			return again
		}
	}
	return at
}

// nextAgain returns the first minute between two moments that the clocks show for the second time;
// zero if there is none.
func (c Expression) nextAgain(after, before time.Time, zone *time.Location) time.Time {
	for at := after.In(zone); ; {
		begin, end := at.ZoneBounds()
		if back := turnedBack(begin); back > 0 {
			local, from := shows(begin), shows(begin).Add(-time.Nanosecond)
			if !after.Before(begin) {
				from = shows(after.In(zone))
			}
			next, ok := c.nextLocal(from.Truncate(time.Minute))
			if again := begin.Add(next.Sub(local)); ok && next.Before(local.Add(back)) && again.Before(before) {
				return again
			}
		}
		if end.IsZero() || !end.Before(before) {
			return time.Time{}
		}
		at = end
	}
}

// turnedBack returns how far clocks go back at a moment, or 0.
func turnedBack(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	_, was := at.Add(-time.Second).Zone()
	_, is := at.Zone()
	return time.Duration(max(0, was-is)) * time.Second
}

// nextFirst returns the first minute after a moment that the clocks show for the first time, or jump over.
func (c Expression) nextFirst(after time.Time, zone *time.Location) time.Time {
	y, m, d := after.In(zone).Date()
	h, min, _ := after.In(zone).Clock()
	local := time.Date(y, m, d, h, min, 0, 0, time.UTC) // the clock on the wall, as if it were UTC
	for {
		var ok bool
		if local, ok = c.nextLocal(local); !ok {
			return time.Time{}
		}
		if at := moment(local, zone); at.After(after) {
			return at
		}
	}
}

// horizon is the number of years ahead that are searched for a date: the 29th of February may be eight years away,
// and on a certain day of the week it is never requested alone.
const horizon = 9

// nextLocal returns the next local minute after one.
func (c Expression) nextLocal(after time.Time) (time.Time, bool) {
	t := after.Add(time.Minute)
	for last := t.Year() + horizon; t.Year() < last; {
		y, m, d := t.Date()
		switch {
		case c.month&(1<<m) == 0:
			t = time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.onDay(t):
			t = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
		case c.hour&(1<<t.Hour()) == 0:
			t = time.Date(y, m, d, t.Hour()+1, 0, 0, 0, time.UTC)
		default:
			rest := c.minute >> t.Minute()
			if rest != 0 {
				return t.Add(time.Duration(bits.TrailingZeros64(rest)) * time.Minute), true
			}
			t = time.Date(y, m, d, t.Hour()+1, 0, 0, 0, time.UTC)
		}
	}
	return time.Time{}, false
}

func (c Expression) onDay(t time.Time) bool {
	day, weekday := c.day&(1<<t.Day()) != 0, c.weekday&(1<<t.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// moment returns when the clocks of a zone first show a local time, which is given as if it were
// UTC; or, when they never do, when they jump over it.
func moment(local time.Time, zone *time.Location) time.Time {
	y, m, d := local.Date()
	t := time.Date(y, m, d, local.Hour(), local.Minute(), 0, 0, zone)
	begin, end := t.ZoneBounds()
	shown := shows(t)
	switch {
	case shown.Before(local):
		return end // the gap is ahead of t
	case shown.After(local):
		return begin
	case begin.IsZero():
		return t
	}
	_, offset := begin.Add(-time.Second).Zone()
	if earlier := local.Add(-time.Duration(offset) * time.Second); earlier.Before(begin) {
		return earlier.In(zone) // it was shown before the clocks went back
	}
	return t
}

// shows returns the local time that a clock on the wall shows at a moment, as if it were UTC.
func shows(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
