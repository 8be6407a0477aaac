package pipeline

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// applying returns the options of an edit that loses work.
func applying(f *clitest.Log, o *clitest.Output) cmdline.ApplyOptions {
	f.Edit = service.EditView{Pipeline: "greeter", Version: 2, Words: []string{"- host prod/all/oak"},
		Effects: []pipeline.Effect{{Deployment: 1, Drained: []pipeline.StepKey{{Target: "greeter/prod/all/oak", Event: pipeline.HostDeployed}}}}}
	return cmdline.ApplyOptions{Edits: f, Proposal: service.Proposal{Definition: pipeline.Definition{
		Pipeline: "greeter"}}, Warn: func() {}, Ask: func(context.Context, string) bool { return false }, Out: o.Printer}
}

func TestApplyAsksBeforeWorkIsLost(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{}, clitest.NewOutput(clitest.AsText)
	options := applying(f, o)
	clitest.WantFault(t, runApply(t.Context(), options), fault.Refused, "definition 2 of greeter is not applied",
		"--yes, to apply it all the same")
	f.WantCalls(t, "PlanEdit greeter")
	f.Calls = nil
	var question string
	options.Ask = func(_ context.Context, q string) bool { question = q; return true }
	if err := runApply(t.Context(), options); err != nil || question != "apply definition 2?" {
		t.Errorf("%v, asked %q", err, question)
	}
	f.WantCalls(t, "PlanEdit greeter", "Apply greeter 1 true")
	if want := "greeter: definition 2 applied\n"; !strings.HasSuffix(o.Printed.String(), want) {
		t.Errorf("printed %q", o.Printed.String())
	}
}

func TestApplyWithYesAsksNothing(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{}, clitest.NewOutput(clitest.AsJSON)
	options := applying(f, o)
	options.Yes, options.Ask = true, nil
	if err := runApply(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(o.Printed.String(), `"applied": true`) ||
		!strings.Contains(o.Warned.String(), "definition 2: - host prod/all/oak\n") {
		t.Errorf("printed %q and %q", o.Printed.String(), o.Warned.String())
	}
}

func TestApplyOfTheDefinitionInForce(t *testing.T) {
	t.Parallel()
	f, o := &clitest.Log{}, clitest.NewOutput(clitest.AsText)
	options := applying(f, o)
	f.Edit = service.EditView{Pipeline: "greeter", Version: 2, Unchanged: true}
	if err := runApply(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "PlanEdit greeter")
	o.Want(t, "greeter: definition 2 in force already\n", "")
}
