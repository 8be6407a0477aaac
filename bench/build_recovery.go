package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/store"
)

// aggregateName is the word by which this program becomes an aggregator of one build that can be killed:
// bench aggregate-build DRIVER DATABASE BLOBS ADDRESS BUILD.
const aggregateName = "aggregate-build"

// recovery measures how long it takes until a build that prints is stored whole, without a fault and with an
// aggregator that is killed by kill -9 when half of the lines are stored. Another is started at once.
func recovery(ctx context.Context, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lines := filepath.Join(dir, "lines")
	if err := writeLines(lines, o.N); err != nil {
		return nil, err
	}
	whole, killed := Result{Bench: "build-recovery", Unit: "s", Driver: o.Driver,
		Subject: "uninterrupted"}, Result{Bench: "build-recovery", Unit: "s", Driver: o.Driver, Subject: "killed half-way"}
	if err := measureInTurn(o.Rounds, dir, map[*Result]func(string) (Round, error){
		&whole:  func(dir string) (Round, error) { return recoveryRound(ctx, o, dir, lines, false) },
		&killed: func(dir string) (Round, error) { return recoveryRound(ctx, o, dir, lines, true) },
	}); err != nil {
		return nil, err
	}
	for _, r := range []*Result{&whole, &killed} {
		r.summarizeBy(func(r Round) float64 { return r.Seconds })
	}
	killed.Ratio, killed.Rival = killed.Median/whole.Median, whole.Subject
	killed.judge("at most 1.1 × "+whole.Subject, killed.Ratio <= 1.1)
	resumed := killed
	resumed.Subject, resumed.Unit, resumed.Pass, resumed.Rival, resumed.Ratio = "from the kill until more is stored", "ms", nil, "", 0
	resumed.summarizeBy(func(r Round) float64 { return r.P50 })
	return append([]Result{whole, killed, resumed}, recoveryCPU(whole, killed)...), nil
}

// recoveryCPU returns the CPU times of the same rounds, which other work on the machine disturbs less.
func recoveryCPU(whole, killed Result) []Result {
	all := []Result{whole, killed}
	for i := range all {
		all[i].Subject, all[i].Unit, all[i].Pass, all[i].Rival, all[i].Ratio = all[i].Subject+", CPU", "s", nil, "", 0
		all[i].summarizeBy(func(r Round) float64 { return r.ClientCPU * float64(r.Ops) / 1e6 })
	}
	all[1].Ratio, all[1].Rival = all[1].Median/all[0].Median, all[0].Subject
	return all
}

// familyCPU returns the CPU time of this process and of its children that have ended.
func familyCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) != nil {
		return 0
	}
	return ownCPU() + time.Duration(used.Utime.Nano()+used.Stime.Nano())
}

// recoveryRound runs one build, and checks that each line was stored once.
func recoveryRound(ctx context.Context, o Options, dir, lines string, kill bool) (round Round, err error) {
	w, err := newLoggingBuild(dir, lines)
	if err != nil {
		return round, err
	}
	defer w.close()
	database := filepath.Join(dir, "waybill.db")
	if o.Driver == "postgres" {
		url, drop, err := emptyDatabase(ctx, o)
		if err != nil {
			return round, err
		}
		defer drop()
		database = url
	}
	stored, db, err := openBuilds(ctx, o.Driver, database)
	if err != nil {
		return round, err
	}
	defer db.Close()
	made, err := stored.Create(ctx, builds.Build{Project: "bench", CreatedBy: "bench"})
	if err != nil {
		return round, err
	}
	failed := make(chan error, 1)
	start, cpu := time.Now(), familyCPU()
	go w.run(ctx, failed)
	arguments := []string{aggregateName, o.Driver, database, filepath.Join(dir, "blobs"), "http://" + w.addr, fmt.Sprint(made.ID)}
	child, err := startSelf(arguments)
	resumed := time.Duration(0)
	if err == nil { // both are watched, since that takes time too
		_, err = storedAfter(ctx, stored, made.ID, int64(o.N/2)-1)
	}
	if err == nil && kill {
		child, resumed, err = replaced(ctx, stored, made.ID, child, arguments)
	}
	if err == nil {
		err = child.Wait()
	}
	round = measured(o.N, start)
	round.P50 = milliseconds(resumed)
	round.ClientCPU = float64((familyCPU() - cpu).Microseconds()) / float64(o.N)
	select {
	case broken := <-failed:
		err = errors.Join(err, broken)
	default:
	}
	if err != nil {
		return round, err
	}
	steps, err := stored.Steps(ctx, made.ID)
	if err == nil && (len(steps) != 2 || steps[1].LogLines != int64(o.N)) {
		err = fmt.Errorf("the steps are %+v, want %d lines", steps, o.N)
	}
	return round, err
}

// replaced kills an aggregator and starts another. It returns that, and the time until it has stored something.
func replaced(ctx context.Context, stored *builds.Builds, id builds.ID, old *exec.Cmd,
	arguments []string) (*exec.Cmd, time.Duration, error) {
	killed, err := time.Now(), old.Process.Signal(syscall.SIGKILL)
	if err != nil {
		return old, 0, err
	}
	_ = old.Wait() // it was killed
	p, err := stored.Progress(ctx, id)
	if err != nil {
		return old, 0, err
	}
	child, err := startSelf(arguments)
	if err != nil {
		return child, 0, err
	}
	at, err := storedAfter(ctx, stored, id, p.Logs[1].ID)
	return child, at.Sub(killed), err
}

// startSelf starts this program once more.
func startSelf(arguments []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, arguments...) //nolint:noctx // it ends with its build
	c.Stdout, c.Stderr, c.SysProcAttr = os.Stderr, os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c, c.Start()
}

// storedAfter waits until lines behind one are stored.
func storedAfter(ctx context.Context, stored *builds.Builds, id builds.ID, line int64) (time.Time, error) {
	for {
		p, err := stored.Progress(ctx, id)
		if err != nil || p.Logs[1].ID > line {
			return time.Now(), err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// aggregateBuild copies a build, and returns when it is stored and its worker acknowledged.
func aggregateBuild(ctx context.Context, arguments []string) error {
	if len(arguments) != 5 {
		return fmt.Errorf("usage: %s DRIVER DATABASE BLOBS ADDRESS BUILD", aggregateName)
	}
	id, err := strconv.ParseInt(arguments[4], 10, 64)
	if err != nil {
		return err
	}
	stored, db, err := openBuilds(ctx, arguments[0], arguments[1])
	if err != nil {
		return err
	}
	defer db.Close()
	blobs, err := blob.OpenDir(arguments[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := &observed{Builds: stored, known: make(chan struct{})}
	go func() {
		<-watched.known
		cancel()
	}()
	worker := idleWorkers{{Build: builds.ID(id), Address: arguments[3], Token: benchToken}}
	return aggregator.New(aggregator.Config{Workers: worker, Store: watched, Blobs: blobs,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}).Run(ctx)
}

// openBuilds opens the builds of a database.
func openBuilds(ctx context.Context, driver, database string) (*builds.Builds, *store.DB, error) {
	if strings.HasPrefix(driver, "postgres") {
		d, err := postgres.Open(ctx, database, postgres.Options{})
		if err != nil {
			return nil, nil, err
		}
		db := store.New(d)
		return builds.New(db, d, builds.Options{}), db, nil
	}
	d, err := sqlite.Open(ctx, database)
	if err != nil {
		return nil, nil, err
	}
	db := store.New(d)
	return builds.New(db, d, builds.Options{}), db, nil
}
