//go:build linux

// Package chaos breaks what Waybill depends on while it works, and judges the
// log afterwards. Processes are those of the real program, the database is a
// real PostgreSQL (or the embedded log), and what actions do is seen by a target
// that counts. Whatever was broken, one judge reads the whole log: nothing is
// lost, nothing ends twice, no history has a gap, no more attempts are spent than
// the policy allows, what may happen once has happened once at most, every end
// has each of its callbacks once, and limits were kept.
package chaos

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// RunTests runs the tests of m with the path of the program of the module at root in binary, and returns their exit status.
func RunTests(m interface{ Run() int }, root string, binary *string) int {
	folder, err := os.MkdirTemp("", "waybill-program-")
	if err == nil {
		defer os.RemoveAll(folder)
		*binary, err = childtest.Program(context.Background(), root, folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Moments returns a source of random moments. Without a seed it makes one. The seed is logged, so that a failure can be repeated.
func Moments(log func(format string, arguments ...any), seed uint64) *rand.Rand {
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	log("repeat with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Settings configure a world.
type Settings struct {
	Binary string // the program
	Folder string // an empty one, for the home and the configuration
	Direct string // address of an empty database of PostgreSQL; "": the embedded log, on which one process runs roles
	Store  string // how the processes reach that database; default: Direct
	Listen string // ledger.listenUrl of the processes; default: none
	Blob   string // blob.url of the processes; default: in the home

	Heartbeat time.Duration // ledger.heartbeat of the processes, whose leases are three of it; default: theirs

	Sections    string   // further sections of server.yaml
	Environment []string // environment of the processes, besides this one's
}

// World is a Waybill under fire: its configuration, what its actions reach, and a ledger of the
// watcher's own.
type World struct {
	Settings
	Target *Target
	Ledger *ledger.Ledger // always direct; on the embedded log, beside the process

	config config.Config

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
	if w.config, err = config.Read(w.file(), []byte(source)); err != nil {
		return nil, err
	}
	driver, err := w.driver(ctx)
	if err != nil {
		return nil, err
	}
	planner := &callback.Planner{Book: func() callback.Book { return &w.config }} // planner of the successors of ends that the watcher records
	w.Ledger = ledger.New(driver, ledger.Options{Successors: planner})
	blobs, err := blob.OpenDir(filepath.Join(w.home(), "blobs"))
	if err != nil {
		return nil, errors.Join(err, w.Ledger.Close())
	}
	planner.Blobs, planner.Jobs = blobs, w.Ledger
	return w, nil
}

func (w *World) driver(ctx context.Context) (ledger.Driver, error) {
	if w.Direct != "" {
		return postgres.Open(ctx, w.Direct, postgres.Options{})
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
	Arrived = "arrived" // as Effect, for an event: its parameter "event" is the id
)

// Events is the trigger of a world, which runs Arrived for every event, and EventKey a token for it.
const (
	Events   = "events"
	EventKey = "the-key-of-the-events"
)

// Parcel is a process of a world: Nothing, whose end calls back Once, and when it is a success
// Effect for each feature.
const Parcel = "parcel"

// The limits of the lane of Gentle.
const (
	GentleRate   = 40 // attempts a second
	GentleBurst  = 10
	GentleAtOnce = 3
)

// source returns the world's server.yaml. Back-offs are short, so that tests are.
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
  arrived:
    <<: *request
    parameters: {event: {type: string}}
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
triggers:
  events: {handler: arrived, parameters: {event: {path: $.id}}, keys: ["%[5]x"]}
`, w.Target.Address(), GentleRate, GentleBurst, GentleAtOnce, sha256.Sum256([]byte(EventKey)))
	b.WriteString(w.Sections)
	return b.String()
}
