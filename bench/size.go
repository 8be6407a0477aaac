package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

// size measures the disk that an action takes that has ended, with its history, over what an empty
// log takes: tables and indexes, vacuumed.
func size(ctx context.Context, o Options) ([]Result, error) {
	o.Workers = 100
	r := Result{Bench: "size", Subject: fmt.Sprintf("%s ended actions, each", grouped(float64(o.N))), Driver: o.Driver, Unit: "bytes"}
	for range o.Rounds {
		round, err := sizeRound(ctx, o)
		if err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, round)
	}
	r.summarizeBy(func(round Round) float64 { return round.Bytes })
	return []Result{r}, nil
}

func sizeRound(ctx context.Context, o Options) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	before, err := s.bytes(ctx)
	if err != nil {
		return Round{}, err
	}
	if err := fill(ctx, s.Ledger, o.N); err != nil {
		return Round{}, err
	}
	round, err := drainQueue(ctx, s.Ledger, o)
	if err != nil {
		return Round{}, err
	}
	after, err := s.bytes(ctx)
	round.Bytes = float64(after-before) / float64(o.N)
	return round, err
}

// bytes returns what a store takes on disk. Of an SQLite file pages that are free count, as in life; what is still in its
// write-ahead log is brought into it first.
func (s *scratch) bytes(ctx context.Context) (int64, error) {
	if s.dsn == "" {
		if err := checkpoint(ctx, s.path); err != nil {
			return 0, err
		}
		info, err := os.Stat(s.path)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	db, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "VACUUM"); err != nil {
		return 0, err
	}
	var size int64
	err = db.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&size)
	return size, err
}

// checkpoint brings the write-ahead log of an SQLite file into it.
func checkpoint(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}
