package server_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

func proposal(t *testing.T, source string) service.Proposal {
	t.Helper()
	p, err := service.ReadProposal("waybill.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOneServiceOfAHostHasOnePipeline(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	taken := strings.Replace(servertest.Definition, "pipeline: greeter", "pipeline: other", 1)
	same := strings.Replace(taken, "service: {", "service: {name: greeter, ", 1)
	refused := func(source, want string) {
		t.Helper()
		p := proposal(t, source)
		_, applied := w.Service.Apply(t.Context(), p)
		_, previewed := w.Service.PlanEdit(t.Context(), p)
		_, planned := w.Service.Plan(t.Context(), service.PlanQuery{Pipeline: "other", Proposal: &p})
		for what, err := range map[string]error{"apply": applied, "preview": previewed, "plan": planned} {
			if err == nil || fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), want) {
				t.Errorf("%s answers %v, want %s", what, err, want)
			}
		}
	}
	refused(same, `local://oak runs "greeter" for pipeline "greeter" too: set service.name`)
	w.Apply(t, taken) // its services have other names

	w.Script.End("beta/all/oak host-deployed", action.Outcome{Kind: action.Fatal, Error: "no"})
	ref := w.Ship(t, "greeter", "3f2c9a1")
	w.Until(t, ref, "fails", servertest.Ended)
	w.Apply(t, strings.ReplaceAll(servertest.Definition, "oak", "ash"))
	onOak := strings.Replace(same, "local://elm", "local://a", 1)
	onOak = strings.Replace(strings.Replace(onOak, "local://fir", "local://b", 1), "local://yew", "local://c", 1)
	refused(onOak, `local://oak runs "greeter" for greeter#1, which has failed and may be retried: cancel it, or set service.name`)
	if err := w.Service.Command(t.Context(), ref, service.Command{Kind: "cancel", By: "ana"}); err != nil {
		t.Fatal(err)
	}
	w.Until(t, ref, "is canceled", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusCanceled })
	w.Apply(t, onOak) // greeter does not use the host any longer
}
