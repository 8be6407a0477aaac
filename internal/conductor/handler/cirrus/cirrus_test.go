package cirrus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/aws/awstest"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/cirrus"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

func TestMain(m *testing.M) { os.Exit(awstest.Main(m)) }

// world is AWS, a state machine and a queue there, and an empty log.
type world struct {
	*awstest.Server
	*ledger.Ledger
	machine, queue string
	cfg            cirrus.Config
}

func setup(t *testing.T) *world {
	t.Helper()
	driver := sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db"))
	l := ledger.New(driver, ledger.Options{})
	t.Cleanup(func() { l.Close() })
	folder, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := awstest.Start(t)
	w := &world{Server: s, Ledger: l, machine: s.Machine("reproject"), queue: s.Queue("process")}
	w.cfg = cirrus.Config{Account: s.Account(t), Queue: w.queue, Observed: true, Blobs: folder, Ledger: l,
		Processes: map[string]string{"direct": w.machine, "mirror": ""}}
	return w
}

var testID = action.NewID(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), [10]byte{1})

func attempt(kind, name, parameters string) conductor.Attempt {
	return conductor.Attempt{Action: action.Action{ID: testID, Kind: kind, Name: name, Handler: "cirrus",
		Parameters: json.RawMessage(parameters)}, Number: 1}
}

func TestStateMachinesAreStartedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	h := cirrus.New(w.cfg)
	arn := aws.ExecutionARN(w.machine, testID.String())
	want := action.Outcome{Kind: action.Done, Ref: arn}
	for _, a := range []conductor.Attempt{
		attempt(config.KindAction, "cirrus", fmt.Sprintf(`{"payload": {"n": 1.0}, "sfnArn": %q}`, w.machine)),
		attempt(config.KindJob, "direct", `{"payload": {"n": 1.0}}`),
		attempt(config.KindJob, "direct", `{"n": 2}`), // another input by the same name: it is there already
	} {
		if diff := cmp.Diff(want, h.Do(t.Context(), a)); diff != "" {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
	}
	if got := w.Execution(arn); got.Input != `{"n": 1.0}` || got.Status != aws.StatusRunning {
		t.Errorf("execution %+v", got)
	}
}

func TestQueueGetsAProcessPayload(t *testing.T) {
	t.Parallel()
	id := testID.String()
	for name, c := range map[string]struct{ kind, process, parameters, want string }{
		"a job's payload": {config.KindJob, "mirror",
			`{"payload": {"features": [{"id": "a", "collection": "s2"}, {"collection": "l8"}, {"collection": "s2"}]}, "mode": 1}`,
			`{"features":[{"collection":"s2","id":"a"},{"collection":"l8"},{"collection":"s2"}],"id":"l8/s2/workflow-mirror/` +
				id + `","process":[{"workflow":"mirror"}]}`},
		"a job's inputs": {config.KindJob, "mirror", `{"n": 1.50}`,
			`{"id":"none/workflow-mirror/` + id + `","n":1.50,"process":[{"workflow":"mirror"}]}`},
		"a process definition": {config.KindAction, "cirrus",
			`{"payload": {"id": "x", "process": [{"workflow": "cog", "collections": "a/b"}, {"workflow": "next"}]}}`,
			`{"id":"a/b/workflow-cog/` + id + `","process":[{"collections":"a/b","workflow":"cog"},{"workflow":"next"}]}`},
	} {
		w := setup(t)
		o := cirrus.New(w.cfg).Do(t.Context(), attempt(c.kind, c.process, c.parameters))
		if diff := cmp.Diff([]string{c.want}, w.Messages(w.queue)); diff != "" {
			t.Errorf("%s: sent (-want +got):\n%s", name, diff)
		}
		var sent struct{ ID string }
		if err := json.Unmarshal([]byte(c.want), &sent); err != nil || o.Kind != action.Done || o.Ref != sent.ID || o.Final {
			t.Errorf("%s: outcome %+v, %v", name, o, err)
		}
	}
}

func TestAcceptanceIsTheEndWithoutEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.Observed = false
	h := cirrus.New(w.cfg)
	if o := h.Do(t.Context(), attempt(config.KindJob, "mirror", `{}`)); o.Kind != action.Done || !o.Final {
		t.Errorf("by the queue: %+v", o)
	}
	if o := h.Do(t.Context(), attempt(config.KindJob, "direct", `{}`)); o.Kind != action.Done || o.Final {
		t.Errorf("by the state machine: %+v", o)
	}
}

// shared is a store that others can read.
type shared struct {
	blob.Store
	fails bool
	kept  map[string]string
}

func (s *shared) URL(key string) string { return "s3://payloads/" + key }

