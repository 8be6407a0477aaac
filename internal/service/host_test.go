package service

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// supervised returns the views of hosts, each with a service that Waybill supervises.
func supervised(count int) []HostView {
	var views []HostView
	for i := range count {
		host := &pipeline.Host{Name: fmt.Sprint("host", i), URL: fmt.Sprint("local://host", i)}
		views = append(views, HostView{Target: "greeter/prod/all/" + host.Name, Runs: &Running{}, place: pipeline.Place{Host: host},
			service: pipeline.Service{Name: "web", Manager: "process"}})
	}
	return views
}

func TestARequestLooksAtABoundedNumberOfServices(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{})
		var now, all atomic.Int32
		more := make(chan struct{})
		s.Inspect = func(context.Context, pipeline.Place, string) (step.State, bool, error) {
			now.Add(1)
			all.Add(1)
			<-more
			now.Add(-1)
			return step.State{Service: 1}, true, nil
		}
		views := supervised(mostLooks + 50)
		for range 2 { // one bound on programs for all requests
			go s.inspectServices(t.Context(), slices.Clone(views[:mostLooks/2]))
		}
		go s.inspectServices(t.Context(), slices.Clone(views[mostLooks/2:]))
		synctest.Wait()
		if n := now.Load(); n != looksAtOnce {
			t.Errorf("%d programs run at once, want %d", n, looksAtOnce)
		}
		close(more)
		synctest.Wait()
		if n := all.Load(); n != mostLooks+50 {
			t.Errorf("%d programs for %d services", n, mostLooks+50)
		}
		all.Store(0)
		s.looks.all = map[string]*look{}
		s.inspectServices(t.Context(), views)
		if n := all.Load(); n != mostLooks {
			t.Errorf("one request ran %d programs, want %d", n, mostLooks)
		}
	})
}

func TestRequestsShareALook(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{})
		var calls atomic.Int32
		more := make(chan struct{})
		s.Inspect = func(ctx context.Context, _ pipeline.Place, _ string) (step.State, bool, error) {
			calls.Add(1)
			select {
			case <-more:
				return step.State{Service: 1}, true, nil
			case <-ctx.Done():
				return step.State{}, true, context.Cause(ctx)
			}
		}
		first, leave := context.WithCancel(t.Context())
		go s.inspectServices(first, supervised(1))
		synctest.Wait()
		second := supervised(1)
		done := make(chan struct{})
		go func() {
			s.inspectServices(t.Context(), second)
			close(done)
		}()
		synctest.Wait()
		leave() // the client whose request began the look is gone
		synctest.Wait()
		close(more)
		<-done
		if got := second[0].Service; got == nil || got.State != "up" || calls.Load() != 1 {
			t.Errorf("%d looks, the second request saw %+v; want one look, and up", calls.Load(), got)
		}
	})
}

func TestALookThatTakesTooLongIsReported(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{})
		s.Inspect = func(ctx context.Context, _ pipeline.Place, _ string) (step.State, bool, error) {
			<-ctx.Done()
			return step.State{}, true, context.Cause(ctx)
		}
		views := supervised(2 * looksAtOnce)
		s.inspectServices(t.Context(), views)
		for _, view := range views {
			if view.Service == nil || view.Service.State != "unknown" || view.Service.Error != "not seen within 5s" {
				t.Errorf("%s: %+v, want unknown, not seen within 5s", view.Target, view.Service)
			}
		}
	})
}

func TestALookThatPanicsIsMadeAgain(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{})
		s.Inspect = func(context.Context, pipeline.Place, string) (step.State, bool, error) { panic("broken") }
		host := &supervised(1)[0]
		func() {
			defer func() { _ = recover() }()
			s.lookAtService(t.Context(), host)
		}()
		s.Inspect = func(context.Context, pipeline.Place, string) (step.State, bool, error) {
			return step.State{Service: 1}, true, nil
		}
		if got := serviceOf(s.lookAtService(t.Context(), host)); got == nil || got.State != "unknown" {
			t.Errorf("a moment after: %+v, want unknown", got)
		}
		s.looks.mu.Lock()
		for _, l := range s.looks.all {
			l.seen.at = l.seen.at.Add(-lookLasts)
		}
		s.looks.mu.Unlock()
		if got := serviceOf(s.lookAtService(t.Context(), host)); got == nil || got.State != "up" {
			t.Errorf("later: %+v, want up", got)
		}
	})
}

// TestWhatAHostReportsOutweighsTheLog: a failed deployment may leave a release that the log does not know of.
func TestWhatAHostReportsOutweighsTheLog(t *testing.T) {
	t.Parallel()
	view := supervised(1)[0]
	view.Runs, view.release = &Running{Label: "88d0e17", Deployment: 2}, "88d0e17-9b1e07d2"
	view.see(sight{known: true, state: step.State{Release: "3f2c9a1-11aa22bb", Service: 42}})
	if view.Found == nil || view.Found.String() != "3f2c9a1-11aa22bb, not 88d0e17 (#2)" {
		t.Errorf("it reports another release: %v", view.Found)
	}
	view.see(sight{known: true, state: step.State{Release: "88d0e17-9b1e07d2", Service: 42}})
	if view.Found != nil {
		t.Errorf("it reports what the log says: %v", view.Found)
	}
}

// A refusal to catch up names hosts whose releases are not known.
func TestARefusedCatchUpNamesHostsThatWereNotAsked(t *testing.T) {
	t.Parallel()
	refused := fault.New(fault.Refused, "no host of shop lacks r1")
	for want, asked := range map[string]askedReleases{
		"no host of shop lacks r1":                                       {},
		"no host of shop lacks r1; prod/a does not answer":               {silent: []string{"shop/prod/a"}, left: 3},
		"no host of shop lacks r1; 3 hosts of the target were not asked": {left: 3},
	} {
		if err := asked.explain(refused); err.Error() != want || (fault.HintOf(err) != "") != (want != refused.Error()) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
