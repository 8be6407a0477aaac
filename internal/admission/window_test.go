package admission_test

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
)

// friday is noon of a day in Stockholm, where it is an hour later than in UTC.
var friday = time.Date(2026, time.March, 13, 11, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func window(kind cron.Kind, schedule string, length time.Duration, zone string) admission.Window {
	return admission.Window{Kind: kind, Schedule: schedule, Duration: action.Duration(length), Timezone: zone}
}

func parse(t *testing.T, windows ...admission.Window) admission.Windows {
	t.Helper()
	list, at, err := admission.ParseWindows(windows)
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	return list
}

func TestWindowsDescribeTheirOpening(t *testing.T) {
	t.Parallel()
	office := window(cron.Allow, "0 9 * * 1-5", 2*time.Hour, "Europe/Stockholm")
	holidays := window(cron.Deny, "0 0 13 3 *", 14*day, "UTC")
	holidays.Reason = "holidays"
	for _, c := range []struct {
		name    string
		windows []admission.Window
		want    string
	}{
		{"in the zone of the Allow", []admission.Window{office}, "window opens Mon 09:00 Europe/Stockholm"},
		{"the first Allow counts", []admission.Window{office, window(cron.Allow, "0 9 * * 2", time.Hour, "UTC")},
			"window opens Mon 09:00 Europe/Stockholm"},
		{"a Deny before an Allow", []admission.Window{window(cron.Deny, "0 9 * * *", 4*time.Hour, "UTC"), office},
			"window opens Mon 09:00 Europe/Stockholm"},
		{"a Deny alone", []admission.Window{window(cron.Deny, "0 11 * * *", 3*time.Hour, "UTC")},
			"window opens Fri 14:00 UTC"},
		{"days ahead, with the date", []admission.Window{window(cron.Allow, "0 9 * * 4", time.Hour, "UTC")},
			"window opens Thu 09:00 UTC"},
		{"a week ahead, and why", []admission.Window{holidays}, `window opens Fri 27 Mar 00:00 UTC: "holidays"`},
		{"next year", []admission.Window{window(cron.Allow, "0 9 2 1 *", time.Hour, "UTC")},
			"window opens Sat 2 Jan 2027 09:00 UTC"},
		{"never", []admission.Window{window(cron.Allow, "0 9 * * 1", time.Hour, "UTC"), window(cron.Deny, "0 0 * * *",
			day, "UTC")}, "no window opens within five years"},
		{"not near", []admission.Window{window(cron.Deny, "* * * * *", time.Minute, "UTC")},
			"no window opens within 33 hours"},
		{"not in the next days", []admission.Window{window(cron.Deny, "* * * * *", time.Hour, "UTC")},
			"no window opens within 81 days"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			windows := parse(t, c.windows...)
			if windows.At(friday).Open {
				t.Fatal("the windows are open")
			}
			if got := windows.Text(friday); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWindowsAreOpenFromTheirStartToTheirEnd(t *testing.T) {
	t.Parallel()
	if !parse(t).At(friday).Open {
		t.Error("no windows are closed")
	}
	windows := parse(t, window(cron.Allow, "0 11 * * *", time.Hour, "UTC"))
	for after, want := range map[time.Duration]bool{-time.Nanosecond: false, 0: true,
		time.Hour - time.Nanosecond: true, time.Hour: false} {
		if got := windows.At(friday.Add(after)).Open; got != want {
			t.Errorf("%s after the start: open %v, want %v", after, got, want)
		}
	}
}

func TestParseWindowsNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	right := window(cron.Allow, "@daily", time.Hour, "UTC")
	for want, wrong := range map[string]admission.Window{
		"windows[1].schedule": window(cron.Allow, "0 9 * *", time.Hour, "UTC"),
		"windows[1].timezone": window(cron.Allow, "@daily", time.Hour, "Europe/Stokholm"),
	} {
		list, at, err := admission.ParseWindows([]admission.Window{right, wrong})
		if list != nil || at != want || err == nil {
			t.Errorf("got %v, %q, %v, want an error at %s", list, at, err, want)
		}
	}
}

func TestNeverOpensFindsWindowsWithoutAnOpening(t *testing.T) {
	t.Parallel()
	never := []admission.Window{window(cron.Allow, "0 9 * * 1", time.Hour, "UTC"), window(cron.Deny, "0 0 * * *",
		day, "UTC")}
	if text, is := admission.NeverOpens(never); !is || text != "no window opens within five years" {
		t.Errorf("got %q, %v", text, is)
	}
	broken := window(cron.Allow, "?", time.Hour, "UTC") // reported by ParseWindows
	for _, windows := range [][]admission.Window{nil, {broken}, {window(cron.Allow, "0 9 29 2 *", time.Hour,
		"UTC")}, slices.Clone(never[:1])} {
		if text, is := admission.NeverOpens(windows); is {
			t.Errorf("%v: %s", windows, text)
		}
	}
}

func TestOpenWindowsNameTheirEndAndZone(t *testing.T) {
	t.Parallel()
	windows := parse(t, window(cron.Deny, "0 0 1 1 *", day, "UTC"), window(cron.Allow, "0 9 * * 1-5", 8*time.Hour, "Europe/Stockholm"))
	if got, want := windows.OpenUntil(friday), friday.Add(5*time.Hour); !got.Equal(want) {
		t.Errorf("open until %v, want %v", got, want)
	}
	if got := windows.Zone().String(); got != "Europe/Stockholm" {
		t.Errorf("zone %s, want that of the Allow", got)
	}
	if got := (admission.Windows{}).Zone(); got != time.UTC {
		t.Errorf("zone %s without windows, want UTC", got)
	}
}
