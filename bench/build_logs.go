package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// buildLogsFlags declares the flags of build-logs.
func buildLogsFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.N, "n", 1_000_000, "lines of 100 bytes")
}

// buildLogs measures how fast the lines of a build reach the database, committed: from a child process over the worker's disk and
// the worker API; then the same log of the ended build, into an empty database and once more. The rival on PostgreSQL is COPY
// of the same lines, one row each, into a table without keys: with the ids and the time of a line, and with its text
// alone. Everything but the child and the server is in this process.
func buildLogs(ctx context.Context, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lines := filepath.Join(dir, "lines")
	if err := errors.Join(writeLines(lines, o.N), writeRows(lines+".rows", lines)); err != nil {
		return nil, err
	}
	named := func(subject string) Result {
		return Result{Bench: "build-logs", Unit: "lines/s", Driver: o.Driver, Subject: subject}
	}
	whole, first, second := named("child to database"), named("ended build, first time"), named("ended build, once more")
	copied, bare := named("COPY of rows"), named("COPY of the text alone")
	for n := range o.Rounds {
		rounds, err := logRounds(ctx, o, filepath.Join(dir, fmt.Sprint(n)), lines)
		if err != nil {
			return nil, err
		}
		whole.Rounds, first.Rounds, second.Rounds = append(whole.Rounds, rounds[0]), append(first.Rounds,
			rounds[1]), append(second.Rounds, rounds[2])
		if o.Driver != "postgres" {
			continue
		}
		for rival, table := range map[*Result][2]string{&copied: {wholeRow, lines + ".rows"}, &bare: {textAlone, lines}} {
			round, err := copyLines(ctx, o, table[0], table[1])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rival.Subject, err)
			}
			rival.Rounds = append(rival.Rounds, round)
		}
	}
	whole.summarize()
	first.summarize()
	second.summarize()
	second.against(first, 5)
	if o.Driver != "postgres" {
		return []Result{whole, first, second}, nil
	}
	copied.summarize()
	bare.summarize()
	whole.against(copied, 0.5)
	bare.against(copied, 0)
	return []Result{whole, first, second, copied, bare}, nil
}

// writeLines writes lines as a build might print them, about a fifth of each random.
func writeLines(path string, lines int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out, random := bufio.NewWriterSize(f, 1<<16), rand.New(rand.NewPCG(1, 2))
	for i := range lines {
		if _, err = fmt.Fprintln(out, printedLine(random, i)); err != nil {
			break
		}
	}
	return errors.Join(err, out.Flush(), f.Close())
}

// printedLine returns a line of 99 bytes as programs print them, with words and numbers.
func printedLine(random *rand.Rand, i int) string {
	words := [...]string{"compile", "link", "test", "ok", "cached", "vet", "fetch", "unpack", "shop/cart", "shop/order",
		"shop/mail", "internal/queue", "cmd/shop"}
	line := fmt.Sprintf("%-6s %-14s object=%016x size=%-8d took=%dms", words[random.IntN(7)], words[7+random.IntN(6)],
		random.Uint64(), random.IntN(1e7), random.IntN(1e4))
	return fmt.Sprintf("%-91.91s %07d", line, i)
}

// logRounds runs a build that prints the lines while it is copied, and copies it twice again: into an empty database, and into the same.
func logRounds(ctx context.Context, o Options, dir, lines string) (rounds [3]Round, err error) {
	w, err := newLoggingBuild(dir, lines)
	if err != nil {
		return rounds, err
	}
	defer w.close()
	for n := range rounds {
		if n < 2 {
			s, err := openStore(ctx, o)
			if err != nil {
				return rounds, err
			}
			defer s.remove()
			w.builds = s.Builds
			made, err := w.builds.Create(ctx, builds.Build{Project: "bench", CreatedBy: "bench"})
			if err != nil {
				return rounds, err
			}
			w.id = made.ID
		}
		if rounds[n], err = w.copy(ctx, o.N, n); err != nil {
			return rounds, err
		}
	}
	return rounds, nil
}

// loggingBuild is a build of one step, which prints a file, and its worker API.
type loggingBuild struct {
	dir     string
	plan    *build.Plan
	results *results.Store
	server  *api.Server
	addr    string
	close   func()

	builds *builds.Builds
	id     builds.ID
}

func newLoggingBuild(dir, lines string) (*loggingBuild, error) {
	store, err := results.Create(filepath.Join(dir, "results"), 1<<40)
	if err != nil {
		return nil, err
	}
	plan := &build.Plan{Stages: []build.PlanStage{{Name: "test", Steps: []int{1}}}, Steps: []build.PlanStep{{ID: 1,
		Stage: "test", Name: "unit",
		Spec: build.Spec{Argv: []string{"cat", lines}}}}}
	if err := store.Describe(results.Build{ID: "1", Plan: plan}); err != nil {
		return nil, err
	}
	server, err := api.New(api.Config{Plan: plan, Store: store, Token: benchToken, Log: slog.New(slog.DiscardHandler),
		Metrics: obs.NewRegistry()})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	return &loggingBuild{dir: dir, plan: plan, results: store, server: server, addr: listener.Addr().String(), close: func() {
		cancel()
		<-served
		_ = store.Close()
	}}, nil
}

