package pipeline

import "time"

// Decision is the set of rows and starts of a pass. All of it is committed in one transaction, or nothing. The engine
// has applied it already.
type Decision struct {
	Entries []Entry   // facts and notes to append, in order, with the Seq they will get
	Work    []Work    // actions to create; each has its note step-claimed in Entries
	Drain   []StepKey // live actions that get no further attempt
	Cancel  []StepKey // live actions to end
	More    bool      // the row limit was reached: decide again at once
	Wake    time.Time // time at which the clock alone may change the decision: a window opens, or a freeze ends; zero: never
	// Blocked counts the steps that are doable but blocked, by reason. Hosts of a group that wait
	// for the same reason are looked at, and counted, once. It is for metrics: only the last round
	// of a pass is counted, and with More that round was cut short.
	Blocked map[string]int
}

// Empty reports whether the decision records nothing.
func (d Decision) Empty() bool {
	return len(d.Entries)+len(d.Work)+len(d.Drain)+len(d.Cancel) == 0
}

// Work is one step that takes an action. The pointers are into the definition of the deployment's
// version, and must not be used to change it.
type Work struct {
	StepKey
	Revision   int64
	Label      string // label of the revision
	Version    int    // with pin it may be older than the version in force
	Definition *Definition
	Stage      *Stage
	Group      *Group // nil for a build and the bake of a stage
	Host       *Host  // nil except for a step of a host
	Step       *Step  // likewise
	Bake       *Bake  // nil except for a bake
	Gate       *Gate  // nil except for a gate
	// Environment is nil except for a promotion.
	Environment *Environment
	// Fence grows with the rank of what starts the host's resource; 0 except for a step of a host.
	// It is the number of the deployment, unless a rollback makes numbers differ from ranks.
	Fence int64
	// Former is the fence that the log gave the host's resource before; 0: none, or not known. A host
	// that has a higher one, below Fence, was deployed to by something else.
	Former int64
}
