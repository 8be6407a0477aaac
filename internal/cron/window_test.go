package cron_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/cron"
)

func window(t interface{ Fatal(...any) }, kind cron.Kind, schedule string, length time.Duration, name string) cron.Window {
	return cron.Window{Kind: kind, Start: parse(t, schedule), Zone: zone(t, name), Length: length}
}

func TestWindowsOpenAndClose(t *testing.T) {
	t.Parallel()
	office := window(t, cron.Allow, "0 9 * * 1-5", 7*time.Hour, "Europe/Stockholm")
	lunch := window(t, cron.Deny, "0 12 * * *", time.Hour, "Europe/Stockholm")
	christmas := window(t, cron.Deny, "0 0 20 12 *", 14*24*time.Hour, "UTC")
	night := window(t, cron.Allow, "0 22 * * *", 8*time.Hour, "UTC")
	hourly := window(t, cron.Deny, "0 * * * *", 50*time.Minute, "Europe/Stockholm")
	early := window(t, cron.Allow, "30 2 * * *", time.Hour, "Europe/Stockholm")
	for _, c := range []struct {
		name    string
		windows cron.Windows
		now     string
		want    string // time of the next opening; "": now
	}{
		{"none", nil, "2026-11-23 03:00 +0000", ""},
		{"before an Allow", cron.Windows{office}, "2026-11-23 08:59 +0100", "2026-11-23 09:00 +0100"},
		{"the start is inside", cron.Windows{office}, "2026-11-23 09:00 +0100", ""},
		{"the last minute is inside", cron.Windows{office}, "2026-11-23 15:59 +0100", ""},
		{"the end is outside", cron.Windows{office}, "2026-11-23 16:00 +0100", "2026-11-24 09:00 +0100"},
		{"over the weekend", cron.Windows{office}, "2026-11-20 18:00 +0100", "2026-11-23 09:00 +0100"},
		{"over midnight", cron.Windows{night}, "2026-11-23 03:00 +0000", ""},
		{"one of two Allows", cron.Windows{office, night}, "2026-11-23 16:00 +0100", "2026-11-23 22:00 +0000"},
		{"a Deny in an Allow", cron.Windows{office, lunch}, "2026-11-23 12:30 +0100", "2026-11-23 13:00 +0100"},
		{"a Deny alone", cron.Windows{lunch}, "2026-11-23 12:30 +0100", "2026-11-23 13:00 +0100"},
		{"outside of a Deny", cron.Windows{lunch}, "2026-11-23 03:00 +0100", ""},
		{"a Deny that ends outside of an Allow", cron.Windows{office, christmas}, "2026-12-21 10:00 +0100", "2027-01-04 09:00 +0100"},
		{"an Allow that begins in a Deny", cron.Windows{office, christmas}, "2026-12-19 10:00 +0100", "2027-01-04 09:00 +0100"},
		{"a start that the clocks skip", cron.Windows{early}, "2026-03-29 01:59 +0100", "2026-03-29 03:00 +0200"},
		{"and its elapsed length", cron.Windows{early}, "2026-03-29 03:59 +0200", ""},
		{"the first of two starts", cron.Windows{early}, "2026-10-25 02:40 +0200", ""},
		{"a Deny of every hour, the first time", cron.Windows{hourly}, "2026-10-25 02:40 +0200", "2026-10-25 02:50 +0200"},
		{"a Deny of every hour, the second time", cron.Windows{hourly}, "2026-10-25 02:40 +0100", "2026-10-25 02:50 +0100"},
		{"and not the second", cron.Windows{early}, "2026-10-25 02:40 +0100", "2026-10-26 02:30 +0100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now, err := time.Parse(form, c.now)
			if err != nil {
				t.Fatal(err)
			}
			o := c.windows.At(now)
			if o.Open != (c.want == "") {
				t.Fatalf("open %v, want next %q", o.Open, c.want)
			}
			if c.want == "" {
				return
			}
			if want, err := time.Parse(form, c.want); err != nil || !o.Until.Equal(want) || !o.Opens {
				t.Errorf("opens %v at %v, want %s", o.Opens, o.Until, c.want)
			}
		})
	}
}

