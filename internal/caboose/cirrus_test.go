package caboose_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/aws/awstest"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

func TestMain(m *testing.M) { os.Exit(awstest.Main(m)) }

// world is AWS with a state machine and an events queue, and an empty log.
type world struct {
	*ledger.Ledger
	t               *testing.T
	aws             *awstest.Server
	machine, events string
	metrics         *obs.Caboose
	blobs           blob.Store
	patience        time.Duration // with an execution that AWS does not show
}

func setup(t *testing.T) *world {
	t.Helper()
	driver := sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db"))
	l := ledger.New(driver, ledger.Options{})
	t.Cleanup(func() { l.Close() })
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := awstest.Start(t)
	return &world{Ledger: l, t: t, blobs: blobs, aws: s, machine: s.Machine("reproject"), events: s.Queue("events"),
		metrics: obs.NewCaboose(nil), patience: time.Hour}
}

// observe runs a caboose until the test ends, or stop is called.
func (w *world) observe(l caboose.Ledger, account caboose.Account) (stop func()) {
	w.t.Helper()
	if l == nil {
		l = w.NewWaiter()
	}
	if account == nil {
		account = w.aws.Account(w.t)
	}
	c := caboose.New(l, w.blobs, caboose.Config{
		Instance: queue.Instance{Name: "test"}, Metrics: w.metrics,
		Cirrus: map[string]caboose.Cirrus{"cirrus": {Account: account, Events: w.events}},
		Pace:   caboose.Pace{Ask: 10 * time.Millisecond, AskMax: 40 * time.Millisecond, MissingWait: w.patience, Retry: 10 * time.Millisecond},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// queued returns an action whose work was accepted there: ref of its id.
func (w *world) queued(ref func(action.ID) string) action.ID {
	w.t.Helper()
	id := w.claimed()
	w.accepted(id, ref(id))
	return id
}

var host = queue.Instance{ID: action.NewID(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), [10]byte{7}), Name: "hand"}

// claimed returns an action that is being handed over.
func (w *world) claimed() action.ID {
	w.t.Helper()
	made, err := w.Enqueue(w.t.Context(), action.Action{Kind: "job", Name: "mirror", Handler: "cirrus", Policy: action.DefaultPolicy()})
	if err != nil {
		w.t.Fatal(err)
	}
	turned, err := w.CompleteAndClaim(w.t.Context(), host, nil, []queue.Want{{Lane: "cirrus", N: 1, HandOff: true}})
	if err != nil || len(turned.Claimed) != 1 {
		w.t.Fatal(turned, err)
	}
	return made[0].ID
}

func (w *world) accepted(id action.ID, ref string) {
	w.t.Helper()
	_, err := w.CompleteAndClaim(w.t.Context(), host,
		[]queue.Completion{{ID: id, Attempt: 1, HandOff: true, Outcome: action.Outcome{Kind: action.Done, Ref: ref}}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
}

// arn returns the ARN of an action's execution.
func (w *world) arn(id action.ID) string { return aws.ExecutionARN(w.machine, id.String()) }

// payloadID returns the id of an action's payload.
func payloadID(id action.ID) string { return "s2/workflow-mirror/" + id.String() }

// started returns an action whose execution runs.
func (w *world) started() action.ID {
	w.t.Helper()
	id := w.queued(w.arn)
	if err := w.aws.Account(w.t).Start(w.t.Context(), w.machine, id.String(), "{}"); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) await(id action.ID, want action.Status) queue.ActionState {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	view := w.NewWaiter()
	for {
		state, err := w.Action(ctx, id)
		if err != nil {
			w.t.Fatal(err)
		}
		if state.Thread.Status == want {
			return state
		}
		if state.Thread.Status.Ended() {
			w.t.Fatalf("it is %s: %s %s, want %s", state.Thread.Status, state.Code, state.Error, want)
		}
		if err := view.Wait(ctx, store.TopicAction, time.Time{}); err != nil {
			w.t.Fatalf("not %s after a minute: %+v", want, state.Thread)
		}
	}
}

// awaitEmpty waits until every event was deleted.
func (w *world) awaitEmpty() {
	w.t.Helper()
	limit := time.After(time.Minute)
	for {
		changed := w.aws.Changed()
		left := w.aws.Messages(w.events)
		if len(left) == 0 {
			return
		}
		select {
		case <-changed:
		case <-limit:
			w.t.Fatalf("still there after a minute: %q", left)
		}
	}
}

func (w *world) wantHistory(id action.ID, want ...action.Status) {
	w.t.Helper()
	events, err := w.Events(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	var got []action.Status
	for _, e := range events[1:] {
		got = append(got, e.Status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("history after PENDING (-want +got):\n%s", diff)
	}
}

func TestExecutionsAreFollowedToTheirEnds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := map[string]struct {
		end    aws.Execution
		cancel bool
		want   action.Status
		code   string
		text   string
		output string
	}{
		"succeeded": {aws.Execution{Status: aws.StatusSucceeded, Output: `{"features": []}`}, false, action.Successful, "",
			"", `{"features": []}`},
		"failed": {aws.Execution{Status: aws.StatusFailed, Error: "States.TaskFailed", Cause: "exit 1"}, false,
			action.Failed, "execution_failed", "States.TaskFailed: exit 1", ""},
		"silent": {aws.Execution{Status: aws.StatusFailed}, false, action.Failed, "execution_failed",
			"the execution ended as FAILED without a message", ""},
		"late": {aws.Execution{Status: aws.StatusTimedOut}, false, action.TimedOut, "execution_timed_out",
			"the execution ended as TIMED_OUT without a message", ""},
		"aborted":  {aws.Execution{Status: aws.StatusAborted, Cause: "by hand"}, false, action.Canceled, "execution_aborted", "by hand", ""},
		"canceled": {aws.Execution{Status: aws.StatusFailed, Cause: "stopped"}, true, action.Canceled, "execution_failed", "stopped", ""},
	}
	ids := map[string]action.ID{}
	for name := range cases {
		ids[name] = w.started()
	}
	stop := w.observe(nil, nil)
	for name, c := range cases {
		w.await(ids[name], action.Running)
		if c.cancel {
			if err := w.Cancel(t.Context(), ids[name], queue.CancelNow); err != nil {
				t.Fatal(err)
			}
		}
		w.aws.End(w.arn(ids[name]), c.end)
	}
	for name, c := range cases {
		state := w.await(ids[name], c.want)
		if state.Code != c.code || state.Error != c.text || string(state.Output) != c.output || state.Ref != w.arn(ids[name]) {
			t.Errorf("%s: %q %q %s, ref %s", name, state.Code, state.Error, state.Output, state.Ref)
		}
		w.wantHistory(ids[name], action.Queued, action.Running, c.want)
		if e := w.aws.Execution(w.arn(ids[name])); !state.FinishedAt.IsZero() && e.EndedAt.IsZero() {
			t.Errorf("%s: %+v", name, e)
		}
	}
	stop() // ends are counted once they are recorded
	for state, want := range map[string]float64{"running": 6, "successful": 1, "failed": 3, "timed_out": 1, "canceled": 1} {
		if got := testutil.ToFloat64(w.metrics.Workflows.WithLabelValues(state)); got != want {
			t.Errorf("%v %s, want %v", got, state, want)
		}
	}
}

// TestKilledProcessesKeepNoShards: on the embedded log the row of a process that was killed stays,
// and the process is gone.
func TestKilledProcessesKeepNoShards(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if err := w.Join(t.Context(), queue.Instance{ID: host.ID, Name: "killed", Roles: []string{"caboose"}}); err != nil {
		t.Fatal(err)
	}
	var ids []action.ID
	for range 8 { // a dead instance would own about half
		ids = append(ids, w.started())
	}
	w.observe(nil, nil)
	for _, id := range ids {
		w.await(id, action.Running)
	}
}

func TestBigOutputsAreKeptBesideTheirActions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.started()
	output := fmt.Sprintf(`{"text": %q}`, strings.Repeat("x", blob.Inline))
	w.aws.End(w.arn(id), aws.Execution{Status: aws.StatusSucceeded, Output: output})
	w.observe(nil, nil)
	state := w.await(id, action.Successful)
	if kept, err := blob.Load(t.Context(), w.blobs, state.Output, state.OutputRef); err != nil ||
		string(kept) != output || state.OutputRef == "" {
		t.Errorf("kept %d bytes at %q, %v", len(kept), state.OutputRef, err)
	}
}

// TestFaultsOfStepFunctionsLoseNothing: whatever answers the requests get, the end is seen, and once.
func TestFaultsOfStepFunctionsLoseNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, late := w.started(), w.queued(w.arn) // the latter is not shown yet
	w.aws.End(w.arn(id), aws.Execution{Status: aws.StatusSucceeded, Output: "{}"})
	shown := make(chan struct{})
	w.aws.Fail(func(call string, n int) *awstest.Fault {
		if call != "DescribeExecution" {
			return nil
		}
		switch n {
		case 1:
			return &awstest.Fault{Status: 400, Code: "ThrottlingException"}
		case 2:
			return &awstest.Fault{Status: 500, Code: "InternalFailure"}
		case 3:
			return &awstest.Fault{Done: true} // the answer is lost
		case 4:
			return &awstest.Fault{Status: 400, Code: "AccessDeniedException"}
		case 6:
			close(shown)
		}
		return nil
	})
	w.observe(nil, nil)
	<-shown
	if err := w.aws.Account(t).Start(t.Context(), w.machine, late.String(), "{}"); err != nil {
		t.Fatal(err)
	}
	w.await(id, action.Successful)
	w.await(late, action.Running)
	w.wantHistory(id, action.Queued, action.Running, action.Successful)
	w.wantHistory(late, action.Queued, action.Running)
}

func TestExecutionsThatVanishedAreLost(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.patience = 100 * time.Millisecond
	id, stays := w.queued(w.arn), w.started()
	stop := w.observe(nil, nil)
	if state := w.await(id, action.Failed); state.Code != caboose.CodeLost {
		t.Errorf("%s %s", state.Code, state.Error)
	}
	w.await(stays, action.Running)
	stop()
	if got := testutil.ToFloat64(w.metrics.Lost); got != 1 {
		t.Errorf("%v lost, want 1", got)
	}
}

// cirrusEvent returns Cirrus's message about a payload.
func cirrusEvent(kind, payload string) string {
	raw, _ := json.Marshal(map[string]string{"event_type": kind, "payload_id": payload, "isotimestamp": "2026-11-20T10:00:00.123456+00:00",
		"payload_url": "s3://bucket/input.json", "error": map[bool]string{true: "no luck"}[kind == "FAILED" || kind == "INVALID"]})
	return string(raw)
}

// bySNS returns a message as SNS hands it on.
func bySNS(message string) string {
	raw, _ := json.Marshal(map[string]string{"Type": "Notification", "MessageId": "m", "TopicArn": "t", "Message": message})
	return string(raw)
}

func TestEventsEndWhatTheQueueTook(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := map[string]struct {
		events []string
		want   []action.Status
		text   string
	}{
		"succeeded": {[]string{"CLAIMED_PROCESSING", "STARTED_PROCESSING", "SUCCEEDED"},
			[]action.Status{action.Queued, action.Running, action.Successful}, ""},
		"already": {[]string{"ALREADY_SUCCEEDED"}, []action.Status{action.Queued, action.Successful}, ""},
		"completed": {[]string{"ALREADY_PROCESSING", "DUPLICATE_ID_ENCOUNTERED", "ALREADY_COMPLETED"},
			[]action.Status{action.Queued, action.Successful}, ""},
		"failed":  {[]string{"STARTED_PROCESSING", "FAILED"}, []action.Status{action.Queued, action.Running, action.Failed}, "no luck"},
		"aborted": {[]string{"ABORTED"}, []action.Status{action.Queued, action.Canceled}, "Cirrus reported ABORTED without a reason"},
		"late":    {[]string{"TIMED_OUT"}, []action.Status{action.Queued, action.TimedOut}, "Cirrus reported TIMED_OUT without a reason"},
		"invalid": {[]string{"INVALID"}, []action.Status{action.Queued, action.Invalid}, "no luck"},
		"again invalid": {[]string{"ALREADY_INVALID"}, []action.Status{action.Queued, action.Invalid},
			"Cirrus reported ALREADY_INVALID without a reason"},
		"twice": {[]string{"STARTED_PROCESSING", "STARTED_PROCESSING", "SUCCEEDED", "SUCCEEDED"},
			[]action.Status{action.Queued, action.Running, action.Successful}, ""},
		"out of order": {[]string{"SUCCEEDED", "STARTED_PROCESSING", "CLAIMED_PROCESSING", "FAILED"},
			[]action.Status{action.Queued, action.Successful}, ""},
		"only claimed":   {[]string{"CLAIMED_PROCESSING"}, []action.Status{action.Queued}, ""},
		"in other words": {[]string{"SOMETHING_NEW", "STARTED_PROCESSING"}, []action.Status{action.Queued, action.Running}, ""},
	}
	ids := map[string]action.ID{}
	for name, c := range cases {
		ids[name] = w.queued(payloadID)
		for i, kind := range c.events {
			message := cirrusEvent(kind, payloadID(ids[name]))
			if i%2 == 1 {
				message = bySNS(message)
			}
			w.aws.Put(w.events, message)
		}
	}
	w.observe(nil, nil)
	w.awaitEmpty()
	for name, c := range cases {
		w.wantHistory(ids[name], c.want...)
		state := w.await(ids[name], c.want[len(c.want)-1])
		if state.Error != c.text {
			t.Errorf("%s: error %q", name, state.Error)
		}
		if state.Thread.Status == action.Successful && string(state.Output) != `{"payload_url":"s3://bucket/input.json"}` {
			t.Errorf("%s: output %s", name, state.Output)
		}
	}
	events, err := w.Events(t.Context(), ids["succeeded"])
	if err != nil {
		t.Fatal(err)
	}
	if at := time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC); !events[2].At.Equal(at) || !events[3].At.Equal(at) {
		t.Errorf("at %s and %s, want what Cirrus's clock said", events[2].At, events[3].At)
	}
}

// TestOnlyTheirOwnEventsEndActions: a message that belongs to no action, or cannot be read, is
// taken out of the queue and changes nothing.
func TestOnlyTheirOwnEventsEndActions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other, err := w.Enqueue(t.Context(), action.Action{Kind: "job", Handler: "noop", Policy: action.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	id := w.queued(payloadID)
	for _, message := range []string{"", "hello", "[]", `{"event_type": "FAILED"}`, bySNS("hello"),
		cirrusEvent("FAILED", "s2/workflow-mirror/a/b"),                  // not of Waybill
		cirrusEvent("FAILED", payloadID(host.ID)),                        // no such action
		cirrusEvent("FAILED", payloadID(other[0].ID)),                    // an action of another handler
		cirrusEvent("FAILED", "s2/workflow-somebodys/"+id.String()),      // not the payload that was sent
		cirrusEvent("FAILED", "arn:aws:states:x:execution:"+id.String()), // a name alone does not permit ending it
	} {
		w.aws.Put(w.events, message)
	}
	w.observe(nil, nil)
	w.awaitEmpty()
	w.wantHistory(id, action.Queued)
	w.wantHistory(other[0].ID)
	for outcome, want := range map[string]float64{"unreadable": 5, "orphan": 5, "recorded": 0} {
		if got := testutil.ToFloat64(w.metrics.Events.WithLabelValues(outcome)); got != want {
			t.Errorf("%v %s, want %v", got, outcome, want)
		}
	}
}

// TestEventsMayOvertakeTheAcceptance: Cirrus may be done before the conductor has written that the
// queue took the work.
func TestEventsMayOvertakeTheAcceptance(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.claimed()
	w.aws.Put(w.events, cirrusEvent("SUCCEEDED", payloadID(id)))
	w.observe(nil, nil)
	w.await(id, action.Successful)
	w.accepted(id, payloadID(id)) // too late, and no error
	w.wantHistory(id, action.Successful)
}

// cut ends a caboose's process at one of its calls, before it has its effect or after.
type cut struct {
	caboose.Ledger
	caboose.Account
	call  string
	after bool
	mu    sync.Mutex
	dead  chan struct{} // closed at the end of the process
}

var errCut = errors.New("the process was killed")

// through makes a call, unless the process is dead or dies at it.
func (c *cut) through(call string, do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.dead:
		return errCut
	default:
	}
	if call != c.call {
		return do()
	}
	if c.after {
		_ = do() // the answer is not needed
	}
	close(c.dead)
	return errCut
}

func (c *cut) Observe(ctx context.Context, o ...queue.Observation) (seen queue.Observed, err error) {
	err = c.through("observe", func() error { seen, err = c.Ledger.Observe(ctx, o...); return err })
	return seen, err
}

func (c *cut) Delete(ctx context.Context, queue string, m []aws.Message) error {
	if len(m) == 0 {
		return nil
	}
	return c.through("delete", func() error { return c.Account.Delete(ctx, queue, m) })
}

func (c *cut) Receive(ctx context.Context, queue string) (m []aws.Message, err error) {
	if m, err = c.Account.Receive(ctx, queue); err == nil && len(m) > 0 {
		err = c.through("receive", func() error { return nil })
	}
	return m, err
}

func (c *cut) Describe(ctx context.Context, arn string) (e aws.Execution, err error) {
	err = c.through("describe", func() error { e, err = c.Account.Describe(ctx, arn); return err })
	return e, err
}

// TestKilledBetweenItsSteps: whatever call the caboose dies at, its successor does the rest, and
// nothing happens twice.
func TestKilledBetweenItsSteps(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"receive", "observe", "delete", "describe"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after %v", call, after), func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				byEvent, byExecution := w.queued(payloadID), w.started()
				w.aws.End(w.arn(byExecution), aws.Execution{Status: aws.StatusSucceeded, Output: "{}"})
				w.aws.Put(w.events, cirrusEvent("STARTED_PROCESSING", payloadID(byEvent)))
				w.aws.Put(w.events, cirrusEvent("SUCCEEDED", payloadID(byEvent)))
				c := &cut{Ledger: w.NewWaiter(), Account: w.aws.Account(t), call: call, after: after, dead: make(chan struct{})}
				stop := w.observe(c, c)
				<-c.dead
				stop()
				w.observe(nil, nil)
				w.awaitEmpty()
				w.await(byExecution, action.Successful)
				w.wantHistory(byEvent, action.Queued, action.Running, action.Successful)
				w.wantHistory(byExecution, action.Queued, action.Running, action.Successful)
			})
		}
	}
}
