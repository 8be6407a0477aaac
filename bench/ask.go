package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

const (
	askHosts = 100
	askPage  = 50 // passages of a page of history
	askHost  = "fleet/prod/all/h000042"
)

func askFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Entries, "entries", 10_000_000, "of the log, in deployments that have finished; of which all but one are copies")
	f.IntVar(&o.N, "n", 200, "times that each question is asked in a round")
}

// question is one thing that people ask the log.
type question struct {
	about string
	bound float64 // ms that its median is to stay below; 0: none
	ask   func(context.Context) error
}

// ask measures questions to a log of many deployments that have finished and two that are in progress. The log is
// filled once; each round asks every question in turn.
func ask(ctx context.Context, o Options) ([]Result, error) {
	if o.N < 1 {
		return nil, errors.New("--n: want at least 1")
	}
	s, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.remove()
	began := time.Now()
	last, entries, err := fillLog(ctx, s, o.Entries)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s entries of %s deployments in %.0f s\n\n", grouped(float64(entries)), grouped(float64(last)), time.Since(began).Seconds())
	questions := questionsTo(s.Ledger, last)
	results := make([]Result, len(questions))
	for range o.Rounds {
		_, err := s.measure(ctx, func() (Round, error) { return Round{}, askAll(ctx, questions, results, o.N) })
		if err != nil {
			return nil, err
		}
	}
	for i, q := range questions {
		r := &results[i]
		r.Bench, r.Subject, r.Driver = "ask", q.about, o.Driver
		*r, _ = percentiles(*r)
		if q.bound > 0 {
			r.judge(fmt.Sprintf("under %g ms", q.bound), r.Median < q.bound)
		}
	}
	return results, nil
}

// questionsTo returns the questions to a log whose newest deployment waits for the one before it.
func questionsTo(l *ledger.Ledger, last int64) []question {
	waybill := service.New(l, nil, service.Options{})
	waiting := service.Ref{Pipeline: "fleet", Number: last}
	history := func(target string, before int64) func(context.Context) error {
		return func(ctx context.Context) error {
			found, err := l.History(ctx, journal.HistoryQuery{Pipeline: "fleet", Target: target, Before: before, Limit: askPage})
			return answered(len(found), err)
		}
	}
	return []question{
		{"why a deployment waits", 1, func(ctx context.Context) error {
			steps, err := waybill.Why(ctx, waiting, "prod")
			reasons := 0
			for _, step := range steps {
				if step.Reason != "" {
					reasons++
				}
			}
			return answered(reasons, err)
		}},
		{"what a host has", 1, func(ctx context.Context) error {
			at, err := l.Standings(ctx, "fleet", []string{askHost})
			return answered(int(at[askHost].Revision), err)
		}},
		{"the newest 50 of a stage", 20, history("fleet/prod", 0)},
		{"50 of a stage, half way back", 20, history("fleet/prod", last/2*entriesEach)},
		{"the newest 50 of a host", 0, history(askHost, 0)},
		{"what is in progress", 0, func(ctx context.Context) error {
			found, err := l.Deployments(ctx, journal.DeploymentQuery{Pipeline: "fleet", Status: pipeline.StatusActive})
			return answered(len(found), err)
		}},
		{"what runs where, 100 hosts", 0, func(ctx context.Context) error {
			found, err := l.Resources(ctx, journal.ResourceQuery{Pipeline: "fleet"})
			return answered(len(found), err)
		}},
		{"50 targets, each with its revisions and why", 0, func(ctx context.Context) error {
			found, err := waybill.Targets(ctx, service.TargetQuery{Pipeline: "fleet", Limit: askPage})
			return answered(len(found), err)
		}},
		{"runs that ended, for metrics", 0, func(ctx context.Context) error {
			found, err := l.EndedRuns(ctx, "fleet", "prod", time.Now().Add(-12*7*24*time.Hour))
			return answered(len(found), err)
		}},
	}
}

// answered returns an error if a question failed or found nothing.
func answered(found int, err error) error {
	if err == nil && found == 0 {
		err = errors.New("the answer is empty")
	}
	return err
}

