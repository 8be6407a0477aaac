package osb

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/action"
)

func TestLastOperationInEveryState(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"none":               "404 NotFound",
		"gone":               `200 {"state":"succeeded","description":"deprovision succeeded"}`,
		"provisioning":       `200 {"state":"in progress","description":"attempt 1 runs"}`,
		"provision failed":   `200 {"state":"failed","description":"provision failed"}`,
		"ready":              `200 {"state":"succeeded","description":"provision succeeded"}`,
		"updating":           `200 {"state":"in progress","description":"attempt 1 runs"}`,
		"update failed":      `200 {"state":"failed","description":"update did not end in time","instance_usable":true,"update_repeatable":true}`,
		"deprovisioning":     `200 {"state":"in progress","description":"attempt 1 runs"}`,
		"deprovision failed": `200 {"state":"failed","description":"deprovision failed","instance_usable":false}`,
	} {
		d := subject(t, state).LastOperation(nil, time.Hour)
		if got := show(t, d); got != want {
			t.Errorf("%s: got %s, want %s", state, got, want)
		}
		if polls := d.RetryAfter > 0; polls != strings.Contains(want, "in progress") {
			t.Errorf("%s: Retry-After %s", state, d.RetryAfter)
		}
	}
}

func TestThreadsAsTheStateOfAnOperation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		thread Thread
		want   string
		pause  time.Duration
	}{
		{Thread{Status: action.Pending}, `{"state":"in progress","description":"waits for its turn"}`, time.Second},
		{Thread{Status: action.Running, Attempt: 2, Attempts: 6}, `{"state":"in progress","description":"attempt 2 of 6 runs"}`, time.Second},
		{Thread{Status: action.Queued, Text: "x"}, `{"state":"in progress","description":"x"}`, time.Second},
		{Thread{Status: action.Running, Text: "making folder"}, `{"state":"in progress","description":"making folder"}`, time.Second},
		{Thread{Status: action.Backoff, Text: "the Broker is not ready", Next: now.Add(4 * time.Second)},
			`{"state":"in progress","description":"the Broker is not ready"}`, 4 * time.Second},
		{Thread{Status: action.Backoff, Attempt: 2, Attempts: 6, Error: "no disk", Next: now.Add(8500 * time.Millisecond)},
			`{"state":"in progress","description":"attempt 2 of 6, next in 9 s: no disk"}`, 9 * time.Second},
		{Thread{Status: action.Backoff, Attempt: 2, Error: "no disk", Next: now.Add(-time.Second)},
			`{"state":"in progress","description":"attempt 2, next in 0 s: no disk"}`, time.Second},
		{Thread{Status: action.Backoff, Attempt: 5, Attempts: 6, Error: "no disk", Next: now.Add(time.Hour)},
			`{"state":"in progress","description":"attempt 5 of 6, next in 3600 s: no disk"}`, 15 * time.Second},
		{Thread{Status: action.Running, Attempt: 3, Attempts: 6, Text: "x", Error: "no disk"},
			`{"state":"in progress","description":"attempt 3 of 6: no disk"}`, time.Second},
		{Thread{Status: action.Successful, Text: "made folder demo-1"}, `{"state":"succeeded","description":"made folder demo-1"}`, 0},
		{Thread{Status: action.Failed, Error: "no disk", Text: "x"}, `{"state":"failed","description":"no disk"}`, 0},
		{Thread{Status: action.Canceled}, `{"state":"failed","description":"provision was cancelled"}`, 0},
		{Thread{Status: action.TimedOut}, `{"state":"failed","description":"provision did not end in time"}`, 0},
		{Thread{Status: action.TimedOut, Error: "no disk"}, `{"state":"failed","description":"no disk"}`, 0},
		{Thread{Status: action.Invalid, Error: "no handler"}, `{"state":"failed","description":"no handler"}`, 0},
		{Thread{Status: action.RetriesExhausted, Error: "no disk"}, `{"state":"failed","description":"no disk"}`, 0},
	} {
		s := subject(t, "provisioning")
		s.Thread = &c.thread
		d := s.LastOperation(nil, time.Hour)
		if got := show(t, d); got != "200 "+c.want || d.RetryAfter != c.pause {
			t.Errorf("%s: got %s after %s, want %s after %s", c.thread.Status, got, d.RetryAfter, c.want, c.pause)
		}
	}
}

