// Package cirrus is the handler that hands work to Cirrus on AWS: it starts a state machine of Step Functions, named
// after the action, or sends a process payload to Cirrus's queue, so that twice is once. The caboose observes its
// outcome.
package cirrus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Account starts the work; see the methods of aws.Account.
type Account interface {
	Start(ctx context.Context, machine, name, input string) error
	Stop(ctx context.Context, arn, cause string) error
	Send(ctx context.Context, queue, body string) error
}

// Ledger finds the place of an action's work; see the method of ledger.Ledger.
type Ledger interface {
	Action(ctx context.Context, id action.ID) (queue.ActionState, error)
}

// Config configures the destination of a handler's work.
type Config struct {
	Account   Account
	Queue     string            // URL of Cirrus's process queue; "": state machines only
	Observed  bool              // an events queue reports how the queue's work ends; false: acceptance is the end
	Processes map[string]string // the state machine that a process names, by its id; "": the queue
	Blobs     blob.Store        // takes payloads that are too big for a message
	Ledger    Ledger
}

// Handler hands work over and stops it.
type Handler struct{ cfg Config }

var _ conductor.HandOff = (*Handler)(nil)

// New makes a handler.
func New(cfg Config) *Handler { return &Handler{cfg: cfg} }

// Do hands the work over; Done reports that AWS has it.
func (h *Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	w, problems := h.read(a.Action)
	if err := problems.Err(); err != nil {
		return action.Outcome{Kind: action.BadInput, Code: string(fault.InvalidParameters), Error: err.Error()}
	}
	if w.machine == "" && h.cfg.Queue == "" {
		return action.Outcome{Kind: action.Fatal, Code: "no_target", Error: "neither a state machine nor a queue is configured for this work"}
	}
	message, failed := h.message(ctx, a.Action.ID, w.payload)
	if failed != nil {
		return *failed
	}
	if w.machine != "" {
		return outcome(h.cfg.Account.Start(ctx, w.machine, a.Action.ID.String(), message), aws.ExecutionARN(w.machine, a.Action.ID.String()))
	}
	o := outcome(h.cfg.Account.Send(ctx, h.cfg.Queue, message), w.payloadID)
	o.Final = o.Kind == action.Done && !h.cfg.Observed
	return o
}

// uploadAgain is the delay before a failed upload of a payload is tried again.
const uploadAgain = 30 * time.Second

// message returns the body: the payload, or if that is too big, its place.
func (h *Handler) message(ctx context.Context, id action.ID, payload string) (string, *action.Outcome) {
	if len(payload) <= aws.MaxMessage {
		return payload, nil
	}
	key := blob.ActionKey(id, "payload.json")
	url, shared := blob.URL(h.cfg.Blobs, key)
	if !shared {
		return "", &action.Outcome{Kind: action.Fatal, Code: "payload_too_big", Error: fmt.Sprintf("the payload has %d KiB and AWS takes %d: "+
			"let blob.url name a bucket that Cirrus can read (s3://…), bigger payloads go there", len(payload)>>10, aws.MaxMessage>>10)}
	}
	if _, _, _, err := h.cfg.Blobs.Put(ctx, key, strings.NewReader(payload)); err != nil {
		return "", &action.Outcome{Kind: action.RetryAfter, Code: "upload", At: time.Now().Add(uploadAgain),
			Error: fmt.Sprintf("upload the payload: %s", err)}
	}
	return fmt.Sprintf(`{"url": %q}`, url), nil
}

// Stop ends an execution. A message that the queue took cannot be recalled: Cirrus continues, and
// the action is given up.
func (h *Handler) Stop(ctx context.Context, a conductor.Attempt) action.Outcome {
	state, err := h.cfg.Ledger.Action(ctx, a.Action.ID)
	if err != nil {
		return action.Outcome{Kind: action.Retry, Error: fmt.Sprintf("look for where the work is: %s", err)}
	}
	execution := state.Ref
	if execution == "" { // the answer to its start was lost
		w, _ := h.read(a.Action) // what cannot be read was never handed over
		execution = aws.ExecutionARN(w.machine, a.Action.ID.String())
	}
	if !strings.HasPrefix(execution, "arn:") {
		return action.Outcome{Kind: action.Fatal, Code: "not_recalled", Ref: state.Ref,
			Error: "what was sent to Cirrus's queue cannot be recalled: it may still run, unobserved"}
	}
	err = h.cfg.Account.Stop(ctx, execution, "canceled in Waybill: action "+a.Action.ID.String())
	if m, _ := aws.Judge(err); err != nil && m == aws.Missing {
		return action.Outcome{Kind: action.Done, Ref: execution}
	}
	return outcome(err, execution)
}

// outcome converts an answer of AWS to the outcome of an attempt.
func outcome(err error, ref string) action.Outcome {
	if err == nil {
		return action.Outcome{Kind: action.Done, Ref: ref}
	}
	o := action.Outcome{Kind: action.Retry, Error: err.Error(), Ref: ref}
	var m aws.Meaning
	switch m, o.Code = aws.Judge(err); m {
	case aws.Busy:
		o.Kind = action.Throttle
	case aws.Missing:
		o.Kind = action.Fatal
	case aws.Wrong:
		o.Kind = action.BadInput
	}
	return o
}
