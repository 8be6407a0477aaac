package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Bounds of the loop that observes services. A host that does not answer costs lookTakes of one of its observers.
const (
	observeEvery    = 30 * time.Second // pause between the end of a round and the next one
	observersAtOnce = 16               // hosts polled at a time, beside the looks of requests
)

// Observe asks the hosts of all pipelines again and again how their services do, until ctx ends. Views show the last
// answers; metrics count them. A process needs one.
func (s *Service) Observe(ctx context.Context, metrics *obs.Observer, log *slog.Logger) error {
	log = obs.Component(log, "observer")
	next := loop.Jitter(time.Second) // after the roles that start beside it
	for loop.Pause(ctx, next) {
		next = loop.Jitter(observeEvery)
		seen, err := s.observeOnce(ctx)
		switch {
		case ctx.Err() != nil: // the loop ends
		case err != nil:
			log.Warn("cannot read which hosts there are", obs.Error(err), obs.KeyRetryIn, next.String())
		default:
			metrics.Set(seen.drifted, seen.services)
			for _, u := range seen.unread {
				log.Warn("pipeline is not observed", obs.KeyPipeline, u.pipeline, obs.Error(u.err))
			}
		}
	}
	return nil
}

// observed is the result of one round.
type observed struct {
	drifted  int            // hosts
	services map[string]int // by state
	unread   []unread       // pipelines that are left out
}

// unread is a pipeline whose log cannot be read.
type unread struct {
	pipeline string
	err      error
}

// observeOnce polls every host once and counts the answers.
func (s *Service) observeOnce(ctx context.Context) (observed, error) {
	views, bad, err := s.allPipelines(ctx)
	if err != nil {
		return observed{}, err
	}
	s.askAll(ctx, views)
	count := observed{services: map[string]int{}, unread: bad}
	for i := range views {
		drifted := map[string]bool{}
		for _, d := range append(views[i].Drift, s.lostReleases(&views[i])...) {
			drifted[d.Target] = true
		}
		count.drifted += len(drifted)
		for j := range views[i].Hosts {
			if service := views[i].Hosts[j].Service; service != nil { // hosts of another machine's home have none here
				count.services[service.State]++
			}
		}
	}
	return count, nil
}

// allPipelines returns the views of all pipelines, without what each host reports. A pipeline whose log is broken hides no
// other one: it is left out, and bad has the reason.
func (s *Service) allPipelines(ctx context.Context) (views []PipelineView, bad []unread, err error) {
	heads, err := s.ledger.Heads(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list pipelines: %w", err)
	}
	for _, head := range heads {
		view, err := s.pipelineView(ctx, head.Pipeline, 1)
		switch {
		case err == nil:
			views = append(views, view)
		case ctx.Err() != nil, fault.Is(err, fault.Unavailable), fault.Is(err, fault.LedgerUnavailable):
			return nil, nil, err
		default:
			bad = append(bad, unread{head.Pipeline, err})
		}
	}
	return views, bad, nil
}

// askAll polls the hosts of all views, and keeps each answer as it comes. Hosts that did not answer the last time are asked
// last, so that they do not delay the rest.
func (s *Service) askAll(ctx context.Context, views []PipelineView) {
	if s.Inspect == nil {
		return
	}
	type question struct {
		host     *HostView
		seq      int64
		failures int // 1: it did not answer the last time
	}
	var questions []question
	keys := map[string]bool{}
	for i := range views {
		for j := range views[i].Hosts {
			if host := &views[i].Hosts[j]; host.isLookedAt() {
				questions = append(questions, question{host, views[i].Seq, s.observed.failures(host)})
				keys[host.lookKey()] = true
			}
		}
	}
	s.observed.forgetOthers(keys)
	slices.SortStableFunc(questions, func(a, b question) int { return cmp.Compare(a.failures, b.failures) })
	asked := make(chan question, len(questions))
	for _, q := range questions {
		asked <- q
	}
	close(asked)
	var observers sync.WaitGroup
	for range min(observersAtOnce, len(questions)) {
		observers.Go(func() {
			for q := range asked {
				if seen := s.askHost(ctx, q.host); ctx.Err() == nil {
					s.observed.keep(q.host, observation{seen, q.seq})
					q.host.see(seen)
				}
			}
		})
	}
	observers.Wait()
}

// askHost polls a host for the state of its service. It returns within lookTakes.
func (s *Service) askHost(ctx context.Context, host *HostView) (seen sight) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTakes, errUnseen)
	defer cancel()
	seen.state, seen.known, seen.err = s.Inspect(ctx, host.place, host.service.Name)
	seen.at = time.Now()
	return seen
}
