package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/test/chaos"
)

func chaosFlags(f *flag.FlagSet, o *Options) {
	f.BoolVar(&o.KillOne, "kill-one-of-two", true, "kill -9 one of two conductors in the middle of their work; the one fault that is measured")
}

// takeoverTarget is the bound of T6 in docs/performance.md, in seconds.
const takeoverTarget = 20.0

// breakDown measures how long the claims of a killed process have no owner, on real processes of
// the real program.
func breakDown(ctx context.Context, o Options) ([]Result, error) {
	if !o.KillOne || o.Driver != "postgres" {
		return nil, errors.New("chaos wants --kill-one-of-two and --driver postgres: two processes share a database")
	}
	folder, binary, err := makeProgram(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	result := Result{Bench: "chaos", Subject: "kill -9 one of two conductors: its claims taken over", Driver: o.Driver, Unit: "s"}
	faults := 0
	for range o.Rounds {
		round, broken, err := killRound(ctx, o, binary)
		if err != nil {
			return nil, err
		}
		for _, fault := range broken {
			fmt.Fprintln(os.Stderr, "bench: broken promise:", fault)
		}
		faults += len(broken)
		result.Rounds = append(result.Rounds, round)
	}
	result.summarizeBy(func(r Round) float64 { return r.Seconds })
	result.judge(fmt.Sprintf("every round below %g s; 0 lost, 0 late completions accepted", takeoverTarget),
		faults == 0 && result.Spread[1] < takeoverTarget)
	return []Result{result}, nil
}

// killRound kills once. Its operations are the claims that were taken over; the seconds are those
// until the last one was.
func killRound(ctx context.Context, o Options, binary string) (Round, []string, error) {
	url, drop, err := emptyDatabase(ctx, o)
	if err != nil {
		return Round{}, nil, err
	}
	defer drop()
	folder, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return Round{}, nil, err
	}
	defer os.RemoveAll(folder)
	w, err := chaos.Open(ctx, chaos.Settings{Binary: binary, Folder: folder, Direct: url})
	if err != nil {
		return Round{}, nil, err
	}
	takeover, err := w.KillOneOfTwo(ctx)
	if err != nil {
		return Round{}, nil, errors.Join(err, w.Close())
	}
	verdict, err := w.Judge(ctx)
	seconds := takeover.Within.Seconds()
	return Round{Ops: takeover.Claims, Seconds: seconds, PerSecond: float64(takeover.Claims) / seconds}, verdict.Faults,
		errors.Join(err, w.Close())
}

// makeProgram makes the real program in a new folder, which the caller removes.
func makeProgram(ctx context.Context) (folder, binary string, err error) {
	if folder, err = os.MkdirTemp("", "waybill-bench-"); err != nil {
		return "", "", err
	}
	if binary, err = childtest.Program(ctx, "..", folder); err != nil {
		return "", "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, binary, nil
}
