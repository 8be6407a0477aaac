package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"
)

// cloneEngine returns a copy of an engine that shares nothing with it but what no row changes.
func cloneEngine(e *Engine) *Engine {
	c := *e
	c.plans, c.late, c.born, c.notes = maps.Clone(e.plans), maps.Clone(e.late), maps.Clone(e.born), maps.Clone(e.notes)
	c.rejected, c.claimDetails = maps.Clone(e.rejected), maps.Clone(e.claimDetails)
	c.numbers, c.holder, c.resources, c.hostsInFlight = e.numbers.clone(), slices.Clone(e.holder), slices.Clone(
		e.resources), slices.Clone(e.hostsInFlight)
	c.artifacts = maps.Clone(e.artifacts)
	for revision, labels := range c.artifacts {
		c.artifacts[revision] = maps.Clone(labels)
	}
	c.uploaders = maps.Clone(e.uploaders)
	for revision, people := range c.uploaders {
		c.uploaders[revision] = maps.Clone(people)
	}
	c.deployments = make(map[int64]*deployment, len(e.deployments))
	c.order = make([]*deployment, 0, len(e.order))
	for _, t := range e.order {
		d := cloneDeployment(t)
		d.uploaders = c.uploaders[d.revision]
		c.deployments[t.number] = d
		c.order = append(c.order, d)
	}
	c.active = make([]*deployment, 0, len(e.active))
	for _, t := range e.active {
		c.active = append(c.active, c.deployments[t.number])
	}
	of := func(t *deployment) *deployment {
		if t == nil {
			return nil
		}
		return c.deployments[t.number]
	}
	c.latest = of(e.latest)
	for i := range c.resources {
		r := &c.resources[i]
		r.started, r.busy.deployment = of(r.started), of(r.busy.deployment)
		if r.busy.deployment != nil {
			r.busy.step = r.busy.deployment.live[r.busy.step.at]
		}
	}
	for _, t := range c.order {
		if t.undoes != nil {
			t.undoes = c.deployments[t.undoes.number]
		}
		if t.completes != nil {
			t.completes = c.deployments[t.completes.number]
		}
	}
	for id := range c.holder {
		c.holder[id].deployment = of(c.holder[id].deployment)
	}
	cloneWakes(&c, e)
	return &c
}

// cloneWakes copies who is awake and who waits for what.
func cloneWakes(c, e *Engine) {
	same := func(list []*deployment) []*deployment {
		list = slices.Clone(list)
		for i, t := range list {
			list[i] = c.deployments[t.number]
		}
		return list
	}
	c.awake, c.touched, c.restless = same(e.awake), same(e.touched), same(e.restless)
	c.waiting = map[waitKey]*passOrder{}
	for k, line := range e.waiting {
		copied := passOrder(same(*line))
		c.waiting[k] = &copied
	}
	c.limits = map[int32][]int{}
	for group, limits := range e.limits {
		c.limits[group] = slices.Clone(limits)
	}
	c.taken, c.flying = maps.Clone(e.taken), slices.Clone(e.flying)
	c.timers = slices.Clone(e.timers)
	for i := range c.timers {
		c.timers[i].t = c.deployments[c.timers[i].t.number]
	}
	c.rollbacks, c.ended = same(e.rollbacks), maps.Clone(e.ended)
	c.crowds = map[*Graph]*crowd{}
	for plan, from := range e.crowds {
		to := &crowd{slices.Clone(from.behind), slices.Clone(from.within)}
		for s := range to.behind {
			to.behind[s], to.within[s] = same(to.behind[s]), same(to.within[s])
		}
		c.crowds[plan] = to
	}
	c.spare = make([]*liveStep, len(e.spare))
	for i := range c.spare {
		c.spare[i] = &liveStep{}
	}
	c.holding = make([]map[*deployment]int32, len(e.holding))
	for stage, counts := range e.holding {
		c.holding[stage] = map[*deployment]int32{}
		for t, n := range counts {
			c.holding[stage][c.deployments[t.number]] = n
		}
	}
	for _, t := range c.order {
		t.waits, t.offers = maps.Clone(t.waits), slices.Clone(t.offers)
	}
}

