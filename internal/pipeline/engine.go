package pipeline

import "encoding/json"

// Engine folds a pipeline's log and decides what comes next. Apply is the only
// mutator: Decide applies its own decisions through it. Not safe for concurrent use.
type Engine struct {
	pipeline string
	seq      int64
	version  int
	plans    map[int]*Graph

	deployments map[int64]*deployment
	order       []*deployment                        // all, by number
	active      []*deployment                        // the active ones, by rank
	artifacts   map[int64]map[string]json.RawMessage // the registered artifacts, by revision and label
	late        map[stepKind]introduction
	born        map[int64]*Graph // by revision: the graph in force at its first deployment
	notes       map[noteName]int // of the pipeline itself

	holder        map[batchID]holding
	busy          map[Resource]occupant // the live action on each resource
	started       map[Resource]int64    // rank of the last start on each resource
	hostsInFlight map[string]int        // hosts in flight by group, over all deployments
	freed         bool                  // something was freed since a pass last looked
}

// New makes an empty engine for a pipeline.
func New(name string) *Engine {
	return &Engine{
		pipeline: name, plans: map[int]*Graph{}, deployments: map[int64]*deployment{}, artifacts: map[int64]map[string]json.RawMessage{},
		late: map[stepKind]introduction{}, born: map[int64]*Graph{}, notes: map[noteName]int{}, holder: map[batchID]holding{}, busy: map[Resource]occupant{},
		started: map[Resource]int64{}, hostsInFlight: map[string]int{},
	}
}

// AddVersion makes a definition version known; it must be there before the row pipeline-defined
// that names it.
func (e *Engine) AddVersion(version int, plan *Graph) { e.plans[version] = plan }

// HasVersion reports whether AddVersion was called for the version.
func (e *Engine) HasVersion(version int) bool { return e.plans[version] != nil }

// Seq returns the position of the last row applied.
func (e *Engine) Seq() int64 { return e.seq }

// Current returns the definition version in force and its graph; 0 and nil before the first.
func (e *Engine) Current() (int, *Graph) { return e.version, e.plans[e.version] }

// occupant is the live action on a resource.
type occupant struct {
	deployment *deployment
	step       stepName
}

// stepKind is a step's kind: an event in a stage, by path.
type stepKind struct{ stage, event string }

// introduction says since which revision a pair is in the pipeline.
type introduction struct {
	after  int64 // the newest revision registered then: it and those before are late
	strict bool
}
