package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// A pipeline whose log cannot be folded does not hide the status of other pipelines.
func TestStatusNamesAPipelineWithABrokenLog(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Apply(t, strings.Replace(servertest.Definition, "greeter", "other", 1))
	w.Until(t, w.Ship(t, "other", "3f2c9a1"), "ends", servertest.Ended)
	_, err := w.Ledger.Append(t.Context(), "other", 0, func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: []pipeline.Entry{{Pipeline: "other", Deployment: 2, Target: "other", Event: pipeline.DeploymentCreated,
			Class: pipeline.Note, Occurrence: 1, Revision: 1, Version: 1,
			Detail: []byte(`{"kind": "rollback", "label": "3f2c9a1", "undoes": 7}`)}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Service.Inspect = func(context.Context, pipeline.Place, string) (step.State, bool, error) {
		return step.State{}, false, nil
	}
	view, err := w.Service.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, trouble := range view.Troubles {
		if strings.Contains(trouble.Text, "a deployment that was never created") && strings.Contains(trouble.Text, "other") {
			return
		}
	}
	t.Errorf("no trouble names the broken log: %+v", view.Troubles)
}
