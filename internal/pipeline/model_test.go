package pipeline

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// modelWorld is a small pipeline and what may happen to it, each thing a bounded number of times.
// The model checker plays every order of these things.
type modelWorld struct {
	name     string
	versions []string // definitions as in transcripts; the first is in force from the start, an edit leads to any other
	ships    []int64  // the revisions of the deployments, in the order in which they are created
	limit    int      // rows of a pass; 0: a pass does all it can
	budget   budget
	has      []string // kinds of rows that must happen in it, as modelRun counts them
	race     bool     // small enough for the race detector, under which the other worlds are left out
	long     bool     // has so many states that only -every searches it
}

var every = flag.Bool("every", false, "search also the worlds with the most states")

// budget is how often each thing may still happen. It is a part of the state.
type budget struct {
	ships, edits, fails, ends, retries, cancels, skips, holds, resumes, freezes, clocks, opinions int
	rollbacks, catchUps, losses, judgments                                                        int
}

// modelNode is a state that was found, and how: by a move from another one.
type modelNode struct {
	parent   int32
	move     modelMove
	state    state
	position *position // until the search resumes from it; nil if too many wait: the moves are made again
}

// waitingPositions is how many positions are kept for the search to resume from, about 50 kB each.
const waitingPositions = 1000

// modelRun is the search through one world, breadth-first, so that the first violation that it finds
// has the shortest way.
type modelRun struct {
	world  modelWorld
	graphs []*Graph
	index  map[*Graph]int // of graphs
	laws   *laws
	seen   map[state]bool
	nodes  []modelNode
	buffer bytes.Buffer
	moves  int
	quiet  int
	rows   map[string]int // what happened: notes and changes by event, deployments by kind
	oracle int            // states that were compared with the oracle

	stopped *atomic.Bool // another world has failed
}

// TestEveryInterleaving checks a model of the engine. In each small world it plays every interleaving of
// passes, ends of actions (done, failed, canceled), retries, cancels, skips, holds, edits, freezes,
// approvals and moves of the clock. After every move it checks the invariants of doc.go by an auditor that reads the rows; the engine's own
// assertions (those marked °) count too. Every state is folded again from its rows before the search
// continues from it (I8), and some are compared with the oracle (I12).
func TestEveryInterleaving(t *testing.T) {
	t.Parallel()
	everyInterleaving(t, modelWorlds)
}

// TestEveryInterleavingOfReturns does the same with rollbacks, catch-ups, and revisions that are
// rejected and accepted.
func TestEveryInterleavingOfReturns(t *testing.T) {
	t.Parallel()
	everyInterleaving(t, returnWorlds)
}

func everyInterleaving(t *testing.T, worlds []modelWorld) {
	failfast := flag.Lookup("test.failfast").Value.String() == "true"
	var stopped atomic.Bool
	for _, w := range worlds {
		if raceDetector && !w.race || w.long && !*every {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			r := newModelRun(t, w)
			r.stopped = &stopped
			violation := r.search()
			t.Logf("%d states, %d moves, %d quiet, %d compared with the oracle", len(r.nodes), r.moves, r.quiet, r.oracle)
			if violation != nil {
				stopped.Store(failfast) // these worlds run side by side, which go test does not stop by itself
				t.Errorf("%s\n\n%s", violation.text, r.transcript(t, violation))
				return
			}
			for _, what := range w.has {
				if r.rows[what] == 0 && !stopped.Load() {
					t.Errorf("%s happens in no state; there were %v", what, r.rows)
				}
			}
		})
	}
}

func newModelRun(t *testing.T, w modelWorld) *modelRun {
	w.budget.ships = len(w.ships)
	r := &modelRun{world: w, index: map[*Graph]int{}, seen: map[state]bool{}, rows: map[string]int{}}
	reader := &player{world: &world{t: t}}
	var definitions []*Definition
	for i, text := range w.versions {
		g := compiled(t, reader.definition(definitionLines(text)))
		r.graphs = append(r.graphs, g)
		r.index[g] = i
		definitions = append(definitions, g.def)
	}
	r.laws = newLaws(definitions)
	return r
}

// definitionLines returns the lines of a definition; in worlds they are separated by semicolons.
func definitionLines(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text, ";") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// modelViolation is a broken invariant and the way there.
type modelViolation struct {
	text  string
	moves []modelMove
}

