// Command bench measures Waybill. Each figure of docs/performance.md is one command here, with the machine's size in
// the output; `go run . help` lists them. With --driver postgres a server is wanted: --dsn, or WAYBILL_TEST_POSTGRES,
// which `go run ./test/postgres -- COMMAND` sets. Where there is a rival, both are measured in turn in the same run, on
// the same server, each round on fresh, vacuumed and analysed tables, and the ratio of the medians is judged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/pprof"
	"slices"
	"time"
)

// Options are what the benches take; each has those that it names.
type Options struct {
	Driver  string // sqlite | postgres
	DSN     string // of a PostgreSQL server on which databases may be made; "": WAYBILL_TEST_POSTGRES
	Rounds  int
	JSON    string // file to write the results to as well
	N       int    // operations in a round
	Workers int
	Rival   string

	Limit, Instances int           // of global-limit; Instances of outage too
	Job, For         time.Duration // how long one job takes; how long an outage lasts
	Rate             float64       // requests a second that are configured
	Answers          []int         // statuses of a target that refuses work
	KillOne          bool          // of chaos
}

// bench measures one thing.
type bench struct {
	about string // one line
	flags func(*flag.FlagSet, *Options)
	run   func(context.Context, Options) ([]Result, error)
}

// benches are all of them by name.
func benches() map[string]bench {
	return map[string]bench{
		"append":       {"entries/s through Ledger.Append, batch 1, 100, 1000, beside a bare insert", counted(0), appendEntries},
		"chaos":        {"seconds until the claims of a killed process are another's", chaosFlags, breakDown},
		"drain":        {"actions/s through a conductor whose handler does nothing", drainFlags, drain},
		"engine":       {"decisions/s of the scheduler alone, 1k, 10k, 100k hosts", nil, engine},
		"global-limit": {"actions/s of several instances that share a limit, beside the same without one", globalLimitFlags, globalLimit},
		"outage":       {"what a target sees that refuses work for a while, and after it", outageFlags, outage},
	}
}

// counted is the one flag --n.
func counted(n int) func(*flag.FlagSet, *Options) {
	return func(f *flag.FlagSet, o *Options) {
		f.IntVar(&o.N, "n", n, "operations in a round; 0: the bench's own number")
	}
}

func drainFlags(f *flag.FlagSet, o *Options) {
	counted(200_000)(f, o)
	f.IntVar(&o.Workers, "workers", 100, "attempts at the same time")
	f.Func("rival", "river: measure River too, in turn, on the same server", func(name string) error {
		if name != "river" {
			return errors.New("the only rival is river")
		}
		o.Rival = name
		return nil
	})
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "help" {
		help(os.Stdout)
		return nil
	}
	b, ok := benches()[args[0]]
	if !ok {
		return fmt.Errorf("there is no bench %q; `go run . help` lists them", args[0])
	}
	o := Options{}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.Driver, "driver", "sqlite", "sqlite or postgres")
	flags.StringVar(&o.DSN, "dsn", "", "a PostgreSQL server on which databases may be made; default WAYBILL_TEST_POSTGRES")
	flags.IntVar(&o.Rounds, "rounds", 5, "measurements of each subject")
	flags.StringVar(&o.JSON, "json", "", "write the results to this file as well")
	profile := flags.String("cpuprofile", "", "write a profile of this process to this file")
	if b.flags != nil {
		b.flags(flags, &o)
	}
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if o.Rival != "" && o.Driver != "postgres" {
		return errors.New("--rival river needs --driver postgres")
	}
	server, settings, err := settingsOf(ctx, o)
	if err != nil {
		return err
	}
	results, err := profiled(*profile, func() ([]Result, error) { return b.run(ctx, o) })
	if err != nil {
		return err
	}
	for i := range results {
		results[i].Server, results[i].Settings = server, settings
	}
	print(os.Stdout, results)
	if o.JSON == "" {
		return nil
	}
	return save(o.JSON, results)
}

// profiled runs a bench, under the profiler where a file is named for its findings.
func profiled(path string, run func() ([]Result, error)) ([]Result, error) {
	if path == "" {
		return run()
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return run()
}

// help lists the benches.
func help(w io.Writer) {
	fmt.Fprintln(w, "usage: go run . NAME [--driver sqlite|postgres] [--dsn URL] [--rounds 5] [--json FILE] [flags of NAME: NAME --help]")
	fmt.Fprintln(w)
	all := benches()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(w, "  %-12s %s\n", name, all[name].about)
	}
}
