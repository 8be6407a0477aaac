package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// TestAHostThatLostItsReleaseIsCaughtUp: what a host reports counts, not only the log.
func TestAHostThatLostItsReleaseIsCaughtUp(t *testing.T) {
	t.Parallel()
	w, ctx := servertest.Start(t), t.Context()
	w.Script.End("prod/west/yew host-deployed", action.Outcome{Kind: action.Done, Output: []byte(`{"release":"3f2c9a1-aaaaaaaaaaaa"}`)})
	w.Apply(t, strings.Replace(servertest.Definition, `{url: "local://yew"`, `{url: "ssh://deploy@yew"`, 1))
	w.Until(t, w.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	var has step.State
	var away error
	w.Service.Inspect = func(_ context.Context, at pipeline.Place, _ string) (step.State, bool, error) {
		if at.Host.Name != "yew" {
			return step.State{}, false, nil
		}
		return has, true, away
	}
	want := service.TargetRequest{Pipeline: "greeter", Target: "prod/west", By: "ana"}
	has = step.State{Release: "3f2c9a1-aaaaaaaaaaaa", Service: 8}
	if _, err := w.Service.PreviewCatchUp(ctx, want); !fault.Is(err, fault.Refused) || fault.HintOf(err) != "" {
		t.Errorf("where it has the release: %v", err)
	}
	w.Service.ForgetLooks()
	has, away = step.State{}, errors.New("no route to yew")
	if _, err := w.Service.CatchUp(ctx, want); !fault.Is(err, fault.Refused) ||
		!strings.Contains(err.Error(), "; prod/west/yew does not answer") {
		t.Errorf("where it does not answer: %v", err)
	}
	w.Service.ForgetLooks()
	away = nil
	view, err := w.Service.Pipeline(ctx, "greeter")
	if err != nil || len(view.Drift) != 1 || !view.Drift[0].Lost || !view.Drift[0].CatchUp {
		t.Errorf("drift %+v, %v; want yew, which can be caught up", view.Drift, err)
	}
	if preview, err := w.Service.PreviewCatchUp(ctx, want); err != nil || len(preview.Hosts) != 1 || !preview.Hosts[0].Lost {
		t.Errorf("preview %+v, %v", preview, err)
	}
	status, err := w.Service.Status(ctx)
	if err != nil || !slices.ContainsFunc(status.Troubles, func(t service.Trouble) bool {
		return strings.HasPrefix(t.Hint, "waybill deployment create greeter prod/west/yew --catch-up")
	}) {
		t.Errorf("troubles %+v, %v", status.Troubles, err)
	}
	if _, err := w.Service.RejectRevision(ctx, "greeter", "3f2c9a1", "ana", ""); err != nil {
		t.Fatal(err)
	}
	const remedy = "waybill revision accept greeter 3f2c9a1, then waybill deployment create greeter prod/west/yew --catch-up deploys it again"
	status, err = w.Service.Status(ctx)
	if err != nil || !slices.ContainsFunc(status.Troubles, func(t service.Trouble) bool { return t.Hint == remedy }) {
		t.Errorf("with a rejected revision: troubles %+v, %v", status.Troubles, err)
	}
	if _, err := w.Service.AcceptRevision(ctx, "greeter", "3f2c9a1", "ana", ""); err != nil {
		t.Fatal(err)
	}
	d, err := w.Service.CatchUp(ctx, want)
	if err != nil || d.Kind != journal.CatchUp {
		t.Fatalf("%+v, %v", d, err)
	}
	w.Until(t, service.Ref{Pipeline: "greeter", Number: d.Number}, "ends", servertest.Ended)
}
