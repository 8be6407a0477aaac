package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/obs"
)

// started is the traceparent of the starter of the builds of these tests.
const started = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// lostOnce is a runner whose first attempt meets a fault of its platform. It keeps the traceparents that attempts
// were given.
type lostOnce struct {
	*command.Runner
	given []string
}

func (r *lostOnce) Run(_ context.Context, run build.Run, s build.Sink) (build.Exit, error) {
	r.given = append(r.given, run.Trace)
	if err := errors.Join(s.Phase(build.Initializing), s.Phase(build.Running)); err != nil {
		return build.Exit{}, err
	}
	if run.Attempt == 1 {
		return build.Exit{}, errors.New("the node is gone")
	}
	return build.Exit{}, nil
}

func TestABuildIsATraceOfItsStepsAndTheirAttempts(t *testing.T) {
	t.Parallel()
	s, runner, spans := fresh(t), &lostOnce{}, tracetest.NewInMemoryExporter()
	c := worker.Config{Runner: runner, Tracing: sdk.NewTracerProvider(sdk.WithSyncer(spans)), Trace: started}
	step := build.PlanStep{Retry: &build.Retry{Attempts: 2, On: []build.Fault{build.Infrastructure}, Backoff: 1}}
	if got, err := s.runWith(t.Context(), c, step); got != build.Completed || err != nil {
		t.Fatalf("%s, %v", got, err)
	}
	made := spans.GetSpans()
	if len(made) != 4 {
		t.Fatalf("%d spans, want those of two attempts, a step and a build", len(made))
	}
	slices.SortFunc(made, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var names, parents, ends []string
	for _, one := range made {
		names = append(names, one.Name)
		parents = append(parents, one.Parent.SpanID().String())
		for _, about := range one.Attributes {
			if about.Key == obs.SpanStatus {
				ends = append(ends, about.Value.AsString())
			}
		}
	}
	id := func(i int) string { return made[i].SpanContext.SpanID().String() }
	if d := cmp.Diff([]string{"build", "step s/a", "attempt s/a", "attempt s/a"}, names); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"0000000000000000", id(0), id(1), id(1)}, parents); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"Completed", "Completed", "Backoff", "Completed"}, ends); d != "" {
		t.Error(d)
	}
	if made[2].Status.Code != codes.Error || made[3].Status.Code == codes.Error {
		t.Errorf("attempts: %+v, %+v", made[2].Status, made[3].Status)
	}
	if links := made[0].Links; len(links) != 1 || links[0].SpanContext.TraceID() != obs.Linked(started).TraceID() {
		t.Errorf("the build is not linked to what started it: %+v", links)
	}
	trace := made[0].SpanContext.TraceID().String()
	if d := cmp.Diff([]string{"00-" + trace + "-" + id(2) + "-01", "00-" + trace + "-" + id(3) + "-01"}, runner.given); d != "" {
		t.Errorf("steps were given other spans than those of their attempts:\n%s", d)
	}
}

func TestStepsOfABuildThatIsNotTracedContinueWhatStartedIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ trace, want string }{{started, started}, {"00-no", ""}, {"", ""}} {
		s, runner := fresh(t), &lostOnce{}
		if _, err := s.runWith(t.Context(), worker.Config{Runner: runner, Trace: test.trace}, build.PlanStep{}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{test.want}, runner.given); d != "" {
			t.Errorf("%q: %s", test.trace, d)
		}
	}
}

func TestSpansOfABuildThatCannotBeRecordedEnd(t *testing.T) {
	t.Parallel()
	s, spans := fresh(t), tracetest.NewInMemoryExporter()
	c := worker.Config{Runner: silent{}, Tracing: sdk.NewTracerProvider(sdk.WithSyncer(spans))}
	if _, err := s.runWith(t.Context(), c, build.PlanStep{}); err == nil {
		t.Fatal("the build was recorded")
	}
	if made := spans.GetSpans(); len(made) != 3 || made[0].Status.Code != codes.Error {
		t.Errorf("%+v", made)
	}
}
