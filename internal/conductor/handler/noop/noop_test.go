package noop_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/config"
)

func attempt(parameters string) conductor.Attempt {
	return conductor.Attempt{Action: action.Action{Parameters: json.RawMessage(parameters)}}
}

func TestOutcomeIsWhatTheParametersSay(t *testing.T) {
	for parameters, want := range map[string]action.OutcomeKind{
		"":                                  action.Done,
		`{}`:                                action.Done,
		`{"outcome": "done"}`:               action.Done,
		`{"outcome": "retry"}`:              action.Retry,
		`{"outcome": "retry-after"}`:        action.RetryAfter,
		`{"outcome": "throttle"}`:           action.Throttle,
		`{"outcome": "fatal"}`:              action.Fatal,
		`{"outcome": "invalid"}`:            action.BadInput,
		`{"outcome": "maybe"}`:              action.BadInput,
		`{"outcome": "done", "slep": "1s"}`: action.BadInput,
	} {
		if got := (noop.Handler{}).Do(t.Context(), attempt(parameters)); got.Kind != want {
			t.Errorf("%s: %s, want %s", parameters, got.Kind, want)
		}
		problems := noop.Check(json.RawMessage(parameters))
		if bad := want == action.BadInput && !strings.Contains(parameters, "invalid"); bad != (len(problems) > 0) {
			t.Errorf("%s: Check says %v", parameters, problems)
		}
	}
}

func TestSleepEndsWithItsTimeOrItsContext(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		began := time.Now()
		if got := (noop.Handler{}).Do(t.Context(), attempt(`{"sleep": "1m"}`)); got.Kind != action.Done || time.Since(began) != time.Minute {
			t.Errorf("%s after %s, want done after 1m", got.Kind, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, conductor.ErrCanceled)
		defer cancel()
		if got := (noop.Handler{}).Do(ctx, attempt(`{"sleep": "1m"}`)); got.Kind != action.Retry || got.Error != "canceled" {
			t.Errorf("got %+v, want to come back when canceled", got)
		}
	})
}

func TestAJobMayHaveOtherInputsAndAnOutput(t *testing.T) {
	a := attempt(`{"payload": {"n": 1}, "output": {"features": []}}`)
	if got := (noop.Handler{}).Do(t.Context(), a); got.Kind != action.BadInput {
		t.Errorf("an action of unknown parameters: %s", got.Kind)
	}
	a.Action.Kind = config.KindJob
	if got := (noop.Handler{}).Do(t.Context(), a); got.Kind != action.Done || string(got.Output) != `{"features": []}` {
		t.Errorf("a job: %s, %s", got.Kind, got.Output)
	}
}
