package service

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Hosts that do not answer cost a bounded time, and are asked last from then on.
func TestHostsOutOfReachHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{})
		const silent, all = 2 * observersAtOnce, 4 * observersAtOnce
		hosts := supervised(all)
		quiet := map[string]bool{}
		for _, host := range hosts[:silent] {
			quiet[host.place.Host.Name] = true
		}
		isSilent := func(name string) bool { return quiet[name] }
		var mu sync.Mutex
		var asked []string
		now, most := 0, 0
		s.Inspect = func(ctx context.Context, at pipeline.Place, _ string) (step.State, bool, error) {
			mu.Lock()
			asked = append(asked, at.Host.Name)
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() { mu.Lock(); now--; mu.Unlock() }()
			if isSilent(at.Host.Name) {
				<-ctx.Done()
				return step.State{}, false, context.Cause(ctx)
			}
			return step.State{Service: 1}, true, nil
		}
		began := time.Now()
		s.askAll(t.Context(), []PipelineView{{Hosts: hosts}})
		if took := time.Since(began); took != 2*lookTakes || most != observersAtOnce { // virtual time
			t.Errorf("a round took %s with %d at a time, want %s with %d", took, most, 2*lookTakes, observersAtOnce)
		}
		asked = nil
		s.askAll(t.Context(), []PipelineView{{Hosts: hosts}})
		// Hosts that are asked at the same time may call in any order.
		if len(asked) != all || slices.ContainsFunc(asked[:all-silent-observersAtOnce], isSilent) {
			t.Errorf("asked in the order %v, want those that did not answer last", asked)
		}
		if got := hosts[0].Service; got == nil || got.State != ServiceUnknown || got.Error != "not seen within 5s" {
			t.Errorf("a silent host: %+v, want unknown", got)
		}
	})
}

// Views ask no host that was observed, unless the log has changed the host since or the observation is old.
func TestViewsShowWhatWasObserved(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{})
		asked := 0
		s.Inspect = func(context.Context, pipeline.Place, string) (step.State, bool, error) {
			asked++
			return step.State{Service: 1, Restarts: asked}, true, nil
		}
		look := func(changed int64) int {
			views := supervised(1)
			views[0].changed = changed
			s.inspectServices(t.Context(), views)
			return views[0].Service.Restarts
		}
		s.askAll(t.Context(), []PipelineView{{Seq: 7, Hosts: supervised(1)}})
		loop.Pause(t.Context(), observedLasts)
		if got := look(7); got != 1 || asked != 1 {
			t.Errorf("a view shows answer %d after %d questions, want the first one", got, asked)
		}
		if got := look(8); got != 2 {
			t.Errorf("after a change of the host a view shows answer %d, want the second one", got)
		}
		loop.Pause(t.Context(), lookLasts)
		if got := look(7); got != 3 {
			t.Errorf("a view shows answer %d, want the third one: the observation is old", got)
		}
		s.askAll(t.Context(), nil)
		if len(s.observed.all) != 0 {
			t.Errorf("%d hosts that are gone are remembered", len(s.observed.all))
		}
	})
}

// An ssh host answers which release it has, also where Waybill starts no service.
func TestAnSSHHostDriftsByItsAnswer(t *testing.T) {
	t.Parallel()
	for manager, states := range map[string][2]string{pipeline.ManagerProcess: {ServiceUp, ServiceUnknown}, "none": {"", ServiceUnknown}} {
		for _, c := range []struct {
			name, want string
			seen       sight
		}{
			{"the release of the log", "", sight{known: true, state: step.State{Service: 1, Release: "r2"}}},
			{"another release", "has release r1, not 88d0e17 of #2", sight{known: true, state: step.State{Service: 1, Release: "r1"}}},
			{"a switch under way", "", sight{known: true, state: step.State{Service: 1, Release: "r1", Unfinished: true}}},
			{"no release", "has lost 88d0e17 of #2", sight{known: true, state: step.State{Service: 1}}},
			{"out of reach", "", sight{err: errUnseen}},
		} {
			t.Run(manager+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				stage := &pipeline.Stage{Name: "prod"}
				host := HostView{Target: "greeter/prod/all/elm", Runs: &Running{Deployment: 2, Label: "88d0e17"}, release: "r2",
					place:   pipeline.Place{Stage: stage, Host: &pipeline.Host{Name: "elm", URL: "ssh://elm"}},
					service: pipeline.Service{Name: "web", Manager: manager}}
				host.see(c.seen)
				s := New(nil, nil, Options{})
				var got []string
				for _, d := range s.lostReleases(&PipelineView{Hosts: []HostView{host}}) {
					got = append(got, d.Reason)
				}
				if text := strings.Join(got, "; "); text != c.want {
					t.Errorf("drift %q, want %q", text, c.want)
				}
				want, state := states[0], ""
				if c.seen.err != nil {
					want = states[1]
				}
				if view := host.serviceView(); view.State != nil {
					state = view.State.State
				}
				if state != want {
					t.Errorf("state %q, want %q", state, want)
				}
			})
		}
	}
}
