package pipeline

import (
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Engine folds a pipeline's log and decides the next steps. Apply is the only mutator: Decide applies its own
// decisions through it. Not safe for concurrent use.
type Engine struct {
	pipeline string
	seq      int64          // position of the last row applied; 0 before the first
	version  int            // definition version in force; 0 before the first
	plans    map[int]*Graph // the versions that AddVersion made known, without those that nothing is on any more

	deployments map[int64]*deployment
	order       []*deployment                        // all, by number
	latest      *deployment                          // deployment of the last row about one
	active      []*deployment                        // the active ones, in the order of a pass
	rollbacks   []*deployment                        // by number
	artifacts   map[int64]map[string]json.RawMessage // the registered artifacts, by revision and label
	uploaders   map[int64]map[string]bool            // who uploaded them, by revision and name
	// late has every pair that an edit introduced, also a pair that has left the pipeline since.
	late  map[stepKind]introduction
	born  map[int64]*Graph // by revision: the graph in force at its first deployment
	notes map[noteName]int // the changes of the pipeline itself, counted for Occurrence
	// claimDetails has the Detail of claims, by event. Rows share it, so nothing may change it.
	claimDetails map[string]json.RawMessage
	freeze       *admission.Freeze // set last and not cleared since; it may have ended on its own
	// rejected has the revisions that were rejected and not accepted since.
	rejected map[int64]*hold
	newest   int64  // the newest revision that an entry names
	archived int64  // rows up to this position may be missing; see AllowGaps
	forgets  bool   // deployments were archived
	unknown  *Graph // stands for the graph of a revision whose deployments were all archived: it has no pairs

	// What follows is shared by all deployments. It is kept by the engine's own numbers and not by
	// those of steps, because deployments may be on graphs of different versions.
	numbers       numbers
	holder        []holding       // by number of the batch; no deployment: it is free
	resources     []resourceState // by number
	flying        []int32         // by number of the host: deployments because of which it is in flight
	hostsInFlight []int32         // by number of the group: hosts in flight, each once
	// taken has the hosts in flight whose own batch was taken by a deployment because of which they are
	// not, by number; some are by now because of it, or the batch is free again.
	taken map[int32]bool

	// freed is set when a row may have made a blocked step runnable: a batch, a resource or a place
	// in a group became free, or a deployment was stopped, ended or computed again. The pass then
	// begins again with the oldest deployment that is awake.
	freed bool
	wakes
	ended    map[*Graph][]bits       // the steps of the deployment that ended last on each graph
	next     *Graph                  // the graph that moves are to
	moves    map[*Graph]*moves       // moves from each other graph
	changed  map[workKey][]int32     // steps of the graph that do something else than in an earlier version
	excluded map[stepName][]int32    // steps of the graph that an exclusion is about
	walks    map[*deployment]carried // on the graph of the edit that is being computed; nil: none is
	crowds   map[*Graph]*crowd       // crowds of the graphs that active deployments are on
	holding  []map[*deployment]int32 // batches of hosts and stages that each holds, by the stage's number
	spare    []*liveStep             // not in use
	// The sizes of the last decision. Passes follow each other with about as many rows, so the next
	// decision is made with room for as many.
	rows, works int
}

// New returns an empty engine for the pipeline with this name. It has folded no row and decides
// nothing until a definition is in force and a deployment was created.
func New(name string) *Engine {
	return &Engine{
		pipeline: name, plans: map[int]*Graph{}, deployments: map[int64]*deployment{},
		artifacts: map[int64]map[string]json.RawMessage{}, uploaders: map[int64]map[string]bool{},
		late: map[stepKind]introduction{}, born: map[int64]*Graph{}, notes: map[noteName]int{},
		claimDetails: map[string]json.RawMessage{}, rejected: map[int64]*hold{}, numbers: newNumbers(), unknown: &Graph{},
		ended: map[*Graph][]bits{}, crowds: map[*Graph]*crowd{}, wakes: wakes{waiting: map[waitKey]*passOrder{}, limits: map[int32][]int{}},
		taken: map[int32]bool{},
	}
}

// AddVersion makes a definition version known. It must be called before Apply gets the row
// pipeline-defined that names the version; otherwise Apply returns an error. The log has only the
// number of a version, so the caller reads the definition and compiles it.
func (e *Engine) AddVersion(version int, plan *Graph) { e.plans[version] = plan }

// HasVersion reports whether the engine has a version: AddVersion was called for it, and it is the
// one in force or a later one, or a deployment is on it.
func (e *Engine) HasVersion(version int) bool { return e.plans[version] != nil }

// Seq returns the position of the last row applied, or 0 for an empty engine. The next row must be
// at Seq()+1.
func (e *Engine) Seq() int64 { return e.seq }

// Current returns the definition version in force and its graph; 0 and nil before the first.
func (e *Engine) Current() (int, *Graph) { return e.version, e.plans[e.version] }

// occupant is the live action on a resource. The step is kept by name, because an edit may remove
// its host from the graph while the action still changes the resource.
type occupant struct {
	deployment *deployment
	step       *liveStep
}

// stepKind is a step's kind: an event in a stage, by path. The design calls it a pair. Whether a
// step is late is decided by pair and not by host (R15): a host may be new in a stage that had the
// event before.
type stepKind struct{ stage, event string }

// introduction records which revisions a pair is late for. If a pair leaves the pipeline and comes
// back, the last introduction counts.
type introduction struct {
	after  int64 // the newest revision registered then: it and those before are late
	strict bool  // the pair is a new architecture, for which no build of an earlier revision runs (R16)
}
