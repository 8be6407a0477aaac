package admission

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cron"
)

// MaxWindows bounds the windows of one place.
const MaxWindows = 20

// Window configures a recurring span of time in which starting is allowed or denied; see
// cron.Windows.
type Window struct {
	Kind     cron.Kind       `json:"kind"`
	Schedule string          `json:"schedule"` // its starts, in the five fields of cron
	Duration action.Duration `json:"duration"`
	Timezone string          `json:"timezone"` // time zone of Schedule, by its name in the IANA database
	Reason   string          `json:"reason,omitempty"`
}

// Windows are several windows, parsed. Without any, starting is always allowed.
type Windows cron.Windows

// ParseWindows parses windows. If one cannot be parsed, at is the path of its field, such as
// "windows[1].schedule".
func ParseWindows(windows []Window) (list Windows, at string, err error) {
	for i, w := range windows {
		c := cron.Window{Kind: w.Kind, Length: time.Duration(w.Duration), Reason: w.Reason}
		if c.Start, err = cron.Parse(w.Schedule); err != nil {
			return nil, fmt.Sprintf("windows[%d].schedule", i), err
		}
		if c.Zone, err = cron.LoadZone(w.Timezone); err != nil {
			return nil, fmt.Sprintf("windows[%d].timezone", i), err
		}
		list = append(list, c)
	}
	return list, "", nil
}

// MarshalJSON writes windows as their configuration.
func (w Windows) MarshalJSON() ([]byte, error) {
	list := make([]Window, len(w))
	for i, each := range w {
		list[i] = Window{Kind: each.Kind, Schedule: each.Start.String(), Duration: action.Duration(each.Length),
			Timezone: each.Zone.String(), Reason: each.Reason}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads windows that MarshalJSON has written.
func (w *Windows) UnmarshalJSON(text []byte) error {
	var list []Window
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	parsed, at, err := ParseWindows(list)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	*w = parsed
	return nil
}

// At returns whether the windows are open at a moment, and if not, until when they stay closed.
func (w Windows) At(now time.Time) cron.Opening { return cron.Windows(w).At(now) }

// OpenUntil returns the end of an open span; see cron.Windows.OpenUntil.
func (w Windows) OpenUntil(now time.Time) time.Time { return cron.Windows(w).OpenUntil(now) }

// Zone returns the time zone for people: that of the first Allow, else that of the first window; UTC without any.
func (w Windows) Zone() *time.Location {
	if len(w) == 0 {
		return time.UTC
	}
	zone := w[0].Zone
	for _, each := range slices.Backward(w) {
		if each.Kind == cron.Allow {
			zone = each.Zone
		}
	}
	return zone
}

// Text describes when closed windows open, such as "window opens Mon 09:00 Europe/Stockholm", and
// why a Deny closes them.
func (w Windows) Text(now time.Time) string {
	o := w.At(now)
	text := "window opens " + clockText(o.Until, now, w.Zone())
	if !o.Opens {
		text = "no window opens within " + searched(o.Until.Sub(now))
	}
	if o.By != nil && o.By.Reason != "" {
		text += fmt.Sprintf(": %q", o.By.Reason)
	}
	return text
}

// NeverOpens reports whether some windows never open, and describes it. Their schedules repeat, so
// it looks at a few years from a fixed moment.
func NeverOpens(windows []Window) (text string, never bool) {
	list, _, err := ParseWindows(windows)
	if err != nil || len(list) == 0 {
		return "", false
	}
	at := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	if o := list.At(at); o.Opens {
		return "", false
	}
	return list.Text(at), true
}

// searched describes how far ahead no window opens. Without a next start of an Allow, the search
// has seen all of its years.
func searched(length time.Duration) string {
	switch {
	case length < 0 || length >= cron.Horizon:
		return "five years"
	case length < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(length.Hours()))
	}
	return fmt.Sprintf("%d days", int(length.Hours()/24))
}

// clockText returns a later moment in a time zone, such as "Mon 09:00 Europe/Stockholm". It has the date where the
// day of the week is ambiguous.
func clockText(at, now time.Time, zone *time.Location) string {
	form := "Mon 15:04 "
	switch local := at.In(zone); {
	case local.Year() != now.In(zone).Year() && at.Sub(now) >= 6*24*time.Hour:
		form = "Mon 2 Jan 2006 15:04 "
	case at.Sub(now) >= 6*24*time.Hour:
		form = "Mon 2 Jan 15:04 "
	}
	return at.In(zone).Format(form) + zone.String()
}
