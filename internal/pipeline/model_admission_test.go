package pipeline

import (
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// night is the other moment of worlds with a clock, which begin at noon. The clock jumps between the
// two, forward and back.
var night = noon.Add(8 * time.Hour)

// opinions are what people say about stages. ana registers every revision.
var opinions = []modelMove{{kind: "approve", event: "ana"}, {kind: "approve", event: "bob"}, {kind: "reject", event: "bob"}}

// times lists freezes, their ends, and jumps of the clock.
func (p *position) times() []modelMove {
	var list []modelMove
	if p.left.freezes > 0 {
		list = append(list, modelMove{kind: "freeze"}, modelMove{kind: "freeze", event: "4h"}, modelMove{kind: "thaw"})
	}
	if p.left.clocks > 0 {
		list = append(list, modelMove{kind: "clock", event: p.otherMoment().Format(clockForm)})
	}
	return list
}

// clockForm is how transcripts write a time.
const clockForm = "2006-01-02T15:04"

func (p *position) otherMoment() time.Time {
	if p.now.Equal(noon) {
		return night
	}
	return noon
}

// opinions lists what people may say about a deployment.
func (p *position) opinions(t *audited) []modelMove {
	if p.left.opinions == 0 {
		return nil
	}
	return p.pending(t)
}

// pending lists everything that may be said about the stages of a deployment that need approval.
func (p *position) pending(t *audited) []modelMove {
	var list []modelMove
	for _, s := range p.auditor.of(t).d.Stages {
		if s.Approval == nil {
			continue
		}
		for _, m := range opinions {
			m.deployment, m.target = t.number, s.Name
			list = append(list, m)
		}
	}
	return list
}

func (p *position) clock() {
	p.left.clocks--
	p.now = p.otherMoment()
	p.auditor.now = p.now
}

// freeze freezes the pipeline or thaws it; what the engine refuses changes nothing.
func (p *position) freeze(m modelMove) error {
	row, err := p.engine.ClearFreeze("bob", "", p.now)
	if m.kind == "freeze" {
		f := admission.Freeze{By: "ana"}
		if m.event != "" {
			length, failed := time.ParseDuration(m.event)
			if failed != nil {
				return failed
			}
			f.Until = p.now.Add(length)
		}
		row, err = p.engine.SetFreeze(f, p.now)
	}
	isAllowed := err == nil
	p.auditor.judgeFreeze(m.kind == "freeze", isAllowed)
	if !isAllowed {
		return nil
	}
	p.left.freezes--
	return p.fold(row, 0)
}

// opine gives an opinion on a stage of a deployment; what the engine refuses changes nothing.
func (p *position) opine(m modelMove) error {
	kind := ApprovalGiven
	if m.kind == "reject" {
		kind = ApprovalRejected
	}
	c := Command{Kind: kind, Deployment: m.deployment, Target: "shop/" + m.target, By: m.event, Reason: "looking"}
	rows, err := p.engine.Command(c)
	p.auditor.judgeOpinion(p.auditor.deployment(m.deployment), c.Target, c.By, m.kind == "approve", err == nil)
	for _, row := range rows {
		p.left.opinions--
		if err := p.fold(row, 0); err != nil {
			return err
		}
	}
	return nil
}
