package queuetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// inLane is a job of a lane.
func inLane(lane string) action.Action {
	a := job(lane)
	a.Handler, _, _ = strings.Cut(lane, "/")
	a.Lane = lane
	return a
}

func lanesAreListedPageByPage(t *testing.T, s setup) {
	for _, lane := range []string{"notify", "notify/a", "notify/b", "notify/c", "notify-x", "notify-x/a", "step/oak"} {
		s.enqueue(t, inLane(lane))
		s.enqueue(t, inLane(lane))
	}
	for name, c := range map[string]struct {
		handlers []string
		after    string
		limit    int
		want     []string
		next     string
	}{
		"one handler":    {[]string{"notify"}, "", 10, []string{"notify", "notify/a", "notify/b", "notify/c"}, ""},
		"several":        {[]string{"notify-x", "step", "gone"}, "", 10, []string{"notify-x", "notify-x/a", "step/oak"}, ""},
		"a limit":        {[]string{"notify"}, "", 2, []string{"notify", "notify/a"}, "notify/a"},
		"behind one":     {[]string{"notify"}, "notify/a", 2, []string{"notify/b", "notify/c"}, "notify/c"},
		"up to the end":  {[]string{"notify"}, "notify/b", 3, []string{"notify/c"}, ""},
		"behind the end": {[]string{"notify"}, "z", 1, []string{}, ""},
		"no handler":     {nil, "", 1, []string{}, ""},
	} {
		got, next, err := s.Lanes(s.ctx, c.handlers, c.after, c.limit)
		storetest.Check(t, err)
		if diff := cmp.Diff(c.want, append([]string{}, got...)); diff != "" || next != c.next {
			t.Errorf("%s: continue after %q, want %q; lanes (-want +got):\n%s", name, next, c.next, diff)
		}
	}
}

// allLanes reads page after page.
func (s setup) allLanes(t *testing.T, handlers ...string) (lanes []string, pages int) {
	t.Helper()
	for after := ""; ; {
		some, next, err := s.Lanes(s.ctx, handlers, after, 200)
		storetest.Check(t, err)
		if lanes, pages = append(lanes, some...), pages+1; next == "" {
			return lanes, pages
		}
		if next <= after {
			t.Fatalf("after %q continue after %q", after, next)
		}
		after = next
	}
}

// bucket lets a function change a limiter.
func (s setup) bucket(t *testing.T, to func(b action.Bucket, now time.Time) action.Bucket, keys ...string) {
	t.Helper()
	slices.Sort(keys)
	storetest.Check(t, s.write(func(tx rows) error {
		rows, err := tx.LockLimiters(keys)
		for i := range rows {
			rows[i].Bucket = to(rows[i].Bucket.With(action.Limit{}, tx.Now()), tx.Now())
		}
		if err != nil {
			return err
		}
		return tx.PutLimiters(rows)
	}))
}

// blockedLanesAreLeftOut: whatever keeps a lane from starting anything, its own limiter or its handler's, and only that.
func blockedLanesAreLeftOut(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	lanes := []string{"a/disabled", "a/open", "a/over", "a/paused", "a/probing", "a/slowed", "a/until", "b/x", "c/x"}
	for _, lane := range lanes {
		s.enqueue(t, inLane(lane))
	}
	s.bucket(t, func(b action.Bucket, now time.Time) action.Bucket { return b.Pause("ana", "", time.Time{}, now) }, "a/paused", "b/*")
	s.bucket(t, func(b action.Bucket, now time.Time) action.Bucket { return b.Pause("ana", "", now.Add(time.Hour), now) }, "a/until")
	s.bucket(t, func(b action.Bucket, now time.Time) action.Bucket {
		return b.Pause("ana", "", now.Add(-time.Second), now)
	}, "a/over")
	s.bucket(t, func(b action.Bucket, now time.Time) action.Bucket {
		return b.Observe(action.Results{Disable: true}, now)
	}, "a/disabled")
	refused := func(tokens float64) func(b action.Bucket, now time.Time) action.Bucket {
		return func(b action.Bucket, now time.Time) action.Bucket {
			b.Slowed, b.SlowedAt, b.Tokens = 0.1, now, tokens
			return b
		}
	}
	s.bucket(t, refused(0), "a/slowed")
	s.bucket(t, refused(1), "a/probing", "a/over")
	got, _ := s.allLanes(t, "a", "b", "c")
	if diff := cmp.Diff([]string{"a/open", "a/over", "a/probing", "c/x"}, got); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	host.Handlers = []string{"b"}
	if beat, err := s.driver.Pulse(s.ctx, host, 0); err != nil || beat.Ready && !s.Embedded() {
		t.Errorf("where all is paused a look says that something is ready: %v", err)
	}
	s.bucket(t, action.Bucket.Resume, "a/paused", "a/until", "b/*")
	if got, _ := s.allLanes(t, "a", "b"); !slices.Contains(got, "a/paused") || !slices.Contains(got, "b/x") {
		t.Errorf("after they were resumed, lanes %v", got)
	}
}