// TestWhichOperationIsPolled has the service instance with a failed operation op(1), and other operations.
func TestWhichOperationIsPolled(t *testing.T) {
	t.Parallel()
	const last = `200 {"state":"failed","description":"provision failed"}`
	of := func(n byte, instance string, verb Verb, status action.Status) *Operation {
		return &Operation{ID: op(n), Instance: instance, Verb: verb, Thread: Thread{Status: status}}
	}
	for _, c := range []struct {
		name  string
		found *Operation
		want  string
	}{
		{"absent, unknown, or not kept", nil, last},
		{"the last", of(1, "demo-1", VerbProvision, action.RetriesExhausted), last},
		{"an older one", of(2, "demo-1", VerbDeprovision, action.Successful),
			`200 {"state":"succeeded","description":"deprovision succeeded"}`},
		{"an older one that failed", of(3, "demo-1", VerbUpdate, action.Failed),
			`200 {"state":"failed","description":"update failed","instance_usable":true,"update_repeatable":true}`},
		{"another service instance's", of(4, "demo-2", VerbProvision, action.Running), "400 InvalidRequest"},
	} {
		if got := show(t, subject(t, "provision failed").LastOperation(c.found, time.Hour)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	for verb, want := range map[Verb]string{
		VerbProvision: `200 {"state":"failed","description":"cancelled by delete"}`,
		VerbUpdate:    `200 {"state":"failed","description":"cancelled by delete","instance_usable":false,"update_repeatable":false}`,
	} {
		found := of(2, "demo-1", verb, action.Canceled)
		found.Thread.Error = "context canceled"
		if got := show(t, subject(t, "deprovisioning").LastOperation(found, time.Hour)); got != want {
			t.Errorf("%s cancelled: got %s, want %s", verb, got, want)
		}
	}
	other := of(4, "demo-2", VerbProvision, action.Running)
	if got := show(t, subject(t, "none").LastOperation(other, 0)); got != "404 NotFound" {
		t.Errorf("another's operation of an unknown service instance: got %s", got)
	}
}

// TestTombstones has a service instance that was deleted by op(1), and provisioned by op(2) before.
func TestTombstones(t *testing.T) {
	t.Parallel()
	const deleted = `200 {"state":"succeeded","description":"deprovision succeeded"}`
	const before = `200 {"state":"succeeded","description":"provision succeeded"}`
	of := func(n byte, verb Verb) *Operation {
		return &Operation{ID: op(n), Instance: "demo-1", Verb: verb, Thread: Thread{Status: action.Successful}}
	}
	for _, c := range []struct {
		age, tombstone time.Duration
		found          *Operation
		want           string
	}{
		{0, time.Hour, nil, deleted},
		{time.Hour - 1, time.Hour, nil, deleted},
		{time.Hour - 1, time.Hour, of(1, VerbDeprovision), deleted},
		{time.Hour, time.Hour, nil, "410 Gone"},
		{time.Hour, time.Hour, of(1, VerbDeprovision), "410 Gone"},
		{0, 0, nil, "410 Gone"},
		{0, time.Hour, of(2, VerbProvision), before},
		{2 * time.Hour, time.Hour, of(2, VerbProvision), before},
		{30*24*time.Hour - 1, time.Hour, nil, "410 Gone"},
		{30 * 24 * time.Hour, time.Hour, nil, "404 NotFound"},
		{30 * 24 * time.Hour, time.Hour, of(2, VerbProvision), "404 NotFound"},
		{30 * 24 * time.Hour, 90 * 24 * time.Hour, of(1, VerbDeprovision), "404 NotFound"},
	} {
		s := subject(t, "gone")
		s.Row.GoneAt = now.Add(-c.age)
		if got := show(t, s.LastOperation(c.found, c.tombstone)); got != c.want {
			t.Errorf("%s after the delete, tombstone %s, %+v: got %s, want %s", c.age, c.tombstone, c.found, got, c.want)
		}
	}
}

// TestOperationsOfAFormerServiceInstance with the id mean nothing, but that it is deleted.
func TestOperationsOfAFormerServiceInstance(t *testing.T) {
	t.Parallel()
	of := func(n byte, verb Verb, status action.Status) *Operation {
		return &Operation{ID: op(n), Instance: "demo-1", Verb: verb, Thread: Thread{Status: status}}
	}
	const last = `200 {"state":"succeeded","description":"provision succeeded"}`
	for _, c := range []struct {
		name, user string
		found      *Operation
		want       string
	}{
		{"a deletion", "platform", of(2, VerbDeprovision, action.Successful), "410 Gone"},
		{"an update", "platform", of(2, VerbUpdate, action.Failed), last},
		{"one since", "platform", of(4, VerbUpdate, action.Successful), `200 {"state":"succeeded","description":"update succeeded"}`},
		{"another's deletion", "other", of(2, VerbDeprovision, action.Successful), "410 Gone"},
		{"another's failed deletion", "other", of(2, VerbDeprovision, action.Failed), "404 NotFound"},
		{"another's provision", "other", of(2, VerbProvision, action.Successful), "404 NotFound"},
		{"another's, without a name", "other", nil, "404 NotFound"},
	} {
		s := subject(t, "ready")
		s.User, s.Row.Asked.First, s.Row.Operation = c.user, op(3), op(5)
		if got := show(t, s.LastOperation(c.found, time.Hour)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestAServiceInstanceKnowsItsFirstOperation through its life, and also when a failed provision is repeated.
func TestAServiceInstanceKnowsItsFirstOperation(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]action.ID{"none": op(2), "gone": op(2), "provision failed": op(1)} {
		s := subject(t, state)
		if s.Row != nil {
			s.Row.Asked.First = op(1)
		}
		row := s.Put(Provision{Attributes: attributes()}, folder().Plans[0]).Start.Row("demo-1", "platform", op(2))
		if row.Asked.First != want {
			t.Errorf("%s: the first operation is %s, want %s", state, row.Asked.First, want)
		}
	}
	s, service := subject(t, "ready"), folder()
	s.Row.Asked.First, s.Row.Applied.First = op(1), op(1)
	d := s.Patch(Update{ServiceID: "folder", Parameters: new(Empty)}, Change{Service: service, Plan: service.Plans[0]})
	row := d.Start.Row("demo-1", "platform", op(2))
	s.Row = &row
	removed := s.Delete(Deprovision{AcceptsIncomplete: true, ServiceID: "folder", PlanID: "small"}, nil, nil).Start.Row("demo-1", "platform", op(3))
	if row.Asked.First != op(1) || removed.Asked.First != op(1) || removed.Applied == nil {
		t.Errorf("after an update %s, after a delete %s", row.Asked.First, removed.Asked.First)
	}
}

func TestTextsOfOthersAreCut(t *testing.T) {
	t.Parallel()
	s := subject(t, "provisioning")
	for _, thread := range []Thread{
		{Status: action.Running, Text: strings.Repeat("ä", 1000)},
		{Status: action.Backoff, Error: strings.Repeat("ä", 1000)},
		{Status: action.Failed, Error: strings.Repeat("ä", 1000)},
		{Status: action.Successful, Text: "\xff" + strings.Repeat("ä", 1000)},
	} {
		s.Thread = &thread
		text := s.LastOperation(nil, 0).Body.(operationState).Description
		if len(text) > 1024 || len(text) < 1000 || !utf8.ValidString(text) || !strings.HasSuffix(text, "ä…") {
			t.Errorf("%s: %d bytes, ending in %q", thread.Status, len(text), text[len(text)-6:])
		}
	}
}
