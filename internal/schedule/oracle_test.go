package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// oracle is the definitional engine: sections 4.1 to 4.12 word by word over the
// rows folded so far, with nothing kept that could be computed. It shares with the
// shipped engine the types of rows and the arithmetic of limits, and no rule.
type oracle struct {
	pipeline  string
	graphs    map[int]*oracleGraph
	version   int
	trips     []*oracleTrip // ascending rank
	artifacts map[int64]map[string]bool
	late      map[pair]introduction
	holder    map[batchID]*oracleTrip
	started   map[Resource]int64
	seq       int64
}

// oracleTrip is what the rows say of one deployment, by name.
type oracleTrip struct {
	number, revision int64
	version          int
	status           Status
	facts            map[stepName]bool
	live             map[stepName]oracleLive
	failed           map[stepName]int64 // seq of the failure
	exclusions       []exclusion
	tolerated        map[string]int
	held             map[string]bool
	sizes            map[string]int
	noted            map[string]bool
}

type oracleLive struct {
	resource    Resource
	stage, host string
}

// oracleGraph is G of one version by name, with its closure.
type oracleGraph struct {
	d     *Definition
	steps []stepName // breadth-first
	index map[stepName]int
	*literal
	batches []oracleBatch
}

type oracleBatch struct {
	id          batchID
	open, close stepName
	region      map[stepName]bool
	stages      string // which stages are in it, to tell a changed region
	queue       Queue
}

func newOracle(pipeline string) *oracle {
	return &oracle{pipeline: pipeline, graphs: map[int]*oracleGraph{}, artifacts: map[int64]map[string]bool{},
		late: map[pair]introduction{}, holder: map[batchID]*oracleTrip{}, started: map[Resource]int64{}}
}

// next is the table of 4.1.
func (g *oracleGraph) nextOf(s stepName) []stepName {
	d := g.d
	stage, grp, _, _ := d.Find(s.target)
	up := s.target[:max(0, strings.LastIndexByte(s.target, '/'))]
	switch s.event {
	case PipelineStarted:
		var next []stepName
		for _, st := range d.Stages {
			if len(st.After) == 0 {
				next = append(next, stepName{Path(d.Pipeline, st.Name), StageStarted})
			}
		}
		return next
	case PipelineFinished:
		return nil
	case StageStarted:
		var next []stepName
		if stage.Kind == BuildStage {
			if !stage.Build.External {
				next = append(next, stepName{s.target, BuildCompleted})
			}
			for _, a := range stage.Build.Artifacts {
				next = append(next, stepName{s.target, ArtifactEvent(a.Label)})
			}
		}
		for _, gr := range stage.Groups {
			next = append(next, stepName{Path(s.target, gr.Name), GroupStarted})
		}
		if len(next) == 0 {
			next = append(next, stepName{s.target, StageFinished})
		}
		return next
	case GroupStarted:
		if len(grp.Hosts) == 0 {
			return []stepName{{s.target, GroupFinished}}
		}
		var next []stepName
		for _, h := range grp.Hosts {
			next = append(next, stepName{Path(s.target, h.Name), HostStarted})
		}
		return next
	case HostFinished:
		return []stepName{{up, GroupFinished}}
	case GroupFinished:
		return []stepName{{up, StageFinished}}
	case StageFinished:
		var next []stepName
		for _, st := range d.Stages {
			if slices.Contains(st.After, stage.Name) {
				next = append(next, stepName{Path(d.Pipeline, st.Name), StageStarted})
			}
		}
		if len(next) == 0 {
			next = append(next, stepName{d.Pipeline, PipelineFinished})
		}
		return next
	}
	if grp == nil { // build-completed, an artifact
		return []stepName{{s.target, StageFinished}}
	}
	events := []string{HostStarted}
	for _, c := range stage.Chain {
		events = append(events, c.Event)
	}
	events = append(events, HostFinished)
	return []stepName{{s.target, events[slices.Index(events, s.event)+1]}}
}