// blockedLanesHideNoOther: a healthy lane is found beside a thousand that may start nothing, and behind them.
func blockedLanesHideNoOther(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	blocked := make([]string, queue.LanesVisited)
	actions := make([]action.Action, len(blocked))
	for i := range blocked {
		blocked[i] = fmt.Sprintf("noop/%04d", i)
		actions[i] = inLane(blocked[i])
	}
	_, err := s.Enqueue(s.ctx, actions...)
	storetest.Check(t, err)
	for _, healthy := range []string{"noop", "noop/0500a", "noop/z", "other"} {
		s.enqueue(t, inLane(healthy))
	}
	s.bucket(t, func(b action.Bucket, now time.Time) action.Bucket { return b.Pause("ana", "", time.Time{}, now) }, blocked...)
	got, pages := s.allLanes(t, "noop", "other")
	if diff := cmp.Diff([]string{"noop", "noop/0500a", "noop/z", "other"}, got); diff != "" || pages > 3 {
		t.Errorf("in %d pages, lanes (-want +got):\n%s", pages, diff)
	}
	if beat, err := s.driver.Pulse(s.ctx, host, 0); err != nil || !beat.Ready {
		t.Errorf("a look says that nothing is ready: %v", err)
	}
}

// claimsAreBoundedInBytes: a Turn claims at most so much, one action at least, of each lane in turn, and reports
// whether it stopped at the bound.
func claimsAreBoundedInBytes(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	const each = 10_000
	most := queue.MaxClaimBytes/each + 1
	big := make([]action.Action, 2*most)
	for i := range big {
		big[i] = inLane("noop/big")
		big[i].Parameters = json.RawMessage(`"` + strings.Repeat("x", each-2) + `"`)
	}
	for batch := range slices.Chunk(big, 100) {
		_, err := s.Enqueue(s.ctx, batch...)
		storetest.Check(t, err)
	}
	s.enqueue(t, inLane("noop/small"))
	storetest.Check(t, s.Heartbeat(s.ctx, host)) // storing may take longer than the lease
	wants := []queue.Want{{Lane: "noop/big", N: 1000}, {Lane: "noop/small", N: 1000}}
	turned, err := s.CompleteAndClaim(s.ctx, host, nil, wants)
	storetest.Check(t, err)
	bytes, lanes := 0, map[string]int{}
	for _, c := range turned.Claimed {
		bytes += len(c.Parameters)
		lanes[c.Lane]++
	}
	if bytes > queue.MaxClaimBytes+each || lanes["noop/small"] != 1 || lanes["noop/big"] < most/2-1 || !turned.Full {
		t.Errorf("claimed %d bytes: %v, full %t; want at most %d, of both lanes", bytes, lanes, turned.Full, queue.MaxClaimBytes+each)
	}
	got := lanes["noop/big"]
	for turned.Full {
		turned, err = s.CompleteAndClaim(s.ctx, host, nil, wants)
		storetest.Check(t, err)
		got += len(turned.Claimed)
	}
	if got != len(big) {
		t.Errorf("claimed %d of %d in the end", got, len(big))
	}
}

