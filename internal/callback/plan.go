package callback

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Job is an ended action with the documents that its callbacks speak of.
type Job struct {
	Action     action.Action
	Status     action.Status // its end
	Error      string
	Code       string    // code of Error
	StartedAt  time.Time // zero: it never ran
	FinishedAt time.Time
	Input      json.RawMessage
	Output     json.RawMessage // counts only when it was successful
	Lost       error           // set if a document was lost
	Depth      int             // number of jobs above it in its chain
}

// Planned is one action that follows a job.
type Planned struct {
	Action action.Action
	Code   string // code of Fault
	Fault  string // why it is FAILED at its birth; "": it is to be done
	Link   string // in a job: the callback that chained it; it replaces the job if the payload cache has the answer
}

// Bounds of plans.
const (
	maxFeatures = 10_000
	maxDepth    = 32       // jobs in a chain
	maxLevel    = 100_000  // actions at one level of the chains that one job begins; see Plan
	maxDocument = 8 << 20  // bytes of input or output
	maxPlanned  = 64 << 20 // bytes of parameters, of all actions of one callback
)

// Codes of planning faults.
const (
	CodeParameters   = string(fault.InvalidParameters)
	CodeFeatures     = "no_features"
	CodeManyFeatures = "too_many_features"
	CodeFilter       = "filter"
	CodeDocument     = "document"
	CodeChainTooDeep = "chain_too_deep"
	CodeChainTooWide = "chain_too_wide"
)

// whole is the index of an action for all features together; a single callback has 0.
const whole = -1

// Plan makes the actions of the callbacks that a job's end calls for. The same job gives the same
// actions.
//
// A job may have n actions after its end if its width times n is at most maxLevel. This bounds each
// level of a chain without counting it: over the jobs of a level, 1/width adds up to at most 1, and
// each n is at most maxLevel/width.
func Plan(job Job, callbacks []Callback) []Planned {
	callbacks = wanted(callbacks, job.Status)
	if len(callbacks) == 0 {
		return nil
	}
	docs, err := job.documents()
	width, accepted, jobs := max(job.Action.Width, 1), 0, 0
	var planned []Planned
	for i := range callbacks {
		c := &callbacks[i]
		p := planner{job: job, callback: c, docs: docs, left: pathLimit}
		switch {
		case err != nil:
			p.fail(whole, CodeDocument, err)
		case c.PerFeature:
			p.features()
		default:
			p.one(0, docs)
		}
		if n := len(p.planned); width*(accepted+n) > maxLevel {
			p.planned = nil
			p.fail(whole, CodeChainTooWide, fmt.Errorf("%d actions after this job, and as many after each job beside it, would "+
				"be %d at this level of the chain; "+
				"at most %d are allowed: select fewer features here or earlier in the chain", accepted+n, width*(accepted+n), maxLevel))
		} else {
			accepted += n
		}
		for _, one := range p.planned {
			if one.Link != "" {
				jobs++
			}
		}
		planned = append(planned, p.planned...)
	}
	for i := range planned {
		if planned[i].Link != "" {
			planned[i].Action.Width = width * jobs
		}
	}
	return planned
}

// wanted returns the callbacks that an end calls for.
func wanted(callbacks []Callback, end action.Status) (some []Callback) {
	for _, c := range callbacks {
		if !c.Disabled && c.When.Has(end) {
			some = append(some, c)
		}
	}
	return some
}

// documents decodes the job's documents. The output is empty unless it was successful.
func (j Job) documents() (documents, error) {
	if j.Lost != nil {
		return nil, j.Lost
	}
	output := j.Output
	if j.Status != action.Successful {
		output = nil
	}
	docs := documents{"workflow": map[string]any{
		"uuid": j.Action.ID.String(), "name": j.Action.Name, "version": json.Number(strconv.Itoa(j.Action.Version)), "status": j.Status.String(),
		"error": j.Error, "startedAt": moment(j.StartedAt), "finishedAt": moment(j.FinishedAt)}}
	for name, raw := range map[string]json.RawMessage{"input": j.Input, "output": output} {
		if len(raw) > maxDocument {
			return nil, fmt.Errorf("the %s of the job has %d bytes; callbacks read at most %d", name, len(raw), maxDocument)
		}
		value, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("the %s of the job %w", name, err)
		}
		docs[name] = value
	}
	return docs, nil
}

