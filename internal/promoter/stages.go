package promoter

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

const (
	mostStages   = 1_000           // live promotions of stages that are judged
	stageAgain   = 2 * time.Minute // between two looks at a pipeline with live promotions
	stageChanges = 200 * time.Millisecond
)

// stages judges the promotions of stages of a waybill.yaml: handed-off actions of the handler environment. The log of a pipeline's
// promotions has the name waybill.yaml:PIPELINE; each action is one run there.
type stages struct {
	*term

	mu   sync.Mutex
	seen map[string]map[promotion.TargetID]promotion.Seen // by the names of stages, such as waybill.yaml:shop/prod
	live map[action.ID]string                             // the live actions that were found last, and their state
	view map[string]string                                // the last stored views, as JSON, by pipeline
}

func newStages(p *Promoter) *stages {
	s := &stages{term: &term{Promoter: p, memory: map[string]*memory{}, heads: map[string]int64{}, changes: map[string]time.Time{},
		looking: map[string]time.Time{}}, seen: map[string]map[promotion.TargetID]promotion.Seen{}, live: map[action.ID]string{},
		view: map[string]string{}}
	s.queue = watch.NewQueue(watch.QueueConfig[string]{Workers: p.cfg.Workers, Retry: loop.Backoff{First: firstRetry, Most: time.Minute},
		Handle: s.next, Failed: s.failed})
	s.polls, s.marks, s.checks = newProposals(s.term), newMarks(s.term), newChecks(s.term)
	s.pool = pool.New(pool.Config{Clusters: p.cfg.Clusters, Dial: p.cfg.Dial, Log: p.log, Changed: func(users []string) {
		for _, name := range users {
			s.wake(name)
		}
	}})
	return s
}

// run works until ctx ends.
func (s *stages) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() {
		if err := s.pool.Run(ctx); err != nil {
			s.log.Error("following clusters ended", obs.Error(err))
		}
	})
	loops.Go(func() { s.queue.Run(ctx) })
	loops.Go(func() { s.polls.queue.Run(ctx) })
	loops.Go(func() { s.marks.queue.Run(ctx) })
	loops.Go(func() { s.checks.run(ctx) })
	loops.Go(func() { s.follow(ctx, promotions.OfStages) })
	loops.Go(func() { s.followActions(ctx) })
	loops.Go(func() { s.followEdits(ctx) })
	loops.Wait()
}

// followActions puts pipelines in line whose promotions begin or end.
func (s *stages) followActions(ctx context.Context) {
	changes := s.cfg.Changes()
	for ctx.Err() == nil {
		if err := s.findActions(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("reading promotions of stages failed", obs.Error(err))
			loop.Pause(ctx, time.Second)
			continue
		}
		_ = changes.Wait(ctx, store.TopicAction, time.Now().Add(stageAgain)) // an early return is harmless
		loop.Pause(ctx, stageChanges)
	}
}

// followEdits puts pipelines in line that are edited while they promote.
func (s *stages) followEdits(ctx context.Context) {
	changes, versions := s.cfg.Changes(), map[string]int{}
	for ctx.Err() == nil {
		s.mu.Lock()
		live := map[string]bool{}
		for _, state := range s.live {
			name, _, _ := strings.Cut(state, " ")
			live[name] = true
		}
		s.mu.Unlock()
		for name := range live {
			head, err := s.ledger.Head(ctx, strings.TrimPrefix(name, promotion.StageNamespace+":"))
			if err == nil && head.Version != versions[name] { // it is looked at again in any case
				versions[name] = head.Version
				s.wake(name)
			}
		}
		_ = changes.Wait(ctx, store.TopicEntry, time.Now().Add(stageAgain)) // an early return is harmless
		loop.Pause(ctx, stageChanges)
	}
}

// findActions reads the live actions, and wakes the pipelines of those that have changed.
func (s *stages) findActions(ctx context.Context) error {
	found, err := s.ledger.Actions(ctx, queue.ActionQuery{Handler: promotion.HandlerEnvironment, LiveOnly: true, Oldest: true,
		Limit: mostStages})
	if err != nil {
		return err
	}
	gates, err := s.ledger.Actions(ctx, queue.ActionQuery{Handler: promotion.HandlerExpression, LiveOnly: true, Oldest: true,
		Limit: mostStages})
	if err != nil {
		return err
	}
	found = append(found, gates...)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(map[action.ID]string, len(found))
	for _, a := range found {
		if a.Step == nil {
			continue
		}
		name := promotions.NameOf(promotion.StageNamespace, a.Step.Pipeline)
		now[a.ID] = fmt.Sprint(name, " ", a.Thread.Status, !a.Thread.CancelAt.IsZero())
		if s.live[a.ID] != now[a.ID] {
			s.wake(name)
		}
	}
	for id, was := range s.live {
		if name, _, _ := strings.Cut(was, " "); now[id] == "" {
			s.wake(name)
		}
	}
	s.live = now
	return nil
}

// findGates returns the live gates of a pipeline that have an expression over the targets of their stages.
func (s *stages) findGates(ctx context.Context, pipeline string) (map[string]check, error) {
	found, err := s.ledger.Actions(ctx, queue.ActionQuery{Handler: promotion.HandlerExpression, Pipeline: pipeline, LiveOnly: true,
		Oldest: true, Limit: mostStages})
	gates := map[string]check{}
	for _, a := range found {
		var work promotion.StageWork
		if a.Step != nil && json.Unmarshal(a.Parameters, &work) == nil && work.Environment != nil {
			gates[a.ID.String()] = check{promotions.NameOf(promotion.StageNamespace, pipeline), stageWants(work.Environment)}
		}
	}
	return gates, err
}

// next looks at the promotions of one pipeline.
func (s *stages) next(ctx context.Context, name string) (again time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookLimit,
		fmt.Errorf("a look at the promotions of a pipeline took longer than %s", lookLimit))
	defer cancel()
	_, end := s.begin(name)
	defer end()
	l := &stageLook{stages: s, name: name, pipeline: strings.TrimPrefix(name, promotion.StageNamespace+":")}
	found, err := s.ledger.Actions(ctx, queue.ActionQuery{Handler: promotion.HandlerEnvironment, Pipeline: l.pipeline, LiveOnly: true,
		Oldest: true, Limit: mostStages})
	if err != nil {
		return 0, err
	}
	if l.gates, err = s.findGates(ctx, l.pipeline); err != nil {
		return 0, err
	}
	if l.state, err = s.promotions.Load(ctx, name, name); err != nil {
		return 0, err
	}
	l.now = l.state.Now
	l.take(found)
	if err := l.takeEdits(ctx); err != nil {
		return 0, err
	}
	l.observe()
	l.judge()
	if err := l.record(ctx); err != nil {
		return 0, err
	}
	s.polls.keep(name, l.openProposals())
	s.checks.keep(name, l.gates)
	if err := l.saveView(ctx); err != nil {
		return 0, err
	}
	return 0, l.report(ctx)
}
