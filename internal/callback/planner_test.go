package callback

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// calling is a book in which every job has these callbacks.
type calling struct {
	book
	callbacks []Callback
}

func (c calling) Callbacks(action.Action) []Callback { return c.callbacks }

// family maps actions to their parents; an action that it does not name is not retained any more.
type family map[action.ID]action.ID

func (f family) Action(_ context.Context, id action.ID) (queue.ActionState, error) {
	parent, known := f[id]
	if !known {
		return queue.ActionState{}, fault.New(fault.NoSuchAction, "action %s not found", id)
	}
	return queue.ActionState{Action: action.Action{ID: id, ParentID: parent}}, nil
}

// away is a blob store that cannot be reached.
type away struct{ blob.Store }

func (away) Get(context.Context, string) (io.ReadCloser, int64, error) {
	return nil, 0, fault.New(fault.Unavailable, "the store is away")
}

func (away) Put(context.Context, string, io.Reader) (string, string, int64, error) {
	return "", "", 0, fault.New(fault.Unavailable, "the store is away")
}

// planning makes a planner with a store of its own.
func planning(t *testing.T, callbacks ...Callback) Planner {
	t.Helper()
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Planner{Book: func() Book { return calling{callbacks: callbacks} }, Blobs: blobs, Jobs: family{}}
}

// ended returns a successful job.
func ended(output string) queue.End {
	job := mirror(`{"zone": "north"}`, "")
	job.Action.Parameters = job.Input
	return queue.End{Action: job.Action, Thread: action.Thread{Status: action.Successful}, At: finished, Output: json.RawMessage(output)}
}

func telling(t *testing.T, from string) Callback {
	t.Helper()
	return Callback{Name: "trigger", When: ends(t, "successful"), Target: publish(), Parameters: []Parameter{path(t, "value", from)}}
}

func TestBigParametersAreStoredBeforeTheirCallback(t *testing.T) {
	t.Parallel()
	p := planning(t, telling(t, "$.output.text"))
	text := strings.Repeat("x", blob.Inline)
	follows, err := p.Plan(t.Context(), ended(`{"text": "`+text+`"}`))
	if err != nil || len(follows) != 1 {
		t.Fatalf("%d follow, %v", len(follows), err)
	}
	a := follows[0].Action
	stored, err := blob.Load(t.Context(), p.Blobs, a.Parameters, a.ParametersRef)
	if err != nil || a.Parameters != nil || string(stored) != `{"value":"`+text+`"}` {
		t.Errorf("%d bytes in the row, %d at %q: %v", len(a.Parameters), len(stored), a.ParametersRef, err)
	}
	p.Blobs = away{}
	if _, err := p.Plan(t.Context(), ended(`{"text": "`+text+`"}`)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("while the store is away: %v, want that the end waits", err)
	}
}

func TestDocumentsAreReadWhereverTheyLie(t *testing.T) {
	t.Parallel()
	p := planning(t, telling(t, "$.output.n"))
	if _, _, _, err := p.Blobs.Put(t.Context(), "there", strings.NewReader(`{"n": 1}`)); err != nil {
		t.Fatal(err)
	}
	elsewhere := func(ref, output string) queue.End {
		e := ended(output)
		e.OutputRef = ref
		return e
	}
	for name, c := range map[string]struct {
		end         queue.End
		want, fault string
	}{
		"in the row":             {elsewhere("", `{"n": 2}`), `{"value":2}`, ""},
		"in the store":           {elsewhere("there", ""), `{"value":1}`, ""},
		"at hand, stored later":  {elsewhere("later", `{"n": 3}`), `{"value":3}`, ""},
		"lost, so it stays lost": {elsewhere("nowhere", ""), "", CodeDocument},
	} {
		follows, err := p.Plan(t.Context(), c.end)
		if err != nil || len(follows) != 1 || string(follows[0].Action.Parameters) != c.want || follows[0].Code != c.fault {
			t.Errorf("%s: %+v, %v", name, follows, err)
		}
	}
	p.Blobs = away{}
	if _, err := p.Plan(t.Context(), elsewhere("there", "")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("while the store is away: %v, want that the end waits", err)
	}
}

