package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
)

// attemptsOf counts the attempts of a pipeline's run of a revision.
const attemptsOf = `SELECT count(*) FROM promotion_head h JOIN promotion_run r ON r.pipeline_id = h.id
	JOIN promotion_attempt a ON a.pipeline_id = h.id AND a.run = r.number WHERE h.name = ? AND r.revision = ?`

// delaySamples is the number of changes of a round.
const delaySamples = 200

// promotionDelay measures the time from a change of the first environment until the attempt to promote into the next one is
// recorded, in a large fleet, with all leaves and with one dead.
func promotionDelay(ctx context.Context, o Options) ([]Result, error) {
	all := Result{Subject: fmt.Sprintf("%d changes, p50", delaySamples), Unit: "ms"}
	dead := Result{Subject: "the same with a dead leaf, p50", Unit: "ms"}
	allLate, deadLate := Result{Subject: "p99", Unit: "ms"}, Result{Subject: "with a dead leaf, p99", Unit: "ms"}
	for range o.Rounds {
		healthy, broken, err := delayRound(ctx, o)
		if err != nil {
			return nil, err
		}
		all.Rounds, allLate.Rounds = append(all.Rounds, healthy), append(allLate.Rounds, healthy)
		dead.Rounds, deadLate.Rounds = append(dead.Rounds, broken), append(deadLate.Rounds, broken)
	}
	for i, r := range []*Result{&all, &dead, &allLate, &deadLate} {
		r.Bench, r.Driver = "promotion-delay", o.Driver
		if i < 2 {
			r.summarizeBy(func(r Round) float64 { return r.P50 })
			r.judge("at most 100 ms", r.Median <= 100)
			continue
		}
		r.summarizeBy(func(r Round) float64 { return r.P99 })
		r.judge("at most 500 ms", r.Median <= 500)
	}
	return []Result{all, allLate, dead, deadLate}, nil
}

// delayRound measures both once.
func delayRound(ctx context.Context, o Options) (all, dead Round, err error) {
	p, err := promote(ctx, o, nil)
	if err != nil {
		return all, dead, err
	}
	defer p.end()
	if _, err = p.decided(ctx, p.began, firstRevision); err != nil {
		return all, dead, err
	}
	loop.Pause(ctx, 3*time.Second) // the last views and statuses
	if all, err = p.delays(ctx, "6.1.0", -1); err != nil {
		return all, dead, err
	}
	if _, err = p.do(fleetOrder{Do: "stop"}); err != nil {
		return all, dead, err
	}
	loop.Pause(ctx, 5*time.Second)
	dead, err = p.delays(ctx, "6.2.0", 0)
	return all, dead, err
}

// delays changes one pipeline after the other, none whose first two environments are on the dead leaf.
func (p *promoting) delays(ctx context.Context, revision string, dead int) (Round, error) {
	var delays []float64
	began := time.Now()
	for i := 0; i < p.size.Pipelines && len(delays) < delaySamples; i++ {
		on := []int{p.size.leafOf(i, 0, 0), p.size.leafOf(i, 0, 1), p.size.leafOf(i, 1, 0), p.size.leafOf(i, 1, 1)}
		if slices.Contains(on, dead) {
			continue
		}
		answer, err := p.do(fleetOrder{Do: "promote", Pipeline: i, Revision: revision})
		if err != nil {
			return Round{}, err
		}
		at, err := p.await(ctx, 1, attemptsOf, fmt.Sprint("apps:app-", i), revision)
		if err != nil {
			return Round{}, fmt.Errorf("pipeline %d: %w", i, err)
		}
		delays = append(delays, float64(at.Sub(answer.At))/float64(time.Millisecond))
		loop.Pause(ctx, 20*time.Millisecond)
	}
	round := measured(len(delays), began)
	slices.Sort(delays)
	round.P50, round.P99 = delays[len(delays)/2], delays[len(delays)*99/100]
	round.Longest = delays[len(delays)-1]
	return round, nil
}
