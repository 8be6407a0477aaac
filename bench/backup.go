package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

func backupFlags(f *flag.FlagSet, o *Options) {
	counted(1800)(f, o)
	o.Rate, o.Size = 60, 500
	f.Func("rate", "enqueues a second while the backup runs (default 60/s)", perSecond(&o.Rate))
	f.Func("size", "of the log (default 500MB)", func(text string) (err error) {
		if o.Size, err = strconv.Atoi(strings.TrimSuffix(text, "MB")); err != nil || o.Size < 1 {
			return errors.New("want a size in megabytes, such as 500MB")
		}
		return nil
	})
}

// backup measures how long a backup of a big log takes while actions are enqueued and done at a steady rate, and how soon
// those start (T17).
func backup(ctx context.Context, o Options) ([]Result, error) {
	if o.Driver != "sqlite" {
		return nil, errors.New("this needs --driver sqlite")
	}
	starts := Result{Bench: "backup", Subject: fmt.Sprintf("%g/s beside a backup", o.Rate), Driver: o.Driver}
	took := Result{Bench: "backup", Subject: fmt.Sprintf("a log of %d MB", o.Size), Driver: o.Driver, Unit: "s"}
	for range o.Rounds {
		round, seconds, err := backupRound(ctx, o)
		if err != nil {
			return nil, err
		}
		starts.Rounds = append(starts.Rounds, round)
		took.Rounds = append(took.Rounds, Round{Ops: 1, Seconds: seconds})
	}
	took.summarizeBy(func(round Round) float64 { return round.Seconds })
	took.judge("ends within 60 s, and the copy passes its check", took.Median < 60)
	p50, p99 := percentiles(starts)
	p99.judge("p99 under 1 s", p99.Median < 1000)
	return []Result{took, p50, p99}, nil
}

func backupRound(ctx context.Context, o Options) (Round, float64, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, 0, err
	}
	defer s.remove()
	if err := s.swell(ctx, o.Size); err != nil {
		return Round{}, 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var seconds float64
	ended := make(chan error, 1)
	go func() {
		began := time.Now()
		err := sqlite.Backup(ctx, s.path, filepath.Join(filepath.Dir(s.path), "copy.db"))
		seconds = time.Since(began).Seconds()
		ended <- err
	}()
	round, err := s.latencies(ctx, o)
	if err != nil {
		stop()
	}
	return round, seconds, errors.Join(err, <-ended)
}

// swell fills a log with so many megabytes of parameters, in a lane that no conductor serves.
func (s *scratch) swell(ctx context.Context, megabytes int) error {
	const each, batch = 60_000, 100
	text, _ := json.Marshal(string(bytes.Repeat([]byte("x"), each)))
	for left := megabytes * 1_000_000 / each; left > 0; left -= batch {
		some := make([]action.Action, min(left, batch))
		for i := range some {
			some[i] = job()
			some[i].Handler, some[i].Parameters = "unserved", text
		}
		if _, err := s.Enqueue(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}
