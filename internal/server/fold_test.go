package server

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// definedMeanwhile returns what a decider gets if a definition was applied between the last look at the log and the lock.
func definedMeanwhile(service string) (locked journal.Locked, reads *int) {
	reads = new(int)
	locked.Newer = []pipeline.Entry{{Pipeline: "greeter", Target: "greeter", Seq: 1, Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: 1}}
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

// Apply computes an edit before it takes the lock of the head, and finds it there when nothing has changed meanwhile.
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
			row := pipeline.Entry{Pipeline: "greeter", Target: "greeter", Seq: f.engine.Seq() + 1, Event: pipeline.HostJoined, Class: pipeline.Change}
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
