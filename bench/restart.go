package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

func restartFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Live, "live", 100_000, "actions that are live when the process is killed")
}

// restart measures how long nothing is claimed when the one process on an embedded log is killed
// with kill -9 in the middle of its work and started again at once: the real program, with a lock
// to take, claims to rescue and a queue to read.
func restart(ctx context.Context, o Options) ([]Result, error) {
	if o.Driver != "sqlite" {
		return nil, errors.New("restart needs --driver sqlite; on PostgreSQL other processes take over: use chaos")
	}
	folder, binary, err := makeProgram(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	r := Result{Bench: "restart", Subject: "from kill -9 to the first claim, " + grouped(float64(o.Live)) + " live",
		Driver: o.Driver, Unit: "s"}
	for n := range o.Rounds {
		round, err := restartRound(ctx, o, binary, filepath.Join(folder, fmt.Sprint(n)))
		if err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, round)
	}
	r.summarizeBy(func(round Round) float64 { return round.Seconds })
	return []Result{r}, nil
}

// restartRound fills a home, has a process claim, kills it, and starts another.
func restartRound(ctx context.Context, o Options, binary, home string) (Round, error) {
	if err := os.Mkdir(home, 0o700); err != nil {
		return Round{}, err
	}
	driver, err := sqlite.Open(ctx, filepath.Join(home, "waybill.db"))
	if err != nil {
		return Round{}, err
	}
	l := ledger.New(driver, ledger.Options{})
	defer l.Close()
	for done := 0; done < o.Live; done += 1000 {
		batch := make([]action.Action, min(1000, o.Live-done))
		for i := range batch {
			batch[i] = job()
			batch[i].Parameters = json.RawMessage(`{"sleep": "10m"}`)
			batch[i].Policy.AttemptTimeout = 0
		}
		if _, err := l.Enqueue(ctx, batch...); err != nil {
			return Round{}, err
		}
	}
	begun, err := l.EventsEnd(ctx)
	if err != nil {
		return Round{}, err
	}
	first, err := serve(ctx, binary, home)
	if err != nil {
		return Round{}, err
	}
	if err := claimed(ctx, l, begun); err != nil {
		return Round{}, errors.Join(err, kill(first))
	}
	start := time.Now()
	_ = kill(first) // it was killed, as it says
	dead, err := l.EventsEnd(ctx)
	if err != nil {
		return Round{}, err
	}
	second, err := serve(ctx, binary, home)
	if err != nil {
		return Round{}, err
	}
	err = claimed(ctx, l, dead)
	round := measured(1, start)
	_ = kill(second)
	return round, err
}

// serve starts the program on a home.
func serve(ctx context.Context, binary, home string) (*exec.Cmd, error) {
	c := exec.CommandContext(ctx, binary, "up", "--home", home, "--listen", "127.0.0.1:0")
	return c, c.Start()
}

// kill ends a process with SIGKILL, and waits until it has gone.
func kill(c *exec.Cmd) error {
	return errors.Join(c.Process.Kill(), c.Wait())
}

// claimed waits until an attempt has begun behind a position.
func claimed(ctx context.Context, l *ledger.Ledger, after queue.EventPosition) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		events, err := l.EventsAfter(ctx, after, 1000)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Status == action.Running {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("nothing was claimed within a minute")
		case <-tick.C:
		}
	}
}
