package step

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// baking is one round of a bake: the tests of the hosts, and how long they have gone well so far.
type baking struct {
	*attempt
	definition *pipeline.Definition
	bake       *pipeline.Bake
	observed   map[string]time.Duration // how long each home has, before this round
	home       string                   // whose hosts this process tests; "": every host
	homes      []queue.HostHome         // those that have a local host of the bake, when home is set
	hosts      []string                 // targets of the hosts that the deployment has finished there
}

// bake makes one round of a bake. It does not wait: a round that goes well is noted in the log, and
// the action comes back later without spending an attempt.
func (h *Handler) bake(ctx context.Context, a conductor.Attempt) (Output, error) {
	b, err := h.loadBake(ctx, a)
	if err != nil {
		return Output{}, err
	}
	if err := h.divide(ctx, b); err != nil {
		return Output{}, err
	}
	if err := h.testAll(ctx, b); err != nil {
		return Output{}, err
	}
	total, every := time.Duration(b.bake.For), time.Duration(b.bake.Every)
	b.observed[b.home] += h.laps.take(b.id, every)
	if b.least() >= total {
		return Output{Text: fmt.Sprintf("%s without a failure", total)}, nil
	}
	detail, _ := json.Marshal(pipeline.StepDetail{Event: b.facts.Event, Action: b.id.String(), // plain texts always marshal
		Observed: action.Duration(b.observed[b.home]), Home: b.home, Error: b.progress()})
	if err := b.note(ctx, detail); err != nil {
		return Output{}, unread(err, "note a round of %s", b.facts.Target)
	}
	// The homes take turns, so that each tests its hosts about as often as one alone would.
	return Output{}, nextRound{time.Now().Add(max(pause, min(every, total-b.least())/time.Duration(max(1, len(b.homes)))))}
}

// divide leaves to other homes the local hosts that they have, whose files this process cannot reach. Each home observes its own
// hosts for the whole time; one that is ahead of another leaves the round to it.
func (h *Handler) divide(ctx context.Context, b *baking) error {
	var ours []string
	homes := map[string]queue.HostHome{}
	for _, target := range b.hosts {
		_, _, host, _ := b.definition.Find(target) // fold has found it
		keeper := h.config.Here
		if !host.Remote() {
			var err error
			if keeper, err = h.keeper(ctx, *host); err != nil {
				return err
			}
			homes[keeper.ID] = keeper
		}
		if keeper.ID == h.config.Here.ID {
			ours = append(ours, target)
		}
	}
	if _, here := homes[h.config.Here.ID]; len(homes) == 0 || here && len(homes) == 1 {
		return nil
	}
	b.home, b.homes, b.hosts = h.config.Here.ID, slices.SortedFunc(maps.Values(homes),
		func(a, b queue.HostHome) int { return cmp.Compare(a.ID, b.ID) }), ours
	_, here := homes[b.home]
	last := slices.MinFunc(b.homes, func(x, y queue.HostHome) int { return cmp.Compare(b.observed[x.ID], b.observed[y.ID]) })
	if here && b.observed[b.home] <= b.observed[last.ID] {
		return nil
	}
	return fault.RetryAfter(fault.New(fault.Unavailable,
		"the bake waits for a conductor of the home %s, which holds files of its hosts; this one has %s",
		last.Place, h.config.Here.Place).WithHint("start waybill serve conductor with that home"), time.Now().
		Add(min(time.Duration(b.number)*pause, mostAway)))
}

// least returns how long the home has observed its hosts that has done so for the shortest time.
func (b *baking) least() time.Duration {
	least := b.observed[b.home]
	for _, home := range b.homes {
		least = min(least, b.observed[home.ID])
	}
	return least
}

// nextRound ends an attempt at which nothing was wrong and after which the action is not done. It
// has no text for the log of the action: how far a bake is was noted in the log of the deployment.
type nextRound struct{ at time.Time }

func (nextRound) Error() string { return "another round follows" }

