package pipeline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
)

// finishAll completes all work until nothing is to be done.
func (w *world) finishAll() {
	for d := w.decide(); !d.Empty(); d = w.decide() {
		for _, k := range d.Work {
			w.done(k.StepKey)
		}
	}
}

// renamed returns a definition with one stage and one group, and the names that these had.
func renamed(stage string, was []string, its string, had []string) Definition {
	s := hostStage(stage, nil, group(its, "elm", "fir"))
	s.Was, s.Groups[0].Was, s.Groups[0].CatchUp = was, had, true
	return Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{s}}
}

// A new stage with the hosts of one that left may be that one under another name; the words of the edit name was.
func TestWordsOfAStageRenamedWithoutWasNameIt(t *testing.T) {
	t.Parallel()
	old := renamed("prod", nil, "web", nil)
	same, other := renamed("live", nil, "app", nil), renamed("live", nil, "app", nil)
	other.Stages[0].Groups[0].Hosts[1].URL = "local://yew"
	for _, test := range []struct {
		next Definition
		want []string
	}{
		{same, []string{"+ stage live after nothing", "- stage prod, whose hosts live has; if it was renamed, was: [prod] keeps its history"}},
		{other, []string{"+ stage live after nothing", "- stage prod"}},
	} {
		if diff := cmp.Diff(test.want, difference(&old, &test.next)); diff != "" {
			t.Errorf("difference (-want +got):\n%s", diff)
		}
	}
}

// What a stage and a group did under the names that they had counts: currents, rollbacks and catch-ups continue as if the names
// had not changed.
func TestFactsUnderFormerNamesCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, renamed("prod", nil, "web", nil))
	w.create(1, 1)
	w.finishAll()
	w.create(2, 2)
	w.finishAll()
	next := renamed("live", []string{"old", "prod"}, "app", []string{"web"})
	edit := w.engine.Edit(2, compiled(t, next), 2, time.Time{})
	if diff := cmp.Diff([]string{"stage prod is now live", "group prod/web is now app"}, edit.Words); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	for _, row := range edit.Entries {
		if row.Event != PipelineDefined {
			t.Errorf("the edit records %s of %s", row.Event, row.Target)
		}
	}
	w.define(next)
	if d := w.decide(); !d.Empty() {
		t.Errorf("after the edit: %+v, want nothing to do", d)
	}
	for _, target := range []string{"shop/live", "shop/live/app", "shop/live/app/elm"} {
		if got := w.engine.CurrentAt(target); got != 2 {
			t.Errorf("%s has #%d, want #2", target, got)
		}
	}
	if _, err := w.engine.CatchUp(CatchUp{}); !fault.Is(err, fault.Refused) {
		t.Errorf("a catch-up of hosts that have the revision: %v", err)
	}
	rows, err := w.engine.Rollback(Rollback{Target: "shop/live"})
	if err != nil {
		t.Fatal(err)
	}
	created := detail[createdDetail](rows[len(rows)-1])
	if rows[len(rows)-1].Revision != 1 || !slices.Equal(created.Hosts, []string{"shop/live/app/elm", "shop/live/app/fir"}) {
		t.Errorf("rolls back to revision %d on %v", rows[len(rows)-1].Revision, created.Hosts)
	}
	for _, row := range rows {
		w.fold(row)
	}
	w.finishAll()
	if got := w.engine.CurrentAt("shop/live/app/fir"); got != 3 {
		t.Errorf("after the rollback fir has #%d, want #3", got)
	}
}

// A name is changed between deployments only: one inside would have steps under two names.
func TestARenameWaitsForDeployments(t *testing.T) {
	t.Parallel()
	for _, pin := range []bool{false, true} {
		d := renamed("prod", nil, "web", nil)
		d.Pin = pin
		w := newWorld(t, d)
		w.create(1, 1)
		w.decide()
		next := renamed("live", []string{"prod"}, "app", []string{"web"})
		next.Pin = pin
		var got []string
		for _, p := range w.engine.Edit(2, compiled(t, next), 1, time.Time{}).Refused {
			got = append(got, p.Scope+": "+p.Text)
		}
		want := []string{"stages[0].was: stage prod cannot become live while shop#1 is inside",
			"stages[0].groups[0].was: group prod/web cannot become app while shop#1 is inside"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pin %v: (-want +got):\n%s", pin, diff)
		}
	}
}

// Without a word about it the new name has no history. The refusal of a rollback names the command that brings the
// revision back.
func TestARollbackAfterARenameNamesTheWayThatWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, renamed("prod", nil, "web", nil))
	for n := range int64(3) {
		w.create(n+1, n+1)
		w.finishAll()
	}
	w.define(renamed("live", nil, "web", nil))
	_, err := w.engine.Rollback(Rollback{Target: "shop/live"})
	if !fault.Is(err, fault.Refused) || !strings.HasPrefix(fault.HintOf(err), "waybill deployment create shop --revision ") ||
		!strings.HasSuffix(fault.HintOf(err), "; was: [prod] in stage live of waybill.yaml makes that count") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

func TestFormerNamesAreOfOneAndNotInUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		had  [2][]string
	}{
		{`stages[1].was[0]: stage "b" was "a", which is the name of a stage`, [2][]string{nil, {"a"}}},
		{`stages[1].was[1]: stage "b" was "x", and so was "a"`, [2][]string{{"x"}, {"y", "x"}}},
		{`stages[0].was[0]: stage "a" was "a", which is the name of a stage`, [2][]string{{"a"}, nil}},
		{"", [2][]string{{"x"}, {"y"}}},
	} {
		a, b := hostStage("a", nil, group("all", "elm")), hostStage("b", nil, group("all", "fir"))
		a.Was, b.Was = c.had[0], c.had[1]
		_, problems := Compile(Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{a, b}})
		got := ""
		for _, p := range problems {
			got += p.Scope + ": " + p.Text
		}
		if got != c.want {
			t.Errorf("%v: got %q, want %q", c.had, got, c.want)
		}
	}
	s := hostStage("a", nil, group("east", "elm"), group("west", "fir"))
	s.Groups[1].Was = []string{"east"}
	if _, problems := Compile(Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{s}}); problems.Err() == nil {
		t.Error("a group was what another one is")
	}
}

func TestNamesNowAndThen(t *testing.T) {
	t.Parallel()
	d := renamed("live", []string{"prod"}, "app", []string{"web"})
	want := []string{"shop/live/app/elm", "shop/live/web/elm", "shop/prod/app/elm", "shop/prod/web/elm"}
	if got := d.NamesOf("shop/live/app/elm"); !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	for _, name := range want {
		if got := d.NameNow(name); got != want[0] {
			t.Errorf("%s is now %s", name, got)
		}
	}
	for _, other := range []string{"shop", "other/prod", "shop/beta/all"} {
		if got := d.NameNow(other); got != other {
			t.Errorf("%s is now %s", other, got)
		}
	}
}