func (s *shared) Put(_ context.Context, key string, r io.Reader) (string, string, int64, error) {
	if s.fails {
		return "", "", 0, errors.New("the bucket is away")
	}
	content, err := io.ReadAll(r)
	s.kept[key] = string(content)
	return key, "", int64(len(content)), err
}

func TestBigPayloadsAreUploaded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	big := fmt.Sprintf(`{"payload": {"text": %q}}`, strings.Repeat("x", aws.MaxMessage))
	if o := cirrus.New(w.cfg).Do(t.Context(), attempt(config.KindJob, "mirror", big)); o.Kind != action.Fatal ||
		!strings.Contains(o.Error, "blob.url") {
		t.Errorf("without a shared store: %s %s", o.Kind, o.Error)
	}
	store := &shared{kept: map[string]string{}, fails: true}
	w.cfg.Blobs = store
	h := cirrus.New(w.cfg)
	if o := h.Do(t.Context(), attempt(config.KindJob, "mirror", big)); o.Kind != action.RetryAfter || o.At.IsZero() {
		t.Errorf("while the store is away: %s %s", o.Kind, o.Error)
	}
	store.fails = false
	for process, want := range map[string]string{"mirror": "none/workflow-mirror/" + testID.String(),
		"direct": aws.ExecutionARN(w.machine, testID.String())} {
		if o := h.Do(t.Context(), attempt(config.KindJob, process, big)); o.Kind != action.Done || o.Ref != want {
			t.Errorf("%s: %+v", process, o)
		}
	}
	key := "action/2026w47/" + testID.String() + "/payload.json"
	url := `{"url": "s3://payloads/` + key + `"}`
	if diff := cmp.Diff([]string{url}, w.Messages(w.queue)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if got := w.Execution(aws.ExecutionARN(w.machine, testID.String())).Input; got != url {
		t.Errorf("input %s", got)
	}
	if !strings.Contains(store.kept[key], strings.Repeat("x", aws.MaxMessage)) {
		t.Errorf("kept %d bytes", len(store.kept[key]))
	}
}

func TestRefusalsOfAWSAreJudged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	h := cirrus.New(w.cfg)
	for name, c := range map[string]struct {
		fault *awstest.Fault
		want  action.OutcomeKind
	}{
		"throttled":    {&awstest.Fault{Status: 400, Code: "ThrottlingException"}, action.Throttle},
		"broken":       {&awstest.Fault{Status: 500, Code: "InternalServerError"}, action.Throttle},
		"away":         {&awstest.Fault{Status: 503, Code: "ServiceUnavailable"}, action.Throttle},
		"not allowed":  {&awstest.Fault{Status: 400, Code: "AccessDeniedException"}, action.Throttle},
		"no answer":    {&awstest.Fault{}, action.Throttle},
		"no machine":   {&awstest.Fault{Status: 400, Code: "StateMachineDoesNotExist"}, action.Fatal},
		"no queue":     {&awstest.Fault{Status: 400, Code: "QueueDoesNotExist"}, action.Fatal},
		"wrong input":  {&awstest.Fault{Status: 400, Code: "InvalidExecutionInput"}, action.BadInput},
		"another word": {&awstest.Fault{Status: 409, Code: "ConflictException"}, action.Retry},
	} {
		w.Fail(func(string, int) *awstest.Fault { return c.fault })
		for _, process := range []string{"direct", "mirror"} {
			if o := h.Do(t.Context(), attempt(config.KindJob, process, `{}`)); o.Kind != c.want || o.Error == "" || o.Code == "" || o.Ref == "" {
				t.Errorf("%s, %s: %+v, want %s", name, process, o, c.want)
			}
		}
	}
}

func TestWrongParametersAreTheInputsFault(t *testing.T) {
	t.Parallel()
	w := setup(t)
	h := cirrus.New(w.cfg)
	for _, bad := range []string{``, `{}`, `{"payload": 1}`, `{"payload": null}`, `{"payload": {}, "sfn": "x"}`,
		`{"payload": {"process": []}}`,
		`{"payload": {"process": [{}]}}`, `{"payload": {"process": [{"workflow": "a/b"}]}}`} {
		if len(cirrus.Check(json.RawMessage(bad))) == 0 {
			t.Errorf("%s: nothing is found wrong", bad)
		}
		if o := h.Do(t.Context(), attempt(config.KindAction, "cirrus", bad)); o.Kind != action.BadInput || o.Error == "" {
			t.Errorf("%s: %+v", bad, o)
		}
	}
	if problems := cirrus.Check(json.RawMessage(`{"payload": {}}`)); len(problems) > 0 {
		t.Error(problems)
	}
	if o := h.Do(t.Context(), attempt(config.KindJob, "gone", `{}`)); o.Kind != action.BadInput ||
		!strings.Contains(o.Error, `process "gone" was removed`) {
		t.Errorf("a job without its process: %+v", o)
	}
	w.cfg.Queue = ""
	if o := cirrus.New(w.cfg).Do(t.Context(), attempt(config.KindJob, "mirror", `{}`)); o.Kind != action.Fatal {
		t.Errorf("without a queue: %+v", o)
	}
	if made := w.Calls(""); len(made) > 0 {
		t.Errorf("AWS was asked: %+v", made)
	}
}

