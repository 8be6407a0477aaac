package pipeline

import (
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
)

// TestFencesGrowWithRanks: a host refuses a lower fence than it has seen, so a deployment that goes over a rollback with a
// higher number than its own needs a higher fence.
func TestFencesGrowWithRanks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Definition{Pipeline: "shop", Service: Service{Name: "shop"},
		Stages: []Stage{hostStage("prod", nil, group("all", "ash"))}})
	fences := func() (list []int64) {
		t.Helper()
		for {
			d := w.decide()
			for _, k := range d.Work {
				if k.Event == HostDeployed {
					list = append(list, k.Deployment, k.Fence)
				}
				w.done(k.StepKey)
			}
			if d.Empty() {
				return list
			}
		}
	}
	want := func(want ...int64) {
		t.Helper()
		got := fences()
		if len(got) != len(want) {
			t.Fatalf("deployments with fences %v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("deployments with fences %v, want %v", got, want)
			}
		}
	}
	w.create(1, 1)
	want(1, 1)
	w.create(2, 2)
	want(2, 2)
	w.create(3, 3)
	for _, target := range []string{"shop/prod"} {
		w.fold(Entry{Deployment: 3, Target: target, Event: HoldSet, Class: Note})
	}
	want()
	rows, err := w.engine.Rollback(Rollback{By: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		w.fold(row)
	}
	want(4, 4)
	w.fold(Entry{Deployment: 3, Target: "shop/prod", Event: HoldCleared, Class: Note})
	want(3, 5)
	w.create(5, 5)
	want(5, 6)
}

// TestRollbackLeavesHostsThatHaveTheArtifact: a host whose artifact is the same in both revisions is not deployed to; with
// no other host there is nothing to roll back.
func TestRollbackLeavesHostsThatHaveTheArtifact(t *testing.T) {
	t.Parallel()
	prod := hostStage("prod", []string{"build"}, group("all", "elm", "fir"))
	prod.Groups[0].Hosts[0].Arch, prod.Groups[0].Hosts[1].Arch = "amd64", "arm64"
	w := newWorld(t, Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{buildStage("amd64", "arm64"), prod}})
	ship := func(revision int64, amd64, arm64 string) {
		t.Helper()
		for label, digest := range map[string]string{"amd64": amd64, "arm64": arm64} {
			w.fold(Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: revision,
				Detail: raw(artifactDetail{Label: label, Digest: digest})})
		}
		w.create(revision, revision)
		for d := w.decide(); !d.Empty(); d = w.decide() {
			for _, k := range d.Work {
				w.done(k.StepKey)
			}
		}
	}
	ship(1, "aa", "bb")
	ship(2, "aa", "cc")
	rows, err := w.engine.Rollback(Rollback{By: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	if hosts := detail[createdDetail](rows[len(rows)-1]).Hosts; !slices.Equal(hosts, []string{"shop/prod/all/fir"}) {
		t.Errorf("rolls back %v, want fir alone", hosts)
	}
	if _, err := w.engine.Rollback(Rollback{By: "ana", Target: "shop/prod/all/elm"}); !fault.Is(err, fault.Refused) {
		t.Errorf("a rollback of elm: %v, want a refusal", err)
	}
}
