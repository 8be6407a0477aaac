package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// fate decides what goes wrong, in percent. What happens to a call or an attempt follows from the
// seed and from what it is, not from the order in which goroutines ask, so that a seed does the same
// to the same things again.
type fate struct {
	seed                uint64
	refuse, lose, death int // of calls to the log: refused, answer lost, the role dies
	cut, broken, retry  int // of attempts: answer lost, will never pass, may pass later
	slow                int // of hosts: ten times as slow
	jumps               int // of the database's clock, how often
}

// pick returns a number below n for something.
func (f fate) pick(n int, about ...any) int {
	h := fnv.New64a()
	fmt.Fprint(h, about...)
	return rand.New(rand.NewPCG(f.seed, h.Sum64())).IntN(n)
}

func (f fate) happens(percent int, about ...any) bool { return f.pick(100, about...) < percent }

// fleet is the hosts and the builds. It outlives every process of the control plane.
type fleet struct {
	fate     fate
	log      *ledger.Ledger // builds register their artifacts here
	programs sync.WaitGroup // on hosts; they outlive the attempt that began them

	mu       sync.Mutex
	repaired bool                      // from here on no step is broken
	dooms    func(action.StepRef) bool // steps that will never pass, beside those of the fate; nil: none
	hosts    map[string]*host          // by lane
	applied  map[pipeline.StepKey]int
	tries    map[pipeline.StepKey]int
	faults   []string // what must never happen
}

// host is a model of a machine with one service, as the host program keeps it: fence, releases, which
// one is current.
type host struct {
	busy     chan struct{} // the lock: full while a program has it
	rank     int64         // fence of the last deployment that was here
	attempts map[action.ID]int
	releases map[int64]bool // deployments whose release is here
	current  int64          // the deployment whose release runs; 0: none
	restarts int
}

func newFleet(f fate, log *ledger.Ledger) *fleet {
	return &fleet{fate: f, log: log, hosts: map[string]*host{}, applied: map[pipeline.StepKey]int{}, tries: map[pipeline.StepKey]int{}}
}

func (f *fleet) host(lane string) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts[lane] == nil {
		f.hosts[lane] = &host{busy: make(chan struct{}, 1), attempts: map[action.ID]int{}, releases: map[int64]bool{}}
	}
	return f.hosts[lane]
}

func (f *fleet) never(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// try counts the attempts at a step, over all its actions.
func (f *fleet) try(key pipeline.StepKey) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries[key]++
	return f.tries[key]
}

// Do is the handler of steps and builds: one attempt, which what the fate has for it may befall.
func (f *fleet) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	step := a.Action.Step
	key := pipeline.StepKey{Deployment: step.Deployment, Target: step.Target, Event: step.Event}
	try := f.try(key)
	pace := 500
	if f.fate.happens(f.fate.slow, a.Action.Lane) {
		pace = 5000
	}
	if !pauseFor(ctx, f.fate.pick(pace, key, try, "way there")) {
		return cutOff(ctx)
	}
	if try < 3 && f.fate.happens(f.fate.retry, key, try, "retry") {
		return action.Outcome{Kind: action.Retry, Error: "it may pass later"}
	}
	if f.isBroken(*step, key, try) {
		return action.Outcome{Kind: action.Fatal, Error: "it will never pass"}
	}
	var err error
	if step.Event == pipeline.BuildCompleted {
		err = f.build(ctx, step)
	} else {
		err = f.onHost(ctx, a, key, f.fate.pick(pace, key, try, "takes"))
	}
	switch {
	case fault.Is(err, fault.Refused):
		return action.Outcome{Kind: action.Fatal, Error: err.Error()}
	case ctx.Err() != nil:
		return cutOff(ctx)
	case err != nil:
		return action.Outcome{Kind: action.Throttle, Error: err.Error(), At: time.Now().Add(time.Second)}
	case f.fate.happens(f.fate.cut, key, try, "cut"):
		return action.Outcome{Kind: action.Throttle, Error: "the answer got lost", At: time.Now().Add(time.Second)}
	}
	if !pauseFor(ctx, f.fate.pick(pace, key, try, "way back")) {
		return cutOff(ctx)
	}
	return action.Outcome{Kind: action.Done}
}