// conduct runs a conductor with the handler until the test ends.
func (w *world) conduct(t *testing.T) {
	t.Helper()
	c := conductor.New(w.NewWaiter(), conductor.Config{Handlers: map[string]conductor.Handler{"cirrus": cirrus.New(w.cfg)}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// enqueue makes a job of a process. It waits milliseconds between attempts.
func (w *world) enqueue(t *testing.T, process, parameters string) action.ID {
	t.Helper()
	policy := action.DefaultPolicy()
	policy.Initial, policy.Max = action.Duration(time.Millisecond), action.Duration(10*time.Millisecond)
	made, err := w.Enqueue(t.Context(), action.Action{Kind: config.KindJob, Name: process, Handler: "cirrus",
		Policy: policy, Parameters: []byte(parameters)})
	if err != nil {
		t.Fatal(err)
	}
	return made[0].ID
}

// await waits for an action to get a status.
func (w *world) await(t *testing.T, id action.ID, want action.Status) queue.ActionState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	view := w.NewWaiter()
	for {
		state, err := w.Action(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if state.Thread.Status == want {
			return state
		}
		if state.Thread.Status.Ended() {
			t.Fatalf("it is %s: %s, want %s", state.Thread.Status, state.Error, want)
		}
		if err := view.Wait(ctx, store.TopicAction, time.Time{}); err != nil {
			t.Fatalf("not %s after a minute: %+v", want, state.Thread)
		}
	}
}

// TestNoFaultOfAWSDoesWorkTwice: refusals spend no attempt, and an answer that is lost after the
// work was accepted is found out by the name.
func TestNoFaultOfAWSDoesWorkTwice(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Fail(func(_ string, n int) *awstest.Fault {
		switch n {
		case 1:
			return &awstest.Fault{Status: 400, Code: "ThrottlingException"}
		case 2:
			return &awstest.Fault{Status: 500, Code: "InternalFailure"}
		case 3:
			return &awstest.Fault{Done: true} // accepted, and the connection breaks
		}
		return nil
	})
	w.conduct(t)
	direct, queued := w.enqueue(t, "direct", `{}`), w.enqueue(t, "mirror", `{}`)
	for _, id := range []action.ID{direct, queued} {
		if state := w.await(t, id, action.Queued); state.Thread.Spent != 0 || state.Thread.Attempt != 4 {
			t.Errorf("spent %d of %d attempts", state.Thread.Spent, state.Thread.Attempt)
		}
	}
	if e := w.Execution(aws.ExecutionARN(w.machine, direct.String())); e.Status != aws.StatusRunning {
		t.Errorf("execution %+v", e)
	}
	sent := w.Messages(w.queue) // a queue takes a message twice; by its id Cirrus sees that it is the same
	if len(sent) != 2 || sent[0] != sent[1] {
		t.Errorf("sent %q", sent)
	}
}

func TestExecutionsAreStopped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.conduct(t)
	direct, queued, gone := w.enqueue(t, "direct", `{}`), w.enqueue(t, "mirror", `{}`), w.enqueue(t, "direct", `{}`)
	arn := w.await(t, direct, action.Queued).Ref
	w.await(t, queued, action.Queued)
	w.Forget(w.await(t, gone, action.Queued).Ref)
	for _, id := range []action.ID{direct, queued, gone} {
		if err := w.Cancel(t.Context(), id, queue.CancelNow); err != nil {
			t.Fatal(err)
		}
		w.await(t, id, action.Canceled)
	}
	if e := w.Execution(arn); e.Status != aws.StatusAborted || !strings.Contains(e.Cause, direct.String()) {
		t.Errorf("execution %+v", e)
	}
	events, err := w.Events(t.Context(), queued)
	if err != nil {
		t.Fatal(err)
	}
	if last := events[len(events)-1]; last.Code != "not_recalled" {
		t.Errorf("what the queue took: %+v", last)
	}
}

func TestAnEndByAcceptanceIsRecorded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.Observed = false
	w.conduct(t)
	id := w.enqueue(t, "mirror", `{}`)
	if state := w.await(t, id, action.Successful); state.Ref != "none/workflow-mirror/"+id.String() {
		t.Errorf("ref %q", state.Ref)
	}
}
