// Command bench measures Waybill. Each figure of docs/performance.md is one
// command here, with the machine's size in the output:
//
//	go run . append --driver sqlite       entries/s through Ledger.Append, batch 1, 100, 1000
//	go run . drain --driver sqlite        actions/s through a conductor with a handler that does nothing
//	go run . engine                       decisions/s of the scheduler, 1k, 10k, 100k hosts
//
// With --driver postgres a database is wanted: --dsn, or WAYBILL_TEST_POSTGRES, which
// `go run ./test/postgres -- COMMAND` sets. Where there is a rival, both are
// measured in turn in the same run and the ratio of the medians is printed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

// Options are what every bench takes.
type Options struct {
	Driver string // sqlite | postgres
	DSN    string // of an empty PostgreSQL database; "": one is made on WAYBILL_TEST_POSTGRES
	Rounds int
	JSON   string // file to write the results to as well
	N      int    // operations in a round; 0: the bench's own number
}

// bench measures one thing.
type bench func(context.Context, Options) ([]Result, error)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	benches := map[string]bench{"append": appendEntries, "drain": drain, "engine": engine}
	if len(args) == 0 || benches[args[0]] == nil {
		return fmt.Errorf("usage: go run . append|drain|engine [--driver sqlite|postgres] [--dsn URL] [--rounds 5] [--n N] [--json FILE]")
	}
	var o Options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.Driver, "driver", "sqlite", "sqlite or postgres")
	flags.StringVar(&o.DSN, "dsn", "", "an empty PostgreSQL database")
	flags.IntVar(&o.Rounds, "rounds", 5, "measurements of each subject")
	flags.StringVar(&o.JSON, "json", "", "write the results to this file as well")
	flags.IntVar(&o.N, "n", 0, "operations in a round")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	results, err := benches[args[0]](ctx, o)
	if err != nil {
		return err
	}
	print(os.Stdout, results)
	if o.JSON == "" {
		return nil
	}
	return save(o.JSON, results)
}
