package promotion

// run is a run of the input, or one that starts now, with the end that this decision gives it. The Run itself is only
// read.
type run struct {
	*Run
	end     RunEnd
	records []record // by place of the environment; nil until first needed
}

// record holds the entries of one environment in one run, also those that this decision adds.
type record struct {
	started, promoted, approved, finished, failed *Fact
	more                                          []*Fact // entries of gates and targets
}

// fewFacts is the number of entries of gates and targets for which a record has room at first.
const fewFacts = 4

// isFull reports whether a run goes through all environments.
func (r *run) isFull() bool { return r.Env == "" }

// add adds an entry to the record of its environment.
func (c *record) add(f *Fact) {
	switch f.Event {
	case StageStarted:
		c.started = f
	case EnvPromoted:
		c.promoted = f
	case ApprovalGranted:
		c.approved = f
	case StageFinished:
		c.finished = f
	case StageFailed:
		c.failed = f
	default:
		if c.more == nil {
			c.more = make([]*Fact, 0, fewFacts)
		}
		c.more = append(c.more, f)
	}
}

// isHealthy reports whether a target was ready at the revision before in this run.
func (c *record) isHealthy(id TargetID) bool {
	for _, f := range c.more {
		if f.Target != nil && *f.Target == id {
			return true
		}
	}
	return false
}

// passedGate reports whether a gate has passed in this run.
func (c *record) passedGate(event Event) bool {
	for _, f := range c.more {
		if f.Event == event {
			return true
		}
	}
	return false
}

// isOpen reports whether the environment has started in the run, and neither finished nor left it.
func (c *record) isOpen() bool { return c.started != nil && c.finished == nil && c.failed == nil }

// readRecords sorts the entries of a run by environment. Entries of an environment that the spec no longer has count
// nowhere: facts stay by the name.
func readRecords(of *Run, places map[EnvName]int) []record {
	records := make([]record, len(places))
	last, place, known := EnvName(""), 0, false
	for i := range of.Facts {
		f := &of.Facts[i]
		if f.Env == "" {
			continue
		}
		if f.Env != last {
			last = f.Env
			place, known = places[f.Env]
		}
		if known {
			records[place].add(f)
		}
	}
	return records
}
