package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/queue"
)

func outageFlags(f *flag.FlagSet, o *Options) {
	o.Answers = []int{503, 429}
	f.IntVar(&o.Instances, "instances", 2, "conductors; on SQLite one")
	f.Float64Var(&o.Rate, "rate", 40, "requests a second that are configured")
	f.DurationVar(&o.For, "for", time.Minute, "how long the target refuses work: more than four windows of 10s")
	f.Func("answer", "what it answers then, in turn (default 503,429)", func(text string) error {
		o.Answers = nil
		for _, part := range strings.Split(text, ",") {
			status, err := strconv.Atoi(part)
			if err != nil || status < 400 || status > 599 {
				return fmt.Errorf("want statuses such as 503,429, found %q", part)
			}
			o.Answers = append(o.Answers, status)
		}
		return nil
	})
}

// target is a listener that is well, refuses work for a while, and is well again; it knows when it
// was asked.
type target struct {
	mu      sync.Mutex
	answers []int // in turn while it refuses; nil: it is well
	asked   []time.Time
}

func (t *target) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = append(t.asked, time.Now())
	if len(t.answers) > 0 {
		w.WriteHeader(t.answers[len(t.asked)%len(t.answers)])
	}
}

func (t *target) answer(statuses []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers = statuses
}

// rate returns how many requests a second came between two times.
func (t *target) rate(from, to time.Time) Round {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, at := range t.asked {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	seconds := to.Sub(from).Seconds()
	return Round{Ops: n, Seconds: seconds, PerSecond: float64(n) / seconds}
}

// outage measures what a real listener sees of webhooks with a configured rate when it refuses work
// for a while: the rate after three windows of that, and the rate when it has been well again for
// five. No action may be lost to it.
func outage(ctx context.Context, o Options) ([]Result, error) {
	if o.For < 4*action.Window {
		return nil, fmt.Errorf("--for %s: want at least four windows, %s", o.For, 4*action.Window)
	}
	result := func(subject, unit string) Result {
		return Result{Bench: "outage", Subject: subject, Driver: o.Driver, Unit: unit}
	}
	slowed := result(fmt.Sprintf("refusing with %v for %s, after 3 windows", o.Answers, o.For), "requests/s")
	again := result(fmt.Sprintf("well again for 5 windows, %g/s configured", o.Rate), "requests/s")
	exhausted := result("actions whose attempts were spent", "actions")
	for range o.Rounds {
		seen, err := breakdown(ctx, o)
		if err != nil {
			return nil, err
		}
		slowed.Rounds = append(slowed.Rounds, seen[0])
		again.Rounds = append(again.Rounds, seen[1])
		exhausted.Rounds = append(exhausted.Rounds, seen[2])
	}
	slowed.summarize()
	again.summarize()
	exhausted.summarizeBy(func(r Round) float64 { return float64(r.Ops) })
	probe := action.Bucket{}.With(action.Limit{Rate: o.Rate}, time.Now()).Probe()
	// One probe more may fall into the time that is looked at than the rate says.
	slowed.judge(fmt.Sprintf("at most the probe rate, %.2f/s", probe), slowed.Spread[1] <= probe+1/slowed.Rounds[0].Seconds)
	again.judge(fmt.Sprintf("at least 90 %% of %g/s", o.Rate), again.Spread[0] >= 0.9*o.Rate)
	exhausted.judge("none", exhausted.Spread[1] == 0)
	return []Result{slowed, again, exhausted}, nil
}

// breakdown makes one round: half a minute that is well, the outage, and six windows after it.
func breakdown(ctx context.Context, o Options) (seen [3]Round, err error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return seen, err
	}
	defer s.remove()
	t := &target{}
	server := httptest.NewServer(t)
	defer server.Close()
	hook, template, err := hookTo(ctx, server.URL, o.Rate)
	if err != nil {
		return seen, err
	}
	n := int(o.Rate * (30 + o.For.Seconds() + 80))
	for done := 0; done < n; done += 500 {
		batch := make([]action.Action, 500)
		for i := range batch {
			batch[i] = template
		}
		if _, err := s.Enqueue(ctx, batch...); err != nil {
			return seen, err
		}
	}
	instances := o.Instances
	if o.Driver != "postgres" {
		instances = 1
	}
	cfg := conductor.Config{Handlers: map[string]conductor.Handler{"hook": webhook.New(hook.handler, hook.archive)},
		Limits: map[string]conductor.Limits{"hook": {Limits: hook.handler.Limits}}, Workers: 50}
	err = s.conduct(ctx, instances, cfg, func(ctx context.Context) error {
		sleep(ctx, 30*time.Second)
		t.answer(o.Answers)
		down := time.Now()
		sleep(ctx, o.For)
		t.answer(nil)
		well := time.Now()
		sleep(ctx, 6*action.Window)
		seen[0], seen[1] = t.rate(down.Add(3*action.Window), well), t.rate(well.Add(5*action.Window), time.Now())
		return ctx.Err()
	})
	hook.remove()
	if err != nil {
		return seen, err
	}
	spent, err := s.Actions(ctx,
		queue.ActionQuery{Statuses: []action.Status{action.RetriesExhausted, action.Failed, action.TimedOut}, Limit: 1000})
	seen[2] = Round{Ops: len(spent)}
	return seen, err
}

// hook is a webhook's handler as server.yaml has it.
type hook struct {
	handler config.Handler
	archive evidence.Archive
	remove  func()
}

// hookTo describes a webhook, and makes the action that requests it.
func hookTo(ctx context.Context, address string, rate float64) (hook, action.Action, error) {
	file := fmt.Appendf(nil, `handlers:
  hook:
    type: webhook
    request: {url: "%s/hook", allowNetworks: [127.0.0.0/8]}
    limits: {lane: {rate: %g/s}}
`, address, rate)
	config, err := config.Read("server.yaml", file)
	if err != nil {
		return hook{}, action.Action{}, err
	}
	folder, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return hook{}, action.Action{}, err
	}
	blobs, err := blob.Open(ctx, folder)
	if err != nil {
		return hook{}, action.Action{}, errors.Join(err, os.RemoveAll(folder))
	}
	h := config.Handlers["hook"]
	a, err := h.Prepare([]byte(`{}`))
	a.CreatedBy = "bench"
	return hook{h, evidence.Archive{Blobs: blobs}, func() { _ = os.RemoveAll(folder) }}, a, err
}

// sleep waits unless the context ends before.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
