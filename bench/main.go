// Command bench measures Waybill. Each figure of docs/performance.md is one command here, with the
// machine's size in the output; `go run . help` lists them. With --driver postgres a server is
// wanted: --dsn, or WAYBILL_TEST_POSTGRES, which `go run ./test/postgres -- COMMAND` sets. Where
// there is a rival, both are measured in turn in the same run, on the same server, each round on
// fresh, vacuumed and analysed tables, and the ratio of the medians is judged.
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
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/command"
)

// Options are the parameters of the benches; each has those that it names.
type Options struct {
	Driver  string // sqlite | postgres
	DSN     string // address of a PostgreSQL server on which databases may be made; "": WAYBILL_TEST_POSTGRES
	Rounds  int
	JSON    string // file to write the results to as well
	N       int    // operations in a round
	Workers int
	Rival   string

	Limit, Instances int           // parameters of global-limit; Instances of outage too
	Job, For         time.Duration // how long one job takes; how long an outage lasts
	Rate             float64       // a second: requests that are configured, actions that are enqueued
	Answers          []int         // statuses of a target that refuses work
	KillOne          bool          // parameter of chaos

	Pending      []int         // claim-cost: sizes of the queue
	Lanes        []int         // blocked: how many lanes are
	KillListener bool          // latency
	Writers      int           // enqueue; senders of events, clients of broker
	Polls        bool          // broker
	Start        bool          // events
	Handlers     int           // idle
	Live         int           // restart
	HoldXmin     time.Duration // drain; 0: a full queue is drained
	Size         int           // backup: megabytes of the log
	Readers      int           // readers: clients that read at a time
	Ended        int           // readers: actions that have ended before
	Entries      int           // ask: entries of the log
	Whole        bool          // append: whole deployments only
	Steps        int           // ssh: of each host
	Files        int           // replicate: small files of the release; 0: large ones

	ArchiveFails, DeleteFails int // caboose-faults: of each workflow
	Pipelines, Leaves         int // promotion-fleet, -delay, -idle
	Original                  string
	Flow                      flowOptions

	Stages, Deployments int   // engine; Deployments of edit too
	Hosts               []int // engine: of each stage; edit: of the pipeline
	InFlight            []int // engine: deployments
}

// bench measures one thing.
type bench struct {
	about string // one line
	flags func(*flag.FlagSet, *Options)
	run   func(context.Context, Options) ([]Result, error)
}

