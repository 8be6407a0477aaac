package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// clock returns the time of day in UTC. The script replaces it by that of the reader's time zone, with the zone in its title.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// date returns the day.
func date(t time.Time) string { return t.UTC().Format("2 Jan 2006") }

// when returns the day and the time.
func when(t time.Time) string { return t.UTC().Format("2 Jan 15:04 UTC") }

// moment returns the day and the time with seconds.
func moment(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05 UTC") }

// attemptOf returns the attempt of an exchange, from the number at the end of its path.
func attemptOf(exchange string) string { return "attempt " + path.Base(exchange) }

// tookText returns the time between two moments for people.
func tookText(from, to time.Time) string { return server.Took(to.Sub(from)) }

// short returns the random end of an action's id, since actions of the same time begin alike.
func short(id action.ID) string { return "…" + id.String()[24:] }

func shortDigest(hex string) string { return hex[:min(8, len(hex))] }

// belowPipeline returns a target without its pipeline, such as prod/east/elm.
func belowPipeline(target string) string {
	if _, rest, found := strings.Cut(target, "/"); found {
		return rest
	}
	return target
}

func lowerWords(s fmt.Stringer) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), "_", " ")
}

// prettyJSON returns JSON with line breaks.
func prettyJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// compactJSON returns a value as JSON in one line.
func compactJSON(value any) string { return strings.TrimSpace(string(mustJSON(value))) }

// detail returns an entry's detail in one line.
func detail(raw json.RawMessage) string {
	return detailWith(raw, func(text string) string { return text })
}

// detailWith returns an entry's detail in one line, with why applied to its errors and reasons.
func detailWith(raw json.RawMessage, why func(string) string) string {
	var fields struct {
		Text, Event, Status, Error, Reason, By, Label, Digest string
		Size                                                  int64
		Deployments                                           []int64 // that were archived
	}
	if json.Unmarshal(raw, &fields) != nil {
		return string(raw)
	}
	parts := []string{fields.Text, pipeline.ArchivedDetail{Deployments: fields.Deployments}.String(), fields.Event, fields.Label, strings.ToLower(fields.Status), why(fields.Error), why(fields.Reason)}
	if fields.Size > 0 {
		parts = append(parts, server.Size(fields.Size))
	}
	if fields.Digest != "" {
		parts = append(parts, "sha256:"+shortDigest(fields.Digest))
	}
	if fields.By != "" {
		parts = append(parts, "by "+fields.By)
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · ")
}

// outputOf returns the path of what a step has printed, by the detail of its fact; "" if nothing was kept.
func outputOf(raw json.RawMessage) string {
	if id, attempt, kept := server.KeptOutput(raw); kept {
		return server.ExchangePath(id, attempt)
	}
	return ""
}

// stepWord returns the text of a step: what it does or did, or only its name if it has not begun.
func stepWord(s server.StepRun) string {
	switch s.State {
	case pipeline.StateWaiting, pipeline.StateRunnable:
		return s.Name
	case pipeline.StateFailed, pipeline.StateElided, pipeline.StateExcluded:
		return s.Name + " " + s.Word
	}
	return s.Word
}

// statusWords returns a status for people.
func statusWords(s pipeline.Status) string {
	if s == pipeline.StatusActive {
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

// mustJSON returns a value as JSON, which must have been decoded from JSON.
func mustJSON(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Append(nil, err)
	}
	return b.Bytes()
}
