// Package chaos breaks what Waybill stands on while it works, and judges the
// log afterwards. Processes are those of the real program, the database is a
// real PostgreSQL (or the embedded log), and what actions do is seen by a target
// that counts. Whatever was broken, one judge reads the whole log: nothing is
// lost, nothing ends twice, no history has a gap, no more attempts are spent than
// the policy allows, what may happen once has happened once at most, every end
// has each of its callbacks once, and limits were kept.
package chaos

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/postgres"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
)

// Build makes the program of the module at root and returns its path in folder.
func Build(ctx context.Context, root, folder string) (string, error) {
	binary := filepath.Join(folder, "waybill")
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/waybill")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build waybill: %w\n%s", err, out)
	}
	return binary, nil
}

// Settings say what a world is made of.
type Settings struct {
	Binary string // the program
	Folder string // an empty one, for the home and the configuration
	Direct string // address of an empty database of PostgreSQL; "": the embedded log, on which one process runs roles
	Store  string // how the processes reach that database; default: Direct
	Listen string // ledger.listenUrl of the processes; default: none
	Blob   string // blob.url of the processes; default: in the home

	Heartbeat time.Duration // ledger.heartbeat of the processes, whose leases are three of it; default: theirs

	Environment []string // of the processes, besides this one's
}

// World is a Waybill under fire: its configuration, what its actions reach, and a ledger of the watcher's own.
type World struct {
	Settings
	Target *Target
	Ledger *ledger.Ledger // always direct; on the embedded log, beside the process

	config catalog.Config

	mu      sync.Mutex
	ordered map[action.ID]action.Action
	began   time.Time
}

// Open makes the world. Nothing runs in it yet.
func Open(ctx context.Context, s Settings) (*World, error) {
	if s.Store == "" {
		s.Store = s.Direct
	}
	w := &World{Settings: s, ordered: map[action.ID]action.Action{}, began: time.Now()}
	if err := os.MkdirAll(w.home(), 0o700); err != nil {
		return nil, err
	}
	var err error
	if w.Target, err = newTarget(ctx); err != nil {
		return nil, err
	}
	source := w.source()
	if err := os.WriteFile(w.file(), []byte(source), 0o600); err != nil {
		return nil, err
	}
	if w.config, err = catalog.Read(w.file(), []byte(source)); err != nil {
		return nil, err
	}
	driver, err := w.driver(ctx)
	if err != nil {
		return nil, err
	}
	w.Ledger = ledger.New(driver)
	blobs, err := blob.OpenDir(filepath.Join(w.home(), "blobs"))
	if err != nil {
		return nil, errors.Join(err, w.Ledger.Close())
	}
	w.Ledger.Follows(callback.Planner{Book: func() callback.Book { return &w.config }, Blobs: blobs, Jobs: w.Ledger}) // of what the watcher ends
	return w, nil
}

func (w *World) driver(ctx context.Context) (ledger.Driver, error) {
	if w.Direct != "" {
		return postgres.Open(ctx, w.Direct)
	}
	return sqlite.Open(ctx, filepath.Join(w.home(), "waybill.db"))
}

func (w *World) home() string { return filepath.Join(w.Folder, "home") }

func (w *World) file() string { return filepath.Join(w.Folder, "server.yaml") }

// Close ends the watcher and the target; processes are their callers'.
func (w *World) Close() error { return errors.Join(w.Ledger.Close(), w.Target.Close()) }

// The handlers of a world.
const (
	Effect  = "effect"  // a request to the target, at least once
	Once    = "once"    // the same, at most once
	Nothing = "nothing" // noop: sleeps as long as its parameters say
	Suicide = "suicide" // a command that kills the process that runs it
	Gentle  = "gentle"  // as Effect, in a lane with limits
)

// Parcel is a process of a world: Nothing, whose end calls back Once, and when it is a success Effect for each feature.
const Parcel = "parcel"

// The limits of the lane of Gentle.
const (
	GentleRate   = 40 // attempts a second
	GentleBurst  = 10
	GentleAtOnce = 3
)