// TestChainsAreAsLongAsTheirParents: as far as those are retained, and no longer than it takes to
// know that it is too long.
func TestChainsAreAsLongAsTheirParents(t *testing.T) {
	t.Parallel()
	prepare := func(raw json.RawMessage) (action.Action, error) {
		return action.Action{Kind: "job", Name: "next", Parameters: raw}, nil
	}
	p := planning(t, Callback{Name: "chain", When: ends(t, "successful"), Target: Target{Handler: "argo", Process: "next", Prepare: prepare}})
	ancestor := func(n int) action.ID {
		if n == 0 {
			return action.ID{}
		}
		return action.ID{14: 1, 15: byte(n)}
	}
	above := func(n int) queue.End {
		e := ended(`{}`)
		e.Action.ParentID = ancestor(n)
		parents := family{}
		for i := range n {
			parents[ancestor(i+1)] = ancestor(i)
		}
		p.Jobs = parents
		return e
	}
	for n, tooDeep := range map[int]bool{0: false, 1: false, maxDepth - 2: false, maxDepth - 1: true, maxDepth + 20: true} {
		follows, err := p.Plan(t.Context(), above(n))
		if err != nil || len(follows) != 1 || (follows[0].Code == CodeChainTooDeep) != tooDeep || (follows[0].Link == nil) != tooDeep {
			t.Errorf("%d above: %+v, %v", n, follows, err)
		}
	}
	e := above(3)
	p.Jobs = family{}
	if follows, err := p.Plan(t.Context(), e); err != nil || follows[0].Fault != "" {
		t.Errorf("parents that retention removed: %+v, %v", follows, err)
	}
	p.Jobs = broken{}
	if _, err := p.Plan(t.Context(), e); err == nil {
		t.Error("a log that cannot be read: planned all the same")
	}
}

// broken is a log that cannot be read.
type broken struct{}

func (broken) Action(context.Context, action.ID) (queue.ActionState, error) {
	return queue.ActionState{}, errors.New("no connection")
}

// TestSubscribersAreAskedFor: for the ends whose address they gave, and for the beginning.
func TestSubscribersAreAskedFor(t *testing.T) {
	t.Parallel()
	p := planning(t)
	e := ended(`{"n": 1}`)
	e.Action.Subscriber = &action.Subscriber{SuccessURI: "https://a.example.org/done", InProgressURI: "https://a.example.org/runs"}
	if !p.Asks(e.Action, action.Successful) || p.Asks(e.Action, action.Failed) {
		t.Error("asked for other ends than those that were subscribed")
	}
	begins, again := p.Begins(e.Action, finished, nil), p.Begins(e.Action, finished, nil)
	follows, err := p.Plan(t.Context(), e)
	if err != nil || len(follows) != 1 || len(begins) != 1 || begins[0].Action.ID != again[0].Action.ID ||
		begins[0].Action.ID == follows[0].Action.ID {
		t.Errorf("begins %+v, ends %+v, %v", begins, follows, err)
	}
	if e.Action.Subscriber = nil; p.Begins(e.Action, finished, nil) != nil || p.Asks(e.Action, action.Successful) {
		t.Error("a call without a subscriber")
	}
}

// TestAddedSubscribersAreToldBesides: each once, also when the job has ended already, and then
// nothing but them follows.
func TestAddedSubscribersAreToldBesides(t *testing.T) {
	t.Parallel()
	p := planning(t)
	e := ended(`{"n": 1}`)
	e.Action.Subscriber = &action.Subscriber{SuccessURI: "https://a.example.org/done", InProgressURI: "https://a.example.org/runs"}
	added := func(n byte, uri string) queue.Subscriber {
		return queue.Subscriber{ID: action.ID{15: n}, Subscriber: action.Subscriber{SuccessURI: uri, InProgressURI: uri}}
	}
	e.Subscribers = []queue.Subscriber{added(1, "https://b.example.org/"), added(2, "https://b.example.org/"), {ID: action.ID{15: 3}}}
	urisOf := func(follows []queue.Successor) (uris []string) {
		seen := map[action.ID]bool{}
		for _, f := range follows {
			var said struct{ URI string }
			if err := json.Unmarshal(f.Action.Parameters, &said); err != nil || f.Fault != "" || seen[f.Action.ID] {
				t.Fatalf("%+v, %v", f, err)
			}
			seen[f.Action.ID] = true
			uris = append(uris, said.URI)
		}
		return uris
	}
	follows, err := p.Plan(t.Context(), e)
	want := []string{"https://a.example.org/done", "https://b.example.org/", "https://b.example.org/"}
	if diff := cmp.Diff(want, urisOf(follows)); diff != "" || err != nil {
		t.Errorf("%v, at the end (-want +got):\n%s", err, diff)
	}
	want[0] = "https://a.example.org/runs"
	if diff := cmp.Diff(want, urisOf(p.Begins(e.Action, finished, e.Subscribers))); diff != "" {
		t.Errorf("at the beginning (-want +got):\n%s", diff)
	}
	e.Past, e.Action.Subscriber, e.Subscribers = true, nil, e.Subscribers[:1]
	late, err := p.Plan(t.Context(), e)
	if diff := cmp.Diff(want[1:2], urisOf(late)); diff != "" || err != nil {
		t.Errorf("%v, after the end (-want +got):\n%s", err, diff)
	}
	if len(late) != 1 || late[0].Action.ID != follows[1].Action.ID {
		t.Error("another action calls the same subscriber")
	}
}
