package deployment

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	for status, want := range map[pipeline.Status]struct {
		code fault.Code
		out  string
	}{
		pipeline.StatusFinished:   {"", "finished: r1"},
		pipeline.StatusActive:     {"", "finished: r1 in ; it goes no further"},
		pipeline.StatusCanceled:   {fault.Canceled, ""},
		pipeline.StatusSuperseded: {fault.Canceled, ""},
		pipeline.StatusFailed:     {fault.Failed, ""},
	} {
		o := clitest.NewOutput(clitest.AsText)
		declined := func(_ context.Context, _ service.Ref, failed error) (bool, error) { return false, failed }
		again, err := Outcome(t.Context(), clitest.Seen(clitest.Deployed(2, 1, status))["greeter#2"], o.Printer, declined)
		if again || fault.CodeOf(err) != want.code || !strings.HasPrefix(o.Printed.String(), want.out) {
			t.Errorf("%s: %v, %v, printed %q", status, again, err, o.Printed.String())
		}
	}
	accepted := func(context.Context, service.Ref, error) (bool, error) { return true, nil }
	if again, err := Outcome(t.Context(), clitest.Seen(clitest.Deployed(2, 1, pipeline.StatusFailed))["greeter#2"],
		clitest.NewOutput(clitest.AsText).Printer, accepted); !again || err != nil {
		t.Errorf("a retry that was accepted: %v, %v", again, err)
	}
}
