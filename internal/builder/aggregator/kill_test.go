package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/aggregator"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/childtest"
)

// doomed names the environment variable that makes this binary an aggregator which kills itself.
const doomed = "WAYBILL_TEST_DOOMED_AGGREGATOR"

func TestMain(m *testing.M) {
	if os.Getenv(doomed) != "" {
		if err := aggregateAndDie(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// aggregateAndDie copies a build until it kills itself, or everything is stored.
func aggregateAndDie(ctx context.Context) error {
	given := strings.Fields(os.Getenv(doomed)) // seed, database, blobs, address, build
	seed, err := strconv.ParseUint(given[0], 10, 64)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(given[4], 10, 64)
	if err != nil {
		return err
	}
	b, _, err := openBuilds(ctx, given[1])
	if err != nil {
		return err
	}
	folder, err := blob.OpenDir(given[2])
	if err != nil {
		return err
	}
	workers := &list{}
	workers.set(aggregator.Worker{Build: builds.ID(id), Address: given[3], Token: token})
	random := rand.New(rand.NewPCG(seed, 0))
	store := &killing{Store: b, left: random.IntN(12), within: time.Duration(random.IntN(5_000)) * time.Microsecond,
		whole: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-store.whole
		cancel()
	}()
	return aggregator.New(aggregator.Config{Workers: workers, Store: store, Blobs: folder, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
}

// killing is a store that kills its process soon after some transaction has begun.
type killing struct {
	aggregator.Store
	left   int
	within time.Duration
	whole  chan struct{}
}

func (k *killing) Ingest(ctx context.Context, id builds.ID, b builds.Batch) (builds.Ingested, error) {
	if k.left--; k.left < 0 {
		time.AfterFunc(k.within, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	return k.Store.Ingest(ctx, id, b)
}

func (k *killing) Acknowledged(ctx context.Context, id builds.ID) error {
	defer close(k.whole)
	return k.Store.Acknowledged(ctx, id)
}

// TestAggregatorsAreKilledInTheMiddle: processes die by kill -9 at random moments of their transactions, and the next one continues.
func TestAggregatorsAreKilledInTheMiddle(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		random := seeded(t)
		w.build(60_000)
		killed := 0
		for range 25 {
			child := childtest.Command(t, os.Args[0])
			child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %s %d", doomed, random.Uint64(), url, w.folder, w.worker().Address, w.id))
			out, err := child.CombinedOutput()
			if err == nil {
				break // everything was stored before
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("a child ended by itself: %v\n%s", err, out)
			}
			killed++
		}
		t.Logf("%d aggregators were killed", killed)
		if killed == 0 {
			t.Error("no aggregator was killed in the middle")
		}
		w.aggregate()
		w.taken()
		w.check()
	})
}

// TestALongLogArrivesWhole: two steps print 80,000 lines together while aggregators come and go.
func TestALongLogArrivesWhole(t *testing.T) {
	forEach(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		random := seeded(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.build(40_000)
		}()
		for range 8 {
			reached := make(chan struct{})
			limit := &limited{Store: w.Builds, left: 1 + random.IntN(5), reached: reached, after: random.IntN(2) == 0}
			stop := w.aggregate(func(c *aggregator.Config) { c.Store = limit })
			select {
			case <-reached:
			case <-w.server.Acknowledged():
			}
			stop()
		}
		w.aggregate()
		<-ended
		w.taken()
		w.check()
		if steps, err := w.Steps(t.Context(), w.id); err != nil || steps[1].LogLines != 40_000 || steps[1].Status != build.Completed {
			t.Errorf("the steps are %+v, %v", steps, err)
		}
	})
}
