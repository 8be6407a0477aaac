package step

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// oven is the log of greeter#1, which bakes in beta for 30 minutes, a round every ten.
type oven struct {
	t          *testing.T
	handler    *Handler
	definition pipeline.Definition
	entries    []pipeline.Entry
	away       error // error of EntriesUnder
}

func newOven(t *testing.T) *oven {
	t.Helper()
	bake := &pipeline.Bake{For: action.Duration(30 * time.Minute), Every: action.Duration(10 * time.Minute)}
	o := &oven{t: t, definition: pipeline.Definition{Pipeline: "greeter", Service: pipeline.Service{
		Name: "greeter"}, Stages: []pipeline.Stage{{Name: "beta",
		Kind: pipeline.HostStage, Bake: bake, Groups: []pipeline.Group{{Name: "all", Waves: &pipeline.Waves{Bake: bake},
			Hosts: []pipeline.Host{{Name: "oak", URL: "local://oak"}, {Name: "elm", URL: "local://elm"}}}}}}}}
	o.restart()
	return o
}

// restart makes a handler as another process has it.
func (o *oven) restart() {
	o.t.Helper()
	o.handler = New(Config{Hosts: Hosts{Home: o.t.TempDir()}, Ledger: o, LedgerID: "ledger-1"})
}

func (o *oven) Definition(context.Context, string, int) (pipeline.Definition, error) {
	return o.definition, nil
}

func (o *oven) Revision(context.Context, string, string, int64) (pipeline.RegisteredRevision, error) {
	return pipeline.RegisteredRevision{Label: "r1",
		Artifacts: []pipeline.RevisionArtifact{{Label: "any", Digest: strings.Repeat("0", 64)}}}, nil
}

func (o *oven) Era(context.Context) (int64, error) { return 0, nil }

func (o *oven) EntriesUnder(_ context.Context, _ string, _ int64, target string) (found []pipeline.Entry, err error) {
	for _, e := range o.entries {
		if e.Target == target || strings.HasPrefix(e.Target, target+"/") {
			found = append(found, e)
		}
	}
	return found, o.away
}

func (o *oven) Remark(_ context.Context, _ string, e pipeline.Entry) error {
	o.entries = append(o.entries, e)
	return nil
}

func (o *oven) Get(context.Context, string) (io.ReadCloser, int64, error) {
	return nil, 0, fault.New(fault.NotFound, "no blobs")
}

// round makes one attempt at the bake of a target.
func (o *oven) round(target, event string) action.Outcome {
	return o.roundIn(o.t.Context(), target, event)
}

func (o *oven) roundIn(ctx context.Context, target, event string) action.Outcome {
	return o.handler.Do(ctx, conductor.Attempt{Number: 1, Action: action.Action{ID: actionNamed(target), Handler: "step",
		Step: &action.StepRef{Pipeline: "greeter", Deployment: 1, Target: target, Event: event, Revision: 1, Version: 1}}})
}

func actionNamed(name string) (id action.ID) {
	copy(id[:], name)
	return id
}

// observed returns the note of the last round.
func (o *oven) observed() time.Duration {
	o.t.Helper()
	if len(o.entries) == 0 {
		return 0
	}
	var d pipeline.StepDetail
	if err := json.Unmarshal(o.entries[len(o.entries)-1].Detail, &d); err != nil {
		o.t.Fatal(err)
	}
	return time.Duration(d.Observed)
}

// goesOn makes a round that must request another, and returns when.
func (o *oven) goesOn() time.Duration {
	o.t.Helper()
	out := o.round("greeter/beta", pipeline.StageBaked)
	if out.Kind != action.RetryAfter || out.Error != "" {
		o.t.Fatalf("the round ends with %s: %s", out.Kind, out.Error)
	}
	return time.Until(out.At)
}

// homesOf keeps local hosts, by their addresses, for homes.
type homesOf map[string]queue.HostHome

func (h homesOf) BindHost(_ context.Context, address string, _ queue.HostHome) (queue.HostHome, error) {
	return h[address], nil
}

// TestABakeOverSeveralHomes: each home tests its own hosts for the whole time, and they take turns.
func TestABakeOverSeveralHomes(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		o := newOven(t)
		for _, name := range []string{"oak", "elm"} {
			o.entries = append(o.entries, pipeline.Entry{Event: pipeline.HostFinished, Target: "greeter/beta/all/" + name})
		}
		homes := map[string]queue.HostHome{"a": {ID: "a", Place: "m1:/srv/a"}, "b": {ID: "b", Place: "m2:/srv/b"},
			"c": {ID: "c", Place: "m3:/srv/c"}}
		processes := map[string]*Handler{}
		for id, home := range homes {
			o.restart()
			o.handler.config.Here, o.handler.config.Homes = home, homesOf{"local://oak": homes["a"], "local://elm": homes["b"]}
			processes[id] = o.handler
		}
		round := func(id string) action.Outcome {
			o.handler = processes[id]
			return o.round("greeter/beta", pipeline.StageBaked)
		}
		if out := round("c"); out.Kind != action.RetryAfter || !strings.Contains(out.Error, "the bake waits for a conductor of the home m") {
			t.Fatalf("a home without a host: %s: %s", out.Kind, out.Error)
		}
		begin := time.Now()
		rounds := map[string]int{}
		for done := false; !done; {
			for _, id := range []string{"a", "b"} { // a is always the first to claim
				out := round(id)
				if done = out.Kind == action.Done; done {
					break
				}
				if out.Kind != action.RetryAfter {
					t.Fatalf("a round of %s: %s: %s", id, out.Kind, out.Error)
				}
				if out.Error == "" {
					rounds[id]++
					<-time.After(time.Until(out.At))
				} else if !strings.Contains(out.Error, "the bake waits for a conductor of the home "+
					homes[map[string]string{"a": "b", "b": "a"}[id]].Place) {
					t.Fatalf("a round of %s: %s", id, out.Error)
				}
			}
			if time.Since(begin) > 3*time.Hour {
				t.Fatalf("the bake never passes: %v rounds, observed %s", rounds, o.observed())
			}
		}
		if took := time.Since(begin); took < 30*time.Minute || rounds["a"] < 4 || rounds["b"] < 3 {
			t.Errorf("it took %s, rounds %v", took, rounds)
		}
	})
}

