package show

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Entry returns the line of an entry in the log. Its columns fit most targets and events.
func Entry(e pipeline.Entry, s Style, now time.Time) string {
	deployment := "-"
	if e.Deployment > 0 {
		deployment = fmt.Sprintf("#%d", e.Deployment)
	}
	event := fmt.Sprintf("%-31s", e.Event)
	switch {
	case e.Class == pipeline.Fact:
		event = s.good(event)
	case strings.HasSuffix(e.Event, "-failed"):
		event = s.bad(event)
	default:
		event = s.faint(event)
	}
	line := fmt.Sprintf("%6d  %s  %-4s  %-24s  %s  %s", e.Seq, rowClock(now, e.At), deployment, e.Target, event, entryText(e))
	return strings.TrimRight(line, " ")
}

// entryText returns an entry's detail in words.
func entryText(e pipeline.Entry) string {
	d := detailOf(e)
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(d.Event)
	if d.Digest != "" {
		add(artifactText(d.Size, d.Digest))
	}
	add(OneLine(d.Text))
	if e.Event == pipeline.ServiceTakenOver {
		add(takenText(e))
	}
	if e.Event == pipeline.DeploymentsArchived {
		var archived pipeline.ArchivedDetail
		_ = json.Unmarshal(e.Detail, &archived) // what cannot be read names none, to the engine too
		add(archived.String())
	}
	add(OneLine(d.Error))
	add(who(d))
	return strings.Join(parts, "  ")
}

// takenText names the service that was taken over, and the log that it followed before.
func takenText(e pipeline.Entry) string {
	var d pipeline.TakenDetail
	if json.Unmarshal(e.Detail, &d) != nil {
		return ""
	}
	return OneLine(fmt.Sprintf("service %s, before %s of log %s", d.Service, d.Deployment, d.Ledger))
}
