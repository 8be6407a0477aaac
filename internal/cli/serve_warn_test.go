package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// inForce has one definition for each name.
type inForce map[string]pipeline.Definition

func (f inForce) Pipelines(context.Context) (all []server.PipelineView, err error) {
	for name := range f {
		all = append(all, server.PipelineView{Name: name})
	}
	return all, nil
}

func (f inForce) Version(_ context.Context, name string, _ int) (journal.Version, error) {
	return journal.Version{Definition: f[name]}, nil
}

func TestApprovalsBesideBuildsOfTheSameAccountAreWarnedOf(t *testing.T) {
	t.Parallel()
	built := pipeline.Stage{Name: "build", Build: &pipeline.Build{}}
	elsewhere := pipeline.Stage{Name: "build", Build: &pipeline.Build{External: true}}
	guarded := pipeline.Stage{Name: "prod", Approval: &pipeline.Approval{Count: 1}}
	for name, c := range map[string]struct {
		log  inForce
		away bool
		want bool
	}{
		"both":               {inForce{"shop": {Stages: []pipeline.Stage{built, guarded}}}, false, true},
		"of two pipelines":   {inForce{"shop": {Stages: []pipeline.Stage{guarded}}, "blog": {Stages: []pipeline.Stage{built}}}, false, true},
		"workers elsewhere":  {inForce{"shop": {Stages: []pipeline.Stage{built, guarded}}}, true, false},
		"builds elsewhere":   {inForce{"shop": {Stages: []pipeline.Stage{elsewhere, guarded}}}, false, false},
		"nothing to approve": {inForce{"shop": {Stages: []pipeline.Stage{built, {Name: "prod"}}}}, false, false},
	} {
		o := newOutput(asText)
		warnUnguarded(t.Context(), c.log, c.away, o.Printer)
		if got := strings.Contains(o.err.String(), "shop/prod waits for approval, but builds run under the account of this process"); got != c.want {
			t.Errorf("%s: it says %q", name, o.err.String())
		}
	}
}
