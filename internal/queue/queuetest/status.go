package queuetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// statusTellsWhereAllActionsStand: by handler and status, who waits longest, and what comes next.
func statusTellsWhereAllActionsStand(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	slow := job("slow")
	slow.Handler, slow.Lane = "slow", "slow/a"
	oldest := s.enqueue(t, slow)
	slow.Lane, slow.UniqueKey = "slow/b", ""
	s.enqueue(t, slow)
	other := job("slower") // a name that begins like the other one
	other.Handler, other.Lane = "slower", "slower"
	s.enqueue(t, other)
	s.enqueue(t, job("x"))
	s.claim(t, host, "noop", 1)
	later := job("later")
	later.RunAt = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	s.enqueue(t, later)

	got, err := s.Status(s.ctx)
	storetest.Check(t, err)
	counts := map[string]map[action.Status]int{}
	for _, b := range got.Backlogs {
		counts[b.Handler] = b.Counts
	}
	want := map[string]map[action.Status]int{
		"noop": {action.Running: 1, action.Pending: 1}, "slow": {action.Pending: 2}, "slower": {action.Pending: 1},
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	if b := got.Backlogs[1]; b.Ready != 2 || b.OldestID != oldest || b.Oldest.IsZero() || b.Oldest.After(got.Now) || b.Live() != 2 {
		t.Errorf("slow: %+v, want 2 ready, %s the first", b, oldest)
	}
	if b := got.Backlogs[1]; !b.Free.Equal(b.Oldest) {
		t.Errorf("slow: its first action may start since %s, want %s", b.Free, b.Oldest)
	}
	if b := got.Backlogs[0]; b.Ready != 0 || !b.OldestID.IsZero() {
		t.Errorf("noop: %+v, want nothing ready", b)
	}
	if !got.NextDue.Equal(later.RunAt) {
		t.Errorf("next due at %s, want %s", got.NextDue, later.RunAt)
	}
	if len(got.Instances) != 1 || len(got.Rescues) != 0 {
		t.Errorf("instances %+v, rescues %v", got.Instances, got.Rescues)
	}
	_, err = s.Limit(s.ctx, "slow/a", queue.LimitCommand{Kind: "pause", By: "ana"})
	storetest.Check(t, err)
	paused, err := s.Status(s.ctx)
	storetest.Check(t, err)
	if b := paused.Backlogs[1]; !b.Oldest.Equal(got.Backlogs[1].Oldest) || !b.Free.After(b.Oldest) {
		t.Errorf("slow, with the lane of its first action paused: %+v, want the other action's time", b)
	}
	_, err = s.Limit(s.ctx, "slow/*", queue.LimitCommand{Kind: "pause", By: "ana"})
	storetest.Check(t, err)
	paused, err = s.Status(s.ctx)
	storetest.Check(t, err)
	if b := paused.Backlogs[1]; b.Ready != 2 || !b.Free.IsZero() {
		t.Errorf("slow, paused as a whole: %+v, want none that may start", b)
	}
	sample, err := s.Sample(s.ctx)
	storetest.Check(t, err)
	if len(sample.Backlogs) != 3 || sample.Backlogs[1].Ready != 2 {
		t.Errorf("sample: %+v", sample)
	}
}

// rescuesAreCountedForAnHour: and no other event is read for it.
func rescuesAreCountedForAnHour(t *testing.T, s setup) {
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	once := job("once")
	once.Delivery = action.AtMostOnce
	s.enqueue(t, once)
	s.enqueue(t, job("again"))
	s.enqueue(t, job("more"))
	s.claim(t, a, "noop", 3)
	storetest.Check(t, s.Leave(s.ctx, a))
	_, err := s.Rescue(s.ctx, b.ID, nil)
	storetest.Check(t, err)
	got, err := s.Status(s.ctx)
	storetest.Check(t, err)
	want := map[string]int{action.CodeLeaseLost: 2, action.CodeOutcomeUnknown: 1}
	if diff := cmp.Diff(want, got.Rescues); diff != "" {
		t.Error(diff)
	}
}

// instancesTellWhatNoRowSays: with their heartbeat, and until they leave.
func instancesTellWhatNoRowSays(t *testing.T, s setup) {
	a := s.join(t, "host-a")
	a.Handlers, a.Draining = []string{"noop", "notify"}, true
	s.UpdateReport(func(r *queue.Report) {
		r.Stopped = map[string]string{"greeter": "two deployments finish at once"}
		r.Reload = &queue.Reload{File: "server.yaml", Since: time.Unix(1e9, 0).UTC(), Faults: []string{"server.yaml:1:1: unknown key"}}
	})
	storetest.Check(t, s.Heartbeat(s.ctx, a))
	rows, err := s.Instances(s.ctx)
	storetest.Check(t, err)
	if len(rows) != 1 {
		t.Fatalf("instances: %+v", rows)
	}
	if diff := cmp.Diff(s.Report(), rows[0].Report); diff != "" || !rows[0].Draining {
		t.Errorf("draining %v, report (-want +got):\n%s", rows[0].Draining, diff)
	}
	if diff := cmp.Diff(a.Handlers, rows[0].Handlers); diff != "" {
		t.Error(diff)
	}
	s.UpdateReport(func(r *queue.Report) { delete(r.Stopped, "greeter") })
	storetest.Check(t, s.Heartbeat(s.ctx, a))
	rows, err = s.Instances(s.ctx)
	storetest.Check(t, err)
	if len(rows) != 1 || len(rows[0].Report.Stopped) != 0 {
		t.Errorf("instances: %+v", rows)
	}
	storetest.Check(t, s.Leave(s.ctx, a))
	if rows, err = s.Instances(s.ctx); len(rows) != 0 || err != nil {
		t.Errorf("it has left, and is still there: %+v, %v", rows, err)
	}
}