func cloneDeployment(t *deployment) *deployment {
	d := *t
	w := *t.walk
	w.step, w.wait = slices.Clone(w.step), slices.Clone(w.wait)
	w.fresh, w.pending = slices.Clone(w.fresh), slices.Clone(w.pending)
	d.walk = &w
	d.kept, d.notes, d.held, d.resumed, d.away = maps.Clone(t.kept), maps.Clone(t.notes), maps.Clone(t.held), maps.Clone(
		t.resumed), maps.Clone(t.away)
	d.claims, d.ran = slices.Clone(t.claims), maps.Clone(t.ran)
	d.beyond, d.at, d.exclusions = slices.Clone(t.beyond), slices.Clone(t.at), slices.Clone(t.exclusions)
	for i, page := range d.at {
		if page != nil {
			same := *page
			d.at[i] = &same
		}
	}
	d.live, d.approvals = slices.Clone(t.live), maps.Clone(t.approvals)
	for i, l := range d.live {
		step := *l
		d.live[i] = &step
	}
	d.liveAt, d.failures, d.left, d.lacks = slices.Clone(t.liveAt), maps.Clone(t.failures), maps.Clone(t.left), maps.Clone(t.lacks)
	d.entered = maps.Clone(t.entered)
	d.sizes, d.tolerated, d.noted, d.holds = maps.Clone(t.sizes), maps.Clone(t.tolerated), maps.Clone(t.noted), maps.Clone(t.holds)
	d.failing, d.broken, d.inFlight = slices.Clone(t.failing), slices.Clone(t.broken), slices.Clone(t.inFlight)
	q := &d.queue
	q.heap, q.parked, q.starts = slices.Clone(q.heap), slices.Clone(q.parked), slices.Clone(q.starts)
	for g := range q.starts {
		q.starts[g].waiting = slices.Clone(q.starts[g].waiting)
	}
	return &d
}

// state identifies a state of a world: two states with the same value have the same future.
type state [16]byte

// fingerprint identifies an engine's state: what it has folded, and what it keeps beside that. It
// leaves out positions, times, texts for people and the numbers of notes, on which no decision
// depends, and what a pass keeps for the next one (what it has asked of live actions, what it has
// still to look at), which a fold of the log does not have. Versions are named by their graphs, since an edit that is undone leads back.
func fingerprint(b *bytes.Buffer, e *Engine, graphs map[*Graph]int) {
	fmt.Fprintf(b, "%d", graphs[e.plans[e.version]])
	for _, t := range e.order {
		printDeployment(b, e, t, graphs)
	}
	held := e.held()
	for _, id := range sortedKeys(held) {
		fmt.Fprintf(b, "\n%s>%d", id, held[id].deployment.number)
	}
	address := func(r Resource) string { return r.Address + r.Service }
	printMap(b, e.resourcesWith(isBusyNow), address, func(r resourceState) any { return r.busy.deployment.number })
	printMap(b, e.resourcesWith(isStarted), address, func(r resourceState) any { return fmt.Sprint(r.started.number, " ", r.fence) })
	flying := map[string]int32{}
	for group, n := range e.hostsInFlight {
		flying[e.numbers.names[group]] = n
	}
	printMap(b, flying, identical, func(n int32) any { return n })
	printMap(b, e.late, func(p stepKind) string { return p.stage + p.event }, func(i introduction) any { return i })
	printMap(b, e.rejected, func(n int64) string { return fmt.Sprint(n) }, func(h *hold) any { return h != nil })
	fmt.Fprintf(b, "\n%d", e.newest)
	if e.freeze != nil {
		fmt.Fprintf(b, "\nfrozen until %v", e.freeze.Until)
	}
	for _, revision := range slices.Sorted(maps.Keys(e.artifacts)) {
		fmt.Fprintf(b, "\n%d:%v", revision, sortedKeys(e.artifacts[revision]))
	}
	for _, revision := range slices.Sorted(maps.Keys(e.born)) {
		fmt.Fprintf(b, "\n%d@%d", revision, graphs[e.born[revision]])
	}
}

func printDeployment(b *bytes.Buffer, e *Engine, t *deployment, graphs map[*Graph]int) {
	b.WriteByte('\n')
	for _, n := range []int{int(t.number), int(t.revision), graphs[t.plan], graphs[t.from], len(t.status), t.done, t.elided, t.passed} {
		b.WriteByte(byte(n))
	}
	b.WriteString(string(t.status))
	b.WriteString(t.until)
	for _, s := range t.step {
		b.WriteByte(byte(s &^ queued))
	}
	for _, n := range t.wait {
		b.WriteByte(byte(n))
	}
	b.WriteByte(flag1(t.interrupt))
	for _, on := range t.inFlight {
		b.WriteByte(flag1(on))
	}
	for _, n := range slices.Concat(t.failing, t.broken, t.offered()) {
		b.WriteByte(byte(n))
	}
	fmt.Fprintf(b, "\n%v %d %s %d", t.rank, t.undoneBy, t.scope, t.knew)
	printMap(b, t.covered, identical, func(v bool) any { return v })
	printNames(b, e, t)
}

