package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// claimCost measures what a claim of 100 costs with so many pending in its lane: on PostgreSQL the buffers, which are
// to be the same at any size (T2), and everywhere the time of the turn.
func claimCost(ctx context.Context, o Options) ([]Result, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.remove()
	host := queue.Instance{ID: action.DerivedID(time.Now(), "bench"), Name: "bench", Heartbeat: 20 * time.Minute} // it outlives the filling
	if err := s.Join(ctx, host); err != nil {
		return nil, err
	}
	var results []Result
	pending := 0
	for _, size := range o.Pending {
		if err := fill(ctx, s.Ledger, size-pending); err != nil {
			return nil, err
		}
		pending = size
		r := Result{Bench: "claim-cost", Subject: grouped(float64(size)) + " pending, claim of 100", Driver: o.Driver, Unit: "ms"}
		for range o.Rounds {
			round, err := s.claimOnce(ctx, host)
			if err != nil {
				return nil, err
			}
			r.Rounds = append(r.Rounds, round)
			pending -= round.Ops
		}
		r.summarizeBy(func(round Round) float64 { return round.Seconds * 1000 })
		if o.Driver == "postgres" {
			r.Unit = "buffers"
			r.summarizeBy(func(round Round) float64 { return float64(round.Buffers) })
		}
		results = append(results, r)
	}
	judgeClaims(o, results)
	return results, nil
}

// judgeClaims compares each size with 100,000, within a fifth.
func judgeClaims(o Options, results []Result) {
	for i := range results {
		for _, base := range results {
			if o.Driver == "postgres" && base.Subject == grouped(100_000)+" pending, claim of 100" {
				results[i].judge("within 20 % of the value at 100,000", math.Abs(results[i].Median/base.Median-1) <= 0.2)
			}
		}
	}
}

// settle vacuums the tables and sets what PostgreSQL counts of each statement to zero. The caller closes the connection.
func (s *scratch) settle(ctx context.Context) (*pgx.Conn, error) {
	db, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{"VACUUM (ANALYZE)", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
		"SELECT pg_stat_statements_reset()"} {
		if _, err := db.Exec(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", statement, err), db.Close(ctx))
		}
	}
	return db, nil
}

// claimOnce claims 100 on settled tables.
func (s *scratch) claimOnce(ctx context.Context, host queue.Instance) (Round, error) {
	if s.dsn == "" {
		return s.claimTimed(ctx, host)
	}
	db, err := s.settle(ctx)
	if err != nil {
		return Round{}, err
	}
	defer db.Close(ctx)
	round, err := s.claimTimed(ctx, host)
	if err != nil {
		return round, err
	}
	err = db.QueryRow(ctx, `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint, coalesce(sum(wal_bytes), 0)::bigint
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = current_database() AND query LIKE '%SKIP LOCKED%' AND query LIKE '%claimed_by%'`).Scan(&round.Buffers, &round.WALBytes)
	return round, err
}

func (s *scratch) claimTimed(ctx context.Context, host queue.Instance) (Round, error) {
	start := time.Now()
	turned, err := s.CompleteAndClaim(ctx, host, nil, []queue.Want{{Lane: "noop", N: 100}})
	round := measured(len(turned.Claimed), start)
	if err == nil && len(turned.Claimed) != 100 {
		err = fmt.Errorf("claimed %d, want 100", len(turned.Claimed))
	}
	return round, err
}
