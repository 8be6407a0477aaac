package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
)

// fakeServices ends services that are fields.
type fakeServices struct {
	assembly.Stopped
	err error
}

func (f fakeServices) Stop(context.Context, string) (assembly.Stopped, error) {
	return f.Stopped, f.err
}

func TestStopPipeline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stopped assembly.Stopped
		json    bool
		want    string
	}{
		{assembly.Stopped{}, clitest.AsText, "greeter: no service runs on a local host\n"},
		{assembly.Stopped{Hosts: []string{"beta/all/oak", "prod/all/elm"}}, clitest.AsText, "greeter: stopped on beta/all/oak, prod/all/elm\n"},
		{assembly.Stopped{Hosts: []string{"beta/all/oak"}, Left: []string{"prod/all/elm"}}, clitest.AsText,
			"greeter: stopped on beta/all/oak; where the definition no longer has it, on prod/all/elm\n"},
		{assembly.Stopped{}, clitest.AsJSON, "[]\n"},
	} {
		o := clitest.NewOutput(c.json)
		if err := runStopPipeline(t.Context(), stopPipelineOptions{Services: fakeServices{Stopped: c.stopped},
			Name: "greeter", Out: o.Printer}); err != nil {
			t.Fatal(err)
		}
		o.Want(t, c.want, "")
	}
	o := clitest.NewOutput(clitest.AsText)
	if err := runStopPipeline(t.Context(), stopPipelineOptions{Services: fakeServices{err: clitest.ErrAway},
		Out: o.Printer}); !errors.Is(err, clitest.ErrAway) || o.Printed.Len() > 0 {
		t.Errorf("%v, printed %q", err, o.Printed.String())
	}
}
