// Package servertest runs a small Waybill for tests of the server, the pages and the commands: a real log, deployer and
// conductor, and a handler whose attempts end as the test decides.
package servertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

// Definition is a pipeline with a build and two stages of hosts.
const Definition = `pipeline: greeter
service: {manager: process, exec: [./greeter, --listen, "127.0.0.1:${port}"]}
test: [{http: "http://127.0.0.1:${port}/ready"}]
retry: {backoff: {retries: 1, initial: 1ms}}
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {any: dist/greeter.tar.gz}
- name: beta
  hosts: [{url: "local://oak", vars: {port: 7101}}]
- name: prod
  groups:
  - {name: east, hosts: [{url: "local://elm", vars: {port: 7102}}, {url: "local://fir", vars: {port: 7103}}]}
  - {name: west, hosts: [{url: "local://yew", vars: {port: 7104}}]}
`

// World is a running Waybill.
type World struct {
	Ledger  *ledger.Ledger
	Blobs   blob.Store
	Service *service.Service
	Script  *Script
	Builds  string // folder of the builds' results
}

// Start runs a world on a fresh embedded log until the test ends.
func Start(t testing.TB) *World {
	t.Helper()
	dir := t.TempDir()
	driver := sqlitetest.Open(t, filepath.Join(dir, "waybill.db"))
	return On(t, ledger.New(driver, ledger.Options{}), dir)
}

// StartShared runs a world on a fresh database of PostgreSQL until the test ends.
func StartShared(t testing.TB) *World {
	t.Helper()
	driver, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(driver, ledger.Options{})
	if err := l.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return On(t, l, t.TempDir())
}

// BuildWaiter returns what waits for changes of builds.
func BuildWaiter(l *ledger.Ledger) func() func(context.Context, time.Time) error {
	return func() func(context.Context, time.Time) error {
		waiter := l.NewWaiter()
		return func(ctx context.Context, until time.Time) error { return waiter.Wait(ctx, store.TopicBuild, until) }
	}
}

// On runs a world on a ledger, which is closed when the test ends.
func On(t testing.TB, l *ledger.Ledger, dir string) *World {
	t.Helper()
	blobs, err := blob.Open(t.Context(), filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Ledger: l, Blobs: blobs, Script: newScript(l), Builds: filepath.Join(dir, "builds")}
	w.Service = service.New(l, blobs, service.Options{Builds: buildview.NewFolders(w.Builds, buildview.OriginOf(l))})
	handlers := map[string]conductor.Handler{"step": w.Script, "build": w.Script, "gate": w.Script}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var roles sync.WaitGroup
	run := func(role func(context.Context) error) {
		roles.Go(func() {
			if err := role(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	run(deployer.New(l.NewWaiter(), deployer.Config{Instance: queue.Instance{Name: "deployer"}, Blobs: blobs}).Run)
	run(conductor.New(l.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "conductor"}, Handlers: handlers}).Run)
	t.Cleanup(func() {
		stop()
		roles.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Apply applies a waybill.yaml.
func (w *World) Apply(t testing.TB, source string) {
	t.Helper()
	proposal, err := service.ReadProposal("waybill.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	proposal.By = "ana"
	if _, err := w.Service.Apply(t.Context(), proposal); err != nil {
		t.Fatal(err)
	}
}

// SnapshotKey returns the key that an upload of a revision's files could have.
func SnapshotKey(label string) string {
	sum := sha256.Sum256([]byte(label))
	return "upload/20990101T00/" + action.ID{}.String() + "/" + hex.EncodeToString(sum[:])
}

// Ship registers a revision with its forward deployment.
func (w *World) Ship(t testing.TB, name, label string) service.Ref {
	t.Helper()
	done, err := w.Service.Register(t.Context(), pipeline.RegisteredRevision{
		Pipeline: name, Label: label, Branch: "topic/greet", Subject: "Greet the world, part " + label, By: "ana", Snapshot: SnapshotKey(label),
	}, true, "")
	if err != nil {
		t.Fatal(err)
	}
	return service.Ref{Pipeline: name, Number: done.Deployment.Number}
}

// Until waits for the deployment to satisfy a condition, for at most five minutes.
func (w *World) Until(t testing.TB, ref service.Ref, what string, holds func(service.DeploymentView) bool) service.DeploymentView {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	waiter := w.Service.Waiter()
	for {
		view, err := w.Service.Deployment(ctx, ref)
		if err != nil {
			t.Fatalf("wait until %s %s: %v", ref, what, err)
		}
		if holds(view) {
			return view
		}
		if err := waiter.Wait(ctx, time.Second, store.TopicEntry, store.TopicAction); err != nil {
			t.Fatalf("wait until %s %s: %v; it is %s with %d of %d facts", ref, what, err, view.Status, view.State.Done, view.State.Total)
		}
	}
}

// Ended reports whether a deployment has ended, for Until.
func Ended(v service.DeploymentView) bool { return v.Status != pipeline.StatusActive }

// Script is a handler under the control of a test: attempts at a step wait while the step is held, and end with the outcome that
// the test sets.
type Script struct {
	ledger *ledger.Ledger

	mu      sync.Mutex
	ends    map[string]action.Outcome
	held    map[string]bool
	changed chan struct{} // closed and replaced by each change
}

func newScript(l *ledger.Ledger) *Script {
	return &Script{ledger: l, ends: map[string]action.Outcome{}, held: map[string]bool{}, changed: make(chan struct{})}
}

// End makes attempts at a step, such as "prod/east/elm host-deployed", end with an outcome. The zero outcome is success.
func (s *Script) End(step string, outcome action.Outcome) {
	s.change(func() { s.ends[step] = outcome })
}

// Hold keeps attempts at a step running until Release. One that is canceled in the meantime ends with the error of
// its outcome.
func (s *Script) Hold(step string) { s.change(func() { s.held[step] = true }) }

// Release lets attempts at a step end.
func (s *Script) Release(step string) { s.change(func() { delete(s.held, step) }) }

func (s *Script) change(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Script) look(step string) (outcome action.Outcome, held bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[step], s.held[step], s.changed
}

// Do waits while the step is held and returns the outcome that the test set. A successful build registers its artifact. A build without
// a deployment runs until it is canceled.
func (s *Script) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	if a.Action.Step == nil {
		<-ctx.Done()
		return action.Outcome{Kind: action.Stopped, Error: "canceled"}
	}
	_, target, _ := strings.Cut(a.Action.Step.Target, "/")
	for {
		outcome, held, changed := s.look(target + " " + a.Action.Step.Event)
		if !held {
			return s.finish(ctx, a, outcome)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return action.Outcome{Kind: action.Stopped, Error: outcome.Error}
		}
	}
}

func (s *Script) finish(ctx context.Context, a conductor.Attempt, outcome action.Outcome) action.Outcome {
	if outcome.Kind != 0 {
		return outcome
	}
	if a.Action.Step.Event == pipeline.BuildCompleted {
		artifact := pipeline.RevisionArtifact{
			Label: "any", Name: "greeter.tar.gz", Digest: strings.Repeat("9b1e07d2", 8), Size: 4_100_000, Blob: "sha256/9b1e07d2",
		}
		if err := s.ledger.RegisterArtifact(ctx, a.Action.Step.Pipeline, a.Action.Step.Revision, artifact); err != nil {
			return action.Outcome{Kind: action.Fatal, Error: err.Error()}
		}
	}
	return action.Outcome{Kind: action.Done}
}
