// Package noop is the handler that does nothing but report an outcome: for tests, benchmarks and dry runs.
package noop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Handler returns the outcome that an action's parameters name.
type Handler struct{}

// parameters are the parameters of an action; all are optional.
type parameters struct {
	Outcome string          `json:"outcome"` // done | retry | retry-after | throttle | fatal | invalid | panic; default done
	Sleep   action.Duration `json:"sleep"`   // before it, such as 250ms; default none
	Error   string          `json:"error"`   // its text
	Output  json.RawMessage `json:"output"`  // what was made; default nothing
}

var outcomes = map[string]action.OutcomeKind{"": action.Done, "done": action.Done, "retry": action.Retry,
	"retry-after": action.RetryAfter, "throttle": action.Throttle, "fatal": action.Fatal, "invalid": action.BadInput, panics: 0}

// panics is the outcome of a handler with a bug: none.
const panics = "panic"

// Check reports unknown keys and values of an action's parameters.
func Check(raw json.RawMessage) fault.Problems {
	if _, err := read(raw, false); err != nil {
		return fault.Problems{{Code: "parameters", Text: err.Error()}}
	}
	return nil
}

// Do sleeps, then returns the outcome; it comes back at once when ctx ends.
func (Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	p, err := read(a.Action.Parameters, a.Action.Kind == config.KindJob)
	if err != nil {
		return action.Outcome{Kind: action.BadInput, Error: err.Error()}
	}
	if p.Sleep > 0 {
		timer := time.NewTimer(time.Duration(p.Sleep))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
		}
	}
	if p.Outcome == panics {
		panic(p.Error)
	}
	outcome := action.Outcome{Kind: outcomes[p.Outcome], Error: p.Error}
	if outcome.Kind == action.Done {
		outcome.Output = p.Output
	}
	if outcome.Kind == action.RetryAfter {
		outcome.At = time.Now().Add(time.Duration(p.Sleep))
	}
	return outcome
}

// read returns the parameters. A job has inputs besides, which are left alone.
func read(raw json.RawMessage, besides bool) (parameters, error) {
	var p parameters
	if len(raw) == 0 {
		return p, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if !besides {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(&p); err != nil {
		return p, fmt.Errorf("parameters: %w", err)
	}
	if _, ok := outcomes[p.Outcome]; !ok {
		return p, fmt.Errorf("outcome %q: want done, retry, retry-after, throttle, fatal, invalid or panic", p.Outcome)
	}
	if p.Sleep < 0 {
		return p, fmt.Errorf("sleep %s: want none, or a duration such as 250ms", time.Duration(p.Sleep))
	}
	return p, nil
}
