//go:build linux && services

package chaos_test

import (
	"encoding/json"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/test/chaos"
)

// judge waits until everything has ended, and wants every event to have one action, which all answers named and which succeeded.
func (s *senders) judge(t *testing.T) {
	t.Helper()
	s.stop()
	v := judged(t, s.world)
	t.Logf("%d events in %d requests, of which %d were repeated", len(s.answers), s.answered, s.repeated)
	if s.repeated == 0 {
		t.Error("no request was repeated: the kills hit nothing")
	}
	if len(v.Ends) != 1 || v.Ends[action.Successful] != len(s.answers) {
		t.Errorf("%d events have actions with the ends %v", len(s.answers), v.Ends)
	}
	states, err := s.world.Ledger.Actions(t.Context(), queue.ActionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	made := map[string][]action.ID{}
	for _, a := range states {
		var parameters struct{ Event string }
		if err := json.Unmarshal(a.Parameters, &parameters); err != nil {
			t.Fatal(err)
		}
		made[parameters.Event] = append(made[parameters.Event], a.ID)
	}
	for id, named := range s.answers {
		if all := made[id]; len(all) != 1 || len(named) != 1 || named[all[0]] == 0 {
			t.Errorf("event %s has the actions %v; answers named %v", id, all, named)
		}
	}
	if len(made) != len(s.answers) {
		t.Errorf("the log has %d events, of which %d were answered", len(made), len(s.answers))
	}
}

// TestEventsHaveOneActionWhateverIsKilled kills `waybill up` again and again while it receives events.
func TestEventsHaveOneActionWhateverIsKilled(t *testing.T) {
	t.Parallel()
	w := world(t, chaos.Settings{})
	address, err := chaos.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	up := func() *chaos.Process {
		p, err := w.Up(t.Context(), address)
		return watched(t, p, err)
	}
	p, s := up(), send(t, w, address)
	for range 5 {
		s.moment(t)
		p.Kill()
		p = up()
	}
	s.moment(t)
	s.judge(t)
}

// TestEventsHaveOneActionWhicheverIsKilled kills one of two processes on one database again and again. Senders that a process does
// not answer send the event to the other, which may be storing it for another sender.
func TestEventsHaveOneActionWhicheverIsKilled(t *testing.T) {
	t.Parallel()
	w := world(t, chaos.Settings{Direct: pgtest.URL(t), Heartbeat: soon})
	addresses, processes := make([]string, 2), make([]*chaos.Process, 2)
	start := func(i int) {
		processes[i] = serve(t, w, "api", "conductor", "--listen", addresses[i])
		if _, err := processes[i].Joined(t.Context(), "api"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range processes {
		var err error
		if addresses[i], err = chaos.FreeAddress(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(i)
	}
	s := send(t, w, addresses...)
	for i := range 4 {
		s.moment(t)
		processes[i%2].Kill()
		start(i % 2)
	}
	s.moment(t)
	s.judge(t)
}