// benches returns all benches by name.
func benches() map[string]bench {
	return map[string]bench{
		"ask":            {"ms of each question to a log of many entries", askFlags, ask},
		"append":         {"entries/s through Ledger.Append, batch 1, 100, 1000, beside a bare insert", appendFlags, appendEntries},
		"caboose-faults": {"what a caboose gets wrong whose archive and whose cluster fail again and again", cabooseFaultsFlags, cabooseFaults},
		"broker":         {"service instances/s that platforms make, poll and delete, or polls/s, beside a broker in memory", brokerFlags, broke},
		"build-follow":   {"ms from the write of a step's process to a follower of the server", followFlags, followBuild},
		"build-idle":     {"CPU of an aggregator and the idle workers that it follows", idleBuildsFlags, idleBuilds},
		"build-line":     {"CPU µs of a step's line in its worker, beside bufio.Scanner", counted(1_000_000), lineCPU},
		"build-memory":   {"MiB of a worker whose log is long and whose readers are slow", workerMemoryFlags, workerMemory},
		"build-recovery": {"seconds until a build is stored whose aggregator is killed half-way", counted(2_000_000), recovery},
		"build-retention": {"seconds of deleting a build's log of many lines, and how long writes and reads beside it wait",
			counted(10_000_000), retention},
		"build-page":       {"ms of 500 entries at the end of a log in the database, beside its start", counted(2_000_000), buildPage},
		"build-plan":       {"CPU ms of parsing and planning a .wharf-ci.yml of 300 lines, beside YAML decoding", counted(300), planBuild},
		"build-step":       {"CPU ms of a step on the process runner, beside its program plainly started", counted(40), stepCPU},
		"build-logs":       {"lines/s of a build from its child process into the database, beside COPY", buildLogsFlags, buildLogs},
		"chaos":            {"seconds until the claims of a killed process are another's", chaosFlags, breakDown},
		"drain":            {"actions/s through a conductor whose handler does nothing", drainFlags, drain},
		"edit":             {"CPU ms of an edit with deployments inside, computed and applied", editFlags, edit},
		"edit-lock":        {"ms for which an edit holds the lock of the head, with deployments in progress", editFlags, editLock},
		"engine":           {"rows per CPU second of the scheduler alone, its heap, and passes beside many deployments", engineFlags, engine},
		"flows":            {"seconds until many EventFlows are ready and deleted, writes, restarts, rest, delays, faults", flowFlags, eventFlows},
		"fold":             {"rows per CPU second of folding a log from memory, or ms from a database", foldFlags, fold},
		"in-flight-heap":   {"MB of heap that deployments take in memory, beside the graph", inFlightHeapFlags, inFlightHeap},
		"global-limit":     {"actions/s of several instances that share a limit, beside the same without one", globalLimitFlags, globalLimit},
		"marker":           {"ms of editing the marked files of a fleet, beside the setters of kyaml", markerFlags, editMarkers},
		"pool-cost":        {"KiB of heap and goroutines of a leaf cluster, beside an informer of client-go per kind", poolCostFlags, poolCost},
		"promotion-decide": {"CPU µs of one decision about a pipeline, small and large", counted(600_000), decidePromotion},
		"promotion-delay":  {"ms from a status change until the attempt is recorded, in a large fleet, also with a dead leaf", fleetFlags, promotionDelay},
		"promotion-idle":   {"CPU of a promoter beside a large fleet at rest, its decisions and its writes", idleFleetFlags, promotionIdle},
		"promotion-fleet":  {"seconds until a large fleet is decided: cold start, and all applications change", fleetFlags, promotionFleet},
		"propose":          {"ms until a branch with the marked values is pushed, beside go-git", proposeFlags, propose},
		"plan":             {"CPU ms of the plan of one more deployment", planFlags, plan},
		"outage":           {"what a target sees that refuses work for a while, and after it", outageFlags, outage},
		"claim-cost":       {"buffers and time of a claim of 100 at several sizes of the queue", claimFlags, claimCost},
		"blocked":          {"start latency of a healthy lane and buffers per start, beside lanes that are blocked", blockedFlags, blocked},
		"events":           {"CloudEvents/s that many senders have answered over HTTP, beside the enqueue of as many callers", eventFlags, events},
		"enqueue":          {"actions/s that many callers store, with and without telling other processes", enqueueFlags, enqueue},
		"idle":             {"statements/s of a conductor that has nothing to do", idleFlags, idle},
		"restart":          {"seconds from kill -9 of the process on an embedded log to the first claim of its successor", restartFlags, restart},
		"size":             {"bytes on disk of an action that has ended, with its history", counted(20_000), size},
		"backup":           {"seconds of a backup of a big log, and start latency beside it", backupFlags, backup},
		"readers":          {"start latency and late heartbeats while many clients read lists", readersFlags, readers},
		"replicate":        {"MB/s of a release to an ssh host, new and unchanged, beside tar over OpenSSH's client", replicateFlags, replicate},
		"worker-stream":    {"lines/s of the worker API on loopback, beside one message for each line", workerStreamFlags, workerStream},
		"snapshot":         {"seconds of the snapshot of a workspace, beside tar and tar | zstd -1", snapshotFlags, packWorkspace},
		"switch":           {"requests that fail while a host switches to another release, and ms without an answer", switchFlags, switchHost},
		"ssh":              {"commands/s on many ssh hosts, and CPU time at both ends, beside OpenSSH's client", sshFlags, reachHosts},
		"latency":          {"from an enqueue until the action starts, at a steady rate", latencyFlags, latency},
	}
}

