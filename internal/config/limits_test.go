package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
)

func TestLimitsAreRead(t *testing.T) {
	t.Parallel()
	c := read(t, `
handlers:
  publish:
    type: webhook
    workers: 50
    request: {url: "https://h/"}
    limits: {handler: {concurrency: 100}, lane: {rate: 20/s, burst: 40, concurrency: 10}}
    breaker: {window: 30s, defaults: false, patterns: [{statusCode: 400, message: "quota"}, {error: "refused$"}]}
  tidy: {type: shell, command: {argv: [a]}, limits: {lane: {rate: 90/m}}, breaker: {patterns: [{error: "no space"}]}}
  nothing: {type: noop, limits: {lane: {rate: 7200/h, concurrency: 1}}}
  free: {type: noop, limits: {lane: {rate: 3}}}
  plain: {type: webhook, request: {url: "https://h/"}}
`)
	want := map[string]action.Limits{
		"publish": {Lane: action.Limit{Rate: 20, Burst: 40, Slots: 10, Window: 30 * time.Second}, Handler: action.Limit{Slots: 100}},
		"tidy":    {Lane: action.Limit{Rate: 1.5}},
		"nothing": {Lane: action.Limit{Rate: 2, Slots: 1}},
		"free":    {Lane: action.Limit{Rate: 3}},
		"plain":   {},
	}
	for name, limits := range want {
		if diff := cmp.Diff(limits, c.Handlers[name].Limits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	publish := c.Handlers["publish"]
	if b := publish.Request.Breaker; publish.Workers != 50 || !b.NoDefaults || len(b.Patterns) != 1 || b.Patterns[0].Status.String() != "400" {
		t.Errorf("%d workers, breaker %+v", publish.Workers, b)
	}
	if !publish.Refuses("connection refused") || publish.Refuses("refused, but not at the end") ||
		!c.Handlers["tidy"].Refuses("no space left") {
		t.Error("errors are not distinguished")
	}
	if b := c.Handlers["plain"].Request.Breaker; b.NoDefaults || b.Patterns != nil || c.Handlers["plain"].Refuses("anything") {
		t.Errorf("without a word: %+v", b)
	}
}

func TestLimitFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := Read("server.yaml", []byte(`handlers:
  a:
    type: webhook
    workers: 0
    request: {url: "https://h/"}
    limits:
      handler: {concurrency: -1, rate: 5/s}
      lane: {rate: 5/d, burst: 1.5, concurency: 1}
  b:
    type: webhook
    workers: 100000
    request: {url: "https://h/"}
    limits: {lane: {concurrency: 0}}
    breaker: {window: 1ms, patterns: [{error: "("}, {}, {error: x, statusCode: 4xx}, {statusCode: 6xx}]}
  c: {type: shell, command: {argv: [a]}, limits: {lane: {burst: 5}}, breaker: {window: soon, patterns: [{}]}}
  d: {type: noop, breaker: {defaults: false}}
  e: {type: noop, limits: {lane: {rate: fast}}}
  f: {type: noop, limits: {lane: {rate: -1}}}
`))
	want := `server.yaml:4:14: handlers.a.workers: want a whole number from 1 to 10000, found 0
server.yaml:7:30: handlers.a.limits.handler.concurrency: want a whole number from 1 to 1000000, found -1
server.yaml:7:34: unknown key "rate" in handlers.a.limits.handler
server.yaml:8:20: handlers.a.limits.lane.rate: want a rate such as 20/s, 10/m or 100/h, found "5/d"
server.yaml:8:32: handlers.a.limits.lane.burst: want a whole number from 1 to 1000000, found 1.5
server.yaml:8:37: unknown key "concurency" in handlers.a.limits.lane (did you mean "concurrency"?)
server.yaml:11:14: handlers.b.workers: want a whole number from 1 to 10000, found 100000
server.yaml:13:34: handlers.b.limits.lane.concurrency: want a whole number from 1 to 1000000, found 0
server.yaml:14:23: handlers.b.breaker.window: want 100ms to 1h, found 1ms
server.yaml:14:47: handlers.b.breaker.patterns[0].error: missing closing ): ` + "`(`" + `
server.yaml:14:53: handlers.b.breaker.patterns[1]: a rule without statusCode, message or jsonPath matches every answer
server.yaml:14:65: handlers.b.breaker.patterns[2]: "error" must be the only condition: the other conditions are about answers
server.yaml:14:99: handlers.b.breaker.patterns[3].statusCode: want a status such as 404 or 5xx, found "6xx"
server.yaml:15:65: handlers.c.limits.lane: a burst needs a "rate"
server.yaml:15:88: handlers.c.breaker.window: want a duration such as 25s or 7d, found "soon"
server.yaml:15:105: handlers.c.breaker.patterns[0]: a pattern needs its "error"
server.yaml:16:29: unknown key "defaults" in handlers.d.breaker
server.yaml:17:41: handlers.e.limits.lane.rate: want a rate such as 20/s, 10/m or 100/h, found "fast"
server.yaml:18:41: handlers.f.limits.lane.rate: want a rate such as 20/s, 10/m or 100/h, found "-1"`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