// moment returns a time as documents have it; null if it is zero.
func moment(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// planner plans one callback of one job.
type planner struct {
	job      Job
	callback *Callback
	docs     documents
	planned  []Planned
	// subscriber is the one that is called; zero for the subscriber of the job's own request, and
	// for callbacks.
	subscriber action.ID
	size       int     // bytes of all parameters so far
	left       float64 // nodes that the paths and filters of the callback may still look at
}

// features plans one action per feature that the filter lets through.
func (p *planner) features() {
	output, _ := p.docs["output"].(map[string]any)
	all, ok := output["features"].([]any)
	switch {
	case !ok:
		p.fail(whole, CodeFeatures, fmt.Errorf("$.output.features is not a list of features"))
		return
	case len(all) > maxFeatures:
		p.fail(whole, CodeManyFeatures, fmt.Errorf("$.output.features has %d elements; at most %d are called back for", len(all), maxFeatures))
		return
	}
	for i, feature := range all {
		docs := p.docs.with(feature)
		if p.callback.Filter != nil {
			yes, err := p.callback.Filter.matches(docs, &p.left)
			if p.left < 0 {
				p.planned = nil
				p.fail(whole, CodeFilter, fmt.Errorf("featureFilter takes too much work over all features: it came to feature %d of %d", i, len(all)))
				return
			}
			if err != nil {
				p.fail(i, CodeFilter, fmt.Errorf("featureFilter on feature %d: %w", i, err))
				continue
			}
			if !yes {
				continue
			}
		}
		p.one(i, docs)
		switch {
		case p.size > maxPlanned:
			p.planned = nil
			p.fail(whole, CodeParameters, fmt.Errorf("the parameters of all features have more than %d bytes together", maxPlanned))
			return
		case p.left < 0:
			last := p.planned[len(p.planned)-1].Fault
			p.planned = nil
			p.fail(whole, CodeParameters,
				fmt.Errorf("the parameters of all features together take too much work; at feature %d of %d: %s", i, len(all), last))
			return
		}
	}
}

// one plans the action for one feature, or for all.
func (p *planner) one(index int, docs documents) {
	raw, err := p.callback.parameters(docs, &p.left)
	if err != nil {
		p.fail(index, CodeParameters, err)
		return
	}
	if p.callback.Target.Process != "" && p.job.Depth+1 >= maxDepth {
		p.fail(index, CodeChainTooDeep, fmt.Errorf("%d jobs have started each other in a row, process %s would be the next: is it a circle?",
			p.job.Depth+1, p.callback.Target.Process))
		return
	}
	if p.size += len(raw); p.size > maxPlanned {
		p.fail(index, CodeParameters, fmt.Errorf("the parameters have more than %d bytes", maxPlanned))
		return
	}
	a, err := p.callback.Target.Prepare(raw)
	if err != nil {
		p.fail(index, CodeParameters, err)
		return
	}
	if p.callback.Target.Process == "" {
		a.Kind, a.Name = Kind, p.callback.Name
	}
	p.add(index, a, "", "")
}

// fail plans an action that is FAILED at its birth.
func (p *planner) fail(index int, code string, why error) {
	a := action.Action{Kind: Kind, Name: p.callback.Name, Handler: p.callback.Target.Handler,
		Policy: action.DefaultPolicy(), Delivery: action.AtLeastOnce}
	p.add(index, a, code, why.Error())
}

// add gives an action its place: its id is the same whenever it is planned, and is in the job's
// partition.
func (p *planner) add(index int, a action.Action, code, why string) {
	job := p.job.Action
	parts := []string{job.ID.String(), p.callback.Name, strconv.Itoa(index)}
	if !p.subscriber.IsZero() {
		parts = append(parts, p.subscriber.String())
	}
	a.ID = action.DerivedID(job.ID.Time(), parts...)
	a.ParentID, a.CreatedBy, a.Trace = job.ID, "callback of "+job.Name, job.Trace
	one := Planned{Action: a, Code: code, Fault: why}
	if why == "" && p.callback.Target.Process != "" {
		one.Link = p.callback.Name
	}
	p.planned = append(p.planned, one)
}