// TestABakeAddsUpWhatItObserves: each round adds the time since the last one, and at most `every`.
func TestABakeAddsUpWhatItObserves(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		o := newOven(t)
		for _, step := range []struct {
			pause    time.Duration
			observed time.Duration
			next     time.Duration
		}{
			{0, 0, 10 * time.Minute},
			{10 * time.Minute, 10 * time.Minute, 10 * time.Minute},
			{time.Minute, 11 * time.Minute, 10 * time.Minute}, // come back too early
			{5 * time.Hour, 11 * time.Minute, 10 * time.Minute},
			{10 * time.Minute, 21 * time.Minute, 9 * time.Minute},
		} {
			<-time.After(step.pause)
			if next := o.goesOn(); o.observed() != step.observed || next != step.next {
				t.Fatalf("after %s: observed %s, next in %s, want %s and %s", step.pause, o.observed(), next, step.observed, step.next)
			}
		}
		<-time.After(9 * time.Minute)
		if out := o.round("greeter/beta", pipeline.StageBaked); out.Kind != action.Done ||
			string(out.Output) != `{"text":"30m0s without a failure"}` {
			t.Errorf("the last round ends with %s %s: %s", out.Kind, out.Output, out.Error)
		}
	})
}

// TestAnotherProcessMakesABakeLonger: it knows what was noted, and does not know since when nothing was observed.
func TestAnotherProcessMakesABakeLonger(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		o := newOven(t)
		o.goesOn()
		<-time.After(10 * time.Minute)
		o.goesOn()
		o.restart()
		<-time.After(10 * time.Minute)
		if o.goesOn(); o.observed() != 10*time.Minute {
			t.Errorf("observed %s after a restart, want what was noted before", o.observed())
		}
		<-time.After(10 * time.Minute)
		if o.goesOn(); o.observed() != 20*time.Minute {
			t.Errorf("observed %s, want 20m", o.observed())
		}
	})
}

// TestABakeGoesOnWhileTheLogIsAway: no time is lost or added, and nothing fails.
func TestABakeGoesOnWhileTheLogIsAway(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		o := newOven(t)
		o.goesOn()
		o.away = fault.New(fault.Unavailable, "no connection")
		if out := o.round("greeter/beta", pipeline.StageBaked); out.Kind != action.RetryAfter || out.Error == "" {
			t.Errorf("the round ends with %s: %s", out.Kind, out.Error)
		}
		o.away = nil
		<-time.After(10 * time.Minute)
		if o.goesOn(); o.observed() != 10*time.Minute {
			t.Errorf("observed %s, want 10m", o.observed())
		}
	})
}

// TestABakeIsCanceledInARound: an alarm, or the end of its deployment, interrupts it.
func TestABakeIsCanceledInARound(t *testing.T) {
	t.Parallel()
	o := newOven(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(conductor.ErrCanceled)
	o.away = fmt.Errorf("read: %w", conductor.ErrCanceled)
	if out := o.roundIn(ctx, "greeter/beta", pipeline.StageBaked); out.Kind != action.Stopped {
		t.Errorf("the round ends with %s: %s", out.Kind, out.Error)
	}
}

// TestABakeIsNotThere: an action of a bake that its definition does not have can never succeed.
func TestABakeIsNotThere(t *testing.T) {
	t.Parallel()
	o := newOven(t)
	o.definition.Stages[0].Bake = nil
	if out := o.round("greeter/beta", pipeline.StageBaked); out.Kind != action.Fatal {
		t.Errorf("ends with %s: %s", out.Kind, out.Error)
	}
	if out := o.round("greeter/beta/all/wave-1", pipeline.WaveBaked); out.Kind != action.RetryAfter {
		t.Errorf("the wave ends with %s: %s", out.Kind, out.Error)
	}
}

// TestABakeTestsTheHostsThatAreDone: those of the stage, or of the wave's group, that the deployment has finished.
func TestABakeTestsTheHostsThatAreDone(t *testing.T) {
	t.Parallel()
	closed := "127.0.0.1:1"
	for _, c := range []struct {
		done string
		want action.OutcomeKind
	}{{"greeter/beta/all/oak", action.Fatal}, {"greeter/beta/all/gone", action.RetryAfter}, {"greeter/beta/all", action.RetryAfter}} {
		for target, event := range map[string]string{"greeter/beta": pipeline.StageBaked, "greeter/beta/all/wave-1": pipeline.WaveBaked} {
			o := newOven(t)
			o.definition.Stages[0].Test = []pipeline.Check{{TCP: closed, Timeout: action.Duration(time.Minute)}}
			o.entries = []pipeline.Entry{{Class: pipeline.Fact, Target: c.done, Event: pipeline.HostFinished}}
			out := o.round(target, event)
			if out.Kind != c.want || c.want == action.Fatal && !strings.Contains(out.Error, fmt.Sprintf("host oak does not accept %s", closed)) {
				t.Errorf("%s with %s done ends with %s: %s", event, c.done, out.Kind, out.Error)
			}
		}
	}
}
