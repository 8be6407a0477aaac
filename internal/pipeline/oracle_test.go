package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// oracle is the definitional engine: the definitions applied literally over the
// rows folded so far, with nothing kept that could be computed. It shares with the
// shipped engine the types of rows and the arithmetic of limits, and no rule.
type oracle struct {
	pipeline    string
	graphs      map[int]*oracleGraph
	version     int
	deployments []*oracleDeployment // ascending rank
	artifacts   map[int64]map[string]bool
	late        map[stepKind]introduction
	born        map[int64]int // by revision: the version in force at its first deployment
	holder      map[batchID]*oracleDeployment
	started     map[Resource]int64 // number of the deployment
	newest      int64              // revision named so far
	digests     map[string]string  // by revision and label
	uploaded    map[string]bool    // by revision and name
	seq         int64
	effects     map[string]bool // of the edit that was last looked at
	now         time.Time
	freeze      *freezeDetail   // set last and not cleared
	rejected    map[int64]bool  // revisions
	covered     map[string]bool // by window and moment: computed once, since every minute is looked at
}

// oracleTrip is what the rows say of one deployment, by name.
type oracleDeployment struct {
	number, revision int64
	version, from    int // in force for it; in force when it was created
	status           Status
	facts            map[stepName]bool
	live             map[stepName]oracleLive
	failed           map[stepName]int64 // seq of the failure
	exclusions       []exclusion
	ranOn            map[string]string // by host that it started: address, user, root and service there
	promoted         map[string]string // by stage to whose environment it started to promote: application and targets
	lacks            []string          // architectures that came too late
	tolerated        map[string]int
	held             map[string]bool
	until            string // stage; "": none
	registeredBy     string
	said             map[string][]opinion // by stage, in order
	resumed          map[string]bool      // stages since until was set
	sizes            map[string]int
	noted            map[string]bool
	unanswered       []string       // stages that failed under rollback, and neither a rollback nor an alarm has followed yet
	rollback         *createdDetail // nil: it is none
	catchUp          *createdDetail // likewise
	part             string         // it is of this target only; "": of all
	firstClaim       map[string]int // of each event since the last retry: the version that it was made under
	above            int64          // of a rollback or a catch-up: how many of these are above the same deployment, with this one
	base             int64          // number of the deployment that its rank begins with
	knew             int64          // of a rollback: the newest revision then
	undone           bool           // a rollback canceled it
}

type oracleLive struct {
	resource    Resource
	stage, host string
	alarmed     bool // an alarm was raised while it baked
}

// isGate: the step asks something about a whole stage.
func isGate(event string) bool { return strings.HasPrefix(event, "gate-passed/") }

// isBake: the step repeats checks for a while.
func isBake(event string) bool { return event == "wave-baked" || event == "stage-baked" }

// oracleGraph is G of one version by name, with its closure.
type oracleGraph struct {
	d     *Definition
	steps []stepName // breadth-first
	index map[stepName]int
	*literal
	batches []oracleBatch
	waves   map[string][][]string // by group: the hosts of each wave
}

type oracleBatch struct {
	id          batchID
	open, close stepName
	region      map[stepName]bool
	stages      string // the stages in the region; a difference means that the region changed
	queue       Queue
}

func newOracle(name string) *oracle {
	return &oracle{pipeline: name, graphs: map[int]*oracleGraph{}, artifacts: map[int64]map[string]bool{},
		late: map[stepKind]introduction{}, born: map[int64]int{}, holder: map[batchID]*oracleDeployment{},
		started: map[Resource]int64{}, covered: map[string]bool{}, rejected: map[int64]bool{}, digests: map[string]string{},
		uploaded: map[string]bool{}}
}

func (o *oracle) graph(t *oracleDeployment) *oracleGraph { return o.graphs[t.version] }

func (o *oracle) known(t *oracleDeployment) []bits {
	g := o.graph(t)
	known := make([]bits, len(g.steps))
	for i, s := range g.steps {
		if t.facts[s] {
			known[i] |= complete
		}
		if _, ok := t.live[s]; ok {
			known[i] |= claimed
		}
		if o.excluded(t, s) {
			known[i] |= excluded
		}
	}
	return known
}

func (o *oracle) excluded(t *oracleDeployment, s stepName) bool {
	for _, x := range t.exclusions {
		if isUnder(x.target, x.event, s) {
			return true
		}
	}
	if t.rollback != nil && !o.isCovered(t, s) || t.catchUp != nil && s.target != o.pipeline && !slices.Contains(t.catchUp.Hosts, s.target) {
		return true
	}
	if t.part != "" && s.target != o.pipeline && !isUnder(t.part, "", s) {
		return true
	}
	stage, _, h, _ := o.graph(t).d.Find(s.target)
	return h != nil && slices.Contains(t.lacks, o.graph(t).d.ArtifactFor(stage.Name, h))
}

// counts: a failure counts while its step is in G and not elided; it is recorded all the same.
func (o *oracle) counts(t *oracleDeployment, s stepName) bool {
	g := o.graph(t)
	i, in := g.index[s]
	return in && !g.elided(o.known(t), i)
}

// stopsAt: a failed, untolerated step in exactly this stage.
func (o *oracle) stopsAt(t *oracleDeployment, stage string) bool {
	for s := range t.failed {
		if stageOf(s.target) != stage || !o.counts(t, s) {
			continue
		}
		if !isHostPath(s.target) {
			return true
		}
		group := groupOf(s.target)
		failed := o.failedHosts(t, group)
		if len(failed)+t.tolerated[group] > o.limit(t, group, func(g *Group) Limit { return g.MaxFailed }, false) {
			return true
		}
	}
	return false
}

// failedHosts lists the hosts of a group with a failed step, first failure first.
func (o *oracle) failedHosts(t *oracleDeployment, group string) []string {
	first := map[string]int64{}
	for s, seq := range t.failed {
		if groupOf(s.target) == group && isHostPath(s.target) && o.counts(t, s) && (first[s.target] == 0 || seq < first[s.target]) {
			first[s.target] = seq
		}
	}
	return slices.SortedFunc(maps.Keys(first), func(a, b string) int { return cmp.Compare(first[a], first[b]) })
}

func (o *oracle) limit(t *oracleDeployment, group string, of func(*Group) Limit, up bool) int {
	_, g, _, _ := o.graph(t).d.Find(group)
	size, ok := t.sizes[group]
	if !ok {
		size = len(g.Hosts)
	}
	return of(g).Of(size, up)
}

// stopped: a failed, untolerated step in the stage of s or in a region around it.
func (o *oracle) stopped(t *oracleDeployment, stage string) bool {
	g := o.graph(t)
	if o.stopsAt(t, stage) {
		return true
	}
	for _, b := range g.batches {
		if !b.region[stepName{stage, StageStarted}] {
			continue
		}
		for s := range b.region {
			if s.event == StageStarted && o.stopsAt(t, s.target) {
				return true
			}
		}
	}
	return false
}