// askAll asks each question n times and adds a round to its result. The first answer is not measured: it reads the
// definition and the deployments in progress.
func askAll(ctx context.Context, questions []question, results []Result, n int) error {
	for i, q := range questions {
		if err := q.ask(ctx); err != nil {
			return fmt.Errorf("%s: %w", q.about, err)
		}
		took := make([]float64, n)
		began := time.Now()
		for j := range took {
			start := time.Now()
			if err := q.ask(ctx); err != nil {
				return fmt.Errorf("%s: %w", q.about, err)
			}
			took[j] = float64(time.Since(start).Microseconds()) / 1000
		}
		round := measured(n, began)
		slices.Sort(took)
		round.P50, round.P99 = took[n/2], took[n*99/100]
		results[i].Rounds = append(results[i].Rounds, round)
	}
	return nil
}

// defineAsked defines the pipeline that is asked about: one stage with one group of hosts.
func defineAsked(ctx context.Context, l *ledger.Ledger) error {
	group := pipeline.Group{Name: "all", MaxParallel: pipeline.Limit{N: 25, Percent: true}}
	for i := range askHosts {
		name := fmt.Sprintf("h%06d", i)
		group.Hosts = append(group.Hosts, pipeline.Host{Name: name, URL: "local://" + name})
	}
	definition := pipeline.Definition{
		Pipeline: "fleet", Order: pipeline.Runnable, Service: pipeline.Service{Name: "fleet", Manager: "none"},
		Stages: []pipeline.Stage{{
			Name: "prod", Kind: pipeline.HostStage, After: []string{}, Groups: []pipeline.Group{group},
			Queue: pipeline.FIFO, OnFailure: pipeline.Release,
			Chain: []pipeline.Step{{Name: pipeline.Replicate, Event: pipeline.HostReplicated},
				{Name: pipeline.Deploy, Event: pipeline.HostDeployed}},
		}},
	}
	_, err := l.Define(ctx, "fleet", 0, func(at journal.Locked) (journal.Change, error) {
		return journal.Change{Definition: &definition, By: "bench", Entries: []pipeline.Entry{{
			Target: "fleet", Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: at.Version + 1,
		}}}, nil
	})
	return err
}

// fillLog defines the pipeline, takes one deployment through it, copies it until the log has so many entries, and
// adds one that is inside the stage and one that waits behind it. It returns the number of the last
// one, and of the entries.
func fillLog(ctx context.Context, s *scratch, entries int) (last, seq int64, err error) {
	l := s.Ledger
	if err := defineAsked(ctx, l); err != nil {
		return 0, 0, err
	}
	if seq, err = deployed(ctx, l, 1, passage(1)); err != nil {
		return 0, 0, err
	}
	last = max(1, int64(entries)/entriesEach)
	if err := s.copied(ctx, last); err != nil {
		return 0, 0, err
	}
	inside := passage(last + 1)[:3]
	if _, err := deployed(ctx, l, last+1, inside); err != nil {
		return 0, 0, err
	}
	seq, err = deployed(ctx, l, last+2, passage(last + 2)[:1])
	return last + 2, seq, err
}

// deployed registers a revision with its deployment, appends the rows, and returns the log's end.
func deployed(ctx context.Context, l *ledger.Ledger, number int64, rows []pipeline.Entry) (int64, error) {
	r := pipeline.RegisteredRevision{Pipeline: "fleet", Label: fmt.Sprintf("r%d", number), Snapshot: "none", By: "bench"}
	if _, err := l.Register(ctx, r, true, ""); err != nil {
		return 0, err
	}
	head, err := l.Head(ctx, "fleet")
	if err != nil {
		return 0, err
	}
	head, err = l.Append(ctx, "fleet", head.Seq, func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: rows}, nil
	})
	return head.Seq, err
}

// entriesEach is the number of entries of a finished deployment: four of each host, six of what is above them, and
// the note of its creation.
const entriesEach = 4*askHosts + 7

// passage returns the facts of a deployment that finishes.
func passage(number int64) []pipeline.Entry {
	var rows []pipeline.Entry
	add := func(target string, events ...string) {
		for _, event := range events {
			rows = append(rows, pipeline.Entry{Deployment: number, Target: target, Event: event, Class: pipeline.Fact,
				Revision: number, Version: 1, Detail: detail(len(rows))})
		}
	}
	add("fleet", pipeline.PipelineStarted)
	add("fleet/prod", pipeline.StageStarted)
	add("fleet/prod/all", pipeline.GroupStarted)
	for i := range askHosts {
		add(fmt.Sprintf("fleet/prod/all/h%06d", i), pipeline.HostStarted, pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostFinished)
	}
	add("fleet/prod/all", pipeline.GroupFinished)
	add("fleet/prod", pipeline.StageFinished)
	add("fleet", pipeline.PipelineFinished)
	return rows
}
