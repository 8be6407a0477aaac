package service

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/queue"
)

// A handler is behind if an action waits for long although its lane may start it. Actions in slowed, paused or disabled lanes
// do not count.
func TestOnlyLanesThatMayStartMakeAHandlerLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	hook := HandlerView{Backlog: queue.Backlog{Handler: "hook", Ready: 3, Oldest: now.Add(-time.Hour)}, Served: 1}
	v := StatusView{Now: now, Handlers: []HandlerView{hook}}
	if late := v.lateTroubles(nil); len(late) != 0 {
		t.Errorf("with nothing outside of such lanes: %+v", late)
	}
	v.Handlers[0].Free = now.Add(-lateAfter)
	if late := v.lateTroubles(nil); len(late) != 1 || !late[0].Since.Equal(v.Handlers[0].Free) {
		t.Errorf("with an action in a lane that is well: %+v", late)
	}
}

// A living process removes dead ones. So where all are dead nothing works, although nothing may wait yet.
func TestNoLivingProcessIsATrouble(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	dead := func(name string, ago time.Duration) InstanceView {
		return InstanceView{Name: name, State: "dead", LeaseEnd: now.Add(-ago)}
	}
	for _, c := range []struct {
		name      string
		processes []InstanceView
		want      string
	}{
		{"none", nil, ""},
		{"one is dead", []InstanceView{dead("a-1", time.Hour)}, "the only process, a-1, is dead: it sends no heartbeat"},
		{"all are dead", []InstanceView{dead("a-1", time.Hour), dead("b-2", time.Minute)},
			"all 2 processes are dead: none sends a heartbeat; the last was b-2"},
		{"the holder of the home", []InstanceView{{Name: "a-1", State: "dead", holder: &Holder{PID: 42, Heard: now.Add(-time.Hour)}}},
			"the only process, a-1 (pid 42), is stopped, hangs, or cannot write to the home: it has not been heard from"},
		{"one lives", []InstanceView{dead("a-1", time.Hour), {Name: "b-2", State: "alive"}}, ""},
		{"one drains", []InstanceView{dead("a-1", time.Hour), {Name: "b-2", State: "draining"}}, ""},
	} {
		got := StatusView{Now: now, Processes: c.processes}.deadTroubles()
		if c.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Text != c.want || got[0].Warning {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}

// Without a promoter pipelines of Kubernetes wait forever, and nothing else reports it.
func TestPipelinesWithoutAPromoterAreATrouble(t *testing.T) {
	t.Parallel()
	promoter := InstanceView{Name: "a-1", State: "alive", Roles: []string{"conductor", "promoter"}}
	dead := promoter
	dead.State = "dead"
	two := []string{"apps:podinfo", "apps:shop"}
	for _, c := range []struct {
		name      string
		processes []InstanceView
		pipelines []string
		want      string
	}{
		{"no pipeline", nil, nil, ""},
		{"no process", nil, two[:1], "no process promotes apps:podinfo, and what is shown may be old"},
		{"a dead one", []InstanceView{dead}, two, "no process promotes 2 pipelines of Kubernetes, and what is shown may be old"},
		{"another role", []InstanceView{{State: "alive", Roles: []string{"conductor"}}}, two[:1],
			"no process promotes apps:podinfo, and what is shown may be old"},
		{"one lives", []InstanceView{dead, promoter}, two, ""},
	} {
		got := StatusView{Processes: c.processes}.promoterTroubles(c.pipelines)
		if c.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Text != c.want || got[0].Warning {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}
