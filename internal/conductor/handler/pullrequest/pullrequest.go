// Package pullrequest is the handler that promotes by pull requests: it proposes a revision to an environment, merges the
// proposal, or closes it. Each attempt first looks at the present state of branch and proposal, so that a repetition after a crash
// or a lost response finds its own work and adopts it.
//
// Hosts know no fence. A process that was stopped and wakes up may have lost its claim, and the attempt after it may have had the proposal
// merged, so that nothing keeps the host from making a second one. Each request that changes something is therefore sent only if the claim
// certainly lasts at that moment; a stop between that look and the request remains.
//
// The branch is the work of package mirror, the proposal that of package githost. Credentials are read from their Secret in each
// attempt, and are in no outcome.
package pullrequest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/secret"
)

// Codes of outcomes, besides those of packages githost and mirror.
const (
	codeSecret = "SecretWrong"
	codeWork   = "parameters"
)

// inUsePause is the time until a mirror in use is tried again.
const inUsePause = time.Second

// Config configures a Handler.
type Config struct {
	Hosts   *githost.Hosts
	Mirrors *mirror.Store
	// Secret reads a Secret of the management cluster. Errors with the codes fault.NotFound and fault.Invalid are permanent.
	Secret  func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	Archive evidence.Archive
}

// Handler makes attempts at proposals. Safe for concurrent use.
type Handler struct{ cfg Config }

// New returns a handler.
func New(cfg Config) *Handler { return &Handler{cfg} }

// Do makes one attempt.
func (h *Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	var w promotion.Work
	if err := json.Unmarshal(a.Action.Parameters, &w); err != nil || w.Host == nil {
		return action.Outcome{Kind: action.BadInput, Code: codeWork, Error: fmt.Sprintf("parameters of a proposal: %v", err)}
	}
	ctx = githost.WhileHeld(ctx, a.Held)
	t, err := h.open(ctx, w)
	if err != nil {
		return outcomeOf(ctx, err)
	}
	var done action.Outcome
	switch w.Op {
	case promotion.OpPropose:
		done, err = t.propose(ctx)
	case promotion.OpMerge:
		done, err = t.merge(ctx)
	case promotion.OpClose:
		done, err = t.close(ctx)
	default:
		return action.Outcome{Kind: action.BadInput, Code: codeWork, Error: fmt.Sprintf("parameters of a proposal: operation %q", w.Op)}
	}
	if err != nil {
		done = outcomeOf(ctx, err)
	}
	done.Error = t.redactor.Text(done.Error)
	done.Ref = h.cfg.Archive.Exchange(ctx, a.Action.ID, a.Number, record{a.Action.ID.String(), a.Number, w, done.Kind.String(), done.Code,
		done.Error, done.Output})
	return done
}

// record is the evidence of an attempt.
type record struct {
	Action  string          `json:"action"`
	Attempt int             `json:"attempt"`
	Work    promotion.Work  `json:"work"`
	Kind    string          `json:"kind"`
	Code    string          `json:"code,omitempty"`
	Error   string          `json:"error,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
}

// try is one attempt with its credentials.
type try struct {
	*Handler
	work     promotion.Work
	client   *githost.Client
	keys     map[string]string
	redactor *secret.Redactor
}

// open reads the credentials of an attempt.
func (h *Handler) open(ctx context.Context, w promotion.Work) (*try, error) {
	t := &try{Handler: h, work: w}
	if w.Host.Secret != "" {
		data, err := h.cfg.Secret(ctx, w.Namespace, w.Host.Secret)
		if err != nil {
			return nil, err
		}
		t.keys = githost.KeysOf(data)
	}
	secrets := secret.Values{}
	for _, key := range []string{githost.KeyPassword, githost.KeyToken, githost.KeyAppPrivateKey, githost.KeyIdentity, githost.KeySigning} {
		if t.keys[key] != "" {
			secrets[key] = t.keys[key]
		}
	}
	t.redactor = secrets.Redactor()
	var err error
	t.client, err = h.cfg.Hosts.Open(*w.Host, t.keys)
	return t, err
}

// remote returns the repository with its credentials.
func (t *try) remote(ctx context.Context) (mirror.Remote, error) {
	return t.client.Remote(ctx, t.work.Namespace+"/"+t.work.Host.Secret)
}

// request returns the request for the head branch.
func (t *try) request(ctx context.Context) (mirror.Request, error) {
	w := t.work
	remote, err := t.remote(ctx)
	return mirror.Request{
		Remote: remote, Base: w.Host.Base, Head: w.Host.Branch, Paths: w.Host.Paths,
		Of:       environmentOf(w),
		Revision: string(w.Revision), Run: strconv.FormatInt(w.Run, 10), At: w.Started, SigningKey: []byte(t.keys[githost.KeySigning]), Redo: w.Redo,
	}, err
}

// outcomeOf returns the outcome of an attempt that ended with an error.
func outcomeOf(ctx context.Context, err error) action.Outcome {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if errors.Is(cause, conductor.ErrShutdown) {
			return action.Outcome{Kind: action.GivenBack} // a repetition adopts the work so far
		}
		return action.Outcome{Kind: action.Retry, Error: cause.Error()}
	}
	if failed, ok := errors.AsType[*mirror.Error](err); ok {
		kinds := map[mirror.Class]action.OutcomeKind{
			mirror.Throttle: action.Throttle, mirror.Later: action.RetryAfter, mirror.Retry: action.Retry, mirror.Fatal: action.Fatal,
		}
		o := action.Outcome{Kind: kinds[failed.Class], Code: failed.Reason, Error: err.Error()}
		if failed.Class == mirror.Later {
			o.At = time.Now().Add(inUsePause)
		}
		return o
	}
	if _, ok := errors.AsType[*githost.Error](err); ok {
		return githost.Outcome(err)
	}
	switch fault.CodeOf(err) {
	case fault.Invalid, fault.NotFound:
		return action.Outcome{Kind: action.Fatal, Code: codeSecret, Error: err.Error()}
	}
	return action.Outcome{Kind: action.Retry, Error: err.Error()}
}
