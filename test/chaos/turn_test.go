//go:build linux && services

package chaos_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/test/chaos"
)

// proxied returns a world whose processes reach the database through a proxy.
func proxied(t *testing.T, heartbeat time.Duration) (*chaos.World, *proxy) {
	t.Helper()
	direct := pgtest.URL(t)
	between, err := chaos.NewProxy(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := between.Close(); err != nil {
			t.Error(err)
		}
	})
	return world(t, chaos.Settings{Direct: direct, Store: between.Through(direct), Heartbeat: heartbeat}), &proxy{between}
}

// point is a moment of a turn: before the server sees a statement, or after it was done and before the process knows.
type point struct {
	sql      string
	answered bool
}

func (p point) String() string {
	if p.answered {
		return "after " + short(p.sql)
	}
	return "before " + short(p.sql)
}

func (p point) is(passing chaos.Passing) bool {
	return passing.SQL == p.sql && passing.Answered == p.answered && inTurn(passing)
}

// short returns the beginning of a statement, in one line.
func short(sql string) string {
	line := strings.Join(strings.Fields(sql), " ")
	return line[:min(len(line), 60)]
}

// inTurn reports whether a statement is of a transaction that has begun to end or claim actions.
func inTurn(p chaos.Passing) bool {
	return changes(p.SQL) || slices.ContainsFunc(p.Transaction, changes)
}

// changes reports whether a statement is about the ends or the claims of actions.
func changes(sql string) bool {
	return strings.Contains(sql, "thread_done") || strings.Contains(sql, "claimed_by")
}

// survey lists the moments that the transactions which end and claim actions have, by watching some.
type survey struct {
	mu     sync.Mutex
	points []point
}

func (s *survey) see(p chaos.Passing) {
	if !p.Answered || !strings.HasPrefix(strings.TrimSpace(p.SQL), "COMMIT") || !slices.ContainsFunc(p.Transaction, ends) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sql := range p.Transaction[slices.IndexFunc(p.Transaction, changes):] {
		for _, answered := range []bool{false, true} {
			if at := (point{sql, answered}); !slices.Contains(s.points, at) {
				s.points = append(s.points, at)
			}
		}
	}
}

func ends(sql string) bool { return strings.Contains(sql, "INSERT INTO thread_done") }

// TestKilledInEachStepOfATurn kills a conductor with SIGKILL at every statement of the transactions that record and
// claim: before the server sees it, and after it was done but before the process knows. Between any two of these the
// process changes nothing but its own memory.
func TestKilledInEachStepOfATurn(t *testing.T) {
	t.Parallel()
	w, proxy := proxied(t, 0)
	points := surveyed(t, w, proxy)
	for _, at := range points {
		orderSome(t, w)
		t.Log(at)
		p := make(chan *chaos.Process, 1)
		reached := proxy.at(at.is, func() { (<-p).Kill() })
		p <- serve(t, w, "conductor")
		reached(t)
	}
	dieInHandler(t, w)
	serve(t, w, "conductor")
	v := judged(t, w)
	t.Logf("killed at %d moments", len(points)+1)
	if v.Lost == 0 {
		t.Error("no claim was ever lost: the kills hit nothing")
	}
}

// TestCutOffInEachStepOfATurn cuts every connection at the same moments. The process lives on, and finds out the
// outcome of the transaction whose answer it lost.
func TestCutOffInEachStepOfATurn(t *testing.T) {
	t.Parallel()
	w, proxy := proxied(t, 0)
	points := surveyed(t, w, proxy)
	serve(t, w, "conductor")
	for _, at := range points {
		t.Log(at)
		orderSome(t, w)
		proxy.at(at.is, func() { proxy.Cut(chaos.Any) })(t)
		ended(t, w)
	}
	verdict(t, w)
	t.Logf("cut off at %d moments", len(points))
}

// surveyed finds the moments of a turn by running a conductor for a while.
func surveyed(t *testing.T, w *chaos.World, proxy *proxy) []point {
	t.Helper()
	var seen survey
	proxy.Watch(seen.see)
	p := serve(t, w, "conductor")
	orderSome(t, w)
	ended(t, w)
	p.Kill()
	proxy.Watch(func(chaos.Passing) {})
	if len(seen.points) < 6 {
		t.Fatalf("a turn has the moments %v only: the test does not see them", seen.points)
	}
	return seen.points
}

// proxy is one that acts at points.
type proxy struct{ *chaos.Proxy }

// at does something the next time that a statement passes which is meant; the result waits for that.
func (p *proxy) at(is func(chaos.Passing) bool, do func()) (reached func(*testing.T)) {
	done := make(chan struct{})
	var once sync.Once
	p.Watch(func(passing chaos.Passing) {
		if is(passing) {
			once.Do(func() {
				do()
				close(done)
			})
		}
	})
	return func(t *testing.T) {
		t.Helper()
		defer p.Watch(func(chaos.Passing) {})
		select {
		case <-done:
		case <-time.After(3 * time.Minute):
			t.Fatal("it never came to this moment")
		}
	}
}

func orderSome(t *testing.T, w *chaos.World) {
	t.Helper()
	order(t, w, chaos.Effect, "{}", 20)
	order(t, w, chaos.Once, "{}", 10)
	order(t, w, chaos.Nothing, `{"sleep": "5ms"}`, 20)
	order(t, w, chaos.Parcel, parametersOf(chaos.Parcel), 5)
}

// dieInHandler runs a conductor until its handler has reached the target, and kills it before that answers.
func dieInHandler(t *testing.T, w *chaos.World) {
	t.Helper()
	started := make(chan *chaos.Process, 1)
	dead := make(chan struct{})
	var once sync.Once
	w.Target.Answers(func(context.Context, action.ID, int) int {
		once.Do(func() {
			(<-started).Kill()
			close(dead)
		})
		return 204
	})
	orderSome(t, w)
	started <- serve(t, w, "conductor")
	select {
	case <-dead:
	case <-time.After(3 * time.Minute):
		t.Error("no handler ever reached the target")
	}
	w.Target.Answers(chaos.OK)
}
