package pipeline

import "fmt"

// oracleShare of 256 states are compared with the oracle. It computes everything from scratch, which
// takes as long as a hundred moves.
const oracleShare = 1

// compareWithOracle reads the log with the oracle, and compares the states and reasons of all steps
// and what the next pass does first (I12).
func (p *position) compareWithOracle(log []Entry) string {
	o := newOracle("shop")
	o.now = p.now
	for _, row := range log {
		if row.Event == PipelineDefined {
			o.graphs[row.Version] = newOracleGraph(p.graphs[row.Version-1].def, o.deal(p.graphs[row.Version-1].def))
		}
		o.apply(row)
	}
	for _, each := range o.deployments {
		t := p.engine.deployments[each.number]
		if t.status != each.status || t.version != each.version {
			return fmt.Sprintf("I12: #%d is %s, the oracle has %s", t.number, t.status, each.status)
		}
		if t.status != StatusActive && t.status != StatusFailed {
			continue
		}
		v := o.view(each)
		order := t.plan.order()
		for i, s := range v.g.steps {
			b := p.engine.check(t, order[i], p.now)
			got := verdict{why: b.why, batch: b.batch}
			if b.why == isOnce {
				got.on = b.step.target
			}
			if b.deployment != nil {
				got.by = b.deployment.number
			}
			if want := o.check(v, i); got != want {
				return fmt.Sprintf("I12: #%d %v: %+v, the oracle has %+v", t.number, s, got, want)
			}
		}
	}
	d, err := cloneEngine(p.engine).Decide(p.now, 1<<20)
	if err != nil {
		return err.Error()
	}
	want, some := o.first()
	var got move
	for _, row := range d.Entries {
		if row.Event == PipelineSuperseded && want.event != PipelineSuperseded { // waiters, before the step that ends them
			continue
		}
		got = move{row.Deployment, row.Target, row.Event, ""}
		if row.Event == StepClaimed || row.Event == StepFailed {
			got.step = detail[StepDetail](row).Event
		}
		break
	}
	if some != (len(d.Entries) > 0) || got != want {
		return fmt.Sprintf("I12: a pass begins with %v, the oracle with %v", got, want)
	}
	return ""
}