// search visits every state that moves lead to; it stops at the first violation.
func (r *modelRun) search() *modelViolation {
	p := &position{engine: New("shop"), auditor: newAuditor(r.laws), left: r.world.budget, now: noon}
	if text := p.step(r, modelMove{kind: "define"}); text != "" {
		return &modelViolation{text, nil}
	}
	r.nodes = append(r.nodes, modelNode{parent: -1, state: r.stateOf(p)})
	r.seen[r.nodes[0].state] = true
	for i := 0; i < len(r.nodes) && !r.stopped.Load(); i++ {
		if violation := r.expand(int32(i)); violation != nil {
			return violation
		}
	}
	return nil
}

// expand makes every move that a state allows.
func (r *modelRun) expand(at int32) *modelViolation {
	p, text := r.rebuilt(at)
	if text != "" {
		return &modelViolation{text, r.way(at)}
	}
	for _, m := range p.moves(r) {
		next := p.clone()
		rows := len(next.log)
		r.moves++
		if text := next.step(r, m); text != "" {
			return &modelViolation{text, append(r.way(at), m)}
		}
		r.count(next.log[rows:])
		if m.kind == "pass" && len(next.log) == rows && len(next.auditor.lives()) == 0 {
			r.quiet++
			if text := next.ends(r); text != "" {
				return &modelViolation{text, append(r.way(at), m)}
			}
		}
		if s := r.stateOf(next); !r.seen[s] {
			r.seen[s] = true
			n := modelNode{parent: at, move: m, state: s}
			if len(r.nodes)-int(at) < waitingPositions {
				n.position = next
			}
			r.nodes = append(r.nodes, n)
		}
	}
	return nil
}

// count counts rows.
func (r *modelRun) count(rows []Entry) {
	for _, row := range rows {
		if row.Class != Fact {
			r.rows[cmp.Or(detail[createdDetail](row).Kind, row.Event)]++
		}
	}
}

// rebuilt returns the position of a state. Its engine, which decided and folded row by row, must be
// what a fold of the log is, and both must decide the same (I8).
func (r *modelRun) rebuilt(at int32) (*position, string) {
	p, text := r.nodes[at].position, ""
	r.nodes[at].position = nil
	if p == nil {
		if p, text = r.replay(append([]modelMove{{kind: "define"}}, r.way(at)...)); text != "" {
			return nil, "I8: made again, a move does something else: " + text
		}
	}
	folded := &position{engine: New("shop"), auditor: p.auditor, left: p.left, now: p.now, graphs: p.graphs}
	for i, plan := range p.graphs {
		folded.engine.AddVersion(i+1, plan)
	}
	for _, row := range p.log {
		if err := folded.engine.Apply(row); err != nil {
			return nil, err.Error()
		}
	}
	if s := r.stateOf(p); s != r.nodes[at].state || s != r.stateOf(folded) {
		return nil, "I8: the fold of the log is not the engine's state"
	}
	if r.nodes[at].state[0] < oracleShare || at < 50 {
		r.oracle++
		text = folded.compareWithOracle(p.log)
	}
	if text == "" {
		text = sameDecision(cloneEngine(p.engine), folded.engine, p.now)
	}
	return p, text
}

// replay makes moves, without judging them again.
func (r *modelRun) replay(moves []modelMove) (*position, string) {
	p := &position{engine: New("shop"), auditor: newAuditor(r.laws), left: r.world.budget, now: noon, unjudged: true}
	for _, m := range moves {
		if text := p.step(r, m); text != "" {
			return nil, text
		}
	}
	p.unjudged = false
	return p, ""
}

// sameDecision compares what two engines decide.
func sameDecision(a, b *Engine, now time.Time) string {
	got, err := a.Decide(now, 1<<20)
	want, errWant := b.Decide(now, 1<<20)
	if err != nil || errWant != nil {
		return fmt.Sprint(err, errWant)
	}
	if !slices.EqualFunc(got.Entries, want.Entries, func(a, b Entry) bool {
		return a.Deployment == b.Deployment && a.Target == b.Target && a.Event == b.Event &&
			bytes.Equal(a.Detail, b.Detail) && a.Occurrence == b.Occurrence
	}) {
		return fmt.Sprintf("I8: an engine decides %v, a fold of the log %v", got.Entries, want.Entries)
	}
	return ""
}

func (r *modelRun) way(at int32) []modelMove {
	var moves []modelMove
	for i := at; i > 0; i = r.nodes[i].parent {
		moves = append(moves, r.nodes[i].move)
	}
	slices.Reverse(moves)
	return moves
}

// stateOf identifies a position: the engine's state and what may still happen.
func (r *modelRun) stateOf(p *position) state {
	r.buffer.Reset()
	fmt.Fprintf(&r.buffer, "%v %d", p.left, p.now.Hour())
	fingerprint(&r.buffer, p.engine, r.index)
	return hashed(&r.buffer)
}
