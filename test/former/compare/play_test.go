package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/test/former/oracle"
)

func same() engine { return oracle.New(name) }

// Played with today's engine on both sides, a program finds nothing, makes no row that cannot be, and does the same again.
func TestProgramsFitTheEngine(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 6; seed++ {
		p, again := newPlayer(seed, same), newPlayer(seed, same)
		p.play()
		again.play()
		if p.found != nil || p.stuck != nil {
			t.Fatalf("program %d: %v, %v", seed, p.found, p.stuck)
		}
		if got, want := fmt.Sprint(again.ops), fmt.Sprint(p.ops); got != want {
			t.Fatalf("program %d is another one the second time", seed)
		}
	}
}

// The fakes are today's engine with one answer that is wrong at some time.
type (
	wrongRank   struct{ *oracle.Engine }
	wrongReason struct{ *oracle.Engine }
	wrongEdit   struct{ *oracle.Engine }
	wrongLimit  struct{ *oracle.Engine }
	wrongError  struct{ *oracle.Engine }
	wrongCrash  struct{ *oracle.Engine }
)

func (w wrongRank) Outranks(a, b int64) bool { return w.Engine.Outranks(a, b) || a == 1 && b == 2 }

func (w wrongReason) Explain(n int64, now time.Time) any {
	list, _ := w.Engine.Explain(n, now).([]pipeline.StepState)
	list = slices.Clone(list)
	for i := range list {
		list[i].Reason = strings.Replace(list[i].Reason, " hosts in flight", " hosts", 1)
	}
	return list
}

func (w wrongEdit) Edit(version int, newest int64, now time.Time) (any, bool) {
	it, refused := w.Engine.Edit(version, newest, now)
	edit, _ := it.(pipeline.Edit)
	if len(edit.Effects) > 0 {
		edit.Effects[0].Drifting = nil
	}
	return edit, refused
}

func (w wrongLimit) Decide(now time.Time, limit int) (any, error) {
	return w.Engine.Decide(now, limit+1)
}

func (w wrongError) Apply(row []byte) error {
	err := w.Engine.Apply(row)
	if v, ok := errors.AsType[*pipeline.Violation](err); ok {
		v.Invariant = "I0"
	}
	return err
}

func (w wrongError) Fresh() any {
	fresh, _ := w.Engine.Fresh().(*oracle.Engine)
	return wrongError{fresh}
}

func (w wrongCrash) CatchUp([]byte) (any, error) { panic("no catch-up") }

// A wrong answer is found, and shown with fewer ops that find it too.
func TestWrongAnswersAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		other func() engine
	}{
		{"Outranks", func() engine { return wrongRank{oracle.New(name)} }},
		{"Explain", func() engine { return wrongReason{oracle.New(name)} }},
		{"Edit.Effects", func() engine { return wrongEdit{oracle.New(name)} }},
		{"Decide", func() engine { return wrongLimit{oracle.New(name)} }},
		{"Apply", func() engine { return wrongError{oracle.New(name)} }},
		{"panic", func() engine { return wrongCrash{oracle.New(name)} }},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			p := find(t, c.other)
			if !strings.HasPrefix(p.found.what, c.what) {
				t.Fatalf("found %v", p.found)
			}
			ops, found := shrink(p.ops, c.other)
			if found == nil || len(ops) > len(p.ops) || replay(ops, c.other) == nil {
				t.Errorf("%d of %d ops do not show it", len(ops), len(p.ops))
			}
			if found := replay(ops, same); found != nil {
				t.Errorf("the right engine differs too: %v", found)
			}
		})
	}
}

// find plays programs until one finds something.
func find(t *testing.T, other func() engine) *player {
	t.Helper()
	for seed := uint64(1); seed <= 100; seed++ {
		if p := newPlayer(seed, other); p.stuck == nil {
			if p.play(); p.found != nil {
				return p
			}
		}
	}
	t.Fatal("no program finds it")
	return nil
}