// copy follows the build until everything is stored. The first time it runs the build beside that; the third time everything is
// stored already, and it is sent again all the same.
func (l *loggingBuild) copy(ctx context.Context, lines, n int) (Round, error) {
	folder, err := blob.OpenDir(filepath.Join(l.dir, "blobs"))
	if err != nil {
		return Round{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	store := &observed{Builds: l.builds, known: make(chan struct{}), forgets: n == 2}
	a := aggregator.New(aggregator.Config{Workers: l, Store: store, Blobs: folder,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	ended := make(chan error, 2)
	start, cpu := time.Now(), ownCPU()
	go func() { ended <- a.Run(ctx) }()
	if n == 0 {
		go l.run(ctx, ended)
	}
	select {
	case err := <-ended:
		return Round{}, errors.Join(err, errors.New("the copy ended early"))
	case <-store.known:
	}
	round := measured(lines, start)
	round.ClientCPU = float64((ownCPU() - cpu).Microseconds()) / float64(lines)
	if want := int64(lines); n == 2 && store.entries != 0 || n < 2 && store.entries < want { // and the log of the build itself
		return Round{}, fmt.Errorf("%d entries were stored, of %d", store.entries, want)
	}
	cancel()
	return round, <-ended
}

// Workers lists the worker of the build.
func (l *loggingBuild) Workers(context.Context) ([]aggregator.Worker, error) {
	return []aggregator.Worker{{Build: l.id, Address: "http://" + l.addr, Token: benchToken}}, nil
}

// run runs the build. It reports a failure alone.
func (l *loggingBuild) run(ctx context.Context, failed chan<- error) {
	runner, err := supervised()
	err = errors.Join(err, os.MkdirAll(filepath.Join(l.dir, "source"), 0o755), os.MkdirAll(filepath.Join(l.dir, "scratch"), 0o755))
	defer runner.Close()
	if err == nil {
		w := worker.New(worker.Config{ID: "1", Plan: l.plan, Workspace: worker.Folder{Root: filepath.Join(l.dir, "source")}, Runner: runner,
			Store: l.results, Observer: unobserved{}, Scratch: filepath.Join(l.dir, "scratch")})
		var status build.Status
		if status, err = w.Run(ctx); err == nil && status != build.Completed {
			err = fmt.Errorf("the build is %s", status)
		}
	}
	if err != nil {
		failed <- err
	}
}

// unobserved is an observer of a build that shows nothing.
type unobserved struct{}

func (unobserved) Status(int, build.Update)     {}
func (unobserved) Output(int, []build.Entry)    {}
func (unobserved) Artifact(int, build.Artifact) {}
func (unobserved) Tests(int, []build.TestFile)  {}

// Remark does nothing.
func (unobserved) Remark(string) {}

// observed is a store that counts, reports the end, and may forget what it has.
type observed struct {
	*builds.Builds
	forgets bool
	entries int64
	known   chan struct{}
	once    sync.Once
	asked   bool
}

func (o *observed) Progress(ctx context.Context, id builds.ID) (builds.Progress, error) {
	if o.forgets && !o.asked {
		o.asked = true
		return builds.Progress{}, nil
	}
	return o.Builds.Progress(ctx, id)
}

func (o *observed) Ingest(ctx context.Context, id builds.ID, b builds.Batch) (builds.Ingested, error) {
	done, err := o.Builds.Ingest(ctx, id, b)
	o.entries += done.Entries
	return done, err
}

func (o *observed) Acknowledged(ctx context.Context, id builds.ID) error {
	err := o.Builds.Acknowledged(ctx, id)
	o.once.Do(func() { close(o.known) })
	return err
}

// copyLines measures a rival: COPY of rows that were written to a file before, into a table without keys.
func copyLines(ctx context.Context, o Options, columns, rows string) (Round, error) {
	url, drop, err := emptyDatabase(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer drop()
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return Round{}, err
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "CREATE TABLE line ("+columns+")"); err != nil {
		return Round{}, err
	}
	f, err := os.Open(rows)
	if err != nil {
		return Round{}, err
	}
	defer f.Close()
	start := time.Now()
	done, err := db.PgConn().CopyFrom(ctx, f, "COPY line FROM STDIN")
	if err != nil {
		return Round{}, err
	}
	if done.RowsAffected() != int64(o.N) {
		return Round{}, fmt.Errorf("%d rows were copied, of %d", done.RowsAffected(), o.N)
	}
	return measured(o.N, start), nil
}

// Columns of the rivals' tables.
const (
	textAlone = "text text NOT NULL"
	wholeRow  = "build_id bigint NOT NULL, step_id int NOT NULL, log_id bigint NOT NULL, at timestamptz NOT NULL, text text NOT NULL"
)

// writeRows writes the lines as rows of wholeRow.
func writeRows(path, lines string) error {
	in, err := os.Open(lines)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out, scanner, now := bufio.NewWriterSize(f, 1<<16), bufio.NewScanner(in), time.Now()
	for id := 1; scanner.Scan(); id++ {
		at := now.Add(time.Duration(id) * time.Microsecond).UTC().Format("2006-01-02T15:04:05.000000Z")
		if _, err := fmt.Fprintf(out, "7\t1\t%d\t%s\t%s\n", id, at, scanner.Bytes()); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(scanner.Err(), out.Flush(), f.Close())
}