// printNames adds what a deployment keeps by name.
func printNames(b *bytes.Buffer, e *Engine, t *deployment) {
	for _, l := range t.live.sorted() {
		fmt.Fprintf(b, "\nL%s %s %v", l.name.target, l.name.event, l.resource)
	}
	for _, name := range slices.SortedFunc(maps.Keys(t.failures),
		func(a, b stepName) int { return int(t.failures[a].seq - t.failures[b].seq) }) {
		fmt.Fprintf(b, "\nF%s %s", name.target, name.event)
	}
	for _, name := range slices.SortedFunc(maps.Keys(t.away), compareNames) {
		fmt.Fprintf(b, "\nA%s %s", name.target, name.event)
	}
	var out []string
	for _, x := range t.exclusions {
		out = append(out, x.target+" "+x.event)
	}
	slices.Sort(out)
	for _, x := range slices.Compact(out) {
		b.WriteString("\nX" + x)
	}
	printMap(b, t.left, identical, func(i identity) any { return i })
	printMap(b, t.entered, identical, func(v string) any { return v })
	printMap(b, t.lacks, identical, func(v bool) any { return v })
	printMap(b, named(e, t.sizes), identical, func(v int) any { return v })
	printMap(b, t.tolerated, identical, func(v int) any { return v })
	printMap(b, t.noted, identical, func(v bool) any { return v })
	printMap(b, named(e, t.holds), identical, func(v bool) any { return v })
	printMap(b, t.held, identical, func(hold) any { return true })
	for _, stage := range sortedKeys(t.approvals) {
		fmt.Fprintf(b, "\n%s %q %v", stage, t.approvals[stage].Given, t.approvals[stage].Rejected)
	}
	printMap(b, t.resumed, identical, func(v bool) any { return v })
}

// offered lists the doable steps that a pass would find: what is queued and what the walk has found
// since. It leaves the queue as it is.
func (t *deployment) offered() []int32 {
	list := slices.Clone(t.fresh)
	if t.queue.epoch == t.epoch {
		list = slices.Concat(list, t.queue.heap, t.queue.parked)
		for g := range t.queue.starts {
			list = append(list, t.queue.starts[g].waiting...)
		}
	}
	list = slices.DeleteFunc(list, func(n int32) bool { return t.is(n, claimed|failed) || !t.isDoable(n) })
	slices.Sort(list)
	return append([]int32{-1}, slices.Compact(list)...)
}

func identical(s string) string { return s }

func flag1(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// printMap adds a map in the order of its keys; entries that are zero count like those that are
// missing.
func printMap[K comparable, V comparable](b *bytes.Buffer, m map[K]V, key func(K) string, value func(V) any) {
	var zero V
	list := make([]string, 0, len(m))
	for k, v := range m {
		if v != zero || value(v) == true {
			list = append(list, fmt.Sprint(key(k), "=", value(v)))
		}
	}
	slices.Sort(list)
	b.WriteByte('\n')
	for _, s := range list {
		b.WriteString(s)
		b.WriteByte(' ')
	}
}

func hashed(b *bytes.Buffer) state {
	sum := sha256.Sum256(b.Bytes())
	return state(sum[:len(state{})])
}

// TestCloneSharesNothingThatChanges finds a field that cloneEngine forgets.
func TestCloneSharesNothingThatChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, greeter())
	w.create(1, 1)
	w.artifact(1, "amd64")
	w.decide()
	w.create(2, 2)
	w.decide()
	w.fold(Entry{Deployment: 1, Target: "greeter/beta/all/oak", Event: StepFailed, Class: Note,
		Detail: raw(StepDetail{Event: HostReplicated})})
	w.decide()
	s := sharing{t, map[uintptr]bool{}}
	s.compare("engine", reflect.ValueOf(w.engine), reflect.ValueOf(cloneEngine(w.engine)))
	if len(s.seen) < 5 {
		t.Errorf("only %d structures were compared", len(s.seen))
	}
}

// sharing compares two values by reflection, and reports the maps, slices and pointers that they share.
type sharing struct {
	t    *testing.T
	seen map[uintptr]bool
}

// unchanging are the types whose values are never written to once they are made.
var unchanging = []reflect.Type{reflect.TypeFor[*Graph](), reflect.TypeFor[*numbered](), reflect.TypeFor[*adjacency](),
	reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Time]()}

func (s sharing) compare(path string, a, b reflect.Value) {
	if slices.Contains(unchanging, a.Type()) || path == "engine.deployments[].queue.turn" {
		return
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.Pointer() == 0 || a.Kind() == reflect.Slice && a.Len() == 0 || s.seen[a.Pointer()] {
			return
		}
		s.seen[a.Pointer()] = true
		if a.Pointer() == b.Pointer() {
			s.t.Errorf("%s is shared", path)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		s.compare(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			s.compare(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			s.compare(path+"[]", a.MapIndex(k), b.MapIndex(k))
		}
	case reflect.Slice:
		for i := range a.Len() {
			s.compare(path+"[]", a.Index(i), b.Index(i))
		}
	}
}
