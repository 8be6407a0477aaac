package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// blocked measures how soon a healthy lane starts beside so many lanes that are paused with work in them, and on
// PostgreSQL the buffers of claims and of searches for ready lanes, for each start (T11).
func blocked(ctx context.Context, o Options) ([]Result, error) {
	var results []Result
	for _, lanes := range o.Lanes {
		latency := Result{Bench: "blocked", Subject: grouped(float64(lanes)) + " blocked lanes", Driver: o.Driver}
		for range o.Rounds {
			round, err := blockedRound(ctx, o, lanes)
			if err != nil {
				return nil, err
			}
			latency.Rounds = append(latency.Rounds, round)
		}
		p50, p99 := percentiles(latency)
		results = append(results, p50, p99)
		if o.Driver == "postgres" {
			latency.Unit = "buffers per start"
			latency.summarizeBy(func(round Round) float64 { return float64(round.Buffers) })
			results = append(results, latency)
		}
	}
	for i := range results {
		for _, base := range results {
			if results[i].Unit == base.Unit && base.Subject == grouped(0)+" blocked lanes" {
				results[i].judge("within 10 % of the value without blocked lanes", math.Abs(results[i].Median/base.Median-1) <= 0.1)
			}
		}
	}
	return results, nil
}

// pause pauses the lanes of actions, some at a time.
func (s *scratch) pause(ctx context.Context, actions []action.Action) error {
	const atOnce = 8
	part := (len(actions) + atOnce - 1) / atOnce
	errs := make(chan error, atOnce)
	for i := range atOnce {
		go func() {
			for _, a := range actions[min(i*part, len(actions)):min((i+1)*part, len(actions))] {
				if _, err := s.Limit(ctx, a.Lane, queue.LimitCommand{Kind: "pause", By: "bench", For: time.Hour}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var err error
	for range atOnce {
		err = errors.Join(err, <-errs)
	}
	return err
}

func blockedRound(ctx context.Context, o Options, lanes int) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	batch := make([]action.Action, lanes)
	for i := range batch {
		batch[i] = job()
		batch[i].Lane = fmt.Sprintf("noop/%06d", i)
	}
	if err := s.pause(ctx, batch); err != nil {
		return Round{}, err
	}
	for ; len(batch) > 0; batch = batch[min(1000, len(batch)):] {
		if _, err := s.Enqueue(ctx, batch[:min(1000, len(batch))]...); err != nil {
			return Round{}, err
		}
	}
	if s.dsn == "" {
		return s.latencies(ctx, o)
	}
	db, err := s.settle(ctx)
	if err != nil {
		return Round{}, err
	}
	defer db.Close(ctx)
	round, err := s.latencies(ctx, o)
	if err != nil {
		return round, err
	}
	err = db.QueryRow(ctx, `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = current_database() AND (query LIKE 'WITH visited%' OR query LIKE 'WITH want%')`).Scan(&round.Buffers)
	round.Buffers /= int64(round.Ops)
	return round, err
}
