package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

const pausedLane = "notify/hooks.example.org"

func TestLanesArePausedAndListed(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	c, ctx := s.client(), t.Context()
	if limits, err := operation.ListLimits.Call(ctx, c, operation.Nothing{}); err != nil || len(limits) != 0 {
		t.Fatalf("at first: %+v, %v", limits, err)
	}
	limit, err := operation.ChangeLimit.Call(ctx, c,
		operation.LaneInput{Lane: pausedLane, Body: operation.LimitBody{Command: "pause", Reason: "maintenance"}})
	if err != nil || limit.Key != pausedLane || limit.State != "paused" || limit.PausedBy != "ana" || limit.Reason != "maintenance" {
		t.Errorf("paused: %+v, %v", limit, err)
	}
	limits, err := operation.ListLimits.Call(ctx, c, operation.Nothing{})
	if err != nil || len(limits) != 1 || limits[0].Key != pausedLane || limits[0].State != "paused" {
		t.Errorf("listed: %+v, %v", limits, err)
	}
	status, answer, _ := s.ask(t, "GET", "/api/v1/limits", "")
	if status != 200 || !strings.Contains(answer, `"lane":"notify/hooks.example.org"`) || !strings.Contains(answer, `"state":"paused"`) {
		t.Errorf("status %d: %s", status, answer)
	}
}

func TestAllLanesOfAHandlerArePaused(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	c, ctx := s.client(), t.Context()
	limit, err := operation.ChangeLimit.Call(ctx, c,
		operation.LaneInput{Lane: "notify/*", Body: operation.LimitBody{Command: "pause", For: action.Duration(time.Hour)}})
	if err != nil || limit.PauseUntil.IsZero() || !limit.HalfOpen() {
		t.Errorf("paused for an hour: %+v, %v", limit, err)
	}
	limits, err := operation.ListLimits.Call(ctx, c, operation.Nothing{})
	if err != nil || len(limits) != 1 || limits[0].Key != "notify/*" || limits[0].State != "paused" {
		t.Errorf("listed: %+v, %v", limits, err)
	}
}

func TestFaultyCommandsOnLanesAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, "127.0.0.1:7070")
	c, ctx := s.client(), t.Context()
	if _, err := operation.ChangeLimit.Call(ctx, c,
		operation.LaneInput{Lane: pausedLane, Body: operation.LimitBody{Command: "stop"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown command: %v", err)
	}
	for _, lane := range []string{"noop/" + strings.Repeat("x", 1000), "noop/\x1b[31m"} {
		if _, err := operation.ChangeLimit.Call(ctx, c,
			operation.LaneInput{Lane: lane, Body: operation.LimitBody{Command: "pause"}}); !fault.Is(err, fault.Invalid) || len(err.Error()) > 300 {
			t.Errorf("pause %.20q: %v", lane, err)
		}
	}
	if _, err := operation.ChangeLimit.Call(ctx, c,
		operation.LaneInput{Lane: "unknown", Body: operation.LimitBody{Command: "reset"}}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown lane: %v", err)
	}
	if status, _, _ := s.ask(t, "POST", "/api/v1/limits/notify%2Fhooks.example.org", `{"command": "resume"}`); status != 401 {
		t.Errorf("without a token: status %d, want 401", status)
	}
}
