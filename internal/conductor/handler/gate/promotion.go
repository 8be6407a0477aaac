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

// Promotion checks gates with http of Kubernetes pipelines. Tenants write these pipelines, so the operator's guard applies. Safe for
// concurrent use.
type Promotion struct {
	Guard     webhook.Guard
	PlainHTTP bool // addresses without TLS may be requested
}

// Do checks once.
func (h Promotion) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	w, err := workOf(a, func(g *promotion.GateWork) bool { return g.HTTP != nil })
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: err.Error()}
	}
	request, err := h.request(w.Gate.HTTP)
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: fmt.Sprintf("gate %s: %v", w.Gate.Name, err)}
	}
	return send(ctx, request, h.Guard, time.Duration(a.Action.Policy.Initial))
}

// workOf returns the parameters of a gate's action, which is of the kind that has checks.
func workOf(a conductor.Attempt, has func(*promotion.GateWork) bool) (w promotion.Work, err error) {
	if err := json.Unmarshal(a.Action.Parameters, &w); err != nil {
		return w, fmt.Errorf("parameters of action %s: %w", a.Action.ID, err)
	}
	if w.Gate == nil || !has(w.Gate) {
		return w, fmt.Errorf("action %s has no gate that its handler %s checks", a.Action.ID, a.Action.Handler)
	}
	return w, nil
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
