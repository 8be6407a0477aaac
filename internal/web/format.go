package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/server/ogc"
)

// render makes the part of a page that changes.
func (p *Pages) render(v view) (template.HTML, error) {
	var body bytes.Buffer
	if err := p.templates.ExecuteTemplate(&body, v.Template, v); err != nil {
		return "", fmt.Errorf("render %s: %w", v.Template, err)
	}
	return template.HTML(body.String()), nil // its values were escaped by the template
}

// functions are what templates call.
func functions() template.FuncMap {
	return template.FuncMap{
		"clock": clock, "when": when, "iso": iso, "took": took, "size": size, "short": short, "below": below,
		"path": url.PathEscape, "lower": lower, "pretty": pretty, "digest": shortDigest, "tone": tone, "limitTone": limitTone, "troubleTone": troubleTone, "processTone": processTone, "waiting": waiting, "liveCounts": liveCounts, "rate": action.PerSecond,
		"words": words, "plural": plural, "statusTone": statusTone, "detail": detail, "args": args, "phaseTone": phaseTone, "phases": ledger.Phases, "linkOf": linkOf, "compact": compact, "href": func(l ogc.Link) string { return l.Href },
		"stepWord": stepWord, "stepName": server.StepName,
	}
}

// args passes several values to a template.
func args(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("args wants pairs, got %d values", len(pairs))
	}
	named := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		named[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return named, nil
}

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// clock is the time of day, in UTC: the script turns it into the reader's own.
func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// when is the day and the time.
func when(t time.Time) string { return t.UTC().Format("2 Jan 15:04") }

// took is a duration for people: 0.2s, 6.0s, 1m12s, 3h05m, 2d4h.
func took(from, to time.Time) string {
	d := max(to.Sub(from), 0)
	switch {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// size is a number of bytes for people, in powers of 1000.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if value < 1000 {
			break
		}
		value, unit = value/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// short is the part of an action's id that tells it from its neighbours: the random end.
func short(id action.ID) string { return "…" + id.String()[24:] }

func shortDigest(hex string) string { return hex[:min(8, len(hex))] }

// below is a target without its pipeline: prod/east/elm.
func below(target string) string {
	if _, rest, found := strings.Cut(target, "/"); found {
		return rest
	}
	return target
}

func lower(s fmt.Stringer) string { return strings.ReplaceAll(strings.ToLower(s.String()), "_", " ") }

// pretty is JSON with line breaks.
func pretty(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// compact is a value as JSON in one line.
func compact(value any) string { return strings.TrimSpace(string(mustJSON(value))) }

// detail is an entry's detail in one line.
func detail(raw json.RawMessage) string {
	var fields struct {
		Text, Event, Status, Error, Reason, By, Label, Digest string
		Size                                                  int64
	}
	if json.Unmarshal(raw, &fields) != nil {
		return string(raw)
	}
	parts := []string{fields.Text, fields.Event, fields.Label, strings.ToLower(fields.Status), fields.Error, fields.Reason}
	if fields.Size > 0 {
		parts = append(parts, size(fields.Size))
	}
	if fields.Digest != "" {
		parts = append(parts, "sha256:"+shortDigest(fields.Digest))
	}
	if fields.By != "" {
		parts = append(parts, "by "+fields.By)
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · ")
}

// stepWord is what a step's place says: what it does or did, and the bare name of one that is still to come.
func stepWord(s server.StepRun) string {
	switch s.State {
	case schedule.Waiting, schedule.CanRun:
		return s.Name
	case schedule.Broken, schedule.Elided, schedule.Excluded:
		return s.Name + " " + s.Word
	}
	return s.Word
}

// tone is the class of a state: each has a sign and a colour, and its word stands beside it.
func tone(state any) string {
	switch state := state.(type) {
	case server.RunState:
		return "t-" + string(state)
	case schedule.State:
		return stepTone(state)
	case schedule.Status:
		return statusTone(state)
	case action.Status:
		return actionTone(state)
	}
	return "t-waiting"
}

func stepTone(s schedule.State) string {
	switch s {
	case schedule.Complete:
		return "t-finished"
	case schedule.Claimed:
		return "t-running"
	case schedule.Broken:
		return "t-failed"
	case schedule.Elided, schedule.Excluded:
		return "t-skipped"
	}
	return "t-waiting"
}

func statusTone(s schedule.Status) string {
	switch s {
	case schedule.Active:
		return "t-running"
	case schedule.Finished:
		return "t-finished"
	case schedule.FailedRun:
		return "t-failed"
	}
	return "t-ended"
}

func actionTone(s action.Status) string {
	switch s {
	case action.Running:
		return "t-running"
	case action.Backoff:
		return "t-backoff"
	case action.Successful:
		return "t-finished"
	case action.Canceled:
		return "t-ended"
	case action.Pending, action.Queued:
		return "t-waiting"
	}
	return "t-failed"
}

// words is a status for people.
func words(s schedule.Status) string {
	if s == schedule.Active {
		return "in progress"
	}
	return string(s)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
