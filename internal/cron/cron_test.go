package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on every machine

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/cron"
)

const form = "2006-01-02 15:04 -0700"

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func parse(t interface{ Fatal(...any) }, text string) cron.Expression {
	c, err := cron.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, cron, zone, after, want string }{
		{"every minute", "* * * * *", "UTC", "2026-11-21 10:00 +0000", "2026-11-21 10:01 +0000, 2026-11-21 10:02 +0000"},
		{"steps", "*/20 8-9 * * *", "UTC", "2026-11-21 08:30 +0000", "2026-11-21 08:40 +0000, 2026-11-21 09:00 +0000"},
		{"from a value in steps", "5/25 * * * *", "UTC", "2026-11-21 08:30 +0000", "2026-11-21 08:55 +0000, 2026-11-21 09:05 +0000"},
		{"lists and names", "0 3 * JAN,mar Mon-Tue,7", "UTC", "2026-11-21 08:30 +0000", "2027-01-03 03:00 +0000, 2027-01-04 03:00 +0000"},
		{"either day", "0 0 13 * fri", "UTC", "2026-11-10 00:00 +0000", "2026-11-13 00:00 +0000, 2026-11-20 00:00 +0000"},
		{"both days", "0 0 */13 * fri", "UTC", "2026-11-01 00:00 +0000", "2026-11-27 00:00 +0000, 2027-01-01 00:00 +0000"},
		{"leap day", "0 12 29 2 *", "UTC", "2097-01-01 00:00 +0000", "2104-02-29 12:00 +0000, 2108-02-29 12:00 +0000"},
		{"steps end with the week", "0 0 * * 1/3", "UTC", "2026-11-26 00:00 +0000", "2026-11-30 00:00 +0000, 2026-12-03 00:00 +0000"},
		{"steps from the other Sunday", "0 0 * * 7/3", "UTC", "2026-11-29 00:00 +0000", "2026-12-02 00:00 +0000, 2026-12-05 00:00 +0000"},
		{"a word", "@weekly", "UTC", "2026-11-21 10:00 +0000", "2026-11-22 00:00 +0000, 2026-11-29 00:00 +0000"},
		{"a zone", "0 3 * * *", "Europe/Stockholm", "2026-11-21 10:00 +0000", "2026-11-22 03:00 +0100, 2026-11-23 03:00 +0100"},
		{"skipped by daylight saving", "30 2 * * *", "Europe/Stockholm", "2026-03-28 03:00 +0100",
			"2026-03-29 03:00 +0200, 2026-03-30 02:30 +0200"},
		{"skipped, and there anyway", "0,30 2-3 * * *", "Europe/Stockholm", "2026-03-29 01:00 +0100",
			"2026-03-29 03:00 +0200, 2026-03-29 03:30 +0200"},
		{"repeated by standard time", "30 2 * * *", "Europe/Stockholm", "2026-10-24 03:00 +0200",
			"2026-10-25 02:30 +0200, 2026-10-26 02:30 +0100"},
		{"repeated each minute", "*/30 * * * *", "Europe/Stockholm", "2026-10-25 02:15 +0200", "2026-10-25 02:30 +0200, 2026-10-25 02:00 +0100"},
		{"within the repeated hour", "15,45 2 * * *", "Europe/Stockholm", "2026-10-25 02:20 +0100",
			"2026-10-26 02:15 +0100, 2026-10-26 02:45 +0100"},
		{"half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00 +1030", "2026-10-04 02:30 +1100, 2026-10-05 02:15 +1100"},
		{"midnight is skipped", "0 0 * * *", "America/Santiago", "2026-09-05 12:00 -0400", "2026-09-06 01:00 -0300, 2026-09-07 00:00 -0300"},
		{"a day is skipped", "0 12 * * *", "Pacific/Apia", "2011-12-29 12:00 -1000", "2011-12-31 00:00 +1400, 2011-12-31 12:00 +1400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(form, c.after)
			if err != nil {
				t.Fatal(err)
			}
			expression, in := parse(t, c.cron), zone(t, c.zone)
			var got []string
			for range 2 {
				at = expression.Next(at, in)
				got = append(got, at.In(in).Format(form))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "want five fields (minute hour day month weekday), found 0",
		"0 3 * *":                          "found 4",
		"0 3 * * * *":                      "found 6",
		"60 3 * * *":                       `minute "60": want 0 to 59, found "60"`,
		"0 24 * * *":                       `hour "24": want 0 to 23`,
		"0 3 0 * *":                        `day of the month "0": want 1 to 31`,
		"0 3 * 13 *":                       `month "13": want 1 to 12`,
		"0 3 * * 8":                        `day of the week "8": want 0 to 7`,
		"0 3 * * funday":                   `want 0 to 7, found "funday"`,
		"*/0 3 * * *":                      `want a step from 1 to 59, found "0"`,
		"*/60 3 * * *":                     `want a step from 1 to 59, found "60"`,
		"1-59/9223372036854775807 * * * *": `want a step from 1 to 59, found "9223372036854775807"`,
		"* * * * 1-5/9223372036854775803":  `want a step from 1 to 7, found "9223372036854775803"`,
		"5-1 3 * * *":                      `"5-1" ends before it begins`,
		"0 0 30 2 *":                       "no date has day 30 in month 2",
		"0 0 31 4,6 *":                     "no date has day 31 in month 4,6",
		"@reboot":                          `"@reboot" is not known`,
		"1,,2 * * * *":                     `found ""`,
	} {
		if _, err := cron.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if at := (cron.Expression{}).Next(time.Now(), time.UTC); !at.IsZero() {
		t.Errorf("the zero value has %s", at)
	}
}

// TestClocksThatGoBack: a schedule without an hour continues through both, one with an hour happens once.
func TestClocksThatGoBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, zone, from, until string
		times                   int
	}{
		{"*/15 * * * *", "Europe/Stockholm", "2026-10-25 01:59 +0200", "2026-10-25 03:00 +0100", 9},
		{"0 * * * *", "Europe/Stockholm", "2026-10-25 01:59 +0200", "2026-10-25 03:00 +0100", 3},
		{"30 */2 * * *", "Europe/Stockholm", "2026-10-25 01:59 +0200", "2026-10-25 03:00 +0100", 2},
		{"30 2 * * *", "Europe/Stockholm", "2026-10-25 01:59 +0200", "2026-10-25 03:00 +0100", 1},
		{"30 0-23 * * *", "Europe/Stockholm", "2026-10-25 01:59 +0200", "2026-10-25 03:00 +0100", 1},
		{"@hourly", "Australia/Lord_Howe", "2026-04-05 00:59 +1100", "2026-04-05 03:00 +1030", 3}, // by half an hour
		{"45 * * * *", "Australia/Lord_Howe", "2026-04-05 00:59 +1100", "2026-04-05 03:00 +1030", 3},
	} {
		in := zone(t, c.zone)
		from, err := time.Parse(form, c.from)
		until, err2 := time.Parse(form, c.until)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		expression, times := parse(t, c.text), 0
		for at := expression.Next(from, in); !at.After(until); at = expression.Next(at, in) {
			times++
		}
		if times != c.times {
			t.Errorf("%s in %s: %d times, want %d", c.text, c.zone, times, c.times)
		}
	}
}