// readyLanesAreNamed: who claims learns in which lanes more is ready, also from other processes that share a server.
func readyLanesAreNamed(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	other, _ := s.another(t, queue.Options{})
	views := []*alone{s.NewWaiter(), other.NewWaiter()}
	if s.Embedded() { // processes that share a file look for themselves
		views = views[:1]
	}
	named := func(lane string, make func()) {
		t.Helper()
		for _, view := range views {
			for try := 0; ; try++ { // a connection that begins, or another process that is noticed, may hide a lane: it may be any
				make()
				storetest.Check(t, view.Wait(s.ctx, store.TopicReady, time.Now().Add(time.Minute)))
				if lanes := view.ReadyLanes(); slices.Contains(lanes, lane) {
					break
				} else if try == 100 {
					t.Fatalf("lane %q is not named, but %q", lane, lanes)
				}
			}
		}
	}
	named("noop/a b", func() { s.enqueue(t, inLane("noop/a b")) })
	named("noop/\"c\"\n", func() { s.enqueue(t, inLane("noop/\"c\"\n")) })
	named("noop/given", func() {
		s.enqueue(t, inLane("noop/given"))
		s.end(t, host, s.claim(t, host, "noop/given", 1)[0], action.Outcome{Kind: action.GivenBack})
	})
	named("noop/paused", func() {
		for _, kind := range []string{"pause", "resume"} {
			_, err := s.Limit(s.ctx, "noop/paused", queue.LimitCommand{Kind: kind, By: "ana"})
			storetest.Check(t, err)
		}
	})
	many := make([]action.Action, 100)
	for i := range many {
		many[i] = inLane(fmt.Sprintf("noop/%03d", i))
	}
	_, err := s.Enqueue(s.ctx, many...)
	storetest.Check(t, err)
	storetest.Check(t, views[0].Wait(s.ctx, store.TopicReady, time.Now().Add(time.Minute)))
	if lanes := views[0].ReadyLanes(); lanes != nil {
		t.Errorf("of 100 lanes these are named: %q", lanes)
	}
}

// blockedLanesAreNotClaimedOf: a claim by name takes nothing of a lane that may start nothing now; of one that is only slowed
// it takes what the caller was granted.
func blockedLanesAreNotClaimedOf(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	pause := func(b action.Bucket, now time.Time) action.Bucket { return b.Pause("ana", "", time.Time{}, now) }
	lanes := []string{"a/disabled", "a/open", "a/paused", "a/slowed", "b/x"}
	wants := make([]queue.Want, len(lanes))
	for i, lane := range lanes {
		s.enqueue(t, inLane(lane))
		wants[i] = queue.Want{Lane: lane, N: 5}
	}
	s.bucket(t, pause, "a/paused", "b/*")
	s.bucket(t, func(b action.Bucket, now time.Time) action.Bucket {
		return b.Observe(action.Results{Disable: true}, now)
	}, "a/disabled")
	s.bucket(t, func(b action.Bucket, now time.Time) action.Bucket {
		b.Slowed, b.SlowedAt, b.Tokens = 0.001, now, 0
		return b
	}, "a/slowed")
	claimed := func(wants ...queue.Want) (lanes []string) {
		t.Helper()
		turned, err := s.CompleteAndClaim(s.ctx, host, nil, wants)
		storetest.Check(t, err)
		for _, c := range turned.Claimed {
			lanes = append(lanes, c.Lane)
		}
		slices.Sort(lanes)
		return lanes
	}
	if diff := cmp.Diff([]string{"a/open"}, claimed(wants...)); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	for i := range wants {
		wants[i].Metered = true
	}
	if diff := cmp.Diff([]string{"a/slowed"}, claimed(wants...)); diff != "" {
		t.Errorf("claimed with tokens (-want +got):\n%s", diff)
	}
	s.bucket(t, action.Bucket.Resume, "a/paused", "b/*")
	if diff := cmp.Diff([]string{"a/paused", "b/x"}, claimed(wants...)); diff != "" {
		t.Errorf("claimed after they were resumed (-want +got):\n%s", diff)
	}
}
