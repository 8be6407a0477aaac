package service

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
)

// definedMeanwhile returns what a decider gets if a definition was applied between the last look at the log and the lock.
func definedMeanwhile(service string) (locked journal.Locked, reads *int) {
	reads = new(int)
	locked.Newer = []pipeline.Entry{{Pipeline: "greeter", Target: "greeter", Seq: 1, Event: pipeline.PipelineDefined,
		Class: pipeline.Change, Version: 1}}
	locked.Definition = func(version int) (journal.Version, error) {
		*reads++
		return journal.Version{Pipeline: "greeter", Version: version, Definition: pipeline.Definition{
			Pipeline: "greeter", Service: pipeline.Service{Name: service, Manager: "process"},
			Stages: []pipeline.Stage{{Name: "beta", Kind: pipeline.HostStage, Groups: []pipeline.Group{
				{Name: "all", Hosts: []pipeline.Host{{Name: "oak", URL: "local://oak"}}}}}},
		}}, nil
	}
	return locked, reads
}

func TestDecidersGetTheDefinitionsAppliedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFold("greeter")
	locked, reads := definedMeanwhile("web")
	for range 2 { // the database may repeat the transaction
		if err := f.applyLocked(t.Context(), locked); err != nil {
			t.Fatal(err)
		}
	}
	version, graph := f.engine.Current()
	if version != 1 || graph == nil || graph.Definition().Service.Name != "web" || f.engine.Seq() != 1 {
		t.Errorf("the engine is at %d with version %d, want 1 with version 1 of web", f.engine.Seq(), version)
	}
	if *reads != 1 {
		t.Errorf("the definition was read %d times, want once", *reads)
	}
}

func TestADefinitionThatDoesNotCompileIsCorrupt(t *testing.T) {
	t.Parallel()
	locked, _ := definedMeanwhile("web")
	locked.Definition = func(version int) (journal.Version, error) { return journal.Version{Version: version}, nil }
	err := newFold("greeter").applyLocked(t.Context(), locked)
	if !fault.Is(err, fault.Corrupt) || !strings.HasPrefix(err.Error(), "read the log of greeter: definition 1 of greeter does not compile") {
		t.Errorf("got %v (code %q)", err, fault.CodeOf(err))
	}
}

// Apply computes an edit before it takes the lock of the head, and finds it there when nothing has changed in the
// meantime.
func TestEditIsComputedOncePerState(t *testing.T) {
	t.Parallel()
	f := newFold("greeter")
	locked, _ := definedMeanwhile("web")
	if err := f.applyLocked(t.Context(), locked); err != nil {
		t.Fatal(err)
	}
	_, plan := f.engine.Current()
	head := journal.Head{Pipeline: "greeter", Version: 1, Newest: 1}
	computed := func() *pipeline.Entry { return &f.editTo(plan, head).Entries[0] }
	first := computed()
	if again := computed(); again != first {
		t.Error("the edit was computed twice")
	}
	for what, change := range map[string]func(){
		"another row": func() {
			row := pipeline.Entry{Pipeline: "greeter", Target: "greeter", Seq: f.engine.Seq() + 1, Event: pipeline.HostJoined,
				Class: pipeline.Change}
			if err := f.engine.Apply(row); err != nil {
				t.Fatal(err)
			}
		},
		"another revision":   func() { head.Newest++ },
		"another version":    func() { head.Version++ },
		"another definition": func() { plan, _ = pipeline.Compile(*plan.Definition()) },
	} {
		before := computed()
		change()
		if computed() == before {
			t.Errorf("%s: the edit was not computed again", what)
		}
	}
}

// TestRowsThatWereArchivedBeforeTheLockAreNotFolded: the bound is that of the locked head.
func TestRowsThatWereArchivedBeforeTheLockAreNotFolded(t *testing.T) {
	t.Parallel()
	locked, _ := definedMeanwhile("web")
	locked.Newer = append(locked.Newer, pipeline.Entry{Pipeline: "greeter", Target: "greeter", Seq: 9,
		Event: pipeline.DeploymentsArchived, Class: pipeline.Change})
	locked.Archived = 9
	f := newFold("greeter")
	if err := f.applyLocked(t.Context(), locked); err != nil || f.engine.Seq() != 9 {
		t.Errorf("a fold that has no row yet is at %d, want 9: %v", f.engine.Seq(), err)
	}
	f = newFold("greeter")
	first := locked
	first.Newer, first.Archived = locked.Newer[:1], 0
	if err := f.applyLocked(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := f.applyLocked(t.Context(), locked); !errors.Is(err, deployer.ErrArchived) || f.engine.Seq() != 1 {
		t.Errorf("a fold that lacks rows is at %d, want 1: %v", f.engine.Seq(), err)
	}
	locked.Archived = 7 // a row is missing above the bound
	if err := f.applyLocked(t.Context(), locked); err == nil || errors.Is(err, deployer.ErrArchived) {
		t.Errorf("a log that lacks a row: %v", err)
	}
}

// TestADecisionIsMadeOnceMoreWhenRowsWereArchived: once, since the log may change again under every decision.
func TestADecisionIsMadeOnceMoreWhenRowsWereArchived(t *testing.T) {
	t.Parallel()
	driver := sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db"))
	l := ledger.New(driver, ledger.Options{})
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, fails := range []int{0, 1, 2} {
		s, tries := New(l, nil, Options{}), 0
		err := s.decideOnFold(t.Context(), s.folds.foldOf("greeter"), func() error {
			if tries++; tries <= fails {
				return fmt.Errorf("read the log of greeter: %w", deployer.ErrArchived)
			}
			return nil
		})
		if want := min(fails, 1) + 1; tries != want || errors.Is(err, deployer.ErrArchived) != (fails == 2) {
			t.Errorf("rows were archived %d times: %d tries, want %d; %v", fails, tries, want, err)
		}
	}
}
