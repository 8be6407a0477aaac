//go:build services

package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Claims begin where the last one ended while a claim from the start is slow, and from the start now and then.
func TestFloorsPassOverWhatIsSlow(t *testing.T) {
	t.Parallel()
	f := &floors{quick: quickScan, lanes: map[string]*floor{}}
	wants := []queue.Want{{Lane: "noop"}}
	claim := func(at time.Time, rank time.Time, took time.Duration) (from time.Time) {
		from = f.of("noop", at)
		f.learn(wants, []time.Time{from}, map[string]time.Time{"noop": rank}, 1, took, at)
		return from
	}
	const slow = 50 * time.Millisecond
	for _, c := range []struct {
		after time.Duration // since the first claim
		took  time.Duration
		rank  int // delay of its claims, in seconds
		from  int // the rank where it begins; 0: the start
	}{
		{0, time.Millisecond, 1, 0},
		{time.Second, slow, 2, 0}, // it was quick until now
		{time.Second + slow, time.Millisecond, 3, 2},
		{time.Second + 2*slow, time.Millisecond, 4, 3},
		{time.Second + scanPart*slow, slow, 1, 0}, // an urgent one, below the floor
		{time.Second + scanPart*slow + slow, time.Millisecond, 5, 4},
		{time.Minute, 5 * time.Second, 6, 0},
		{time.Minute + scanAtMost - 1, time.Millisecond, 7, 6}, // not as late as a tenth of the time would be
		{time.Minute + scanAtMost, time.Millisecond, 8, 0},     // quick again
		{time.Minute + scanAtMost + time.Second, time.Millisecond, 9, 0},
	} {
		want := time.Time{}
		if c.from > 0 {
			want = noon.Add(time.Duration(c.from) * time.Second)
		}
		if got := claim(noon.Add(c.after), noon.Add(time.Duration(c.rank)*time.Second), c.took); !got.Equal(want) {
			t.Errorf("after %s a claim began at %s, want %s", c.after, got, want)
		}
	}
}

// Lanes that have a floor are left out of the scan of all lanes.
func TestLanesAreLookedForBesideFloors(t *testing.T) {
	t.Parallel()
	want := []stretch{
		{"a", "a", "a/x"}, {"a", "a/x\x01", "a/y"}, {"a", "a/y\x01", "a0"},
		{"b", "b", "b"}, {"b", "b\x01", "b0"},
		{"c", "c", "c0"},
	}
	got := stretches([]string{"a", "b", "c"}, []string{"a-b", "a/x", "a/y", "b"})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(stretch{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Below a floor nothing is seen, and from it on everything; when a claim is to begin at the start again, so are lanes.
func TestClaimsAndLanesKeepToFloors(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), pgtest.URL(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(d, ledger.Options{})
	t.Cleanup(func() { _ = l.Close() })
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host := queue.Instance{ID: action.DerivedID(now, t.Name()), Name: "host-a", Handlers: []string{"noop", "other"}}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	for lane, priority := range map[string]int{"noop": 0, "noop/high": 900, "other": 0} {
		a := action.Action{Kind: "job", Name: lane, Handler: "noop", Lane: lane, Priority: &priority, Policy: action.DefaultPolicy()}
		if _, err := l.Enqueue(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	floors := func(next time.Time) {
		for _, lane := range []string{"noop", "noop/high"} {
			d.floors.lanes[lane] = &floor{rank: now.Add(time.Minute), took: time.Second, next: next}
		}
	}
	floors(time.Now().Add(time.Hour))
	wantLanes(t, l, host, "noop/high", "other")
	turned, err := l.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: 1}, {Lane: "noop/high", N: 1}})
	if err != nil || len(turned.Claimed) != 1 || turned.Claimed[0].Lane != "noop/high" {
		t.Fatalf("claimed %+v, %v, want the one above the floor", turned.Claimed, err)
	}
	floors(time.Now())
	wantLanes(t, l, host, "noop", "other")
	turned, err = l.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: 1}})
	if err != nil || len(turned.Claimed) != 1 {
		t.Fatalf("claimed %+v, %v, want the urgent one", turned.Claimed, err)
	}
}

// wantLanes compares what has ready work.
func wantLanes(t *testing.T, l *ledger.Ledger, host queue.Instance, want ...string) {
	t.Helper()
	got, _, err := l.Lanes(t.Context(), host.Handlers, "", 10)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, lanes (-want +got):\n%s", err, diff)
	}
}