func newOracleGraph(d *Definition) *oracleGraph {
	g := &oracleGraph{d: d, index: map[stepName]int{}}
	root := stepName{d.Pipeline, PipelineStarted}
	g.steps, g.index[root] = []stepName{root}, 0
	for i := 0; i < len(g.steps); i++ {
		for _, n := range g.nextOf(g.steps[i]) {
			if _, seen := g.index[n]; !seen {
				g.index[n] = len(g.steps)
				g.steps = append(g.steps, n)
			}
		}
	}
	next := make([][]int, len(g.steps))
	for i, s := range g.steps {
		for _, n := range g.nextOf(s) {
			next[i] = append(next[i], g.index[n])
		}
	}
	g.literal = newLiteral(next)
	for i := range d.Stages {
		s := &d.Stages[i]
		path := Path(d.Pipeline, s.Name)
		for _, gr := range s.Groups {
			for _, h := range gr.Hosts {
				host := Path(path, gr.Name, h.Name)
				g.batch(batchID(host), stepName{host, HostStarted}, stepName{host, HostFinished}, FIFO)
			}
		}
		if s.Kind == HostStage && s.Queue != NoQueue {
			g.batch(batchID(path), stepName{path, StageStarted}, stepName{path, StageFinished}, s.Queue)
		}
	}
	for _, b := range d.Batches {
		first, last := Path(d.Pipeline, b.Stages[0]), Path(d.Pipeline, b.Stages[len(b.Stages)-1])
		g.batch(batchID(b.Name), stepName{first, StageStarted}, stepName{last, StageFinished}, b.Queue)
	}
	slices.SortStableFunc(g.batches, func(a, b oracleBatch) int { return cmp.Compare(len(a.region), len(b.region)) })
	return g
}

// batch: the region is o, c and every step strictly after o and before c.
func (g *oracleGraph) batch(id batchID, o, c stepName, queue Queue) {
	b := oracleBatch{id: id, open: o, close: c, region: map[stepName]bool{o: true, c: true}, queue: queue}
	var stages []string
	for i, s := range g.steps {
		if g.strictly(g.index[o], i) && g.strictly(i, g.index[c]) {
			b.region[s] = true
		}
		if b.region[s] && s.event == StageStarted {
			stages = append(stages, s.target)
		}
	}
	slices.Sort(stages)
	b.stages = strings.Join(stages, " ")
	g.batches = append(g.batches, b)
}

func (g *oracleGraph) byID(id batchID) *oracleBatch {
	for i := range g.batches {
		if g.batches[i].id == id {
			return &g.batches[i]
		}
	}
	return nil
}

