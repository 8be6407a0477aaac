package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"time"
)

// flowOptions are the parameters of flows. Without one of the last five it measures creation and deletion.
type flowOptions struct {
	Flows, Namespaces int

	Restart, Latency, Knative bool
	Idle, Churn               time.Duration
}

// perBroker returns the number of flows in a namespace, which share its Broker.
func (o flowOptions) perBroker() int { return o.Flows / o.Namespaces }

func flowFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Flow.Flows, "flows", 5000, "EventFlows")
	f.IntVar(&o.Flow.Namespaces, "namespaces", 500, "namespaces of the flows, each with a Broker")
	f.BoolVar(&o.Flow.Restart, "restart", false, "start the controller again beside flows that are all ready, and count writes")
	f.DurationVar(&o.Flow.Idle, "idle", 0, "measure the controller at rest for so long")
	f.BoolVar(&o.Flow.Latency, "latency", false, "from the readiness of a Broker until its flow is ready, --n times")
	f.DurationVar(&o.Flow.Churn, "churn", 0, "make and delete flows of one Broker for so long, and kill the controller every 20 s")
	f.BoolVar(&o.Flow.Knative, "knative", false, "until a flow is ready with Knative's own controllers, beside a Broker and a Trigger; needs root")
	f.IntVar(&o.N, "n", 200, "measurements of --latency")
	o.Rounds = 1
}

// eventFlows measures the controller of EventFlows, the real program, on an API server with a stub that makes Brokers, Subscriptions and
// Channels ready at once.
func eventFlows(ctx context.Context, o Options) ([]Result, error) {
	f := o.Flow
	if f.Namespaces < 1 || f.perBroker() < 1 || f.Flows%f.Namespaces != 0 || f.perBroker() > flowChannels {
		return nil, fmt.Errorf("want 1 to %d flows in each namespace, in all the same number", flowChannels)
	}
	run := flowsRound
	switch {
	case f.Restart:
		run = flowRestart
	case f.Idle > 0:
		run = flowIdle
	case f.Latency:
		run = flowLatency
	case f.Churn > 0:
		run = flowChurn
	case f.Knative:
		run = flowKnative
	}
	var results []Result
	for range o.Rounds {
		round, err := run(ctx, o)
		if err != nil {
			return nil, err
		}
		if results == nil {
			results = round
			continue
		}
		for i := range results {
			results[i].Rounds = append(results[i].Rounds, round[i].Rounds...)
		}
	}
	judgeFlows(results)
	return results, nil
}

// flowResult makes a result of one round, whose figure is in PerSecond.
func flowResult(subject, unit string, figure float64) Result {
	return Result{Bench: "flows", Subject: subject, Unit: unit, Rounds: []Round{{Ops: 1, PerSecond: figure}}}
}

// within sets the target of a time, which is for 5,000 flows. Beside fewer than 1,000 other times prevail, so it has none.
func (r Result) within(seconds float64, flows int) Result {
	if flows < 1000 {
		return r
	}
	limit := seconds * float64(flows) / 5000
	return r.atMost(limit, fmt.Sprintf("under %.4g s", limit))
}

// atMost sets the target of a figure. It is judged once all rounds are there.
func (r Result) atMost(limit float64, target string) Result {
	r.Target, r.limit = target, &limit
	return r
}

// beside names the result of the same run that a figure is compared with.
func (r Result) beside(rival string) Result {
	r.Rival = rival
	return r
}

// judgeFlows computes medians, ratios and verdicts.
func judgeFlows(results []Result) {
	for i := range results {
		results[i].summarize()
	}
	for i := range results {
		r := &results[i]
		if at := slices.IndexFunc(results, func(other Result) bool { return r.Rival != "" && other.Subject == r.Rival }); at >= 0 {
			r.against(results[at], 0)
		}
		if r.limit != nil {
			r.judge(r.Target, r.Median <= *r.limit)
		}
	}
}

// flowsRound makes all flows ready from nothing and deletes them, and has a bare client make the same writes.
func flowsRound(ctx context.Context, o Options) (results []Result, err error) {
	w, err := openFlowWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.makeFlows(ctx); err != nil {
		return nil, err
	}
	made, err := w.measure(ctx, w.startController, func(all, ready int) bool { return all == o.Flow.Flows && ready == all })
	if err != nil {
		return nil, fmt.Errorf("make all flows ready: %w", err)
	}
	if err := w.keepStatus(ctx); err != nil {
		return nil, err
	}
	deleted, err := w.measure(ctx, w.deleteFlows, func(all, _ int) bool { return all == 0 })
	if err != nil {
		return nil, fmt.Errorf("delete all flows: %w", err)
	}
	left, err := w.managedObjects(ctx)
	if err != nil {
		return nil, err
	}
	w.controller.end()
	bareMade, bareDeleted, err := w.bareRound(ctx, made.writes, deleted.writes)
	if err != nil {
		return nil, fmt.Errorf("make the same writes: %w", err)
	}
	size := fmt.Sprintf("%d flows, %d Brokers", o.Flow.Flows, o.Flow.Namespaces)
	n := float64(o.Flow.Flows)
	ready := flowResult("all ready from nothing: "+size, "s", made.seconds).
		within(180, o.Flow.Flows).beside("a bare client: the same writes")
	gone := flowResult("all deleted", "s", deleted.seconds).
		within(180, o.Flow.Flows).beside("a bare client: the same writes of the deletion")
	ready.Rounds[0].ClientCPU, gone.Rounds[0].ClientCPU = made.cpu/n, deleted.cpu/n
	return append([]Result{
		ready, flowResult(ready.Rival, "s", bareMade), gone, flowResult(gone.Rival, "s", bareDeleted),
		flowResult("write requests of a flow until it is ready", "", float64(total(made.writes))/n).atMost(7, "at most 7"),
		flowResult("write requests of a flow's deletion", "", float64(total(deleted.writes))/n).atMost(7, "at most 7"),
		flowResult("managed objects left", "", float64(left)).atMost(0, "0"),
	}, kindsOfWrites(made.writes, deleted.writes, n)...), nil
}

// kindsOfWrites returns the write requests for a flow by verb and resource.
func kindsOfWrites(made, deleted map[string]int, flows float64) (results []Result) {
	for _, part := range []struct {
		name   string
		writes map[string]int
	}{{"until ready: ", made}, {"deletion: ", deleted}} {
		for _, kind := range slices.Sorted(maps.Keys(part.writes)) {
			results = append(results, flowResult(part.name+kind, "", float64(part.writes[kind])/flows))
		}
	}
	return results
}

func total(writes map[string]int) (n int) {
	for _, one := range writes {
		n += one
	}
	return n
}