// isBroken reports whether an attempt at a step fails for good.
func (f *fleet) isBroken(step action.StepRef, key pipeline.StepKey, try int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dooms != nil && f.dooms(step) {
		return true
	}
	return !f.repaired && try < 2 && f.fate.happens(f.fate.broken, key, "broken")
}

// repair has no further step be broken.
func (f *fleet) repair() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repaired = true
}

// cutOff returns what an attempt reports that was ended from outside.
func cutOff(ctx context.Context) action.Outcome {
	if errors.Is(context.Cause(ctx), conductor.ErrCanceled) {
		return action.Outcome{Kind: action.Stopped}
	}
	return action.Outcome{Kind: action.GivenBack, Error: context.Cause(ctx).Error()}
}

// build registers the artifact, and is then complete.
func (f *fleet) build(ctx context.Context, step *action.StepRef) error {
	artifact := pipeline.RevisionArtifact{Label: "any", Name: "app", Digest: fmt.Sprintf("%064d", step.Revision), Size: 1,
		Blob: fmt.Sprint(step.Revision)}
	if err := f.log.RegisterArtifact(ctx, step.Pipeline, step.Revision, artifact); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied[pipeline.StepKey{Deployment: step.Deployment, Target: step.Target, Event: step.Event}]++
	return nil
}

// onHost runs the host program for a step. Once the program has the host's lock it runs to its end,
// whatever becomes of the attempt.
func (f *fleet) onHost(ctx context.Context, a conductor.Attempt, key pipeline.StepKey, takes int) error {
	h := f.host(a.Action.Lane)
	select {
	case h.busy <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	answer := make(chan error, 1)
	f.programs.Go(func() {
		defer func() { <-h.busy }()
		err := f.enter(h, a, key)
		if err == nil {
			<-time.After(time.Duration(takes) * time.Millisecond)
			f.apply(h, key)
		}
		answer <- err
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter refuses what an older deployment, or an older attempt, asks of the host. The number of a rollback
// says nothing of its rank, so the fence decides.
func (f *fleet) enter(h *host, a conductor.Attempt, key pipeline.StepKey) error {
	var about struct{ Fence, Former int64 }
	if err := json.Unmarshal(a.Action.Parameters, &about); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if about.Fence == 0 {
		f.never("%v: without a fence", key)
	}
	if h.rank > about.Fence {
		return fault.New(fault.Refused, "a deployment with the fence %d was here", h.rank)
	}
	if about.Former != 0 && about.Former < h.rank && h.rank != about.Fence {
		f.never("%v: its fence is %d, and the host's %d is above %d, which the log gave it last", key, about.Fence, h.rank, about.Former)
	}
	if h.attempts[a.Action.ID] > a.Number {
		return fault.New(fault.Refused, "attempt %d was here", h.attempts[a.Action.ID])
	}
	h.rank, h.attempts[a.Action.ID] = about.Fence, a.Number
	return nil
}

// apply has the effect of a step. Doing it twice is the same as doing it once.
func (f *fleet) apply(h *host, key pipeline.StepKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied[key]++
	switch key.Event {
	case pipeline.HostReplicated:
		h.releases[key.Deployment] = true
	case pipeline.HostDeployed:
		if !h.releases[key.Deployment] {
			f.never("%v: deployed before it was replicated", key)
		}
		if h.current != key.Deployment {
			h.restarts++
		}
		h.current = key.Deployment
	default:
		if h.current != key.Deployment {
			f.never("%v: the host runs deployment %d", key, h.current)
		}
	}
}

// was reports whether the effect of a step has happened.
func (f *fleet) was(key pipeline.StepKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied[key] > 0
}

// runs returns which deployment each host runs, by address.
func (f *fleet) runs() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]int64{}
	for lane, h := range f.hosts {
		all[strings.TrimPrefix(lane, "step/")] = h.current
	}
	return all
}

// pauseFor waits for so many milliseconds, unless the context ends.
func pauseFor(ctx context.Context, ms int) bool {
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}