func stageOf(target string) string {
	parts := strings.Split(target, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

func groupOf(target string) string {
	parts := strings.Split(target, "/")
	if len(parts) < 3 {
		return ""
	}
	return strings.Join(parts[:3], "/")
}

func isHostPath(target string) bool { return strings.Count(target, "/") == 3 }

// ---- what the rows say of the steps of G --------------------------------------

func (o *oracle) graph(t *oracleTrip) *oracleGraph { return o.graphs[t.version] }

func (o *oracle) known(t *oracleTrip) []bits {
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

func (o *oracle) excluded(t *oracleTrip, s stepName) bool {
	for _, x := range t.exclusions {
		if covers(x.target, x.event, s) {
			return true
		}
	}
	for p, i := range o.late {
		if !i.strict || t.revision > i.after {
			continue
		}
		if s == (stepName{p.stage, p.event}) {
			return true
		}
		if stage, _, h, ok := o.graph(t).d.Find(s.target); ok && h != nil && o.graph(t).d.ArtifactFor(stage.Name, h) == artifactLabel(p.event) {
			return true
		}
	}
	return false
}

// stopsAt: a failed, untolerated step in exactly this stage.
func (o *oracle) stopsAt(t *oracleTrip, stage string) bool {
	for s := range t.failed {
		if _, in := o.graph(t).index[s]; !in || stageOf(s.target) != stage || o.excluded(t, s) {
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

func (o *oracle) failedHosts(t *oracleTrip, group string) []stepName {
	var list []stepName
	for s := range t.failed {
		if _, in := o.graph(t).index[s]; in && groupOf(s.target) == group && isHostPath(s.target) && !o.excluded(t, s) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b stepName) int { return cmp.Compare(t.failed[a], t.failed[b]) })
	return list
}

func (o *oracle) limit(t *oracleTrip, group string, of func(*Group) Limit, up bool) int {
	_, g, _, _ := o.graph(t).d.Find(group)
	size, ok := t.sizes[group]
	if !ok {
		size = len(g.Hosts)
	}
	return of(g).Of(size, up)
}

// stopped: a failed, untolerated step in the stage of s or in a region around it.
func (o *oracle) stopped(t *oracleTrip, stage string) bool {
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

// ---- conditions ----------------------------------------------------------------

// verdict is the first failing condition, in the terms of the shipped engine's block.
type verdict struct {
	why   why
	batch batchID
	by    int64
}

// view is one deployment at one position, computed once.
type view struct {
	t        *oracleTrip
	g        *oracleGraph
	known    []bits
	resolved []bool
	doable   []bool
}

func (o *oracle) view(t *oracleTrip) *view {
	g, known := o.graph(t), o.known(t)
	return &view{t: t, g: g, known: known, resolved: g.literal.resolved(known), doable: g.doable(known)}
}

func (o *oracle) active() []*oracleTrip {
	var list []*oracleTrip
	for _, t := range o.trips {
		if t.status == Active {
			list = append(list, t)
		}
	}
	return list
}

func (o *oracle) check(v *view, i int) verdict {
	t, s := v.t, v.g.steps[i]
	stage := stageOf(s.target)
	switch {
	case t.status != Active:
		return verdict{why: notActive}
	case t.held[o.pipeline] || stage != "" && t.held[stage]:
		return verdict{why: isHeld}
	case v.known[i]&complete != 0:
		return verdict{why: isDone}
	case v.g.elided(v.known, i):
		return verdict{why: isOut}
	case !v.doable[i]:
		return verdict{why: isWaiting}
	case v.known[i]&claimed != 0:
		return verdict{why: isLive}
	}
	if _, failed := t.failed[s]; failed {
		return verdict{why: hasFailed}
	}
	if stage != "" && o.stopped(t, stage) {
		return verdict{why: isStopped}
	}
	if label := artifactLabel(s.event); label != "" && !o.artifacts[t.revision][label] {
		if t.facts[stepName{s.target, BuildCompleted}] && v.g.has(stepName{s.target, BuildCompleted}) {
			return verdict{why: lostArtifact}
		}
		return verdict{why: noArtifact}
	}
	if d := o.unlocked(v, s, ""); d.why != runs {
		return d
	}
	return o.hostFree(v, s)
}

func (g *oracleGraph) has(s stepName) bool { _, ok := g.index[s]; return ok }

func (o *oracle) unlocked(v *view, s stepName, but batchID) verdict {
	var outermost batchID
	for _, b := range v.g.batches { // regions nest: smaller first is innermost first
		if b.region[s] {
			outermost = b.id
		}
	}
	for _, b := range v.g.batches {
		if !b.region[s] {
			continue
		}
		h := o.holder[b.id]
		if h == v.t {
			continue
		}
		if h != nil && b.id != but {
			return verdict{isLocked, b.id, h.number}
		}
		if v.g.d.Order == Strict && b.id == outermost {
			for _, older := range o.active() {
				if older.number >= v.t.number || older.held[o.pipeline] {
					continue
				}
				theirs := o.graph(older).byID(b.id)
				if theirs == nil || older.held[stageOf(theirs.open.target)] {
					continue
				}
				ov := o.view(older)
				c := ov.g.index[theirs.close]
				if !ov.resolved[c] && !ov.g.elided(ov.known, c) {
					return verdict{keepsOrder, b.id, older.number}
				}
			}
		}
		if b.queue == Latest && but == "" {
			if w := o.waiters(b.id); len(w) > 0 && w[len(w)-1].number > v.t.number {
				return verdict{notNewest, b.id, w[len(w)-1].number}
			}
		}
	}
	return verdict{}
}

// waiters: those who would be runnable somewhere in the batch but for its lock.
func (o *oracle) waiters(id batchID) []*oracleTrip {
	var list []*oracleTrip
	for _, t := range o.active() {
		v := o.view(t)
		b := v.g.byID(id)
		if b == nil || v.resolved[v.g.index[b.close]] {
			continue
		}
		for s := range b.region {
			if o.waits(v, s, id) {
				list = append(list, t)
				break
			}
		}
	}
	return list
}

func (o *oracle) waits(v *view, s stepName, id batchID) bool {
	i := v.g.index[s]
	if h := o.holder[id]; h == v.t || !v.doable[i] || v.known[i]&claimed != 0 {
		return false
	}
	_, failed := v.t.failed[s]
	if failed || v.t.held[o.pipeline] || v.t.held[stageOf(s.target)] || o.stopped(v.t, stageOf(s.target)) {
		return false
	}
	if label := artifactLabel(s.event); label != "" && !o.artifacts[v.t.revision][label] {
		return false
	}
	return o.unlocked(v, s, id).why == runs && o.hostFree(v, s).why == runs
}

// hostFree is conditions 6 and 7.
func (o *oracle) hostFree(v *view, s stepName) verdict {
	if !isHostPath(s.target) || s.event == HostFinished {
		return verdict{}
	}
	stage, group, h, _ := v.g.d.Find(s.target)
	r := v.g.d.ResourceOf(stage, group, h)
	for _, t := range o.trips {
		for _, l := range t.live {
			if l.resource == r {
				return verdict{why: isBusy, by: t.number}
			}
		}
	}
	if s.event == HostStarted && o.inFlight(groupOf(s.target)) >= max(1, o.limit(v.t, groupOf(s.target), func(g *Group) Limit { return g.MaxParallel }, true)) {
		return verdict{why: isFull}
	}
	return verdict{}
}

// inFlight: a host counts from host-started until finished, failed or given up.
func (o *oracle) inFlight(group string) int {
	count := 0
	for _, t := range o.trips {
		v := o.view(t)
		for i, s := range v.g.steps {
			if s.event != HostStarted || groupOf(s.target) != group {
				continue
			}
			end := v.g.index[stepName{s.target, HostFinished}]
			live, failed := false, false
			for name, l := range t.live {
				live = live || l.host == s.target
				_ = name
			}
			for name := range t.failed {
				failed = failed || name.target == s.target && v.g.has(name)
			}
			going := t.status == Active && o.holder[batchID(s.target)] == t && v.known[i]&complete != 0 && v.known[end]&complete == 0 && !v.g.elided(v.known, end) &&
				!failed && !o.stopped(t, stageOf(s.target))
			if live || going {
				count++
			}
		}
	}
	return count
}

// ---- fold ----------------------------------------------------------------------

func (o *oracle) trip(number int64) *oracleTrip {
	for _, t := range o.trips {
		if t.number == number {
			return t
		}
	}
	return nil
}

func (o *oracle) apply(row Entry) {
	o.seq = row.Seq
	t := o.trip(row.Deployment)
	name := stepName{row.Target, row.Event}
	switch {
	case row.Event == PipelineDefined:
		o.define(row.Version)
	case row.Event == ArtifactRegistered:
		if o.artifacts[row.Revision] == nil {
			o.artifacts[row.Revision] = map[string]bool{}
		}
		o.artifacts[row.Revision][detail[artifactDetail](row).Label] = true
	case row.Event == StepIntroduced:
		d := detail[IntroducedDetail](row)
		o.late[pair{row.Target, d.Event}] = introduction{d.After, d.Strict}
	case row.Event == DeploymentCreated:
		o.trips = append(o.trips, &oracleTrip{number: row.Deployment, revision: row.Revision, version: o.version, status: Active,
			facts: map[stepName]bool{}, live: map[stepName]oracleLive{}, failed: map[stepName]int64{}, tolerated: map[string]int{},
			held: map[string]bool{}, sizes: map[string]int{}, noted: map[string]bool{}})
	case row.Class == Fact:
		o.acquire(t, name)
		t.facts[name] = true
		delete(t.live, name)
		delete(t.failed, name)
		stage, group, h, _ := o.graph(t).d.Find(row.Target)
		if row.Event == HostStarted && h != nil {
			o.started[o.graph(t).d.ResourceOf(stage, group, h)] = t.number
		}
		if row.Event == GroupStarted && group != nil {
			t.sizes[row.Target] = len(group.Hosts)
		}
		if row.Event == PipelineFinished {
			t.status = Finished
		}
	case row.Class == Note:
		o.note(t, row)
	}
	o.release()
}

func (o *oracle) note(t *oracleTrip, row Entry) {
	d := detail[StepDetail](row)
	name := stepName{row.Target, d.Event}
	switch row.Event {
	case StepClaimed:
		o.acquire(t, name)
		l := oracleLive{stage: stageOf(row.Target)}
		if stage, group, h, _ := o.graph(t).d.Find(row.Target); h != nil {
			l.resource, l.host = o.graph(t).d.ResourceOf(stage, group, h), row.Target
		}
		t.live[name] = l
	case StepFailed:
		delete(t.live, name)
		t.failed[name] = row.Seq
	case StepCanceled:
		delete(t.live, name)
	case StepExcluded, StepSkipped:
		t.exclusions = append(t.exclusions, exclusion{target: row.Target, event: d.Event})
		maps.DeleteFunc(t.failed, func(s stepName, _ int64) bool { return covers(row.Target, d.Event, s) })
	case HostFailureTolerated:
		t.exclusions = append(t.exclusions, exclusion{target: row.Target})
		t.tolerated[groupOf(row.Target)]++
		maps.DeleteFunc(t.failed, func(s stepName, _ int64) bool { return s.target == row.Target })
	case RetryRequested:
		maps.DeleteFunc(t.failed, func(s stepName, _ int64) bool { return covers(row.Target, d.Event, s) })
		t.status = Active
		maps.DeleteFunc(t.noted, func(stage string, _ bool) bool { return !o.stopsAt(t, stage) })
	case HoldSet:
		t.held[row.Target] = true
	case HoldCleared:
		delete(t.held, row.Target)
	case StageFailed:
		t.noted[row.Target] = true
	case PipelineFailed:
		t.status = FailedRun
	case PipelineSuperseded:
		t.status = Superseded
	case PipelineCanceled:
		t.status = CanceledRun
	}
}

// acquire: d claims, or marks, any step of the free region.
func (o *oracle) acquire(t *oracleTrip, s stepName) {
	if t.status != Active {
		return
	}
	for _, b := range o.graph(t).batches {
		if b.region[s] && o.holder[b.id] == nil {
			o.holder[b.id] = t
		}
	}
}

// release is judged after every row.
func (o *oracle) release() {
	for again := true; again; {
		again = false
		for _, id := range slices.Sorted(maps.Keys(o.holder)) {
			t := o.holder[id]
			if t == nil { // went with one around it
				continue
			}
			b := o.graph(t).byID(id)
			if !o.mayRelease(t, id, b) {
				continue
			}
			delete(o.holder, id)
			again = true
			if b == nil || isHostPath(string(id)) {
				continue
			}
			for _, inner := range o.graph(t).batches { // every batch nested in b that d holds
				if o.holder[inner.id] == t && b.region[inner.open] && b.region[inner.close] && len(inner.region) <= len(b.region) {
					delete(o.holder, inner.id)
				}
			}
		}
	}
}

func (o *oracle) mayRelease(t *oracleTrip, id batchID, b *oracleBatch) bool {
	for _, l := range t.live {
		if b != nil && (isHostPath(string(id)) && l.host == string(id) || !isHostPath(string(id)) && slices.Contains(strings.Fields(b.stages), l.stage)) {
			return false
		}
	}
	if b == nil || t.status == Superseded || t.status == CanceledRun || t.status == Finished {
		return true
	}
	v := o.view(t)
	return v.resolved[v.g.index[b.close]] || o.failedInsideUnderRelease(t, id, b) || o.lockedOut(t, id, b)
}

// lockedOut: a batch around this one is another's.
func (o *oracle) lockedOut(t *oracleTrip, id batchID, b *oracleBatch) bool {
	outside := false
	for _, outer := range o.graph(t).batches {
		if !outer.region[b.open] {
			continue
		}
		if h := o.holder[outer.id]; outside && h != nil && h != t {
			return true
		}
		outside = outside || outer.id == id
	}
	return false
}

func (o *oracle) failedInsideUnderRelease(t *oracleTrip, id batchID, b *oracleBatch) bool {
	stages := strings.Fields(b.stages)
	if isHostPath(string(id)) {
		stages = []string{stageOf(string(id))}
	}
	found := false
	for _, path := range stages {
		if !o.stopsAt(t, path) {
			continue
		}
		stage, _, _, _ := o.graph(t).d.Find(path)
		if stage.OnFailure == Hold {
			return false
		}
		found = true
	}
	return found
}

// define moves the deployments over, then gives a region that is new or changed to the oldest inside.
func (o *oracle) define(version int) {
	old := o.graphs[o.version]
	o.version = version
	if old == nil {
		return
	}
	for _, t := range o.trips {
		if (t.status == Active || t.status == FailedRun) && !o.graph(t).d.Pin {
			t.version = version
		}
	}
	o.release()
	for _, b := range slices.Backward(o.graphs[version].batches) { // outermost first
		if was := old.byID(b.id); was != nil && was.stages == b.stages {
			continue
		}
		oldest := o.holder[b.id]
		for _, t := range o.active() {
			theirs := o.graph(t).byID(b.id)
			if theirs == nil || o.mayRelease(t, b.id, theirs) || !o.inside(t, b.id, theirs) {
				continue
			}
			if oldest == nil || t.number < oldest.number {
				oldest = t
			}
		}
		if oldest != nil {
			o.holder[b.id] = oldest
		}
	}
}

func (o *oracle) inside(t *oracleTrip, id batchID, b *oracleBatch) bool {
	for s := range b.region {
		if _, live := t.live[s]; live || t.facts[s] {
			return true
		}
	}
	return false
}

// ---- the pass --------------------------------------------------------------------

// first is what 4.7 does next: the first consequence or runnable step of the oldest deployment that has one,
// as (deployment, target, event of the row, event of the step).
type move struct {
	deployment    int64
	target, event string
	step          string
}

func (o *oracle) first() (move, bool) {
	for _, t := range o.active() {
		v := o.view(t)
		if m, ok := o.consequence(t); ok {
			return m, true
		}
		for i, s := range v.g.steps {
			d := o.check(v, i)
			switch {
			case d.why == lostArtifact:
				return move{t.number, s.target, StepFailed, s.event}, true
			case d.why != runs:
				continue
			}
			stage, _, h, _ := v.g.d.Find(s.target)
			work := h != nil && s.event != HostStarted && s.event != HostFinished ||
				s.event == BuildCompleted && !o.allArtifacts(t, stage)
			if work {
				return move{t.number, s.target, StepClaimed, s.event}, true
			}
			return move{t.number, s.target, s.event, ""}, true
		}
		if m, ok := o.conclusion(v); ok {
			return m, true
		}
	}
	return move{}, false
}

func (o *oracle) allArtifacts(t *oracleTrip, stage *Stage) bool {
	for _, a := range stage.Build.Artifacts {
		if !o.artifacts[t.revision][a.Label] {
			return false
		}
	}
	return len(stage.Build.Artifacts) > 0
}

func (o *oracle) consequence(t *oracleTrip) (move, bool) {
	d := o.graph(t).d
	for r, rank := range o.started {
		if rank > t.number && o.hasStepsOn(t, r) {
			return move{t.number, o.pipeline, PipelineSuperseded, ""}, true
		}
	}
	for _, s := range d.Stages {
		for _, g := range s.Groups {
			path := Path(d.Pipeline, s.Name, g.Name)
			failed := o.failedHosts(t, path)
			if len(failed) > 0 && t.tolerated[path] < o.limit(t, path, func(g *Group) Limit { return g.MaxFailed }, false) {
				return move{t.number, failed[0].target, HostFailureTolerated, ""}, true
			}
		}
	}
	for _, s := range d.Stages {
		path := Path(d.Pipeline, s.Name)
		if o.stopsAt(t, path) && !t.noted[path] && o.drained(t, path) {
			return move{t.number, path, StageFailed, ""}, true
		}
	}
	return move{}, false
}

// drained: nothing live in the stage, nor in a region around it.
func (o *oracle) drained(t *oracleTrip, stage string) bool {
	for _, l := range t.live {
		if l.stage == stage {
			return false
		}
		for _, b := range o.graph(t).batches {
			in := strings.Fields(b.stages)
			if slices.Contains(in, stage) && slices.Contains(in, l.stage) {
				return false
			}
		}
	}
	return true
}

func (o *oracle) conclusion(v *view) (move, bool) {
	if len(v.t.failed) == 0 || len(v.t.live) > 0 {
		return move{}, false
	}
	for i, s := range v.g.steps {
		if _, failed := v.t.failed[s]; !v.doable[i] || failed {
			continue
		}
		if stage := stageOf(s.target); stage == "" || !o.stopped(v.t, stage) {
			return move{}, false
		}
	}
	return move{v.t.number, o.pipeline, PipelineFailed, ""}, true
}

// hasStepsOn: unresolved, unelided steps on a resource.
func (o *oracle) hasStepsOn(t *oracleTrip, r Resource) bool {
	v := o.view(t)
	for i, s := range v.g.steps {
		if !isHostPath(s.target) || v.resolved[i] || v.g.elided(v.known, i) {
			continue
		}
		if stage, group, h, _ := v.g.d.Find(s.target); v.g.d.ResourceOf(stage, group, h) == r {
			return true
		}
	}
	return false
}

// outranked: the active deployments of lower rank that the start of a host ends (4.6).
func (o *oracle) outranked(row Entry) map[int64]bool {
	t := o.trip(row.Deployment)
	stage, group, h, _ := o.graph(t).d.Find(row.Target)
	list := map[int64]bool{}
	for _, older := range o.active() {
		if older.number < t.number && o.hasStepsOn(older, o.graph(t).d.ResourceOf(stage, group, h)) {
			list[older.number] = true
		}
	}
	return list
}

// exclusions is 4.9 and the first row of 4.10: what an edit excludes, as "deployment target event".
func (o *oracle) exclusions(from, to int, newest int64) map[string]bool {
	old, next := o.graphs[from], o.graphs[to]
	had, made, late := map[pair]bool{}, map[string]bool{}, map[pair]bool{}
	for i := range old.d.Stages {
		for _, p := range old.d.pairs(i) {
			had[p] = true
			made[artifactLabel(p.event)] = true
		}
	}
	found := map[string]bool{}
	for _, t := range o.trips {
		if t.status != Active && t.status != FailedRun || o.graph(t).d.Pin {
			continue
		}
		clear(late)
		var news []pair
		for p, i := range o.late {
			late[p] = t.revision <= i.after
		}
		for i := range next.d.Stages {
			for _, p := range next.d.pairs(i) {
				if !had[p] {
					news = append(news, p)
					late[p] = t.revision <= newest
				}
			}
		}
		version := t.version
		t.version = to
		mine := map[pair]bool{}
		for _, k := range news {
			label := artifactLabel(k.event)
			switch {
			case !late[k]:
			case label != "" && !made[label]:
				mine[k] = true
			case o.is010(t, next, late, k.event):
				for p := range late {
					if stage, _, _, ok := next.d.Find(p.stage); ok && p.event == k.event && late[p] && slices.Contains(next.d.pairs(slices.IndexFunc(next.d.Stages, func(s Stage) bool { return s.Name == stage.Name })), p) {
						mine[p] = true
					}
				}
			}
		}
		for p := range mine {
			if p.event != StageStarted {
				continue
			}
			for q, is := range late {
				if is && q.stage == p.stage {
					if i := slices.IndexFunc(next.d.Stages, func(s Stage) bool { return Path(next.d.Pipeline, s.Name) == q.stage }); i >= 0 && slices.Contains(next.d.pairs(i), q) {
						mine[q] = true
					}
				}
			}
		}
		before := t.exclusions
		for p := range mine {
			known := slices.ContainsFunc(before, func(x exclusion) bool { return x.target == p.stage && x.event == p.event })
			if !known {
				found[fmt.Sprintf("%d %s %s", t.number, p.stage, p.event)] = true
				t.exclusions = append(slices.Clip(t.exclusions), exclusion{target: p.stage, event: p.event})
			}
		}
		v := o.view(t)
		for i, s := range next.steps {
			if s.event != HostFinished || v.resolved[i] || next.elided(v.known, i) || old.has(stepName{s.target, HostStarted}) {
				continue
			}
			stage, group, h, _ := next.d.Find(s.target)
			if o.started[next.d.ResourceOf(stage, group, h)] > t.number {
				found[fmt.Sprintf("%d %s ", t.number, s.target)] = true
			}
		}
		t.exclusions, t.version = before, version
	}
	return found
}

// is010: a walk from some incomplete X of event K at a late pair, over late pairs up to and including the first
// step that is not late, meets a complete or claimed step.
func (o *oracle) is010(t *oracleTrip, g *oracleGraph, late map[pair]bool, event string) bool {
	isLate := func(s stepName) bool { return late[pair{stageOf(s.target), s.event}] }
	var meets func(s stepName) bool
	meets = func(s stepName) bool {
		for _, n := range g.nextOf(s) {
			_, live := t.live[n]
			if t.facts[n] || live || isLate(n) && meets(n) {
				return true
			}
		}
		return false
	}
	for _, s := range g.steps {
		if s.event == event && isLate(s) && !t.facts[s] && meets(s) {
			return true
		}
	}
	return false
}