// counted declares the flag --n.
func counted(n int) func(*flag.FlagSet, *Options) {
	return func(f *flag.FlagSet, o *Options) {
		f.IntVar(&o.N, "n", n, "operations in a round; 0: the bench's own number")
	}
}

func drainFlags(f *flag.FlagSet, o *Options) {
	counted(200_000)(f, o)
	f.IntVar(&o.Workers, "workers", 100, "attempts at the same time")
	o.Rate = 800
	f.DurationVar(&o.HoldXmin, "hold-xmin", 0,
		"drain a steady stream for so long, without and with a snapshot held, instead of a full queue; 2m shows it")
	f.Func("rate", "of that stream (default 800/s)", perSecond(&o.Rate))
	rivalFlag(f, o)
}

func rivalFlag(f *flag.FlagSet, o *Options) {
	f.Func("rival", "river: measure River too, at its best settings, in turn, on the same server", func(name string) error {
		if name != "river" {
			return errors.New("the only rival is river")
		}
		o.Rival = name
		return nil
	})
}

func blockedFlags(f *flag.FlagSet, o *Options) {
	counted(200)(f, o)
	o.Rate, o.Lanes = 20, []int{0, 1_000, 10_000}
	f.Func("rate", "enqueues a second (default 20/s)", perSecond(&o.Rate))
	f.Func("lanes", "blocked lanes (default 0,1000,10000)", func(list string) error {
		o.Lanes = nil
		for _, text := range strings.Split(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > 1_000_000 {
				return errors.New("want numbers up to 1000000, such as 0,10000")
			}
			o.Lanes = append(o.Lanes, n)
		}
		return nil
	})
}

func claimFlags(f *flag.FlagSet, o *Options) {
	o.Pending = []int{1_000, 100_000, 1_000_000}
	f.Func("pending", "sizes of the queue (default 1000,100000,1000000)", func(list string) error {
		o.Pending = nil
		for _, text := range strings.Split(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 100 {
				return errors.New("want numbers of at least 100, such as 1000,100000")
			}
			o.Pending = append(o.Pending, n)
		}
		return nil
	})
}

func latencyFlags(f *flag.FlagSet, o *Options) {
	counted(400)(f, o)
	o.Rate = 20
	f.Func("rate", "actions a second (default 20/s)", perSecond(&o.Rate))
	f.BoolVar(&o.KillListener, "kill-listener", false, "cut the listening connections again and again")
	rivalFlag(f, o)
}

func enqueueFlags(f *flag.FlagSet, o *Options) {
	counted(20_000)(f, o)
	f.IntVar(&o.Writers, "writers", 64, "callers at the same time")
	f.String("notify", "on,off", "both are always measured, in turn")
}

func idleFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Handlers, "handlers", 50, "that the conductor serves")
	f.DurationVar(&o.For, "for", time.Minute, "how long to count")
}

// perSecond reads a rate such as 800/s.
func perSecond(to *float64) func(string) error {
	return func(text string) (err error) {
		if *to, err = strconv.ParseFloat(strings.TrimSuffix(text, "/s"), 64); err != nil || *to < 1 {
			return errors.New("want a number a second, such as 20/s")
		}
		return nil
	}
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
	switch args[0] {
	case aggregateName:
		return aggregateBuild(ctx, args[1:])
	case printName:
		return printLines(args[1:])
	case listenName:
		return listen(args[1:])
	case serveClustersName:
		return serveClusters(args[1:])
	case serveFleetName:
		return serveFleet(args[1:])
	case superviseName:
		return command.Supervise()
	}
	b, ok := benches()[args[0]]
	if !ok {
		return fmt.Errorf("bench %q not found; `go run . help` lists them", args[0])
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
	if o.Driver != "postgres" && (o.Rival != "" || o.KillListener || o.HoldXmin > 0 || args[0] == "idle") {
		return errors.New("this needs --driver postgres")
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
		fmt.Fprintf(w, "  %-14s %s\n", name, all[name].about)
	}
}