// source is the world's server.yaml. Back-offs are short, so that tests are.
func (w *World) source() string {
	var b strings.Builder
	ledger := fmt.Sprintf("listenUrl: %q", w.Listen)
	if w.Heartbeat > 0 {
		ledger += fmt.Sprintf(", heartbeat: %s", w.Heartbeat)
	}
	fmt.Fprintf(&b, "ledger: {%s}\n", ledger)
	if w.Blob != "" {
		fmt.Fprintf(&b, "blob: {url: %q}\n", w.Blob)
	}
	fmt.Fprintf(&b, `server: {listen: "127.0.0.1:0"}
conductors: {default: {workers: 50, drain: 5s}}
defaults: {backoff: {retries: 3, initial: 100ms, max: 1s}, attemptTimeout: 20s}
handlers:
  effect: &request
    type: webhook
    request: {url: "http://%[1]s/{{ .id }}/{{ .attempt }}", allowNetworks: [127.0.0.0/8]}
  once:
    <<: *request
    delivery: at-most-once
  gentle:
    type: webhook
    request: {url: "http://%[1]s/{{ .id }}/{{ .attempt }}?gentle", allowNetworks: [127.0.0.0/8]}
    limits: {lane: {rate: %[2]d/s, burst: %[3]d, concurrency: %[4]d}}
  nothing: {type: noop}
  suicide:
    type: shell
    command: {argv: [sh, -c, "kill -9 $PPID; exec sleep 60"]}
    backoff: {retries: 1, initial: 100ms, max: 1s}
workflows:
  parcel:
    handler: nothing
    callbacks:
      part: {handler: effect, type: perFeature, when: [successful]}
      end: {handler: once, when: ["!invalid"]}
`, w.Target.Address(), GentleRate, GentleBurst, GentleAtOnce)
	return b.String()
}

// Order stores n actions of a handler, or jobs of Parcel, and remembers them for the judge. Each has its
// id before it is stored, so that an order whose answer was lost is made again and is still one.
// It goes on until ctx ends while the ledger is away.
func (w *World) Order(ctx context.Context, handler, parameters string, n int) error {
	made, err := w.prepare(handler, json.RawMessage(parameters))
	if err != nil {
		return err
	}
	var now time.Time
	err = patiently(ctx, func() error {
		now, err = w.Ledger.Now(ctx)
		return err
	})
	if err != nil {
		return err
	}
	batch := make([]action.Action, n)
	for i := range batch {
		var random [10]byte
		_, _ = rand.Read(random[:]) // never fails (crypto/rand)
		batch[i] = made
		batch[i].ID, batch[i].CreatedBy = action.NewID(now, random), "chaos"
	}
	err = patiently(ctx, func() error {
		_, err := w.Ledger.Enqueue(ctx, batch...)
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range batch {
		w.ordered[a.ID] = a
	}
	return nil
}

// prepare makes an action or a job. No job answers for another.
func (w *World) prepare(name string, parameters json.RawMessage) (action.Action, error) {
	process, ok := w.config.Workflows[name]
	if !ok {
		return w.config.Handlers[name].Prepare(parameters)
	}
	job, err := process.Prepare(parameters)
	job.CacheKey = action.ID{}
	return job, err
}

// patiently asks the ledger until it answers.
func patiently(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Orders are the actions that were ordered, by id.
func (w *World) Orders() map[action.ID]action.Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	orders := make(map[action.ID]action.Action, len(w.ordered))
	for id, a := range w.ordered {
		orders[id] = a
	}
	return orders
}

// Until looks until something holds, at most for the limit; an error of the look is only the last one's.
func Until(ctx context.Context, what string, limit time.Duration, holds func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s: %s", limit, what))
	defer cancel()
	for {
		ok, err := holds(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Ended waits until every order has ended.
func (w *World) Ended(ctx context.Context, limit time.Duration) error {
	var left []ledger.ActionState
	err := Until(ctx, "every action ends", limit, func(ctx context.Context) (ok bool, err error) {
		left, err = w.Ledger.Actions(ctx, ledger.ActionQuery{LiveOnly: true, Limit: 1}) // the newest, which ends last: cheap
		return len(left) == 0, err
	})
	if err != nil && len(left) > 0 {
		a := left[0]
		err = fmt.Errorf("%w; live is %s %s %s attempt %d, run at %s: %s", err, a.Name, a.ID, a.Thread.Status, a.Thread.Attempt, a.Thread.RunAt, a.Error)
	}
	return err
}