func TestOpenWindowsNameTheirEnd(t *testing.T) {
	t.Parallel()
	office := window(t, cron.Allow, "0 9 * * 1-5", 7*time.Hour, "Europe/Stockholm")
	lunch := window(t, cron.Deny, "0 12 * * *", time.Hour, "Europe/Stockholm")
	late := window(t, cron.Allow, "0 16 * * *", 2*time.Hour, "Europe/Stockholm")
	hourly := window(t, cron.Allow, "0 * * * *", time.Hour, "UTC")
	never := cron.Window{Kind: cron.Deny, Zone: time.UTC, Length: time.Hour}
	for _, c := range []struct {
		name    string
		windows cron.Windows
		now     string
		want    string // "": they never close
	}{
		{"none", nil, "2026-11-23 03:00 +0000", ""},
		{"an Allow", cron.Windows{office}, "2026-11-23 09:00 +0100", "2026-11-23 16:00 +0100"},
		{"closed", cron.Windows{office}, "2026-11-23 16:00 +0100", "2026-11-23 16:00 +0100"},
		{"a Deny within an Allow", cron.Windows{office, lunch}, "2026-11-23 09:00 +0100", "2026-11-23 12:00 +0100"},
		{"in the Deny", cron.Windows{office, lunch}, "2026-11-23 12:30 +0100", "2026-11-23 12:30 +0100"},
		{"after the Deny", cron.Windows{office, lunch}, "2026-11-23 13:00 +0100", "2026-11-23 16:00 +0100"},
		{"an Allow that begins at the end of another", cron.Windows{office, late}, "2026-11-23 13:00 +0100", "2026-11-23 18:00 +0100"},
		{"a Deny that begins at the end of an Allow", cron.Windows{late, window(t, cron.Deny, "0 18 * * *", time.Hour, "Europe/Stockholm")},
			"2026-11-23 16:00 +0100", "2026-11-23 18:00 +0100"},
		{"a Deny alone", cron.Windows{lunch}, "2026-11-23 13:00 +0100", "2026-11-24 12:00 +0100"},
		{"a Deny without a start", cron.Windows{never}, "2026-11-23 13:00 +0100", ""},
		{"Allows without a gap until a Deny", cron.Windows{hourly, window(t, cron.Deny, "0 9 26 11 *", time.Hour, "UTC")},
			"2026-11-23 09:00 +0000", "2026-11-26 09:00 +0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now, err := time.Parse(form, c.now)
			if err != nil {
				t.Fatal(err)
			}
			var want time.Time
			if c.want != "" {
				if want, err = time.Parse(form, c.want); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.windows.OpenUntil(now); !got.Equal(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestOpeningNamesItsDeny: what closes the windows now, not what closes them later.
func TestOpeningNamesItsDeny(t *testing.T) {
	t.Parallel()
	lunch := window(t, cron.Deny, "0 12 * * *", time.Hour, "UTC")
	lunch.Reason = "lunch"
	windows := cron.Windows{window(t, cron.Allow, "0 11 * * *", 3*time.Hour, "UTC"), lunch}
	at := func(hour int) cron.Opening { return windows.At(time.Date(2026, 11, 23, hour, 30, 0, 0, time.UTC)) }
	if by := at(12).By; by == nil || by.Reason != "lunch" {
		t.Errorf("at 12:30 %+v, want lunch", by)
	}
	if by := at(9).By; by != nil {
		t.Errorf("at 9:30 %+v, want no Deny", by)
	}
}

// TestSearchForAnOpeningEnds: windows that never open cost a bounded search, whose end is later than now.
func TestSearchForAnOpeningEnds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC)
	never := cron.Windows{window(t, cron.Deny, "* * * * *", time.Hour, "UTC")}
	if o := never.At(now); o.Open || o.Opens || !o.Until.After(now) {
		t.Errorf("got %+v, want closed for a while", o)
	}
	if o := (cron.Windows{{Kind: cron.Allow, Zone: time.UTC, Length: time.Hour}}).At(now); o.Open || o.Opens || !o.Until.IsZero() {
		t.Errorf("without a start: got %+v, want closed forever", o)
	}
}

// TestWindowsAreWhatTheirMinutesSay compares windows with a literal reading of each minute of some days: the starts are
// marked by Next, and each covers the minutes of its length.
func TestWindowsAreWhatTheirMinutesSay(t *testing.T) {
	t.Parallel()
	zones := []*time.Location{time.UTC, zone(t, "Europe/Stockholm"), zone(t, "Australia/Lord_Howe")}
	rapid.Check(t, func(t *rapid.T) {
		var windows cron.Windows
		for range rapid.IntRange(0, 4).Draw(t, "windows") {
			windows = append(windows, cron.Window{Kind: rapid.SampledFrom([]cron.Kind{cron.Allow, cron.Deny}).Draw(t, "kind"),
				Start: parse(t,
					rapid.SampledFrom([]string{"0 9 * * *", "30 2 * * *", "0 */7 * * *", "15 22 * * 0,3", "*/40 1-3 * * *"}).Draw(t, "schedule")),
				Zone:   rapid.SampledFrom(zones).Draw(t, "zone"),
				Length: time.Duration(rapid.SampledFrom([]int{1, 30, 200, 1500}).Draw(t, "minutes")) * time.Minute})
		}
		begin := rapid.SampledFrom([]time.Time{time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)}).Draw(t, "begin")
		const days = 4
		open := minutes(windows, begin, days)
		now := rapid.IntRange(0, days*24*60-1).Draw(t, "now")
		o := windows.At(begin.Add(time.Duration(now) * time.Minute))
		if o.Open != open[now] {
			t.Fatalf("open %v, want %v", o.Open, open[now])
		}
		end := windows.OpenUntil(begin.Add(time.Duration(now) * time.Minute))
		closes := now
		for closes < len(open) && open[closes] {
			closes++
		}
		if at := begin.Add(time.Duration(closes) * time.Minute); closes < len(open) && !end.Equal(at) {
			t.Fatalf("open until %v, want %v", end, at)
		} else if closes == len(open) && !end.IsZero() && end.Before(at) {
			t.Fatalf("open until %v, want no end before %v", end, at)
		}
		for i := now; i < len(open); i++ {
			if !open[i] {
				continue
			}
			if want := begin.Add(time.Duration(i) * time.Minute); !o.Opens || !o.Until.Equal(want) {
				t.Fatalf("opens %v at %v, want %v", o.Opens, o.Until, want)
			}
			return
		}
		if end := begin.Add(days * 24 * time.Hour); o.Opens && o.Until.Before(end) {
			t.Fatalf("opens at %v, want none before %v", o.Until, end)
		}
	})
}

// minutes returns whether windows are open in each minute of some days.
func minutes(windows cron.Windows, begin time.Time, days int) []bool {
	allowed, denied := make([]bool, days*24*60), make([]bool, days*24*60)
	any := false
	for _, w := range windows {
		any = any || w.Kind == cron.Allow
		end := begin.Add(time.Duration(days) * 24 * time.Hour)
		for at := w.Start.Next(begin.Add(-w.Length-time.Minute), w.Zone); at.Before(end); at = w.Start.Next(at, w.Zone) {
			for m := range int(w.Length / time.Minute) {
				if i := int(at.Sub(begin)/time.Minute) + m; i >= 0 && i < len(allowed) {
					if w.Kind == cron.Allow {
						allowed[i] = true
					} else {
						denied[i] = true
					}
				}
			}
		}
	}
	open := make([]bool, len(allowed))
	for i := range open {
		open[i] = !denied[i] && (allowed[i] || !any)
	}
	return open
}

// TestWindowsThatFollowEachOtherStayOpen: the search for their end is bounded, and they are open until its result at least.
func TestWindowsThatFollowEachOtherStayOpen(t *testing.T) {
	t.Parallel()
	w := cron.Windows{window(t, cron.Allow, "0 0 * * *", 24*time.Hour, "UTC")}
	now := time.Date(2026, 11, 29, 7, 25, 0, 0, time.UTC)
	if got := w.OpenUntil(now); got.Sub(now) < 90*24*time.Hour || !w.At(got).Open {
		t.Errorf("a day's window that starts every day is open until %s, want a time months away at which it is open", got)
	}
}
