package conductor_test

import (
	"context"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/obs"
)

func TestEachAttemptIsASpanLinkedToWhoEnqueuedIt(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		spans := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
		var inside trace.SpanContext
		stop := run(t, f, func(ctx context.Context, _ conductor.Attempt) action.Outcome {
			inside = trace.SpanContextFromContext(ctx)
			return action.Outcome{Kind: action.Fatal, Error: "400: no such team"}
		}, func(c *conductor.Config) { c.Tracing = provider })
		id := f.add(action.Action{Handler: "work", Lane: "work/a", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
		synctest.Wait()
		stop()
		var attempt, turn tracetest.SpanStub
		for _, s := range spans.GetSpans() {
			switch {
			case s.Name == "attempt work":
				attempt = s
			case s.Name == "turn" && value(s, "waybill.claimed").AsInt64() == 1:
				turn = s
			}
		}
		for key, want := range map[attribute.Key]string{"waybill.action_id": id.String(), "waybill.handler": "work", "waybill.lane": "work/a",
			"waybill.attempt": "1", "waybill.outcome": "fatal"} {
			if got := value(attempt, key).String(); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if len(attempt.Links) != 1 || attempt.Links[0].SpanContext.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("links: %+v", attempt.Links)
		}
		if attempt.Status.Code != codes.Error || attempt.Status.Description != "400: no such team" || attempt.Parent.IsValid() {
			t.Errorf("status %+v, parent %+v", attempt.Status, attempt.Parent)
		}
		if inside.SpanID() != attempt.SpanContext.SpanID() {
			t.Error("the handler's context is not in the attempt's span")
		}
		if value(turn, "waybill.wanted").AsInt64() == 0 || value(turn, "waybill.completed").Type() != attribute.INT64 {
			t.Errorf("no turn with counts: %+v", turn.Attributes)
		}
	})
}

func TestAttemptsForOneDeploymentAreOneTrace(t *testing.T) {
	traces := map[string]int{}
	for range 2 { // a restart continues it
		bubbletest.Test(t, func(t *testing.T) {
			f := newFake()
			spans := tracetest.NewInMemoryExporter()
			stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return action.Outcome{Kind: action.Done} },
				func(c *conductor.Config) {
					c.Tracing, c.LedgerID = sdk.NewTracerProvider(sdk.WithSyncer(spans)), "log"
				})
			for _, event := range []string{"host-replicated", "host-deployed"} {
				f.add(action.Action{Handler: "work", Lane: "work/a", Step: &action.StepRef{Pipeline: "greeter", Deployment: 7, Event: event}})
			}
			f.add(action.Action{Handler: "work", Lane: "work/a", Step: &action.StepRef{Pipeline: "greeter", Deployment: 8}})
			synctest.Wait()
			stop()
			for _, s := range spans.GetSpans() {
				if s.Name == "attempt work" {
					traces[s.SpanContext.TraceID().String()]++
				}
			}
		})
	}
	if len(traces) != 2 || traces[obs.DeploymentTrace("log", "greeter", 7).TraceID().String()] != 4 {
		t.Errorf("spans by trace: %v, want 4 of greeter#7 in one and 2 of greeter#8 in another", traces)
	}
}

// value returns an attribute of a span.
func value(s tracetest.SpanStub, key attribute.Key) attribute.Value {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return attribute.Value{}
}