// progress returns how far the bake is, such as "3m0s of 30m0s".
func (b *baking) progress() string {
	return fmt.Sprintf("%s of %s", b.least().Round(time.Second), time.Duration(b.bake.For))
}

// loadBake reads the bake that an action names, and its entries of the log.
func (h *Handler) loadBake(ctx context.Context, a conductor.Attempt) (*baking, error) {
	t, definition, err := h.read(ctx, a)
	if err != nil {
		return nil, err
	}
	b := &baking{attempt: t, definition: definition, observed: map[string]time.Duration{}, bake: definition.BakeAt(t.facts.Target)}
	if b.bake == nil {
		return nil, fault.Permanent(fault.New(fault.NotFound, "definition %d has no bake of %s", t.facts.Version, t.facts.Target))
	}
	// A wave bakes with all hosts of its group that are done: those of the waves before it as well.
	under := t.facts.Target
	if t.facts.Event == pipeline.WaveBaked {
		under = pipeline.GroupOfWave(under)
	}
	entries, err := h.config.Ledger.EntriesUnder(ctx, t.facts.Pipeline, t.facts.Deployment, under)
	if err != nil {
		return nil, unread(err, "read the log of %s", under)
	}
	b.fold(entries)
	return b, nil
}

// fold finds the hosts that the deployment has finished, and the times that this action has noted. A
// host that has left the pipeline, or was given up, is not tested.
func (b *baking) fold(entries []pipeline.Entry) {
	for _, e := range entries {
		switch e.Event {
		case pipeline.HostFinished:
			if _, _, host, ok := b.definition.Find(e.Target); ok && host != nil {
				b.hosts = append(b.hosts, e.Target)
			}
		case pipeline.StepReported:
			var d pipeline.StepDetail
			if json.Unmarshal(e.Detail, &d) == nil && d.Action == b.id.String() {
				b.observed[d.Home] = time.Duration(d.Observed)
			}
		}
	}
}

// sideBySide is the number of hosts of a bake that are tested at a time.
const sideBySide = 16

// testAll tries the tests of every host once, and returns the first failure.
func (h *Handler) testAll(ctx context.Context, b *baking) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	var first error
	var once sync.Once
	places := make(chan struct{}, sideBySide)
	for _, target := range b.hosts {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if err := h.testHost(ctx, b, target); err != nil {
				once.Do(func() { first = err; stop(err) })
			}
		})
	}
	all.Wait()
	return first
}

// testHost tries the tests of one host once. The bake fails with the first test that does; a host that is not
// reached, or that another home keeps, does not.
func (h *Handler) testHost(ctx context.Context, b *baking, target string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	t := *b.attempt
	t.facts.Target = target
	if err := t.resolve(b.definition); err != nil {
		return fault.Permanent(err)
	}
	if err := h.reach(ctx, &t); err != nil {
		return err
	}
	defer t.host.Close()
	if err := t.findFolder(ctx, b.definition); err != nil {
		return t.redact(err)
	}
	err := t.redact(t.round(ctx, t.Test))
	if _, later := fault.RetryAt(err); err == nil || later || isThrottled(err) || context.Cause(ctx) != nil {
		return err
	}
	return fault.Permanent(err)
}

// laps measures the time between the rounds of bakes on the monotonic clock of this process. What it
// does not know counts as no time: a process that takes a bake over, or was away, makes it longer
// and never shorter.
type laps struct {
	mu   sync.Mutex
	last map[action.ID]time.Time
}

// lapLost is the time for which a lap is kept. No round waits longer for the next one (bake.every).
const lapLost = 2 * time.Hour

// take returns the time since the last round of an action, and at most the given time.
func (l *laps) take(id action.ID, most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[action.ID]time.Time{}
	}
	now := time.Now()
	for other, at := range l.last { // bakes that were canceled or continued elsewhere
		if now.Sub(at) > lapLost {
			delete(l.last, other)
		}
	}
	last, known := l.last[id]
	l.last[id] = now
	if !known {
		return 0
	}
	return min(now.Sub(last), most)
}
