package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Promotion checks gates of Kubernetes pipelines. Tenants write these pipelines, so the operator's guard applies. Safe for
// concurrent use.
type Promotion struct {
	Guard     webhook.Guard
	PlainHTTP bool // addresses without TLS may be requested
}

// Do checks once.
func (h Promotion) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	var w promotion.Work
	if err := json.Unmarshal(a.Action.Parameters, &w); err != nil || w.Gate == nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: fmt.Sprintf("action %s has no gate: %v", a.Action.ID, err)}
	}
	if w.Gate.HTTP == nil {
		return action.Outcome{Kind: action.Fatal, Code: "NotSupported", Error: fmt.Sprintf("gate %s: only gates with http are supported", w.Gate.Name)}
	}
	request, err := h.request(w.Gate.HTTP)
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: fmt.Sprintf("gate %s: %v", w.Gate.Name, err)}
	}
	return send(ctx, request, h.Guard, time.Duration(a.Action.Policy.Initial))
}

// request reads the request of a gate.
func (h Promotion) request(fields map[string]any) (request pipeline.GateRequest, err error) {
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, &request)
	}
	if err != nil {
		return request, err
	}
	target, err := url.Parse(request.URL)
	if err == nil && target.Scheme != "https" && !h.PlainHTTP {
		err = fmt.Errorf("%s has no TLS: want https, or promoter.plainHTTP in server.yaml", target.Host)
	}
	return request, err
}
