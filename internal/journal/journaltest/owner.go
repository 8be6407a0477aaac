package journaltest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// oakOf is a definition whose only host is oak, for one service.
func oakOf(name, service string) *pipeline.Definition {
	d := definition()
	d.Pipeline, d.Service.Name, d.Stages = name, service, d.Stages[:2]
	return &d
}

// apply stores a definition without looking at owners.
func (s setup) apply(t *testing.T, d *pipeline.Definition) {
	t.Helper()
	_, err := s.Define(s.ctx, d.Pipeline, 0, func(locked journal.Locked) (journal.Change, error) {
		return journal.Change{Definition: d, By: "ana", Entries: []pipeline.Entry{
			{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: locked.Version + 1}}}, nil
	})
	storetest.Check(t, err)
}

func resourcesHaveOwners(t *testing.T, s setup) {
	onOak := pipeline.Resource{Address: "local://oak", Service: "web"}
	owner := func(when string, want journal.Owner) {
		t.Helper()
		owners, err := s.Owners(s.ctx, "other")
		storetest.Check(t, err)
		if diff := cmp.Diff(want, owners[onOak]); diff != "" {
			t.Errorf("owner %s (-want +got):\n%s", when, diff)
		}
	}
	owner("of a resource that no pipeline has", journal.Owner{})
	s.apply(t, oakOf(testPipeline, "web"))
	owner("by the definition in force", journal.Owner{Pipeline: testPipeline})
	if own, err := s.Owners(s.ctx, testPipeline); err != nil || len(own) != 0 {
		t.Errorf("a pipeline's own resources are left out, got %v, %v", own, err)
	}
	s.register(t, "3f2c9a1")
	s.append(t, fact(1, oak, pipeline.HostStarted))
	s.apply(t, oakOf(testPipeline, "api"))
	owner("through an active deployment", journal.Owner{Pipeline: testPipeline, Deployment: 1, Status: pipeline.StatusActive})
	s.append(t, note(1, testPipeline, pipeline.PipelineFailed))
	owner("through a failed deployment", journal.Owner{Pipeline: testPipeline, Deployment: 1, Status: pipeline.StatusFailed})
	s.append(t, note(1, testPipeline, pipeline.PipelineCanceled))
	owner("after the cancel", journal.Owner{})

	pinned := oakOf(testPipeline, "web")
	pinned.Pin = true
	s.apply(t, pinned)
	s.register(t, "88d0e17")
	s.apply(t, oakOf(testPipeline, "api"))
	owner("through a deployment that keeps its version", journal.Owner{Pipeline: testPipeline, Deployment: 2, Status: pipeline.StatusActive})
}

var errOwned = errors.New("another pipeline has it")

func definitionsTakeTurns(t *testing.T, s setup) {
	const writers = 8
	onOak := pipeline.Resource{Address: "local://oak", Service: "web"}
	var stored atomic.Int32
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			d := oakOf(fmt.Sprintf("pipeline-%d", i), "web")
			_, err := s.Define(s.ctx, d.Pipeline, 0, func(locked journal.Locked) (journal.Change, error) {
				owners, err := locked.Owners()
				if err != nil {
					return journal.Change{}, err
				}
				if _, owned := owners[onOak]; owned {
					return journal.Change{}, errOwned
				}
				return journal.Change{Definition: d,
					Entries: []pipeline.Entry{{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: 1}}}, nil
			})
			if err == nil {
				stored.Add(1)
			} else if !errors.Is(err, errOwned) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := stored.Load(); n != 1 {
		t.Errorf("%d pipelines got the resource, want 1", n)
	}
}
