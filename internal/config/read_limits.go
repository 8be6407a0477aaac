package config

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// limitKeys returns the keys of limits, for a type of handler.
func limitKeys(kind string) []document.Key {
	concurrency := document.Key{Name: "concurrency", Shape: document.Number, Help: "attempts at a time"}
	patterns := []document.Key{{Name: "error", Shape: document.Text,
		Help: "a regular expression (RE2) on the error that an attempt ended with"}}
	breaker := []document.Key{{Name: "window", Shape: document.Scalar, Default: "10s", Help: "over which results are judged"}}
	if kind == TypeWebhook {
		patterns = append(ruleKeys(), patterns...)
		breaker = append(breaker, document.Key{Name: "defaults", Shape: document.Flag, Default: "true",
			Help: "no connection, no answer in time, 429, 502, 503, 504 and 403 with quota in its body are refusals"})
	}
	breaker = append(breaker, document.Key{Name: "patterns", Shape: document.Objects, Help: "what else is a refusal of work", Keys: patterns})
	return []document.Key{
		{Name: "workers", Shape: document.Number, Help: "attempts at a time in one process; default: the conductor's workers"},
		{Name: "limits", Shape: document.Object, Help: "over all processes", Keys: []document.Key{
			{Name: "handler", Shape: document.Object, Help: "all of its lanes together", Keys: []document.Key{concurrency}},
			{Name: "lane", Shape: document.Object, Help: "each of its lanes", Keys: []document.Key{
				{Name: "rate", Shape: document.Scalar, Help: "attempts in a time: 20/s, 10/m, 100/h"},
				{Name: "burst", Shape: document.Number, Help: "attempts that may be saved up; default: those of one second, at least 1"},
				concurrency,
			}},
		}},
		{Name: "breaker", Shape: document.Object, Help: "when a lane is slowed because its target refuses work", Keys: breaker},
	}
}

// most is the highest number that a limit may be.
const most = 1_000_000

// limits reads how much of a handler may run.
func (r *handlerReader) limits(n *document.Node, h *Handler) {
	if v := n.Get("workers"); fits(v, document.Number) {
		h.Workers = r.workers(v, r.path+".workers")
	}
	limits, lane := n.Get("limits"), n.Get("limits").Get("lane")
	h.Limits.Handler.Slots = r.count(limits.Get("handler").Get("concurrency"), r.path+".limits.handler.concurrency")
	h.Limits.Lane = action.Limit{
		Rate:  r.rate(lane.Get("rate"), r.path+".limits.lane.rate"),
		Burst: r.count(lane.Get("burst"), r.path+".limits.lane.burst"),
		Slots: r.count(lane.Get("concurrency"), r.path+".limits.lane.concurrency"),
	}
	if lane.Get("burst") != nil && lane.Get("rate") == nil {
		r.Add(lane.Get("burst"), "field-missing", r.path+".limits.lane", `a burst needs a "rate"`)
	}
	r.breaker(n.Get("breaker"), h)
}

// count reads a number of attempts.
func (r *handlerReader) count(n *document.Node, path string) int {
	if !fits(n, document.Number) {
		return 0
	}
	count, err := strconv.Atoi(n.Text)
	if err != nil || count < 1 || count > most {
		r.Add(n, "value-invalid", path, "want a whole number from 1 to %d, found %s", most, n.Text)
		return 0
	}
	return count
}

// seconds maps the units of a rate to their seconds.
var seconds = map[string]float64{"s": 1, "m": 60, "h": 3600}

// rate reads attempts a second from 20/s, 10/m or 100/h; a bare number is a second's.
func (r *handlerReader) rate(n *document.Node, path string) float64 {
	if !fits(n, document.Scalar) {
		return 0
	}
	number, unit, found := strings.Cut(n.Text, "/")
	if !found && (n.Kind == document.Int || n.Kind == document.Float) {
		unit = "s"
	}
	count, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(count > 0 && count <= most) || seconds[strings.TrimSpace(unit)] == 0 {
		r.Add(n, "value-invalid", path, "want a rate such as 20/s, 10/m or 100/h, found %q", n.Text)
		return 0
	}
	return count / seconds[strings.TrimSpace(unit)]
}

// The bounds of a breaker's window.
const (
	shortestWindow = 100 * time.Millisecond
	longestWindow  = time.Hour
)

// breaker reads the patterns of refusals, and over which time refusals are counted.
func (r *handlerReader) breaker(n *document.Node, h *Handler) {
	path := r.path + ".breaker"
	if v := n.Get("window"); fits(v, document.Scalar) {
		before := len(r.Problems)
		window := r.span(v, path+".window")
		if len(r.Problems) == before && (window < shortestWindow || window > longestWindow) {
			r.Add(v, "value-invalid", path+".window", "want 100ms to 1h, found %s", v.Text)
		}
		h.Limits.Lane.Window = window
	}
	var b webhook.Breaker
	b.NoDefaults = strings.EqualFold(n.Str("defaults"), "false")
	if patterns := n.Get("patterns"); fits(patterns, document.Objects) {
		for i, item := range patterns.Items {
			r.pattern(item, document.Index(path+".patterns", i), h, &b)
		}
	}
	if h.Request != nil {
		h.Request.Breaker = b
	}
}

// pattern reads one refusal: of an answer, or of the report of an attempt that got none.
func (r *handlerReader) pattern(n *document.Node, path string, h *Handler, b *webhook.Breaker) {
	text := n.Get("error")
	if text == nil {
		if h.Request == nil {
			r.Add(n, "field-missing", path, `a pattern needs its "error"`)
			return
		}
		b.Patterns = append(b.Patterns, r.rule(n, path))
		return
	}
	if len(n.Fields) > 1 {
		r.Add(text, "value-invalid", path, `"error" must be the only condition: the other conditions are about answers`)
	}
	if !fits(text, document.Text) {
		return
	}
	pattern, err := regexp.Compile(text.Text)
	if err != nil {
		r.Add(text, "value-invalid", path+".error", "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return
	}
	h.refusals = append(h.refusals, pattern)
}