// TestNextIsWhatTheWallShows compares with a look at the clock on the wall, minute by minute, over
// days on which it was set forward or back.
func TestNextIsWhatTheWallShows(t *testing.T) {
	t.Parallel()
	days := map[string]string{"Europe/Stockholm": "2026-03-29", "America/New_York": "2026-11-01", "Australia/Lord_Howe": "2026-04-05",
		"America/Santiago": "2026-09-06", "Asia/Kolkata": "2026-06-01", "Africa/Casablanca": "2026-03-22"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "America/Santiago",
			"Asia/Kolkata", "Africa/Casablanca"}).Draw(t, "zone")
		in := zone(t, name)
		day, err := time.ParseInLocation("2006-01-02 15h", days[name]+" 12h", in)
		if err != nil {
			t.Fatal(err)
		}
		hour := rapid.SampledFrom([]string{"*", "0", "1-3", "2", "*/2", "0,2,23"}).Draw(t, "hour")
		text := rapid.SampledFrom([]string{"*", "0", "30", "*/7", "5,50", "0-20/10"}).Draw(t, "minute") + " " + hour + " * * " +
			rapid.SampledFrom([]string{"*", "0", "sun-mon"}).Draw(t, "weekday")
		c := parse(t, text)
		begin, end := day.AddDate(0, 0, -1), day.Add(3*time.Hour)
		want := onTheWall(c, begin, end, strings.Contains(hour, "*"))
		var got []time.Time
		for at := c.Next(begin.Add(-time.Second), in); at.Before(end); at = c.Next(at, in) {
			got = append(got, at)
		}
		for i := range min(len(got), len(want)) {
			if !got[i].Equal(want[i]) {
				t.Fatalf("%s in %s: %v, want %v", text, name, got[i], want[i])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s in %s: %d times, want %d", text, name, len(got), len(want))
		}
	})
}

// onTheWall lists the moments from begin to end at which the wall shows a minute of the set for the first time, or
// jumps over one; with again also for the second time. Whether a minute is of the set is decided by the expression in
// UTC, where nothing jumps.
func onTheWall(c cron.Expression, begin, end time.Time, again bool) (moments []time.Time) {
	y, m, d := begin.Date()
	shown := time.Date(y, m, d, begin.Hour(), 0, 0, 0, time.UTC).Add(-time.Minute) // the latest minute that was shown, or jumped over
	for at := begin; at.Before(end); at = at.Add(time.Minute) {
		y, m, d := at.Date()
		wall := time.Date(y, m, d, at.Hour(), at.Minute(), 0, 0, time.UTC)
		hit := again && !shown.Before(wall) && c.Next(wall.Add(-time.Minute), time.UTC).Equal(wall)
		for shown.Before(wall) {
			if c.Next(shown, time.UTC).Equal(shown.Add(time.Minute)) {
				hit = true
			}
			shown = shown.Add(time.Minute)
		}
		if hit {
			moments = append(moments, at)
		}
	}
	return moments
}
