package step

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// When obstacles of a running step are noted in the log: not at once, since a service may need a moment, and then,
// when it changes, less and less often.
const (
	firstReport = time.Second
	nextReport  = 10 * time.Second
	maxReport   = 1000 // bytes
)

// note appends step-reported about the attempt's step.
func (t *attempt) note(ctx context.Context, detail json.RawMessage) error {
	return t.config.Ledger.Remark(ctx, t.facts.Pipeline, pipeline.Entry{
		Class: pipeline.Note, Event: pipeline.StepReported, Deployment: t.facts.Deployment, Target: t.facts.Target,
		Revision: t.facts.Revision, Version: t.facts.Version, Detail: detail,
	})
}

// reporter notes in the log of a deployment the obstacles of a running step, so that people see it before the attempt
// ends.
type reporter struct {
	*attempt
	due   time.Time
	pause time.Duration
	last  string
}

func (t *attempt) reporter() *reporter {
	return &reporter{attempt: t, due: time.Now().Add(firstReport), pause: nextReport}
}

// meets notes an error if it is news and due. A note that cannot be written is only logged: it
// changes nothing.
func (r *reporter) meets(ctx context.Context, err error) {
	text, now := explain(err), time.Now()
	text = strings.ToValidUTF8(text[:min(len(text), maxReport)], "")
	if text == r.last || now.Before(r.due) {
		return
	}
	r.last, r.due, r.pause = text, now.Add(r.pause), 2*r.pause
	detail, err := json.Marshal(pipeline.StepDetail{Event: r.facts.Event, Action: r.id.String(), Error: text})
	if err == nil {
		err = r.note(ctx, detail)
	}
	if err != nil && ctx.Err() == nil {
		r.config.Log.Warn("a step's report was not noted", obs.KeyActionID, r.id.String(), obs.KeyError, err.Error())
	}
}
